import { type Bench, effortOf, type Report, USUAL } from './bench.ts'
import { post } from './client.ts'
import { assembleGuestFile } from './guest.ts'
import { type Measurement, medians, type NumberedRun } from './measure.ts'
import { renderNumber } from './origin.ts'
import { findPeers } from './peers/build.ts'
import { renderLineChart } from './plot.ts'
import { judgeAtMost, ratioTo, renderRatio } from './report.ts'
import { runUnderLoad, warmUp } from './run.ts'
import { CERTIFICATE, COMMAND, KEY, noPlugin, noPluginOver, type Scenario } from './scenario.ts'
import { startServer } from './server-process.ts'
import type { Settings } from './settings.ts'

/** Measures the cost of payloads: bodies from 8 B to 1 MiB through guests, on each runtime and engine. */
export const payload: Bench = { name: 'payload', minutes: 10, run }

/** A server at one size of body. */
export interface PayloadMeasurement extends Measurement {
  readonly bytes: number
}

const SIZES = [8, 1_024, 65_536, 1_048_576]

/** Few connections, so that the largest bodies do not fill the memory. */
const CONNECTIONS = [10]

/** Requests of each size before it is counted. */
const WARM_UP_REQUESTS = 20

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const { effort, args } = effortOf(settings, USUAL)
  const [connections = 1] = settings.connections ?? CONNECTIONS
  const pressure = { tool: effort.tool, connections, seconds: effort.seconds }
  const scenarios = await openScenarios()
  const measured = new Map(scenarios.map(({ name }) => [name, SIZES.map((): NumberedRun[] => [])]))
  for (let number = 1; number <= effort.runs; number++) {
    for (const scenario of scenarios) {
      const server = await startServer(scenario)
      try {
        await warmUp(withBody(scenario, 8), server, { ...pressure, seconds: effort.warmUpSeconds })
        for (const [i, bytes] of SIZES.entries()) {
          const sized = withBody(scenario, bytes)
          for (let sent = 0; sent < WARM_UP_REQUESTS; sent++) await post(server.url, sized.body)
          measured.get(scenario.name)?.[i]?.push({ number, ...(await runUnderLoad(sized, server, pressure)) })
        }
      } finally {
        server.stop()
      }
      progress(`run ${number}: ${scenario.name}`)
    }
  }
  const measurements = [...measured].flatMap(([scenario, bySize]) =>
    bySize.map((runs, i) => ({
      scenario,
      connections,
      bytes: SIZES[i] ?? 0,
      ...medians(runs),
      runs,
      broken: [],
    })),
  )
  return {
    args: `${args} --connections ${connections}`,
    markdown: renderPayload(measurements),
    data: { measurements },
    plots: {
      'payload-copy': plot(measurements, 'copy', connections),
      'payload-count-vowels': plot(measurements, 'count-vowels', connections),
    },
  }
}

const ECHO = 'Fastify, echo'
const COPY = 'copy, kernel'
const [ECHO_OVER_TLS, COPY_OVER_TLS] = ['Fastify, echo, HTTPS', 'copy, kernel, HTTPS']
const AXUM = 'copy, Rust axum + Extism, pool'

/** All that differs between the guests is the plug-in and its answers. */
async function openScenarios(): Promise<Scenario[]> {
  const copy = await assembleGuestFile('copy')
  const vowels = 'plugins/count-vowels-rust/count-vowels.wasm'
  const reference = { ...noPlugin(''), name: ECHO }
  const guest = (name: string, plugin: string, flags: readonly string[]): Scenario => ({
    ...reference,
    name,
    command: [process.execPath, ...COMMAND, ...flags, plugin],
  })
  const counting = (scenario: Scenario): Scenario => ({
    ...scenario,
    answer: countOf,
    isRight: (body, answer) => answer.startsWith(countOf(body)),
  })
  const { axum } = findPeers()
  const sdk = ['--runtime', 'sdk']
  const pool = ['pool', copy, 'copy']
  const foreign = (name: string, ...command: [string, ...string[]]) => ({ ...reference, name, command })
  return [
    reference,
    guest(COPY, copy, []),
    guest('copy, kernel, 1 worker', copy, ['--workers', '1']),
    ...(axum ? [foreign(AXUM, axum, ...pool)] : []),
    guest('copy, sdk', copy, sdk),
    { ...noPluginOver('https'), name: ECHO_OVER_TLS },
    guest(COPY_OVER_TLS, copy, ['--tls-cert', CERTIFICATE, '--tls-key', KEY]),
    ...(axum ? [foreign(`${AXUM}, HTTPS`, axum, 'tls', CERTIFICATE, KEY, ...pool)] : []),
    counting(guest('count-vowels, kernel', vowels, [])),
    counting(guest('count-vowels, sdk', vowels, sdk)),
  ]
}

/** The prefix of an answer: the rest is the total size of all bodies so far. */
function countOf(body: string): string {
  let count = counts.get(body)
  if (count === undefined) {
    count = body.match(/[aeiou]/gi)?.length ?? 0
    counts.set(body, count)
  }
  return `{"count":${count},`
}

const counts = new Map<string, number>()

function withBody(scenario: Scenario, bytes: number): Scenario {
  return {
    ...scenario,
    body: 'Bob Morane and the 7 crosses of lead; '.repeat(bytes / 38 + 1).slice(0, bytes),
  }
}

export function renderPayload(measurements: readonly PayloadMeasurement[]): string {
  const find = (name: string, bytes: number) =>
    measurements.find((each) => each.scenario === name && each.bytes === bytes)
  const compare = (name: string, to: string, bytes: number) => {
    const [measured, reference] = [find(name, bytes), find(to, bytes)]
    return measured && reference ? ratioTo(measured, reference, 'cpuMicrosPerRequest') : undefined
  }
  const promises = LIMITS.flatMap(([name, to, bytes, limit]) => {
    const ratio = compare(name, to, bytes)
    if (!ratio) return []
    const judged = `${renderRatio(ratio)} of the CPU per request, ${judgeAtMost(ratio, limit)}`
    return [`- \`${name}\` to \`${to}\`, ${renderBytes(bytes)}: ${judged}`]
  })
  return [
    'CPU µs/request:',
    '',
    table(measurements, (run) => renderNumber(run.cpuMicrosPerRequest, 1)),
    '',
    `CPU per request, relative to \`${ECHO}\`, with the 95 % interval:`,
    '',
    table(measurements, ({ scenario, bytes }) => {
      const ratio = compare(scenario, ECHO, bytes)
      return ratio ? renderRatio(ratio) : ''
    }),
    '',
    'Requests/s:',
    '',
    table(
      measurements,
      (run) => renderNumber(run.requestsPerSecond, 0) + (run.generatorLoad > 0.9 ? '*' : ''),
    ),
    '',
    "\\* The load generator was busy for more than 90 % of the time: it is its limit rather than the server's.",
    '',
    ...promises,
  ].join('\n')
}

/** Maximum CPU per request of one, as a multiple of another's, at a size. */
const LIMITS = [
  [COPY, ECHO, 65_536, 1.2],
  [COPY, ECHO, 1_048_576, 1.1],
  [COPY, AXUM, 65_536, 1],
  [COPY, AXUM, 1_048_576, 1],
  [COPY_OVER_TLS, ECHO_OVER_TLS, 65_536, 1.3],
  [COPY_OVER_TLS, ECHO_OVER_TLS, 1_048_576, 1.1],
] as const

function table(
  measurements: readonly PayloadMeasurement[],
  cell: (measurement: PayloadMeasurement) => string,
): string {
  const names = [...new Set(measurements.map(({ scenario }) => scenario))]
  const rows = names.map((name) => {
    const cells = measurements.filter(({ scenario }) => scenario === name).map(cell)
    return `| ${[name, ...cells].join(' | ')} |`
  })
  return [
    `| scenario | ${SIZES.map(renderBytes).join(' | ')} |`,
    `| --- |${' ---: |'.repeat(SIZES.length)}`,
    ...rows,
  ].join('\n')
}

function renderBytes(bytes: number): string {
  if (bytes >= 1_048_576) return `${bytes / 1_048_576} MiB`
  return bytes >= 1_024 ? `${bytes / 1_024} KiB` : `${bytes} B`
}

function plot(measurements: readonly PayloadMeasurement[], guest: string, connections: number): string {
  const names = [...new Set(measurements.map(({ scenario }) => scenario))]
  return renderLineChart({
    title: `CPU time of the server per request, by the size of its body: ${guest}`,
    note: `${connections} connections. Less is better.`,
    x: { label: 'bytes of the body', scale: 'log2' },
    y: { label: 'microseconds', scale: 'log10' },
    lines: names
      .filter((name) => name === ECHO || name.startsWith(`${guest}, `))
      .map((name) => ({
        name: name.replace(`${guest}, `, ''),
        points: measurements
          .filter(({ scenario }) => scenario === name)
          .map(({ bytes, cpuMicrosPerRequest }) => [bytes, cpuMicrosPerRequest] as const),
      })),
  })
}
