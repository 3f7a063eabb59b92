import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseAllDocuments } from 'yaml'
import { type ApiObject, type ControlPlane, openControlPlane } from '../support/control-plane.ts'
import { CHART, VARIANTS, variantFlag } from '../support/helm.ts'
import { extensionFiles, moduleFolder } from '../support/kubernetes-schemas.ts'
import { openMetricsApi } from '../support/metrics-api.ts'
import { blocksOf } from '../support/pages.ts'
import { buildProgram, KUBERNETES, KWOK, PROGRAMS } from '../support/registry-programs.ts'
import { ROOT } from '../support/user-package.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/kubernetes.ts
 *
 * The chart on a Kubernetes of processes: API server, etcd, controllers and scheduler are the real ones. Nodes and pods of
 * the first part are kwok's, which only says that they run. Writes the results to docs/contribute/long-tests.md, and exits
 * with 1 if one is not as expected.
 */

const NAMESPACE = 'plugins'
const RELEASE = 'r'

const FAKE_NODES = ['fake-1', 'fake-2', 'fake-3']

/** What others have to make before a variant can be installed. */
const NEEDED = `
apiVersion: v1
kind: PersistentVolume
metadata: { name: plugins }
spec:
  capacity: { storage: 1Gi }
  accessModes: [ReadOnlyMany]
  storageClassName: ''
  hostPath: { path: /plugins }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: plugins, namespace: ${NAMESPACE} }
spec:
  accessModes: [ReadOnlyMany]
  storageClassName: ''
  volumeName: plugins
  resources: { requests: { storage: 1Gi } }
`

/** Kinds of operators whose definitions no module has: their objects are stored as they are. */
const OPEN_KINDS = [
  ['monitoring.coreos.com', 'v1', 'ServiceMonitor'],
  ['monitoring.coreos.com', 'v1', 'PrometheusRule'],
  ['http.keda.sh', 'v1beta1', 'InterceptorRoute'],
] as const

/** How nodes and pods of kwok become ready and end: at once. */
const STAGES = [
  ...['node/fast/node-initialize', 'node/heartbeat-with-lease/node-heartbeat-with-lease'],
  ...['pod/fast/pod-ready', 'pod/fast/pod-complete', 'pod/fast/pod-delete'],
]

interface Row {
  readonly what: string
  readonly result: string
  readonly isExpected: boolean
}

const rows: Row[] = []

function add(what: string, result: string, isExpected: boolean): void {
  rows.push({ what, result, isExpected })
  console.log(`${isExpected ? 'ok' : 'WRONG'}: ${what}: ${result}`)
}

/** Runs a command that must succeed. */
async function must(plane: ControlPlane, program: 'kubectl' | 'helm', ...args: string[]): Promise<string> {
  const { ok, text } = await plane.run(program, ...args)
  if (!ok) throw new Error(`${program} ${args.join(' ')}\n${text}`)
  return text
}

/** Waits until a value is as wanted. @returns the last value. */
async function settled<Value>(read: () => Promise<Value>, isWanted: (value: Value) => boolean, seconds = 60) {
  const until = Date.now() + seconds * 1_000
  for (;;) {
    const value = await read()
    if (isWanted(value) || Date.now() > until) return value
    await sleep(200)
  }
}

async function apply(plane: ControlPlane, manifest: string): Promise<void> {
  const path = join(plane.folder, 'manifest.yaml')
  writeFileSync(path, manifest)
  await must(plane, 'kubectl', 'apply', '--server-side', '-f', path)
}

async function prepare(plane: ControlPlane): Promise<void> {
  const labels = ['enforce', 'warn'].map((mode) => `pod-security.kubernetes.io/${mode}=restricted`)
  await must(plane, 'kubectl', 'create', 'namespace', NAMESPACE)
  await must(plane, 'kubectl', 'label', 'namespace', NAMESPACE, ...labels)
  for (const path of extensionFiles()) await must(plane, 'kubectl', 'apply', '--server-side', '-f', path)
  await apply(plane, OPEN_KINDS.map(openKind).join('---\n'))
  await apply(plane, NEEDED)
  for (const name of FAKE_NODES) await addFakeNode(plane, name)
  await buildProgram('kwok')
  const stages = join(moduleFolder(KWOK), 'kustomize/stage')
  plane.start(
    'kwok',
    ...[
      `--kubeconfig=${plane.kubeconfig}`,
      '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
    ],
    ...STAGES.map((name) => `--config=${join(stages, name)}.yaml`),
  )
}

function openKind([group, version, kind]: (typeof OPEN_KINDS)[number]): string {
  const plural = `${kind.toLowerCase()}s`
  return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: ${plural}.${group} }
spec:
  group: ${group}
  scope: Namespaced
  names: { kind: ${kind}, plural: ${plural}, singular: ${kind.toLowerCase()} }
  versions:
    - name: ${version}
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
`
}

async function addFakeNode(plane: ControlPlane, name: string): Promise<void> {
  const labels = {
    'kubernetes.io/hostname': name,
    'topology.kubernetes.io/zone': `zone-${name}`,
    type: 'kwok',
  }
  const metadata = {
    name,
    labels: { ...labels, 'kubernetes.io/os': 'linux' },
    annotations: { 'kwok.x-k8s.io/node': 'fake' },
  }
  const resources = { cpu: '32', memory: '64Gi', pods: '110', 'ephemeral-storage': '100Gi' }
  await plane.ask('POST', '/api/v1/nodes', {
    metadata,
    status: { allocatable: resources, capacity: resources },
  })
}

/** Installs, upgrades, rolls back and removes a variant. */
async function tryVariant(plane: ControlPlane, variant: string): Promise<void> {
  const flags = ['--namespace', NAMESPACE, ...(variant === 'default' ? [] : [variantFlag(variant)])]
  const steps: string[] = []
  const faults: string[] = []
  const step = async (name: string, text: Promise<string>) => {
    steps.push(name)
    faults.push(...((await text).match(/^(?:Warning|W\d{4}).*$/gm) ?? []))
  }
  const expectLevel = async (wanted: string) => {
    await rolledOut(plane)
    const { body } = await plane.ask('GET', `/api/v1/namespaces/${NAMESPACE}/configmaps`)
    const texts = body.items.flatMap(({ data }: ApiObject) => data?.['wasm-serve.json'] ?? [])
    const level = JSON.parse(texts.find((text: string) => text.includes('drainMs'))).logLevel ?? 'info'
    if (level !== wanted) faults.push(`the level of the log is ${level}`)
  }
  const [inNamespace, manifest] = [['--namespace', NAMESPACE], join(plane.folder, 'manifest.yaml')]
  try {
    await step('install', must(plane, 'helm', 'install', RELEASE, CHART, ...flags))
    await expectLevel('info')
    await step(
      'upgrade',
      must(plane, 'helm', 'upgrade', RELEASE, CHART, ...flags, '--set=config.logLevel=debug'),
    )
    await expectLevel('debug')
    await step('rollback', must(plane, 'helm', 'rollback', RELEASE, '1', ...inNamespace))
    await expectLevel('info')
    writeFileSync(manifest, await must(plane, 'helm', 'get', 'manifest', RELEASE, ...inNamespace))
    const apply = ['apply', '--server-side', '--force-conflicts', '-f', manifest]
    await step('server-side apply', must(plane, 'kubectl', ...inNamespace, ...apply))
    await step('uninstall', must(plane, 'helm', 'uninstall', RELEASE, ...inNamespace, '--wait'))
    const left = await settled(
      () => remains(plane),
      (names) => names.length === 0,
    )
    faults.push(...left.map((name) => `${name} is left`))
  } catch (error) {
    faults.push(String(error).slice(0, 600))
    await plane.run('helm', 'uninstall', RELEASE, ...inNamespace, '--wait')
  }
  add(`the variant ${variant}`, [...steps, ...faults].join(', '), faults.length === 0)
}

async function rolledOut(plane: ControlPlane): Promise<void> {
  const { body } = await plane.ask('GET', `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`)
  const name: string = body.items[0].metadata.name
  await must(
    plane,
    'kubectl',
    '--namespace',
    NAMESPACE,
    'rollout',
    'status',
    `deployment/${name}`,
    '--timeout=60s',
  )
}

/** On a busy machine kwok misses that a pod was bound, or is to end. It looks again when the pod changes. */
async function wakeKwok(plane: ControlPlane): Promise<void> {
  const { body } = await plane.ask('GET', '/api/v1/pods')
  for (const { metadata, spec, status } of body.items ?? []) {
    const waits = metadata.deletionTimestamp || (spec.nodeName && status.phase === 'Pending')
    if (!waits) continue
    const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`
    const annotations = { woken: String(Date.now()) }
    await plane.ask('PATCH', path, { metadata: { annotations } }, 'application/merge-patch+json')
  }
}

/** Objects with the label of the release. */
async function remains(plane: ControlPlane): Promise<string[]> {
  const kinds =
    'all,configmap,serviceaccount,poddisruptionbudget,networkpolicy,ingress,httproute,scaledobject,servicemonitor,prometheusrule,interceptorroute'
  const selector = `app.kubernetes.io/instance=${RELEASE}`
  const found = await must(
    plane,
    'kubectl',
    '--namespace',
    NAMESPACE,
    'get',
    kinds,
    '-l',
    selector,
    '-o',
    'name',
  )
  return found.split('\n').filter((line) => line.includes('/'))
}

async function tryAdmission(plane: ControlPlane): Promise<void> {
  const pod = { metadata: { name: 'root' }, spec: { containers: [{ name: 'root', image: 'a' }] } }
  const { status } = await plane.ask('POST', `/api/v1/namespaces/${NAMESPACE}/pods`, pod)
  add('a pod below the level `restricted`', `refused with ${status}`, status === 403)
  const wrong = await plane.run('helm', 'install', 'wrong', CHART, '-n', NAMESPACE, '--set=config.drainMS=1')
  add(
    '`helm install` with the key `drainMS`',
    'refused, names the key',
    !wrong.ok && wrong.text.includes("'drainMS'"),
  )
}

async function tryAutoscaling(plane: ControlPlane): Promise<void> {
  const api = await openMetricsApi(plane)
  const none = { wasm_serve_queue_length: '0', wasm_serve_guest_seconds_per_second: '0' }
  api.metrics.custom = none
  try {
    await must(plane, 'helm', 'install', RELEASE, CHART, '--namespace', NAMESPACE, variantFlag('autoscaling'))
    const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${RELEASE}-wasm-serve`
    const replicas = async (): Promise<number> => (await plane.ask('GET', path)).body.spec.replicas
    const reaches = async (what: string, count: number) => {
      const found = await settled(replicas, (value) => value === count, 90)
      add(`HorizontalPodAutoscaler: ${what}`, `${found} pods`, found === count)
    }
    await reaches('nothing to do', 2)
    api.metrics.custom = { ...none, wasm_serve_queue_length: '9' }
    await reaches('9 calls wait in each pod, 5 may', 6)
    api.metrics.custom = none
    await reaches('no call waits', 2)
    api.metrics.custom = { ...none, wasm_serve_guest_seconds_per_second: '900m' }
    await reaches('guests run 900 ms of each second, 500 may', 6)
    api.metrics.custom = none
    await reaches('no guest runs', 2)
    api.metrics.cpu = 400
    await reaches('CPU is at 160 % of the request, 70 % may be', 6)
    api.metrics.cpu = 10
    await reaches('CPU is at 4 %', 2)
  } finally {
    api.stop()
    await plane.run('helm', 'uninstall', RELEASE, '--namespace', NAMESPACE, '--wait')
    for (const name of ['v1beta1.metrics.k8s.io', 'v1beta2.custom.metrics.k8s.io'])
      await plane.run('kubectl', 'delete', 'apiservice', name)
  }
}

async function tryDrain(plane: ControlPlane): Promise<void> {
  await must(plane, 'helm', 'install', RELEASE, CHART, '--namespace', NAMESPACE, '--set=replicas=3')
  await rolledOut(plane)
  const pods = async (): Promise<ApiObject[]> =>
    (await plane.ask('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)).body.items
  const nodes = new Set((await pods()).map(({ spec }) => spec.nodeName))
  add('three pods on three nodes in three zones', `on ${nodes.size} nodes`, nodes.size === 3)
  await settled(
    async () =>
      (await plane.ask('GET', `/apis/policy/v1/namespaces/${NAMESPACE}/poddisruptionbudgets`)).body.items[0],
    ({ status }) => status?.disruptionsAllowed === 1,
  )
  // Pods in their place find no node, so the budget is spent with the first.
  for (const name of FAKE_NODES) await must(plane, 'kubectl', 'cordon', name)
  const evictions = (await pods()).map(({ metadata }) => {
    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: metadata.name } }
    return plane.ask('POST', `/api/v1/namespaces/${NAMESPACE}/pods/${metadata.name}/eviction`, eviction)
  })
  const statuses = (await Promise.all(evictions)).map(({ status }) => status).sort()
  add('three evictions at once', statuses.join(', '), statuses.join() === '201,429,429')
  for (const name of FAKE_NODES) await must(plane, 'kubectl', 'uncordon', name)
  await rolledOut(plane)
  const drained = await plane.run(
    'kubectl',
    ...['drain', 'fake-1', '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=60s'],
  )
  const left = (await pods()).filter(({ spec }) => spec.nodeName === 'fake-1')
  add('`kubectl drain` of a node', `${left.length} pods left`, drained.ok && left.length === 0)
  await plane.run('kubectl', 'uncordon', 'fake-1')
  await plane.run('helm', 'uninstall', RELEASE, '--namespace', NAMESPACE, '--wait')
}

/** Helm 4 makes the same objects, and installs them. */
async function tryHelm4(plane: ControlPlane): Promise<void> {
  await buildProgram('helm4')
  const different: string[] = []
  for (const variant of VARIANTS) {
    const words = ['template', RELEASE, CHART, `--kube-version=${KUBERNETES}`, variantFlag(variant)]
    const [three, four] = [await plane.run('helm', ...words), await plane.run('helm4', ...words)]
    if (!four.ok || objectsIn(three.text) !== objectsIn(four.text)) different.push(variant)
  }
  const what = `Helm 4: the objects of ${VARIANTS.length} variants`
  add(what, different.length === 0 ? 'those of Helm 3' : different.join(', '), different.length === 0)
  const installed = await plane.run(
    'helm4',
    'install',
    RELEASE,
    CHART,
    '-n',
    NAMESPACE,
    '--wait',
    '--timeout=60s',
  )
  add('Helm 4: install', installed.ok ? 'done' : installed.text.slice(0, 300), installed.ok)
  await plane.run('helm4', 'uninstall', RELEASE, '-n', NAMESPACE, '--wait')
}

/** The objects, without the blank lines between them. */
function objectsIn(manifest: string): string {
  return JSON.stringify(parseAllDocuments(manifest).flatMap((document) => document.toJSON() ?? []))
}

/** Lines of the page that need what does not run here. */
const NOT_HERE = /^(?:helm test|kubectl port-forward|curl)/

/** Runs the commands of docs/operate/kubernetes.md as they are written there. */
async function tryPage(plane: ControlPlane): Promise<void> {
  const cwd = mkdtempSync(join(plane.folder, 'page-'))
  symlinkSync(join(ROOT, 'deploy'), join(cwd, 'deploy'))
  const blocks = blocksOf('docs/operate/kubernetes.md')
  for (const { code } of blocks.filter(({ language }) => language === 'yaml')) {
    const [, name] = /^# (\S+\.yaml)\n/.exec(code) ?? []
    if (name !== undefined) writeFileSync(join(cwd, name), code)
  }
  const env = { ...process.env, PATH: `${PROGRAMS}:${process.env.PATH}`, KUBECONFIG: plane.kubeconfig }
  const lines = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.replaceAll('\\\n', ' ').split('\n'))
    .filter((line) => line !== '' && !NOT_HERE.test(line))
  for (const line of lines) {
    const child = spawn('bash', ['-c', line], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const [stdout, stderr, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    const isRight = status === 0 && !/^Warning/m.test(stderr)
    const said = (stdout + stderr).replaceAll(/\s+/g, ' ').slice(0, 300)
    add(`\`${line.replaceAll(/\s+/g, ' ')}\``, isRight ? 'done' : `${status}: ${said}`, isRight)
  }
}

function render(): string {
  const right = rows.filter(({ isExpected }) => isExpected).length
  return [
    '## Kubernetes',
    '',
    `The chart on Kubernetes ${KUBERNETES.slice(1)}: API server, controllers and scheduler are the real ones, in a namespace that enforces the level`,
    '`restricted`. Fake nodes of kwok say that pods run (`npx tsx test/long/kubernetes.ts`).',
    '',
    `${renderOrigin()}. ${right} of ${rows.length} as expected.`,
    '',
    '| what | result | |',
    '| --- | --- | --- |',
    ...rows.map(
      ({ what, result, isExpected }) =>
        `| ${what} | ${result} | ${isExpected ? 'as expected' : '**wrong**'} |`,
    ),
  ].join('\n')
}

const plane = await openControlPlane(60)
const waking = setInterval(() => wakeKwok(plane).catch(console.error), 5_000)
try {
  await prepare(plane)
  for (const variant of ['default', ...VARIANTS]) await tryVariant(plane, variant)
  await tryAdmission(plane)
  await tryAutoscaling(plane)
  await tryDrain(plane)
  await tryHelm4(plane)
  await tryPage(plane)
  keepSection('kubernetes', render())
  if (rows.some(({ isExpected }) => !isExpected)) process.exitCode = 1
} finally {
  clearInterval(waking)
  await plane.stop()
}
