import { readdirSync, readFileSync } from 'node:fs'
import type { CallsMeasurements } from './calls.ts'
import { type EnginesMeasurements, renderEngines } from './engines.ts'
import { renderScale, type ScaleMeasurements } from './growth.ts'
import type { GuestMeasurement } from './guest-memory/guest-memory.ts'
import { type LongLifeMeasurements, renderLongLife } from './guest-memory/long-life.ts'
import { renderGuests } from './guest-memory/report.ts'
import { type HostileRow, renderHostile } from './hostile/hostile.ts'
import type { Measurement } from './measure.ts'
import type { MergeMeasurement } from './merge.ts'
import type { MeteringMeasurement } from './metering.ts'
import { describeMachine, isBusy, type Origin, renderNumber } from './origin.ts'
import { type PayloadMeasurement, renderPayload } from './payload.ts'
import { type PeersMeasurements, renderPeers, renderSummary } from './peers.ts'
import { type ProfileLine, renderProfile } from './profile.ts'
import { hasMarkers, updateReadme } from './readme.ts'
import { find, type Ratio, ratioTo, renderRange, renderTable, summarize } from './report.ts'
import { article } from './sets/article.ts'
import { batching } from './sets/batching.ts'
import { http } from './sets/http.ts'
import { operations } from './sets/operations.ts'
import { OURS } from './sets/peers.ts'
import type { SoakMeasurement } from './soak.ts'
import { ratioOfStarts, renderStartup, type StartupMeasurements } from './startup.ts'

/*
 * The blocks of bench/README.md are rendered from bench/results only, so that a new layout needs no new run. Times of a run on a
 * busy machine are never shown.
 */

const RESULTS = new URL('results/', import.meta.url)

const PAGE = new URL('README.md', import.meta.url)

const PROJECT_README = new URL('../README.md', import.meta.url)

/** Benches whose counts and sizes are shown even if their times are not. */
const COUNTED: ReadonlySet<string> = new Set(['guest-memory', 'long-life'])

/** Whether any of a bench's figures can be shown after a run. */
export function isWorthKeeping(origin: { readonly bench: string; readonly busy: number }): boolean {
  return !isBusy(origin) || COUNTED.has(origin.bench)
}

/** Benches that have results. */
export function measuredBenches(): string[] {
  return readdirSync(RESULTS).flatMap((file) => (file.endsWith('.json') ? [file.replace('.json', '')] : []))
}

/**
 * Puts the results of benches, and the headlines of all, into bench/README.md. The project's README gets the headlines, and a
 * short table of the peers, where it has their markers.
 */
export async function updateTables(benches: readonly string[]): Promise<void> {
  for (const bench of benches) updateReadme(PAGE, bench, await renderBlock(bench))
  updateReadme(PAGE, 'headlines', renderHeadlines())
  if (hasMarkers(PROJECT_README, 'headlines')) {
    updateReadme(PROJECT_README, 'headlines', renderHeadlines('bench/README.md'))
  }
  if (hasMarkers(PROJECT_README, 'peers')) updateReadme(PROJECT_README, 'peers', renderPeersSummary())
}

function renderPeersSummary(): string {
  const results = readResults<PeersMeasurements>('peers')
  return [
    '![peers](bench/results/peers.svg)',
    `${describeMachine(results)}: \`${results.command}\``,
    renderSummary(results.measurements),
  ].join('\n\n')
}

/**
 * A ratio from one run, with its spread, for the summary.
 *
 * @param page - The path of bench/README.md from where they are shown.
 */
export function renderHeadlines(page = ''): string {
  const headlines: readonly Headline[] = [
    {
      bench: 'peers',
      what: 'CPU per request of the Extism SDK by hand in a Fastify app, divided by that of wasm-serve',
      anchor: 'other-servers',
      ratio: () => cpuRatio('peers', 'Fastify + Extism SDK, by hand', OURS, 100),
    },
    {
      bench: 'peers',
      what: 'CPU per request of wasm-serve, divided by that of a Fastify app without a plug-in',
      anchor: 'other-servers',
      ratio: () => cpuRatio('peers', OURS, 'Fastify, echo', 100),
    },
    {
      bench: 'batching',
      what: 'CPU per request with the calls of a turn together, divided by that of calls one by one',
      anchor: 'batching',
      ratio: () => cpuRatio('batching', 'together', 'one by one', 128),
    },
    {
      bench: 'calls',
      what: 'Time of a call with 8 bytes on the Extism SDK, divided by that on the kernel',
      anchor: 'calls-without-http',
      ratio: () => {
        const [hello] = readResults<CallsMeasurements>('calls').calls
        return summarize(hello?.rounds.map(({ sdk, kernel }) => sdk / kernel) ?? [])
      },
    },
    {
      bench: 'startup',
      what: 'Time from the command to the first answer, divided by that of a Fastify app without a plug-in',
      anchor: 'start-up-and-memory',
      ratio: () => {
        const [echo, ours] = readResults<StartupMeasurements>('startup').starts
        return ours ? ratioOfStarts(ours, echo) : summarize([])
      },
    },
  ]
  const rows = headlines
    .filter(({ bench }) => !isBusy(readResults(bench)))
    .map(({ bench, what, anchor, ratio }) => {
      const found = ratio()
      const cells = [what, renderNumber(found.median, 2), renderRange(found), `[${bench}](${page}#${anchor})`]
      return `| ${cells.join(' | ')} |`
    })
  return ['| ratio | median | least to most | measured by |', '| --- | ---: | ---: | --- |', ...rows].join(
    '\n',
  )
}

interface Headline {
  readonly bench: string
  readonly what: string
  /** Of its section. */
  readonly anchor: string
  ratio(): Ratio
}

function cpuRatio(bench: string, name: string, to: string, connections: number): Ratio {
  const { measurements } = readResults<SetResults>(bench)
  const [measured, reference] = [find(measurements, name, connections), find(measurements, to, connections)]
  return ratioTo(measured, reference, 'cpuMicrosPerRequest')
}

/** The results of a bench with one set. */
interface SetResults {
  readonly measurements: readonly Measurement[]
}

/** The results of a bench. */
function readResults<Data = object>(bench: string): Origin & Data {
  return JSON.parse(readFileSync(new URL(`${bench}.json`, RESULTS), 'utf8'))
}

/** The text of bench/README.md between the markers of a bench. */
export async function renderBlock(bench: string): Promise<string> {
  const results = readResults(bench)
  if (!isWorthKeeping(results)) {
    return `No figures: other programs used the machine during the last run. On an idle machine,
\`npm run bench -- ${bench} --update\` measures them and puts them here.`
  }
  const pictures = picturesOf(bench).map((name) => `![${name}](results/${name}.svg)`)
  const origin = `${describeMachine(results)}: \`${results.command}\``
  const leftOut = isBusy(results)
    ? ['Counts and sizes only. Times are left out, because other programs used the machine during this run.']
    : []
  return [...pictures, origin, ...leftOut, await renderFigures(bench)].join('\n\n')
}

function picturesOf(bench: string): string[] {
  const prefixes: Readonly<Record<string, readonly string[]>> = { scale: ['connections', 'routes'] }
  const wanted = prefixes[bench] ?? [bench]
  return readdirSync(RESULTS)
    .filter((file) => file.endsWith('.svg'))
    .map((file) => file.replace('.svg', ''))
    .filter((name) => wanted.some((prefix) => name === prefix || name.startsWith(`${prefix}-`)))
}

async function renderFigures(bench: string): Promise<string> {
  switch (bench) {
    case 'article':
      return renderTable(readResults<SetResults>(bench).measurements, article)
    case 'http':
      return renderTable(readResults<SetResults>(bench).measurements, http)
    case 'operations':
      return renderTable(readResults<SetResults>(bench).measurements, operations)
    case 'batching':
      return renderTable(readResults<SetResults>(bench).measurements, batching)
    case 'peers':
      return renderPeers(readResults<PeersMeasurements>(bench))
    case 'payload':
      return renderPayload(readResults<{ measurements: PayloadMeasurement[] }>(bench).measurements)
    case 'engines':
      return renderEngines(readResults<EnginesMeasurements>(bench))
    case 'scale':
      return renderScale(readResults<ScaleMeasurements>(bench))
    case 'startup':
      return renderStartup(readResults<StartupMeasurements>(bench))
    case 'profile':
      return renderProfile(readResults<{ lines: ProfileLine[] }>(bench).lines)
    case 'guest-memory': {
      const results = readResults<{ measured: GuestMeasurement[] }>(bench)
      return renderGuests(results.measured, !isBusy(results))
    }
    case 'long-life':
      return renderLongLife(readResults<LongLifeMeasurements>(bench))
    case 'hostile':
      return renderHostile(readResults<{ rows: HostileRow[] }>(bench).rows)
    // These load the built files.
    case 'soak':
      return (await import('./soak.ts')).renderSoak(
        readResults<{ measured: SoakMeasurement[] }>(bench).measured,
      )
    case 'calls':
      return (await import('./calls.ts')).renderCalls(readResults<CallsMeasurements>(bench))
    case 'merge':
      return (await import('./merge.ts')).renderMerge(
        readResults<{ measured: MergeMeasurement[] }>(bench).measured,
      )
    case 'metering':
      return (await import('./metering.ts')).renderMetering(readResults<MeteringMeasurement>(bench))
    default:
      throw new Error(`no table for the results of ${bench}`)
  }
}
