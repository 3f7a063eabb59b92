import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { CallsMeasurements } from './calls.ts'
import { type EnginesMeasurements, renderEngines } from './engines.ts'
import { type FleetMeasurements, renderFleet } from './fleet/report.ts'
import type { FreshResults } from './fresh.ts'
import { renderScale, type ScaleMeasurements } from './growth.ts'
import type { GuestMeasurement } from './guest-memory/guest-memory.ts'
import { type LongLifeMeasurements, renderLongLife } from './guest-memory/long-life.ts'
import { renderGuests } from './guest-memory/report.ts'
import { type HostileRow, renderHostile } from './hostile/hostile.ts'
import type { InterruptsMeasurement } from './interrupts.ts'
import type { ManyMeasurements } from './many/many.ts'
import { renderMany } from './many/report.ts'
import type { Measurement } from './measure.ts'
import type { MergeResults } from './merge.ts'
import type { MeteringMeasurement } from './metering.ts'
import { isBusy, type Origin, renderNumber, renderOriginLine } from './origin.ts'
import { type PayloadMeasurement, renderPayload } from './payload.ts'
import { type PeersMeasurements, renderPeers, renderSummary } from './peers.ts'
import { type ProfilesMeasurements, renderProfiles } from './profiles.ts'
import { hasMarkers, updateReadme } from './readme.ts'
import { find, type Ratio, ratioTo, renderRange, renderTable, summarize } from './report.ts'
import { type ProcessesMeasurements, renderProcesses } from './serving-processes.ts'
import { article } from './sets/article.ts'
import { batching } from './sets/batching.ts'
import { http } from './sets/http.ts'
import { mcp } from './sets/mcp.ts'
import { operations } from './sets/operations.ts'
import { OURS } from './sets/peers.ts'
import { transports } from './sets/transports.ts'
import type { SoakMeasurement } from './soak.ts'
import { ratioOfStarts, renderStartup, type StartupMeasurements } from './startup.ts'
import { renderStreams, type StreamsMeasurements } from './streams/report.ts'
import { renderTails, type TailsMeasurements } from './tails.ts'

/*
 * The blocks of the pages are rendered from bench/results only, so that a new layout needs no new run. Times of a run on a
 * busy machine are never shown.
 */

/** A folder for each major version of Node.js. */
const RESULTS = new URL('results/', import.meta.url)

const PAGE = new URL('README.md', import.meta.url)

/** The page of a bench. */
function pageOf(bench: string): URL {
  return new URL(`${bench}.md`, RESULTS)
}

const PROJECT_README = new URL('../README.md', import.meta.url)

/** Benches whose counts and sizes are shown even if their times are not. */
const COUNTED: ReadonlySet<string> = new Set(['guest-memory', 'long-life'])

/** Whether any of a bench's figures can be shown after a run. */
export function isWorthKeeping(origin: Pick<Origin, 'bench' | 'quietness'>): boolean {
  return !isBusy(origin) || COUNTED.has(origin.bench)
}

/** The folder with the results of a major version of Node.js. */
export function folderOf(major: number): URL {
  return new URL(`node${major}/`, RESULTS)
}

/** Major versions of Node.js with which a bench has results, ascending. */
function versionsOf(bench: string): number[] {
  return measuredVersions().filter((major) => existsSync(new URL(`${bench}.json`, folderOf(major))))
}

function measuredVersions(): number[] {
  return readdirSync(RESULTS)
    .flatMap((folder) => /^node(\d+)$/.exec(folder)?.[1] ?? [])
    .map(Number)
    .toSorted((a, b) => a - b)
}

/** Benches that have results. */
export function measuredBenches(): string[] {
  const files = measuredVersions().flatMap((major) => readdirSync(folderOf(major)))
  return [...new Set(files.flatMap((file) => (file.endsWith('.json') ? [file.replace('.json', '')] : [])))]
}

/**
 * Puts the results of benches into the pages of bench/results, and the headlines of all into bench/README.md. The project's README gets the headlines, and a
 * short table of the peers, where it has their markers.
 */
export async function updateTables(benches: readonly string[]): Promise<void> {
  for (const bench of benches) updateReadme(pageOf(bench), bench, await renderBlock(bench))
  updateReadme(PAGE, 'headlines', renderHeadlines())
  if (hasMarkers(PROJECT_README, 'headlines')) {
    updateReadme(PROJECT_README, 'headlines', renderHeadlines('bench/'))
  }
  if (hasMarkers(PROJECT_README, 'peers')) updateReadme(PROJECT_README, 'peers', renderPeersSummary())
}

/** With the newest version of Node.js that has results. */
function renderPeersSummary(): string {
  const major = versionsOf('peers').at(-1) ?? 0
  const results = readResults<PeersMeasurements>('peers', major)
  return [
    `![peers](bench/results/node${major}/peers.svg)`,
    renderOriginLine(results),
    renderSummary(results.measurements),
  ].join('\n\n')
}

/**
 * A ratio from one run, with its interval, for the summary.
 *
 * @param folder - The path of the folder of benches from where they are shown.
 */
export function renderHeadlines(folder = ''): string {
  const headlines: readonly Headline[] = [
    {
      bench: 'peers',
      what: 'CPU per request of the Extism SDK by hand in a Fastify app, divided by that of wasm-serve',
      ratio: (major) => cpuRatio('peers', major, 'Fastify + Extism SDK, by hand', OURS, 100),
    },
    {
      bench: 'peers',
      what: 'CPU per request of wasm-serve, divided by that of a Fastify app without a plug-in',
      ratio: (major) => cpuRatio('peers', major, OURS, 'Fastify, echo', 100),
    },
    {
      bench: 'batching',
      what: 'CPU per request with the calls of a turn together, divided by that of calls one by one',
      ratio: (major) => cpuRatio('batching', major, 'together', 'one by one', 128),
    },
    {
      bench: 'calls',
      what: 'Time of a call with 8 bytes on the Extism SDK, divided by that on the kernel',
      ratio: (major) => {
        const [hello] = readResults<CallsMeasurements>('calls', major).calls
        return summarize(hello?.rounds.map(({ sdk, kernel }) => sdk / kernel) ?? [])
      },
    },
    {
      bench: 'startup',
      what: 'Time from the command to the first answer, divided by that of a Fastify app without a plug-in',
      ratio: (major) => {
        const [echo, ours] = readResults<StartupMeasurements>('startup', major).starts
        return ours ? ratioOfStarts(ours, echo) : summarize([])
      },
    },
  ]
  const rows = headlines.flatMap(({ bench, what, ratio }) =>
    versionsOf(bench)
      .filter((major) => !isBusy(readResults(bench, major)))
      .map((major) => {
        const found = ratio(major)
        const link = `[${bench}](${folder}results/${bench}.md)`
        return `| ${[what, major, renderNumber(found.median, 2), renderRange(found), link].join(' | ')} |`
      }),
  )
  return [
    '| ratio | Node.js | median | 95 % interval | measured by |',
    '| --- | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}

interface Headline {
  readonly bench: string
  readonly what: string
  /** @param major - The version of Node.js. */
  ratio(major: number): Ratio
}

function cpuRatio(bench: string, major: number, name: string, to: string, connections: number): Ratio {
  const { measurements } = readResults<SetResults>(bench, major)
  const [measured, reference] = [find(measurements, name, connections), find(measurements, to, connections)]
  return ratioTo(measured, reference, 'cpuMicrosPerRequest')
}

/** The results of a bench with one set. */
interface SetResults {
  readonly measurements: readonly Measurement[]
}

/** The results of a bench with a major version of Node.js. */
function readResults<Data = object>(bench: string, major: number): Origin & Data {
  return JSON.parse(readFileSync(new URL(`${bench}.json`, folderOf(major)), 'utf8'))
}

/** The text of its page between the markers of a bench: the tables of each version of Node.js. */
export async function renderBlock(bench: string): Promise<string> {
  const majors = versionsOf(bench)
  const shown = majors.filter((major) => isWorthKeeping(readResults(bench, major)))
  if (shown.length === 0) {
    return `No figures: other programs used the machine during the last run. On an idle machine,
\`npm run bench -- ${bench} --update\` measures them and puts them here.`
  }
  return (await Promise.all(shown.map((major) => renderVersion(bench, major)))).join('\n\n')
}

async function renderVersion(bench: string, major: number): Promise<string> {
  const results = readResults(bench, major)
  const pictures = picturesOf(bench, major).map((name) => `![${name}](node${major}/${name}.svg)`)
  const leftOut = isBusy(results)
    ? ['Counts and sizes only. Times are left out, because other programs used the machine during this run.']
    : []
  return [...pictures, renderOriginLine(results), ...leftOut, await renderFigures(bench, major)].join('\n\n')
}

function picturesOf(bench: string, major: number): string[] {
  const prefixes: Readonly<Record<string, readonly string[]>> = { scale: ['connections', 'routes'] }
  const wanted = prefixes[bench] ?? [bench]
  return readdirSync(folderOf(major))
    .filter((file) => file.endsWith('.svg'))
    .map((file) => file.replace('.svg', ''))
    .filter((name) => wanted.some((prefix) => name === prefix || name.startsWith(`${prefix}-`)))
}

async function renderFigures(bench: string, major: number): Promise<string> {
  switch (bench) {
    case 'article':
      return renderTable(readResults<SetResults>(bench, major).measurements, article)
    case 'http':
      return renderTable(readResults<SetResults>(bench, major).measurements, http)
    case 'transports':
      return renderTable(readResults<SetResults>(bench, major).measurements, transports)
    case 'operations':
      return renderTable(readResults<SetResults>(bench, major).measurements, operations)
    case 'batching':
      return renderTable(readResults<SetResults>(bench, major).measurements, batching)
    case 'mcp':
      return renderTable(readResults<SetResults>(bench, major).measurements, mcp)
    case 'peers':
      return renderPeers(readResults<PeersMeasurements>(bench, major))
    case 'tails':
      return renderTails(readResults<TailsMeasurements>(bench, major))
    case 'payload':
      return renderPayload(readResults<{ measurements: PayloadMeasurement[] }>(bench, major).measurements)
    case 'engines':
      return renderEngines(readResults<EnginesMeasurements>(bench, major))
    case 'scale':
      return renderScale(readResults<ScaleMeasurements>(bench, major))
    case 'many':
      return renderMany(readResults<ManyMeasurements>(bench, major))
    case 'processes':
      return renderProcesses(readResults<ProcessesMeasurements>(bench, major))
    case 'fleet':
      return renderFleet(readResults<FleetMeasurements>(bench, major))
    case 'streams':
      return renderStreams(readResults<StreamsMeasurements>(bench, major))
    case 'startup':
      return renderStartup(readResults<StartupMeasurements>(bench, major))
    case 'profile':
      return renderProfiles(readResults<ProfilesMeasurements>(bench, major))
    case 'guest-memory': {
      const results = readResults<{ measured: GuestMeasurement[] }>(bench, major)
      return renderGuests(results.measured, !isBusy(results))
    }
    case 'long-life':
      return renderLongLife(readResults<LongLifeMeasurements>(bench, major))
    case 'hostile':
      return renderHostile(readResults<{ rows: HostileRow[] }>(bench, major).rows)
    // These load the built files.
    case 'soak':
      return (await import('./soak.ts')).renderSoak(
        readResults<{ measured: SoakMeasurement[] }>(bench, major).measured,
      )
    case 'fresh':
      return (await import('./fresh.ts')).renderFresh(readResults<FreshResults>(bench, major))
    case 'calls':
      return (await import('./calls.ts')).renderCalls(readResults<CallsMeasurements>(bench, major))
    case 'interrupts':
      return (await import('./interrupts.ts')).renderInterrupts(
        readResults<{ measured: InterruptsMeasurement[] }>(bench, major).measured,
      )
    case 'merge':
      return (await import('./merge.ts')).renderMerge(readResults<MergeResults>(bench, major))
    case 'metering':
      return (await import('./metering.ts')).renderMetering(readResults<MeteringMeasurement>(bench, major))
    default:
      throw new Error(`no table for the results of ${bench}`)
  }
}
