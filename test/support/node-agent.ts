import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, openSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CLI } from './cli.ts'
import { writeConfigMap } from './config-map.ts'
import type { ApiObject, ControlPlane } from './control-plane.ts'

/** A node whose pods are processes of this machine. */
export interface NodeAgent {
  readonly name: string
  /** Ends everything at once, and sends no heartbeat any more, as when a machine loses its power. */
  lose(): void
  stop(): Promise<void>
}

/** The interval at which the agent asks for its pods. */
const POLL_MS = 200

/**
 * Joins the cluster as a node. It does for pods with the container `wasm-serve` what a kubelet does: it writes their volumes,
 * starts the container's command with its arguments and environment, sends probes, restarts what fails, sends SIGTERM and later
 * SIGKILL, and reports their status. The process has no container around it.
 *
 * @param number - From 0 to 254. Pods have addresses 10.77.NUMBER.*, for which 127.77.NUMBER.* stands on this machine.
 */
export async function openNodeAgent(plane: ControlPlane, number: number): Promise<NodeAgent> {
  const agent = new ProcessNodeAgent(plane, number)
  await agent.begin()
  return agent
}

/** The address of this machine that stands for the address of a pod. */
export function loopbackOf(podAddress: string): string {
  return podAddress.replace(/^10\./, '127.')
}

class ProcessNodeAgent implements NodeAgent {
  readonly name: string
  readonly #plane: ControlPlane
  readonly #number: number
  readonly #pods = new Map<string, PodProcess>()
  #isEnded = false
  #served = 0
  #loop: Promise<void> | undefined

  constructor(plane: ControlPlane, number: number) {
    this.#plane = plane
    this.#number = number
    this.name = `machine-${number}`
  }

  async begin(): Promise<void> {
    const labels = {
      'kubernetes.io/hostname': this.name,
      'topology.kubernetes.io/zone': this.name,
      type: 'process',
    }
    await this.#plane.ask('POST', '/api/v1/nodes', { metadata: { name: this.name, labels } })
    await this.#beat()
    this.#loop = this.#run()
  }

  lose(): void {
    this.#isEnded = true
    for (const pod of this.#pods.values()) pod.kill()
  }

  async stop(): Promise<void> {
    this.lose()
    await this.#loop
    await Promise.all([...this.#pods.values()].map(({ closed }) => closed))
  }

  async #run(): Promise<void> {
    for (let round = 0; !this.#isEnded; round++) {
      if (round % 5 === 0) await this.#beat()
      const { body } = await this.#plane.ask('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${this.name}`)
      const found: ApiObject[] = body.items ?? []
      for (const pod of found) await this.#care(pod)
      const uids = new Set(found.map(({ metadata }) => metadata.uid))
      for (const [uid, pod] of this.#pods) {
        if (uids.has(uid)) continue
        pod.kill()
        this.#pods.delete(uid)
      }
      await sleep(POLL_MS)
    }
  }

  async #care(pod: ApiObject): Promise<void> {
    const { uid, deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata
    let own = this.#pods.get(uid)
    if (!own) {
      own = new PodProcess(this.#plane, pod, `10.77.${this.#number}.${++this.#served}`)
      this.#pods.set(uid, own)
    }
    if (deletionTimestamp) own.end(deletionGracePeriodSeconds)
    else await own.refresh()
  }

  /** Says that the node is ready, and renews its lease. */
  async #beat(): Promise<void> {
    const now = new Date().toISOString()
    const resources = { cpu: '32', memory: '64Gi', pods: '110', 'ephemeral-storage': '100Gi' }
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'KubeletReady',
      lastHeartbeatTime: now,
      lastTransitionTime: now,
    }
    const status = { allocatable: resources, capacity: resources, conditions: [ready] }
    await this.#plane.ask('PATCH', `/api/v1/nodes/${this.name}/status`, { status }, MERGE)
    const renewTime = `${now.slice(0, -1)}000Z`
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: this.name },
      spec: { holderIdentity: this.name, leaseDurationSeconds: 6, renewTime },
    }
    const path = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${this.name}?fieldManager=agent&force=true`
    await this.#plane.ask('PATCH', path, lease, 'application/apply-patch+yaml')
  }
}

const MERGE = 'application/merge-patch+json'

/** A pod and the process of its container. */
class PodProcess {
  /** Resolves when nothing of it is left. */
  readonly closed: Promise<void>
  readonly #plane: ControlPlane
  readonly #pod: ApiObject
  readonly #container: ApiObject
  readonly #address: string
  readonly #folder: string
  /** The versions of the objects that its volumes have. */
  readonly #written = new Map<string, string>()
  readonly #startTime = new Date().toISOString()
  #child: ChildProcess | undefined
  #restarts = 0
  #isKilled = false
  #isStarted = false
  #isReady = false
  #ending: Promise<void> | undefined
  #refreshed = 0

  constructor(plane: ControlPlane, pod: ApiObject, address: string) {
    this.#plane = plane
    this.#pod = pod
    this.#address = address
    this.#container = pod.spec.containers.find(({ name }: ApiObject) => name === 'wasm-serve')
    this.#folder = join(plane.folder, 'pods', pod.metadata.uid)
    mkdirSync(this.#folder, { recursive: true })
    this.closed = this.#run()
  }

  /** Ends at once, and reports nothing any more. */
  kill(): void {
    this.#isKilled = true
    this.#child?.kill('SIGKILL')
  }

  /** Writes volumes again whose objects have changed; a kubelet does it once a minute. */
  async refresh(): Promise<void> {
    if (Date.now() - this.#refreshed < 1_000) return
    this.#refreshed = Date.now()
    await this.#writeVolumes()
  }

  /** Sends SIGTERM, after the grace period SIGKILL, and then removes the pod. */
  end(seconds: number): void {
    this.#ending ??= this.#terminate(seconds)
  }

  async #terminate(seconds: number): Promise<void> {
    const child = this.#child
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      const killing = setTimeout(() => child.kill('SIGKILL'), seconds * 1_000)
      await ended
      clearTimeout(killing)
    }
    await this.#plane.ask('DELETE', `${this.#path()}?gracePeriodSeconds=0`)
  }

  async #run(): Promise<void> {
    await this.#writeVolumes()
    const env = await this.#environment()
    while (!this.#ending && !this.#isKilled) {
      const log = openSync(join(this.#folder, 'log'), 'a')
      const args = this.#container.args.map((word: string) => this.#here(word))
      const child = spawn(process.execPath, [CLI, ...args], { env, stdio: ['ignore', log, log] })
      this.#child = child
      const ended = once(child, 'exit')
      const probing = new AbortController()
      const probes = this.#probe(probing.signal)
      await this.#report()
      await ended
      probing.abort()
      await probes
      this.#isStarted = this.#isReady = false
      this.#restarts++
      await this.#report()
      if (!this.#ending && !this.#isKilled) await sleep(1_000)
    }
    await this.#ending
  }

  async #probe(signal: AbortSignal): Promise<void> {
    const { startupProbe, readinessProbe, livenessProbe } = this.#container
    const fails = { startup: 0, readiness: 0, liveness: 0 }
    let due = { readiness: 0, liveness: 0 }
    while (!signal.aborted) {
      await sleep(this.#isStarted ? 200 : startupProbe.periodSeconds * 1_000)
      if (signal.aborted) return
      if (!this.#isStarted) {
        if (await this.#succeeds(startupProbe)) this.#isStarted = true
        else if (++fails.startup >= startupProbe.failureThreshold) return this.#fail()
        due = { readiness: 0, liveness: Date.now() + livenessProbe.periodSeconds * 1_000 }
      }
      if (this.#isStarted && Date.now() >= due.readiness) {
        due.readiness = Date.now() + readinessProbe.periodSeconds * 1_000
        fails.readiness = (await this.#succeeds(readinessProbe)) ? 0 : fails.readiness + 1
        const isReady = this.#isReady
          ? fails.readiness < readinessProbe.failureThreshold
          : fails.readiness === 0
        if (isReady !== this.#isReady) {
          this.#isReady = isReady
          await this.#report()
        }
      }
      if (this.#isStarted && Date.now() >= due.liveness) {
        due.liveness = Date.now() + livenessProbe.periodSeconds * 1_000
        fails.liveness = (await this.#succeeds(livenessProbe)) ? 0 : fails.liveness + 1
        if (fails.liveness >= livenessProbe.failureThreshold) return this.#fail()
      }
    }
  }

  #fail(): void {
    this.#child?.kill('SIGTERM')
  }

  #succeeds({ httpGet, timeoutSeconds }: ApiObject): Promise<boolean> {
    const port = this.#container.ports.find(({ name }: ApiObject) => name === httpGet.port).containerPort
    return new Promise((resolve) => {
      const host = loopbackOf(this.#address)
      const asking = get(
        { host, port, path: httpGet.path, timeout: timeoutSeconds * 1_000, agent: false },
        (answer) => {
          answer.resume()
          resolve(answer.statusCode === 200)
        },
      )
      asking.on('timeout', () => asking.destroy())
      asking.on('error', () => resolve(false))
    })
  }

  async #report(): Promise<void> {
    if (this.#isKilled) return
    const now = new Date().toISOString()
    const condition = (type: string, holds: boolean) => {
      return { type, status: holds ? 'True' : 'False', lastTransitionTime: now }
    }
    const { name, image } = this.#container
    const state = { running: { startedAt: this.#startTime } }
    const container = { name, image, imageID: image, ready: this.#isReady, started: this.#isStarted, state }
    const status = {
      phase: 'Running',
      podIP: this.#address,
      podIPs: [{ ip: this.#address }],
      startTime: this.#startTime,
      conditions: [
        ...[condition('PodScheduled', true), condition('Initialized', true)],
        ...[condition('ContainersReady', this.#isReady), condition('Ready', this.#isReady)],
      ],
      containerStatuses: [{ ...container, restartCount: this.#restarts }],
    }
    await this.#plane.ask('PATCH', `${this.#path()}/status`, { status }, MERGE)
  }

  async #environment(): Promise<NodeJS.ProcessEnv> {
    const address = loopbackOf(this.#address)
    const ports = new Map<string, number>(
      this.#container.ports.map(({ name, containerPort }: ApiObject) => [name, containerPort]),
    )
    const given: [string, string][] = []
    for (const { name, value, valueFrom } of this.#container.env ?? []) {
      const { name: object, key } = valueFrom?.secretKeyRef ?? {}
      const secret = object && (await this.#get('secrets', object)).data[key]
      given.push([name, secret === undefined ? value : Buffer.from(secret, 'base64').toString()])
    }
    // A pod has an address of its own, where the configuration listens at 0.0.0.0.
    return {
      ...{ PATH: process.env.PATH, HOME: this.#folder },
      ...Object.fromEntries(given),
      ...{ WASM_SERVE_HOST: address, WASM_SERVE_PROBES: `${address}:${ports.get('probes')}` },
    }
  }

  async #writeVolumes(): Promise<void> {
    for (const { name, configMap, secret } of this.#pod.spec.volumes ?? []) {
      const [kind, object] = configMap ? ['configmaps', configMap.name] : ['secrets', secret?.secretName]
      if (object === undefined) continue
      const { data = {}, binaryData = {}, metadata } = await this.#get(kind, object)
      if (metadata === undefined || this.#written.get(name) === metadata.resourceVersion) continue
      const coded = kind === 'secrets' ? data : binaryData
      const bytes = Object.entries(coded).map(([key, text]) => [key, Buffer.from(String(text), 'base64')])
      writeConfigMap(join(this.#folder, name), {
        ...(kind === 'configmaps' && data),
        ...Object.fromEntries(bytes),
      })
      this.#written.set(name, metadata.resourceVersion)
    }
  }

  /** A word of the command with the folder of a volume in the place of its mount. */
  #here(word: string): string {
    const mounts: ApiObject[] = this.#container.volumeMounts
    return mounts.reduce(
      (text, { name, mountPath }) => text.replace(mountPath, join(this.#folder, name)),
      word,
    )
  }

  async #get(kind: string, name: string): Promise<ApiObject> {
    return (
      await this.#plane.ask('GET', `/api/v1/namespaces/${this.#pod.metadata.namespace}/${kind}/${name}`)
    ).body
  }

  #path(): string {
    return `/api/v1/namespaces/${this.#pod.metadata.namespace}/pods/${this.#pod.metadata.name}`
  }
}
