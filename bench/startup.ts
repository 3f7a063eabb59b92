import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Bench, Report } from './bench.ts'
import { post } from './client.ts'
import { renderMib, renderNumber } from './origin.ts'
import { findPeers } from './peers/build.ts'
import { renderBarChart } from './plot.ts'
import { judgeAtMost, type Ratio, renderRange, renderRatio, summarize } from './report.ts'
import {
  bareHttp,
  COMMAND,
  END_ON_SIGNAL,
  HELLO,
  HELLO_BODY,
  hello,
  isRight,
  noPlugin,
  ours,
  type Scenario,
  UNBUNDLED,
  withNodeFlags,
} from './scenario.ts'
import { startServer } from './server-process.ts'
import { nativeServers } from './sets/peers.ts'
import type { Settings } from './settings.ts'
import { median } from './statistics.ts'

/** Measures the time from the command to the first answer, and the memory of an idle server. */
export const startup: Bench = { name: 'startup', minutes: 3, run }

/** One start of a server. */
interface Start {
  /** Time from the start of its process to the end of its first answer. */
  readonly ms: number
  /** CPU time of the process until then. */
  readonly cpuMs: number
  /** The resident memory when the server was idle again. */
  readonly memoryBytes: number
}

/** The medians of some starts, which were interleaved with those of the others. */
export interface StartMeasurement extends Start {
  readonly scenario: string
  readonly starts: readonly Start[]
  /** The median of the ratios to the first scenario's start of the same round. */
  readonly ratio: number
}

const OURS = 'wasm-serve'

const THREADED = 'wasm-serve, 1 worker'

const TEN = 'wasm-serve, a config file with 10 plug-ins'

/** Maximum start time and memory, relative to a Fastify app with one route. */
const LIMITS = [
  [OURS, 'ms', 1.15],
  [TEN, 'ms', 1.4],
  [THREADED, 'ms', 1.3],
  [OURS, 'memoryBytes', 1.25],
] as const

const PLUGINS = [1, 2, 5, 10]

const WORKERS = [1, 2, 4]

async function run({ runs, quick }: Settings, progress: (line: string) => void): Promise<Report> {
  const rounds = runs ?? (quick ? 3 : 21)
  const files = numberedPlugins(Math.max(...PLUGINS))
  const scenarios = [...startScenarios(), configured(files), ...nativeServers(findPeers())]
  const starts = await measureStarts(scenarios, rounds, progress)
  const fewer = Math.ceil(rounds / 5)
  const plugins = await measureStarts(
    PLUGINS.map((count) => several(files.slice(0, count))),
    fewer,
    progress,
  )
  const workers = await measureStarts([ours('0 workers'), ...WORKERS.map(withWorkers)], fewer, progress)
  return {
    args: ` --runs ${rounds}`,
    markdown: renderStartup({ starts, plugins, workers }),
    data: { starts, plugins, workers },
    plots: { startup: plot(starts) },
  }
}

export interface StartupMeasurements {
  readonly starts: readonly StartMeasurement[]
  readonly plugins: readonly StartMeasurement[]
  readonly workers: readonly StartMeasurement[]
}

export function renderStartup({ starts, plugins, workers }: StartupMeasurements): string {
  return [
    renderStarts(starts),
    renderMemory('plug-ins', plugins, PLUGINS),
    renderMemory('workers', workers, [0, ...WORKERS]),
  ].join('\n\n')
}

/** The first is the baseline of the others. */
function startScenarios(): Scenario[] {
  const plain = ours(OURS)
  const withoutCache = ['env', 'NODE_DISABLE_COMPILE_CACHE=1', ...plain.command] as const
  return [
    { ...noPlugin(HELLO_BODY), name: 'Fastify, echo' },
    plain,
    { ...bareHttp(HELLO_BODY), name: 'node:http, echo' },
    { ...plain, name: 'wasm-serve, no compile cache', command: withoutCache },
    { ...withNodeFlags(END_ON_SIGNAL, plain), name: 'wasm-serve, packages as installed' },
    hello('wasm-serve, not bundled', ...UNBUNDLED),
    ours('wasm-serve, --stall-ms 0', '--stall-ms', '0'),
    ours(THREADED, '--workers', '1'),
    ours('wasm-serve, --runtime sdk', '--runtime', 'sdk'),
  ]
}

/** Starts servers in turns. @throws when one does not start, or answers wrongly. */
export async function measureStarts(
  scenarios: readonly Scenario[],
  rounds: number,
  progress: (line: string) => void,
): Promise<StartMeasurement[]> {
  const measured = scenarios.map((scenario) => ({ scenario, starts: [] as Start[] }))
  for (let round = 0; round <= rounds; round++) {
    for (const { scenario, starts } of measured) {
      const start = await startOnce(scenario, round === 0)
      if (round > 0) starts.push(start) // the first round fills the caches
    }
  }
  const [reference] = measured
  return measured.map(({ scenario, starts }) => {
    const of = (key: keyof Start) => median(starts.map((start) => start[key]))
    const ratios = starts.map(({ ms }, i) => ms / (reference?.starts[i]?.ms ?? Number.NaN))
    progress(`${scenario.name}: ${of('ms').toFixed(0)} ms`)
    return {
      scenario: scenario.name,
      ms: of('ms'),
      cpuMs: of('cpuMs'),
      memoryBytes: of('memoryBytes'),
      starts,
      ratio: median(ratios),
    }
  })
}

/** @param endsBySignal - Whether the server ends by itself: Node.js writes its compile cache then. */
async function startOnce(scenario: Scenario, endsBySignal: boolean): Promise<Start> {
  const begun = performance.now()
  const server = await startServer(scenario)
  try {
    const { status, body, at } = await post(server.url, scenario.body)
    const cpuMs = server.cpuMicros() / 1_000
    if (status !== 200 || !isRight(scenario, scenario.body, body))
      throw new Error(`answered ${status} ${body}`)
    for (const path of scenario.paths ?? []) await post(new URL(path, server.url).href, scenario.body)
    await server.idle()
    const memoryBytes = server.memoryBytes()
    if (endsBySignal) await server.end()
    return { ms: at - begun, cpuMs, memoryBytes }
  } finally {
    server.stop()
  }
}

/** Creates files of one plug-in with different bytes: V8 shares the code of equal ones. */
export function numberedPlugins(count: number): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-plugins-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const wasm = readFileSync(HELLO)
  return Array.from({ length: count }, (_, i) => {
    const path = join(folder, `hello-${i}.wasm`)
    writeFileSync(path, Buffer.concat([wasm, CUSTOM_SECTION, Buffer.of(i)]))
    return path
  })
}

/** Identifier 0, 3 bytes long, with a name of one letter; the rest is the section's content. */
const CUSTOM_SECTION = Buffer.of(0, 3, 1, 0x6e)

/** Each of them gets one request: code and memory of a plug-in without requests cost next to nothing. */
function several(files: readonly string[]): Scenario {
  const scenario = ours(`${files.length} plug-ins`)
  const [program = '', ...args] = [...scenario.command.slice(0, -1), ...files]
  const paths = files.length === 1 ? ['/'] : files.map((_, i) => `/hello-${i}`)
  return { ...scenario, command: [program, ...args], path: paths[0] ?? '/', paths }
}

/** With a config file. Only the first plug-in is called. */
export function configured(files: readonly string[]): Scenario {
  const path = join(dirname(files[0] ?? ''), 'config.json')
  const routes = files.map((plugin, i) => ({ url: `/hello-${i}`, plugin }))
  writeFileSync(path, JSON.stringify({ routes }))
  return { ...ours(TEN), command: [process.execPath, ...COMMAND, '-c', path], path: '/hello-0' }
}

function withWorkers(count: number): Scenario {
  return ours(`${count} workers`, '--workers', String(count), '--spare-workers', '0')
}

function renderStarts(starts: readonly StartMeasurement[]): string {
  const [reference] = starts
  const rows = starts.map((start) => {
    const relative = ratioOfStarts(start, reference)
    const cells = [
      start.scenario,
      renderNumber(relative.median, 2),
      renderRange(relative),
      renderNumber(start.ms, 0),
      renderNumber(start.cpuMs, 0),
      renderMib(start.memoryBytes),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| scenario | relative time | 95 % interval | to the first answer ms | CPU ms | idle memory MiB |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    '',
    ...LIMITS.flatMap(([scenario, key, limit]) => {
      const measured = starts.find((start) => start.scenario === scenario)
      if (!measured) return []
      const relative = ratioOfStarts(measured, reference, key)
      const what = key === 'ms' ? 'time' : 'idle memory'
      return [`- \`${scenario}\`: ${renderRatio(relative)} of the ${what}, ${judgeAtMost(relative, limit)}`]
    }),
  ].join('\n')
}

/** Compares starts of the same round. */
export function ratioOfStarts(
  { starts }: Pick<StartMeasurement, 'starts'>,
  reference: Pick<StartMeasurement, 'starts'> | undefined,
  key: 'ms' | 'memoryBytes' = 'ms',
): Ratio {
  return summarize(starts.map((start, i) => start[key] / (reference?.starts[i]?.[key] ?? Number.NaN)))
}

function renderMemory(
  what: string,
  measured: readonly StartMeasurement[],
  counts: readonly number[],
): string {
  const [first] = measured
  const rows = measured.map(({ ms, memoryBytes }, i) => {
    const more = (counts[i] ?? 0) - (counts[0] ?? 0)
    const each = more > 0 ? renderMib((memoryBytes - (first?.memoryBytes ?? Number.NaN)) / more) : ''
    return `| ${[counts[i], renderNumber(ms, 0), renderMib(memoryBytes), each].join(' | ')} |`
  })
  return [
    `| ${what} | to the first answer ms | idle memory MiB | each MiB |`,
    '| ---: | ---: | ---: | ---: |',
    ...rows,
  ].join('\n')
}

function plot(starts: readonly StartMeasurement[]): string {
  return renderBarChart({
    title: 'From the command to the first answer',
    note: 'Medians of interleaved starts; the files were in memory.',
    axis: { label: 'milliseconds' },
    bars: starts.map(({ scenario, ms }) => ({
      name: scenario,
      value: ms,
      text: renderNumber(ms, 0),
      isMarked: scenario === OURS,
    })),
  })
}
