import { execFile, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { kubernetesSchemas } from './kubernetes-schemas.ts'
import { KUBERNETES, PROGRAMS } from './registry-programs.ts'

const runFile = promisify(execFile)

export const CHART = fileURLToPath(new URL('../../deploy/helm/wasm-serve', import.meta.url))

/** Files with values for tests: one for each way to use the chart. */
export const VARIANTS: readonly string[] = readdirSync(join(CHART, 'ci')).map((name) =>
  name.replace('-values.yaml', ''),
)

/** An object of Kubernetes, as far as tests read it. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> }
  // biome-ignore lint/suspicious/noExplicitAny: as different as the kinds
  readonly [key: string]: any
}

/** The result of a run. */
export interface HelmRun {
  readonly ok: boolean
  /** Both outputs. */
  readonly text: string
}

/** The flag for the values of a variant. */
export function variantFlag(name: string): string {
  return `--values=${join(CHART, `ci/${name}-values.yaml`)}`
}

/** Runs Helm. */
export async function helm(...args: readonly string[]): Promise<HelmRun> {
  try {
    const { stdout, stderr } = await runFile(join(PROGRAMS, 'helm'), args, { maxBuffer: 64 * 1024 * 1024 })
    return { ok: true, text: stdout + stderr }
  } catch (error) {
    if (error instanceof Error && 'stdout' in error && 'stderr' in error)
      return { ok: false, text: `${error.stdout}${error.stderr}` }
    throw error
  }
}

/** The text that the chart becomes. */
export async function renderText(...flags: readonly string[]): Promise<string> {
  const { ok, text } = await helm('template', 'r', CHART, `--kube-version=${KUBERNETES}`, ...flags)
  if (!ok) throw new Error(text)
  return text
}

/** The objects that the chart becomes. */
export async function render(...flags: readonly string[]): Promise<KubernetesObject[]> {
  return parseAllDocuments(await renderText(...flags)).flatMap((document) => document.toJSON() ?? [])
}

/** Kinds whose definitions no module has. */
const WITHOUT_SCHEMA = ['ServiceMonitor', 'PrometheusRule', 'InterceptorRoute']

const locations = new Map<string, string>()

/** Made once, which takes a second. */
function schemas(version: string): string {
  const location = locations.get(version) ?? kubernetesSchemas(version)
  locations.set(version, location)
  return location
}

/** The exit code and the output of kubeconform. */
export function conform(input: string, version = KUBERNETES): [number | null, string] {
  const words = ['-strict', '-skip', WITHOUT_SCHEMA.join(), '-schema-location', schemas(version)]
  const { status, stdout, stderr } = spawnSync(join(PROGRAMS, 'kubeconform'), words, {
    input,
    encoding: 'utf8',
  })
  return [status, stdout + stderr]
}

/** The only object of a kind. */
export function one(objects: readonly KubernetesObject[], kind: string): KubernetesObject {
  const [object] = objects.filter((object) => object.kind === kind)
  if (!object) throw new Error(`there is no ${kind}`)
  return object
}

/** The container of wasm-serve. */
export function containerOf(objects: readonly KubernetesObject[]) {
  return one(objects, 'Deployment').spec.template.spec.containers[0]
}

/** The configuration file. */
export function configOf(objects: readonly KubernetesObject[]) {
  return JSON.parse(one(objects, 'ConfigMap').data['wasm-serve.json'])
}
