import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { confinementOf } from '../support/confinement.ts'
import { buildah, buildImage, descendantsOf, makeBaseImage, podman } from '../support/containers.ts'
import { render as renderChart } from '../support/helm.ts'
import { startLoad } from '../support/load.ts'
import { type Nginx, startNginx, type Upstreams } from '../support/nginx.ts'
import { type Pod, playPod } from '../support/pods.ts'
import { freePort } from '../support/redis.ts'
import { buildProgram } from '../support/registry-programs.ts'
import { openChecks } from './checks.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/pods.ts
 *
 * Runs the pods of the chart in containers, by `podman play kube`, as a kubelet runs them: with their security contexts, memory
 * limits, ConfigMaps and Secrets, probes and grace period. Needs root, and apt-get install buildah podman runc catatonit
 * debootstrap nginx-light. Writes the results to docs/contribute/long-tests.md, and exits with 1 if one is not as expected.
 */

const HELLO = fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url))
const IMAGE = 'localhost/wasm-serve:pods'
const USER = 10_001
const REQUESTS = 5_000
const ROLLING_REQUESTS = 10_000
const CLIENTS = 12

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-pods-'))
chmodSync(folder, 0o755) // the user of the image reads it
const plugins = join(folder, 'plugins')

const checks = openChecks()
const { add } = checks

/* Pods */

interface Served extends Pod {
  readonly port: number
  readonly url: string
}

type Values = Readonly<Record<string, unknown>>

const pods = new Set<Pod>()

/** Renders the chart with values and ports of its own, and runs its pod. */
async function play(
  values: Values & { readonly config?: Values },
  secrets?: Parameters<typeof playPod>[2],
): Promise<Served> {
  const name = `wasm-serve-pod-${process.pid}-${pods.size}`
  const [port, probes] = [await freePort(), await freePort()]
  const [repository, tag] = IMAGE.split(':')
  const file = join(folder, 'values.json')
  writeFileSync(
    file,
    JSON.stringify({
      ...values,
      fullnameOverride: name,
      image: { repository, tag, pullPolicy: 'Never' },
      config: { ...values.config, port },
      probes: { port: probes },
      // The pod has the network of the machine.
      env: [
        { name: 'WASM_SERVE_HOST', value: '127.0.0.1' },
        { name: 'WASM_SERVE_PROBES', value: `127.0.0.1:${probes}` },
      ],
    }),
  )
  const pod = await playPod(name, await renderChart(`--values=${file}`), secrets)
  pods.add(pod)
  return { ...pod, port, url: `http://127.0.0.1:${port}` }
}

/** The plug-in in a folder of the node. */
const VOLUME = { pluginVolumes: [{ name: 'local', hostPath: { path: plugins } }] }

/** As the values `everything` have them, with programs of the image. */
const AROUND = {
  extraVolumes: [{ name: 'scratch', emptyDir: {} }],
  extraVolumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
  initContainers: [
    {
      ...another('first', "require('fs').writeFileSync('/scratch/first', 'ran')"),
      volumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
    },
  ],
  sidecars: [another('beside', 'setInterval(() => undefined, 1000)')],
}

function another(name: string, script: string) {
  return {
    name,
    image: IMAGE,
    imagePullPolicy: 'Never',
    command: ['/usr/local/bin/node', '-e', script],
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    resources: { limits: { memory: '64Mi' } },
  }
}

/* Checks */

const answerTo = (name: string) => `{"message":"🦀 Hello ${name}"}`

/** Checks a pod from its first probe to its end. */
async function checkPod(what: string, pod: Served, memoryMiB: number, heapMiB: number): Promise<void> {
  add(`${what}: the startup probe succeeds`, await pod.started(), true)
  const [node] = descendantsOf(pod.pid())
  const pid = node?.pid ?? 0
  add(
    `${what}: user ${USER}, no capabilities, no new privileges, seccomp, a read-only root, ${memoryMiB} MiB`,
    confinementOf(pid),
    {
      ids: [USER],
      capabilities: ['0000000000000000'],
      hasNoNewPrivileges: true,
      hasSeccompFilter: true,
      isRootReadOnly: true,
      memoryLimit: memoryMiB * 1024 * 1024,
    },
  )
  const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  const heap = variables.find((variable) => variable.startsWith('NODE_OPTIONS='))
  add(`${what}: a heap of ${heapMiB} MiB`, heap, `NODE_OPTIONS=--max-old-space-size=${heapMiB}`)
  await checkEnd(what, pod)
}

/** A load on one pod, which SIGTERM meets. */
async function checkEnd(what: string, pod: Served): Promise<void> {
  const isAnswer = (answer: string, name: string) => answer === answerTo(name)
  const load = startLoad({ url: `${pod.url}/hello`, connections: CLIENTS, isAnswer })
  await load.answered(REQUESTS)
  const { wrong, non2xx, resets, refused } = load.counts
  const count = REQUESTS.toLocaleString('en')
  add(`${what}: wrong answers and errors of ${count} requests`, wrong + non2xx + resets + refused, 0)
  const both = async () => [await pod.probe('readinessProbe'), await pod.probe('livenessProbe')]
  add(`${what}: readiness and liveness`, await both(), [200, 200])
  const begun = performance.now()
  const ended = pod.stop()
  const seen = await firstChange(both)
  add(`${what}: readiness and liveness after SIGTERM`, seen, [503, 200])
  add(`${what}: exit code after SIGTERM under load`, await ended, 0)
  const seconds = (performance.now() - begun) / 1_000
  add(`${what}: SIGKILL was not needed`, seconds < 15, true) // drainMs and graceMs; SIGKILL would come 5 seconds later
  const all = await load.ended
  add(
    `${what}: wrong answers, errors and resets until its end`,
    [all.wrong, all.non2xx, all.resets],
    [0, 0, 0],
  )
}

/** What it gives when it first gives something else than two times 200. */
async function firstChange(both: () => Promise<(number | undefined)[]>): Promise<(number | undefined)[]> {
  for (;;) {
    const statuses = await both()
    if (statuses.some((status) => status !== 200)) return statuses
    await sleep(20)
  }
}

async function checkVariants(): Promise<void> {
  await checkPod('default values, a volume', await play(VOLUME), 512, 256)
  const binary = readFileSync(HELLO).toString('base64')
  await checkPod('a ConfigMap', await play({ pluginFiles: { 'hello.wasm': binary } }), 512, 256)
  const processes = { ...VOLUME, config: { processes: 2 }, resources: { limits: { memory: '768Mi' } } }
  await checkPod('2 processes', await play(processes), 768, 128)
  const around = await play({ ...VOLUME, ...AROUND })
  add('an init container: it ran before', await readScratch(around), 'ran')
  await checkPod('an init container and a sidecar', around, 512, 256)
}

function readScratch(pod: Pod): Promise<string> {
  const script = "process.stdout.write(require('fs').readFileSync('/scratch/first', 'utf8'))"
  return pod.exec('/usr/local/bin/node', '-e', script)
}

/** Secrets as variables: the token of the admin API and the keys of clients. */
async function checkSecrets(): Promise<void> {
  const admin = await freePort()
  const [token, key] = ['t'.repeat(40), 'k'.repeat(40)]
  const values = {
    ...VOLUME,
    admin: { enabled: true, port: admin, existingSecret: 'pods-admin' },
    apiKeys: { existingSecret: 'pods-keys' },
  }
  const pod = await play(values, { 'pods-admin': { token }, 'pods-keys': { key } })
  await pod.started()
  const statuses = async (url: string, init: RequestInit, secret: string) => {
    const withSecret = { ...init, headers: { authorization: `Bearer ${secret}` } }
    return [(await fetch(url, init)).status, (await fetch(url, withSecret)).status]
  }
  const call = { method: 'POST', body: 'a' }
  add('a Secret of API keys: without, with', await statuses(`${pod.url}/hello`, call, key), [401, 200])
  const list = `http://127.0.0.1:${admin}/api/plugins`
  add('a Secret of the admin token: without, with', await statuses(list, {}, token), [401, 200])
  add('Secrets: exit code', await pod.stop(), 0)
}

/** Its process 1 is killed, as by the kernel when memory is short. */
async function checkRestart(): Promise<void> {
  const pod = await play(VOLUME)
  await pod.started()
  const first = pod.pid()
  process.kill(first, 'SIGKILL')
  while (pod.pid() === first) await sleep(50)
  add('process 1 is killed: the container restarts and becomes ready', await pod.started(), true)
  add('the restarted container: another process, as confined', isConfinedAnew(pod, first), true)
  add('the restarted container: exit code', await pod.stop(), 0)
}

function isConfinedAnew(pod: Pod, first: number): boolean {
  const { ids, isRootReadOnly, memoryLimit } = confinementOf(pod.pid())
  return (
    pod.pid() !== first && ids.join() === String(USER) && isRootReadOnly && memoryLimit === 512 * 1024 * 1024
  )
}

/* A rolling update */

/** New pods start, and old ones stop as soon as the new are ready. nginx follows their readiness. */
async function checkRolling(): Promise<void> {
  let current = await play(VOLUME)
  await current.started()
  const nginxFolder = join(folder, 'nginx')
  mkdirSync(nginxFolder)
  const nginx = await startNginx(nginxFolder, upstreamsOf([current]))
  const endpoints = followReadiness(nginx)
  endpoints.add(current)
  const load = startClients(nginx.socketPath)
  const codes: number[] = []
  try {
    while (codes.length < 2 || load.counts.answers < ROLLING_REQUESTS) {
      const next = await play(VOLUME)
      endpoints.add(next)
      await endpoints.ready(next)
      codes.push(await current.stop())
      endpoints.remove(current)
      current = next
    }
  } finally {
    await load.stop()
    await endpoints.stop()
    await nginx.stop()
  }
  const { answers, lost, wrong } = load.counts
  const count = ROLLING_REQUESTS.toLocaleString('en')
  add(
    `pods replaced one after another behind nginx, at least ${count} requests: lost, wrong`,
    [lost, wrong],
    [0, 0],
  )
  add(`at least ${count} answers`, answers >= ROLLING_REQUESTS, true)
  add(
    'exit codes of the replaced pods',
    codes.filter((code) => code !== 0),
    [],
  )
  console.log(`${answers} answers, ${codes.length} pods replaced`)
  await current.stop()
}

function upstreamsOf([one, two]: readonly Served[]): Upstreams {
  if (one === undefined) throw new Error('no pod is ready')
  return [`127.0.0.1:${one.port}`, `127.0.0.1:${(two ?? one).port}`]
}

/** Sends readiness probes by their values. When a pod becomes ready, or is not ready any more, nginx gets the ready ones. */
function followReadiness(nginx: Nginx) {
  const failures = new Map<Served, number>()
  let ready: readonly Served[] = []
  let isStopped = false
  const care = async (pod: Served) => {
    const { periodSeconds } = pod.probes.readinessProbe
    while (!isStopped && failures.has(pod)) {
      const isReady = (await pod.probe('readinessProbe')) === 200
      if (failures.has(pod)) failures.set(pod, isReady ? 0 : (failures.get(pod) ?? 0) + 1)
      publish()
      await sleep(periodSeconds * 1_000)
    }
  }
  const publish = () => {
    const now = [...failures].filter(([pod, failed]) => failed < pod.probes.readinessProbe.failureThreshold)
    const next = now.map(([pod]) => pod)
    if (next.length === ready.length && next.every((pod) => ready.includes(pod))) return
    ready = next
    nginx.follow(upstreamsOf(next))
  }
  const cares: Promise<void>[] = []
  return {
    add(pod: Served) {
      failures.set(pod, pod.probes.readinessProbe.failureThreshold) // not ready until a probe succeeds
      cares.push(care(pod))
    },
    async ready(pod: Served) {
      while (!ready.includes(pod)) await sleep(50)
    },
    remove(pod: Served) {
      failures.delete(pod)
      publish()
    },
    async stop() {
      isStopped = true
      await Promise.all(cares)
    },
  }
}

/** Clients with a connection for each request: nginx closes kept ones when it follows others. */
function startClients(socketPath: string) {
  const counts = { answers: 0, lost: 0, wrong: 0 }
  let isStopped = false
  const runClient = async (client: number) => {
    for (let serial = 0; !isStopped; serial++) {
      const name = `${client}-${serial}`
      try {
        const { status, body } = await post(socketPath, '/hello', name)
        counts.answers++
        if (status !== 200 || body !== answerTo(name)) counts.wrong++
      } catch {
        counts.lost++
      }
    }
  }
  const clients = Array.from({ length: CLIENTS }, (_, client) => runClient(client))
  return {
    counts,
    async stop() {
      isStopped = true
      await Promise.all(clients)
    },
  }
}

function post(socketPath: string, path: string, body: string) {
  return new Promise<{ readonly status: number | undefined; readonly body: string }>((resolve, reject) => {
    const headers = { 'content-length': Buffer.byteLength(body) }
    const call = request({ socketPath, path, method: 'POST', agent: false, headers }, (answer) => {
      text(answer).then((body) => resolve({ status: answer.statusCode, body }), reject)
    })
    call.on('error', reject)
    call.end(body)
  })
}

function renderPage(): string {
  return [
    '## Pods in containers',
    '',
    'The pods of the chart run in containers by `podman play kube` and runc, with the network of the machine (`npx tsx test/long/pods.ts`). The test does what',
    'podman does not do as a kubelet does: probes, by the values of the chart, and the grace period. An nginx gets the addresses of the pods that are ready.',
    'Each request has a body of its own, which its answer must contain.',
    '',
    'podman 4.3 has no volumes of images and Secrets, no projected ones (`registryCredentials`, `tls`, `trustKeys`), no annotation of more than 63 characters',
    '(`checksum/config`), and no limit of ephemeral storage: the test leaves them out.',
    '',
    `${renderOrigin()}. ${podman('--version')}, runc. ${checks.renderCount()}.`,
    '',
    ...checks.renderTable(),
  ].join('\n')
}

try {
  await buildProgram('helm')
  buildImage(IMAGE, makeBaseImage())
  mkdirSync(plugins)
  copyFileSync(HELLO, join(plugins, 'hello.wasm'))
  await checkVariants()
  await checkSecrets()
  await checkRestart()
  await checkRolling()
  keepSection('pods', renderPage())
  if (!checks.areRight) process.exitCode = 1
} finally {
  for (const pod of pods) pod.remove()
  buildah('rmi', '--force', IMAGE)
  rmSync(folder, { recursive: true, force: true })
}
