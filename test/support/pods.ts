import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { podman, startPodman } from './containers.ts'
import type { KubernetesObject } from './helm.ts'

/*
 * Pods of the chart in containers, by `podman play kube` (4.3) and runc. podman does what a kubelet does with volumes, security
 * contexts and limits. Probes, and the time until SIGKILL, are up to the caller.
 */

/** A pod whose container `wasm-serve` runs, with the network of the machine. */
export interface Pod {
  /** The id of process 1 of the container, seen from outside. It changes when the container restarts. */
  pid(): number
  /** Sends a probe as a kubelet does. @returns the status of the answer, or nothing if there was none in time. */
  probe(kind: ProbeKind): Promise<number | undefined>
  /** The values of a probe, from the template. */
  readonly probes: Readonly<Record<ProbeKind, Probe>>
  /** Sends startup probes until one succeeds. @returns whether one did before the limit of failures. */
  started(): Promise<boolean>
  /** Runs a program in the container. @returns its output. */
  exec(...words: string[]): Promise<string>
  /** Everything printed so far. */
  log(): string
  /** SIGTERM, and SIGKILL after the grace period of the template. @returns the exit code. */
  stop(): Promise<number>
  /** Removes what is left of it: containers, volumes and Secrets. */
  remove(): void
}

type ProbeKind = 'startupProbe' | 'readinessProbe' | 'livenessProbe'

/** A probe of Kubernetes, as far as it is used here. */
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
  readonly periodSeconds: number
  readonly timeoutSeconds: number
  readonly failureThreshold: number
}

/**
 * Runs the pod of the Deployment among the objects of the chart, with its ConfigMaps.
 *
 * @param name - Of the pod.
 * @param secrets - The values of Secrets, by name and key.
 */
export async function playPod(
  name: string,
  objects: readonly KubernetesObject[],
  secrets: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
): Promise<Pod> {
  const template = objects.find(({ kind }) => kind === 'Deployment')?.spec.template
  const { probes, port, spec } = adapt(template.spec)
  const configMaps = objects.filter(({ kind }) => kind === 'ConfigMap')
  const metadata = { name, labels: template.metadata.labels, annotations: ANNOTATIONS }
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec }
  const container = `${name}-wasm-serve`
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-pod-'))
  const remove = () => {
    podman('pod', 'rm', '--force', '--ignore', name)
    for (const { metadata } of configMaps) podman('volume', 'rm', '--force', metadata.name)
    for (const secret of Object.keys(secrets)) podman('secret', 'rm', secret)
    rmSync(folder, { recursive: true, force: true }) // not sooner: each restart reads containers.conf
  }
  try {
    const [config, file] = [join(folder, 'containers.conf'), join(folder, 'pod.yaml')]
    writeFileSync(config, CONFIG)
    for (const [secret, values] of Object.entries(secrets)) await createSecret(folder, secret, values)
    writeFileSync(file, [...configMaps, pod].map((object) => JSON.stringify(object)).join('\n---\n'))
    await startPodman(['play', 'kube', '--quiet', file], { CONTAINERS_CONF: config })
  } catch (error) {
    remove()
    throw error
  }
  const inspect = (format: string) => podman('inspect', '--type=container', `--format=${format}`, container)
  const probe = (kind: ProbeKind) => {
    const { httpGet, timeoutSeconds } = probes[kind]
    const signal = AbortSignal.timeout(timeoutSeconds * 1_000)
    const asked = fetch(`http://127.0.0.1:${port}${httpGet.path}`, {
      signal,
      headers: { connection: 'close' },
    })
    return asked.then(
      ({ status }) => status,
      () => undefined,
    )
  }
  return {
    pid: () => Number(inspect('{{.State.Pid}}')),
    probe,
    probes,
    async started() {
      const { failureThreshold, periodSeconds } = probes.startupProbe
      for (let failures = 0; failures < failureThreshold; failures++) {
        if ((await probe('startupProbe')) === 200) return true
        await sleep(periodSeconds * 1_000)
      }
      return false
    },
    exec: (...words) => startPodman(['exec', container, ...words]),
    log: () => podman('logs', container),
    async stop() {
      await startPodman(['stop', '--time', String(spec.terminationGracePeriodSeconds), container])
      return Number(inspect('{{.State.ExitCode}}'))
    },
    remove,
  }
}

/** podman removes an init container that has run, by default, and fails if its end is not yet noted. */
const ANNOTATIONS = { 'io.podman.annotations.init.container.type': 'always' }

/** The hard limits of this process, because podman asks for more than it may have; and cgroups without systemd. */
const CONFIG = `
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
`

/**
 * The specification that podman can run: with the network of the machine, for which it takes no `ports`, and without probes, which
 * it would run by a shell inside and timers of systemd.
 */
function adapt(spec: KubernetesObject['spec']) {
  const server = spec.containers.find(({ name }: { name: string }) => name === 'wasm-serve')
  const { startupProbe, readinessProbe, livenessProbe, ports, ...rest } = server
  const port: number = ports.find(({ name }: { name: string }) => name === 'probes').containerPort
  const probes: Record<ProbeKind, Probe> = { startupProbe, readinessProbe, livenessProbe }
  const containers = spec.containers.map((each: unknown) => (each === server ? rest : each))
  return { probes, port, spec: { ...spec, hostNetwork: true, containers } }
}

/** podman reads the variables of a Secret from JSON with values in Base64. */
async function createSecret(
  folder: string,
  name: string,
  values: Readonly<Record<string, string>>,
): Promise<void> {
  const coded = Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])
  const path = join(folder, name)
  writeFileSync(path, JSON.stringify(Object.fromEntries(coded)), { mode: 0o600 })
  await startPodman(['secret', 'create', name, path])
}
