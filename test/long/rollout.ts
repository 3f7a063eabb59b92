import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiObject, type ControlPlane, openControlPlane } from '../support/control-plane.ts'
import { guestBytes } from '../support/guest.ts'
import { CHART } from '../support/helm.ts'
import { type Load, type LoadCounts, startLoad } from '../support/load.ts'
import { type NodeAgent, openNodeAgent, type Services } from '../support/node-agent.ts'
import { KUBERNETES } from '../support/registry-programs.ts'
import { openServiceProxy, type ServiceProxy } from '../support/service-proxy.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/rollout.ts
 *
 * Rollouts of the chart under load, on a Kubernetes of processes. Pods are processes of the built command, which an agent
 * starts, probes and ends as a kubelet does; a proxy follows the endpoints of the service as kube-proxy does. Each request has
 * a body of its own, which its answer must contain. Writes the results to docs/contribute/long-tests.md, and exits with 1 if a
 * request was lost that may not be.
 */

const NAMESPACE = 'plugins'
const DEPLOYMENT = 'r-wasm-serve'
/** Clients that keep their connections, and clients with a connection for each request. */
const [CONNECTIONS, SHORT] = [12, 4]
const REQUESTS = 100_000
const NODES = 3
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-rollout-'))

interface Row {
  readonly what: string
  readonly seconds: number
  readonly answers: number
  /** Requests without an answer, or on a connection that could not be opened. */
  readonly lost: number
  /** Answers to another request, or with a status other than 2xx. */
  readonly wrong: number
  readonly isExpected: boolean
}

const rows: Row[] = []

/** Runs a command that must succeed. */
async function must(plane: ControlPlane, program: 'kubectl' | 'helm', ...args: string[]): Promise<void> {
  const { ok, text } = await plane.run(program, ...args, '--namespace', NAMESPACE)
  if (!ok) throw new Error(`${program} ${args.join(' ')}\n${text}`)
}

/** Installs or upgrades, and waits until only new pods are there. */
async function release(plane: ControlPlane, proxy: ServiceProxy | undefined, values: Values): Promise<void> {
  await upgrade(plane, values)
  await settle(plane, proxy, values.replicas)
}

async function upgrade(plane: ControlPlane, values: Values): Promise<void> {
  const path = join(folder, 'values.json')
  writeFileSync(path, JSON.stringify(values))
  await must(plane, 'helm', 'upgrade', '--install', 'r', CHART, `--values=${path}`)
}

/** Waits until as many pods are there as wanted, all ready, and the proxy knows them. */
async function settle(plane: ControlPlane, proxy: ServiceProxy | undefined, count: number): Promise<void> {
  await must(plane, 'kubectl', 'rollout', 'status', `deployment/${DEPLOYMENT}`, '--timeout=180s')
  const until = Date.now() + 120_000
  for (;;) {
    const { body } = await plane.ask('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)
    if (body.items.length === count && (!proxy || proxy.ready() === count)) return
    if (Date.now() > until) throw new Error(`${body.items.length} pods are there, not ${count}`)
    await sleep(200)
  }
}

interface Values {
  readonly replicas: number
  readonly rollOnConfigChange: boolean
  readonly image: { readonly tag: string }
  readonly config: Readonly<Record<string, unknown>>
  readonly pluginFiles: Readonly<Record<string, string>>
  readonly test: Readonly<Record<string, unknown>>
}

function pluginOf(guest: string): Values['pluginFiles'] {
  return { 'echo.wasm': Buffer.from(guestBytes(guest)).toString('base64') }
}

/** Measures what happens to requests meanwhile. */
async function measure(
  load: Pick<Load, 'answered' | 'counts'>,
  what: string,
  run: () => Promise<void>,
  mayLose = 0,
): Promise<void> {
  const [before, begun] = [{ ...load.counts }, performance.now()]
  await run()
  await load.answered(1_000) // the new pods, too
  const since = (name: keyof LoadCounts) => load.counts[name] - before[name]
  const [lost, wrong] = [since('resets') + since('refused'), since('wrong') + since('non2xx')]
  const seconds = (performance.now() - begun) / 1_000
  const row = {
    what,
    seconds,
    answers: since('answers'),
    lost,
    wrong,
    isExpected: lost <= mayLose && wrong === 0,
  }
  rows.push(row)
  console.log(row)
}

async function run(plane: ControlPlane, agents: readonly NodeAgent[], services: Services): Promise<void> {
  await plane.run('kubectl', 'create', 'namespace', NAMESPACE)
  await plane.run('kubectl', 'label', 'namespace', NAMESPACE, 'pod-security.kubernetes.io/enforce=restricted')
  let values: Values = {
    replicas: 2,
    rollOnConfigChange: true,
    image: { tag: '1' },
    config: { watch: true },
    pluginFiles: pluginOf('echo'),
    test: { path: '/echo', method: 'POST', body: 'a', status: 200, answer: 'a' },
  }
  await release(plane, undefined, values)
  const proxy = await openServiceProxy(plane, NAMESPACE, DEPLOYMENT)
  services.set(`http://${DEPLOYMENT}:80`, proxy.url)
  await settle(plane, proxy, 2)
  const load = startBoth(`${proxy.url}/echo`)
  const change = (what: string, next: Partial<Values>) => {
    values = { ...values, ...next }
    return measure(load, what, () => release(plane, proxy, values))
  }
  try {
    await measure(load, 'no change', () => load.answered(10_000))
    await measure(load, '`helm test`', () => must(plane, 'helm', 'test', 'r'))
    await change('another image', { image: { tag: '2' } })
    await change('another configuration', { config: { watch: true, logLevel: 'debug' } })
    await change('another plug-in, with new pods', { pluginFiles: pluginOf('upper') })
    await measure(load, 'a plug-in that cannot start, and `helm rollback`', async () => {
      await upgrade(plane, {
        ...values,
        pluginFiles: { 'echo.wasm': Buffer.from('no module').toString('base64') },
      })
      await restarted(plane)
      if (proxy.ready() !== 2) throw new Error(`${proxy.ready()} pods are ready, not the 2 of before`)
      await must(plane, 'helm', 'rollback', 'r')
      await settle(plane, proxy, values.replicas)
    })
    await change('`rollOnConfigChange: false`', { rollOnConfigChange: false })
    values = { ...values, pluginFiles: pluginOf('echo') }
    await measure(load, 'another plug-in, in running pods', async () => {
      await release(plane, proxy, values)
      await untilEchoed(proxy.url)
    })
    await change('from 2 to 6 pods', { replicas: 6 })
    await change('from 6 to 2 pods', { replicas: 2 })
    await change('from 2 to 4 pods', { replicas: 4 })
    const number = Number(proxy.busiest()?.split('.')[2])
    const lose = async () => {
      agents[number]?.lose()
      await replaced(plane, proxy, `machine-${number}`)
    }
    const pods = await countPods(plane, `machine-${number}`)
    await measure(load, 'a lost node of 3', lose, pods * (CONNECTIONS + SHORT))
    await load.answered(Math.max(1, REQUESTS - load.counts.answers))
  } finally {
    await load.stop()
    await proxy.stop()
  }
}

const isAnswer = (answer: string, body: string) => answer === body || answer === body.toUpperCase()

/** A load of both kinds of clients. */
function startBoth(url: string): Pick<Load, 'answered' | 'stop' | 'counts'> {
  const load = startLoad({ url, connections: CONNECTIONS, body: (id) => `id ${id}`, isAnswer })
  const short = { answers: 0, wrong: 0, non2xx: 0, resets: 0 }
  let isStopped = false
  const runClient = async (client: number) => {
    for (let serial = 0; !isStopped; serial++) {
      const body = `short ${client}-${serial}`
      try {
        const answer = await fetch(url, { method: 'POST', body, headers: { connection: 'close' } })
        const text = await answer.text()
        short.answers++
        if (!answer.ok) short.non2xx++
        else if (!isAnswer(text, body)) short.wrong++
      } catch {
        short.resets++
      }
    }
  }
  const clients = Array.from({ length: SHORT }, (_, client) => runClient(client))
  return {
    get counts() {
      const { answers, wrong, non2xx, resets, ...others } = load.counts
      return {
        ...others,
        ...{ answers: answers + short.answers, wrong: wrong + short.wrong },
        ...{ non2xx: non2xx + short.non2xx, resets: resets + short.resets },
      }
    },
    answered: (more) => load.answered(more),
    async stop() {
      isStopped = true
      const counts = await load.stop()
      await Promise.all(clients)
      return counts
    },
  }
}

/** Waits until the container of a pod has ended twice. */
async function restarted(plane: ControlPlane): Promise<void> {
  const until = Date.now() + 60_000
  for (;;) {
    const { body } = await plane.ask('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)
    const counts: number[] = body.items.map(
      ({ status }: ApiObject) => status.containerStatuses?.[0].restartCount ?? 0,
    )
    if (counts.some((count) => count >= 2)) return
    if (Date.now() > until) throw new Error('no pod has restarted')
    await sleep(200)
  }
}

/** Waits until all pods apply a ConfigMap. */
async function untilEchoed(url: string): Promise<void> {
  for (let inRow = 0; inRow < 20; ) {
    const answer = await fetch(`${url}/echo`, { method: 'POST', body: 'a', headers: { connection: 'close' } })
    inRow = (await answer.text()) === 'a' ? inRow + 1 : 0
    await sleep(20)
  }
}

/** A client that has lost one of the node's pods may meet another one, which the kernel has not ended yet. */
async function countPods(plane: ControlPlane, node: string): Promise<number> {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods?fieldSelector=spec.nodeName%3D${node}`
  return (await plane.ask('GET', path)).body.items.length
}

/** Waits until the pods of a lost node run elsewhere. */
async function replaced(plane: ControlPlane, proxy: ServiceProxy, lost: string): Promise<void> {
  const until = Date.now() + 120_000
  for (;;) {
    const { body } = await plane.ask('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)
    const living = body.items.filter(({ spec, metadata }: { spec: Named; metadata: Named }) => {
      return spec.nodeName !== lost && metadata.deletionTimestamp === undefined
    })
    if (living.length === 4 && proxy.ready() === 4) return
    if (Date.now() > until) throw new Error(`${living.length} pods are left, ${proxy.ready()} of them ready`)
    await sleep(200)
  }
}

interface Named {
  readonly nodeName?: string
  readonly deletionTimestamp?: string
}

function render(): string {
  const answers = rows.reduce((sum, row) => sum + row.answers, 0)
  return [
    '## Rollouts on Kubernetes',
    '',
    `The chart on Kubernetes ${KUBERNETES.slice(1)} with ${NODES} nodes, whose pods are processes of this machine (\`npx tsx test/long/rollout.ts\`). ${CONNECTIONS} clients that keep their connections, and ${SHORT} with a connection for each request, send`,
    'requests through a proxy that learns of changes a second late. Each request has a body of its own, which its answer must contain. *Lost*: no answer, a reset or',
    'a refused connection. *Wrong*: another body or status. Of a lost node, requests that its pods were answering are lost: at most one for each client and pod.',
    '',
    `${renderOrigin()}. ${answers.toLocaleString('en')} requests.`,
    '',
    '| change | seconds | requests | lost | wrong | |',
    '| --- | ---: | ---: | ---: | ---: | --- |',
    ...rows.map(
      ({ what, seconds, answers, lost, wrong, isExpected }) =>
        `| ${what} | ${seconds.toFixed(0)} | ${answers.toLocaleString('en')} | ${lost} | ${wrong} | ${isExpected ? 'as expected' : '**wrong**'} |`,
    ),
  ].join('\n')
}

const plane = await openControlPlane(6)
const agents: NodeAgent[] = []
const services: Services = new Map()
try {
  for (let number = 0; number < NODES; number++) agents.push(await openNodeAgent(plane, number, services))
  await run(plane, agents, services)
  keepSection('rollout', render())
  if (rows.some(({ isExpected }) => !isExpected)) process.exitCode = 1
} finally {
  for (const agent of agents) await agent.stop()
  await plane.stop()
  rmSync(folder, { recursive: true, force: true })
}
