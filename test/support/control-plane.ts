import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { buildProgram, PROGRAMS } from './registry-programs.ts'

const runFile = promisify(execFile)

/** Programs that talk to the API server. */
type ClientProgram = 'kubectl' | 'helm' | 'helm4'

/** The result of a command. */
interface CommandRun {
  readonly ok: boolean
  /** Both outputs. */
  readonly text: string
}

/** A parsed object of the API. */
// biome-ignore lint/suspicious/noExplicitAny: as different as the kinds
export type ApiObject = any

/** The answer of the API server. */
interface ApiAnswer {
  readonly status: number
  readonly body: ApiObject
}

/** A Kubernetes of processes on loopback, without nodes: API server with etcd, controllers and scheduler. */
export interface ControlPlane {
  readonly kubeconfig: string
  /** The folder with the logs of the programs. */
  readonly folder: string
  /** Runs kubectl or Helm as the administrator. */
  run(program: ClientProgram, ...args: readonly string[]): Promise<CommandRun>
  /** Sends a request to the API server as the administrator. */
  ask(method: string, path: string, body?: object, contentType?: string): Promise<ApiAnswer>
  /** Starts another program, which ends with the control plane. */
  start(program: string, ...args: readonly string[]): ChildProcess
  stop(): Promise<void>
}

/**
 * Starts the control plane of the version `KUBERNETES`.
 *
 * @param nodeGraceSeconds - Time without a heartbeat after which a node is lost. Its pods are replaced 2 seconds later, which
 * are 5 minutes elsewhere.
 */
export async function openControlPlane(nodeGraceSeconds: number): Promise<ControlPlane> {
  const programs = [
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kube-scheduler',
    'kubectl',
    'helm',
  ] as const
  for (const program of programs) await buildProgram(program)
  const plane = new LoopbackControlPlane(await freePort(), nodeGraceSeconds)
  try {
    await plane.begin()
    return plane
  } catch (error) {
    await plane.stop()
    throw error
  }
}

class LoopbackControlPlane implements ControlPlane {
  readonly folder = mkdtempSync(join(tmpdir(), 'wasm-serve-kubernetes-'))
  readonly kubeconfig = join(this.folder, 'kubeconfig')
  readonly #port: number
  readonly #nodeGraceSeconds: number
  readonly #token = randomBytes(16).toString('hex')
  readonly #children: ChildProcess[] = []
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: 16 })

  constructor(port: number, nodeGraceSeconds: number) {
    this.#port = port
    this.#nodeGraceSeconds = nodeGraceSeconds
  }

  async begin(): Promise<void> {
    const [client, peer] = [await freePort(), await freePort()]
    const etcd = `http://127.0.0.1:${client}`
    const keyFile = join(this.folder, 'accounts.key')
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
    writeFileSync(keyFile, privateKey.export({ type: 'pkcs1', format: 'pem' }))
    writeFileSync(join(this.folder, 'tokens.csv'), `${this.#token},admin,admin,system:masters\n`)
    writeFileSync(this.kubeconfig, JSON.stringify(this.#clientConfig()))
    this.start(
      'etcd',
      ...['--data-dir', join(this.folder, 'etcd'), '--unsafe-no-fsync', '--log-level=error'],
      ...['--listen-client-urls', etcd, '--advertise-client-urls', etcd],
      ...['--listen-peer-urls', `http://127.0.0.1:${peer}`],
    )
    this.start(
      'kube-apiserver',
      ...[`--etcd-servers=${etcd}`, '--bind-address=127.0.0.1', `--secure-port=${this.#port}`],
      ...[
        `--cert-dir=${join(this.folder, 'certificates')}`,
        `--token-auth-file=${join(this.folder, 'tokens.csv')}`,
      ],
      ...[`--service-account-key-file=${keyFile}`, `--service-account-signing-key-file=${keyFile}`],
      ...['--service-account-issuer=https://kubernetes.test', '--authorization-mode=RBAC'],
      ...['--service-cluster-ip-range=10.0.0.0/24', '--feature-gates=ImageVolume=true'],
      ...['--default-not-ready-toleration-seconds=2', '--default-unreachable-toleration-seconds=2'],
    )
    await this.#until(async () => (await this.ask('GET', '/readyz')).status === 200)
    this.start(
      'kube-controller-manager',
      ...[
        `--kubeconfig=${this.kubeconfig}`,
        `--service-account-private-key-file=${keyFile}`,
        '--secure-port=0',
      ],
      ...['--use-service-account-credentials', '--leader-elect=false', '--concurrent-gc-syncs=2'],
      ...[
        '--horizontal-pod-autoscaler-sync-period=1s',
        '--horizontal-pod-autoscaler-initial-readiness-delay=0s',
      ],
      ...['--horizontal-pod-autoscaler-cpu-initialization-period=0s'],
      ...['--node-monitor-period=1s', `--node-monitor-grace-period=${this.#nodeGraceSeconds}s`],
    )
    this.start('kube-scheduler', `--kubeconfig=${this.kubeconfig}`, '--leader-elect=false', '--secure-port=0')
    const account = '/api/v1/namespaces/default/serviceaccounts/default'
    await this.#until(async () => (await this.ask('GET', account)).status === 200)
  }

  async run(program: ClientProgram, ...args: readonly string[]): Promise<CommandRun> {
    const env = { ...process.env, KUBECONFIG: this.kubeconfig, HELM_CACHE_HOME: join(this.folder, 'helm') }
    try {
      const options = { env, maxBuffer: 64 * 1024 * 1024 }
      const { stdout, stderr } = await runFile(join(PROGRAMS, program), args, options)
      return { ok: true, text: stdout + stderr }
    } catch (error) {
      if (error instanceof Error && 'stdout' in error && 'stderr' in error)
        return { ok: false, text: `${error.stdout}${error.stderr}` }
      throw error
    }
  }

  async ask(
    method: string,
    path: string,
    body?: object,
    contentType = 'application/json',
  ): Promise<ApiAnswer> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': contentType }
    const sending = request({
      host: '127.0.0.1',
      port: this.#port,
      method,
      path,
      headers,
      agent: this.#agent,
    })
    sending.end(body && JSON.stringify(body))
    const [answer] = await once(sending, 'response')
    const content = await text(answer)
    return { status: answer.statusCode, body: content.startsWith('{') ? JSON.parse(content) : content }
  }

  start(program: string, ...args: readonly string[]): ChildProcess {
    const log = openSync(join(this.folder, `${program}.log`), 'a')
    const env = { ...process.env, PATH: `${PROGRAMS}:${process.env.PATH}` }
    const child = spawn(program, args, { env, stdio: ['ignore', log, log] })
    this.#children.push(child)
    return child
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    // The API server waits for etcd, so it is ended first.
    for (const child of this.#children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    rmSync(this.folder, { recursive: true, force: true })
  }

  #clientConfig(): object {
    const server = `https://127.0.0.1:${this.#port}`
    return {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'admin', user: { token: this.#token } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
      'current-context': 'test',
    }
  }

  /** Waits until a condition holds; a connection that is refused does not fulfil it. */
  async #until(holds: () => Promise<boolean>): Promise<void> {
    const until = Date.now() + 60_000
    while (!(await holds().catch(() => false))) {
      const ended = this.#children.find(({ exitCode }) => exitCode !== null)
      if (ended) throw new Error(`${ended.spawnfile} ended with ${ended.exitCode}: see ${this.folder}`)
      if (Date.now() > until) throw new Error('the control plane is not ready after a minute')
      await sleep(100)
    }
  }
}

/** A port of loopback that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address !== 'object' || address === null) throw new Error('no port')
  return address.port
}
