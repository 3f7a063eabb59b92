import type { Bench, Report } from './bench.ts'
import { effortOf } from './bench.ts'
import { fireSockets, type SocketLoad } from './load/sockets.ts'
import { renderNumber } from './origin.ts'
import { findPeers } from './peers/build.ts'
import { renderRange, summarize, verdictOn } from './report.ts'
import { HELLO_BODY, isRight, noPlugin, ours, type Scenario } from './scenario.ts'
import { type ServerProcess, startServer } from './server-process.ts'
import { nativeServers } from './sets/peers.ts'
import type { Settings } from './settings.ts'
import { measureSlowRoute, renderSlowRoute, type SlowRouteMeasurement } from './slow-route.ts'
import { latencies, median } from './statistics.ts'

/** Measures the slowest answers: with more and more connections, and at fixed rates. */
export const tails: Bench = { name: 'tails', minutes: 11, run }

/** 64 calls may wait for the end of a turn: 65 are one more. */
const CONNECTIONS = [1, 16, 64, 65, 100, 128, 256, 1_000]

/** Rates, as shares of the requests/s that the slowest server answers on {@link RATE_CONNECTIONS} connections. */
const SHARES = [0.5, 0.8]

const RATE_CONNECTIONS = 100

/** Runs at a fixed rate last so many times as long as others: few of their answers are slow. */
const RATE_FACTOR = 4

/** Maximum p99 of wasm-serve, as a multiple of that of the echo. */
const LIMIT = 1.25

/** One server under one load, in one round. */
interface TailRun {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  readonly requestsPerSecond: number
}

/** A load, and what each round measured of each server, in the order of the rounds. */
export interface TailMeasurement {
  readonly load: string
  readonly servers: readonly { readonly server: string; readonly runs: readonly TailRun[] }[]
}

export interface TailsMeasurements {
  readonly tails: readonly TailMeasurement[]
  readonly slowRoute: readonly SlowRouteMeasurement[]
}

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const { effort, args } = effortOf(settings, { runs: 10, seconds: 1, warmUpSeconds: 2 })
  const connections = settings.connections ?? (settings.quick ? [1, 100] : CONNECTIONS)
  const { axum } = findPeers()
  const scenarios = [
    { ...noPlugin(HELLO_BODY), name: ECHO },
    ours(OURS),
    ...(axum ? nativeServers({ axum }) : []),
  ]
  const tails = await measureTails(scenarios, { ...effort, connections }, progress)
  const slowRoute = await measureSlowRoute(settings.quick ? 2 : 10, progress)
  const data = { tails, slowRoute }
  return { args: `${args} --connections ${connections}`, markdown: renderTails(data), data }
}

const ECHO = 'Fastify, echo'
const OURS = 'wasm-serve'

interface TailEffort {
  readonly runs: number
  readonly seconds: number
  readonly warmUpSeconds: number
  readonly connections: readonly number[]
}

/**
 * Measures scenarios in rounds, under each load one after the other. Each round starts new processes, because V8
 * optimizes each a little differently.
 *
 * @throws when an answer is wrong or missing.
 */
export async function measureTails(
  scenarios: readonly Scenario[],
  { runs, seconds, warmUpSeconds, connections }: TailEffort,
  progress: (line: string) => void,
  shares: readonly number[] = SHARES,
): Promise<TailMeasurement[]> {
  const loads = [...connections.map(renderConnections), ...shares.map(renderShare)]
  const measured = loads.map((load) => ({
    load,
    servers: scenarios.map(({ name }) => ({ server: name, runs: [] as TailRun[] })),
  }))
  for (let round = 1; round <= runs; round++) {
    const started: { scenario: Scenario; server: ServerProcess }[] = []
    try {
      for (const scenario of scenarios) started.push({ scenario, server: await startServer(scenario) })
      const underLoad = async (place: number, load: Pick<SocketLoad, 'connections' | 'perSecond'>) => {
        const lasting = load.perSecond === undefined ? seconds : RATE_FACTOR * seconds
        for (const [i, { scenario, server }] of started.entries()) {
          measured[place]?.servers[i]?.runs.push(await runOnce(scenario, server, load, lasting))
        }
      }
      for (const { scenario, server } of started) {
        await runOnce(scenario, server, { connections: RATE_CONNECTIONS }, warmUpSeconds)
      }
      for (const [place, count] of connections.entries()) await underLoad(place, { connections: count })
      if (shares.length > 0) {
        const most = await leastMaximum(started, seconds)
        for (const [i, share] of shares.entries()) {
          const load = { connections: RATE_CONNECTIONS, perSecond: share * most }
          await underLoad(connections.length + i, load)
        }
      }
    } finally {
      for (const { server } of started) server.stop()
    }
    progress(`round ${round}: ${measured.map((each) => describeRound(each)).join('; ')}`)
  }
  return measured
}

/** The requests/s of the slowest server: at a rate above that its queue would grow as long as one looks. */
async function leastMaximum(
  started: readonly { readonly scenario: Scenario; readonly server: ServerProcess }[],
  seconds: number,
): Promise<number> {
  const rates: number[] = []
  for (const { scenario, server } of started) {
    const { requestsPerSecond } = await runOnce(scenario, server, { connections: RATE_CONNECTIONS }, seconds)
    rates.push(requestsPerSecond)
  }
  return Math.min(...rates)
}

async function runOnce(
  scenario: Scenario,
  { url }: ServerProcess,
  load: Pick<SocketLoad, 'connections' | 'perSecond'>,
  seconds: number,
): Promise<TailRun> {
  const answers = await fireSockets({ ...load, url, ...requestsOf(scenario) }, { seconds })
  return { ...latencies(answers.times), requestsPerSecond: answers.times.length / answers.seconds }
}

/** Requests of a scenario, each with a body of its own. */
function requestsOf(scenario: Scenario): Pick<SocketLoad, 'request' | 'isRight'> {
  return {
    request: (id) => ({ path: scenario.path, body: `${scenario.body} ${id}` }),
    isRight: (body, answer) => isRight(scenario, body, answer),
  }
}

function describeRound({ load, servers }: TailMeasurement): string {
  return `${load} ${servers.map(({ runs }) => renderNumber(runs.at(-1)?.p99Ms ?? Number.NaN, 1)).join(' ')} ms`
}

function renderConnections(count: number): string {
  return count === 1 ? '1 connection' : `${count} connections`
}

function renderShare(share: number): string {
  return `${share * 100} % of the maximum`
}

/** The p99 of the second server, divided by that of the first, of each round. */
export function tailRatios({ servers: [reference, measured] }: TailMeasurement): number[] {
  return ratios(measured?.runs ?? [], reference?.runs ?? [])
}

function ratios(runs: readonly TailRun[], reference: readonly TailRun[]): number[] {
  return runs.map(({ p99Ms }, i) => p99Ms / (reference[i]?.p99Ms ?? Number.NaN))
}

export function renderTails({ tails, slowRoute }: TailsMeasurements): string {
  const rows = tails.flatMap(({ load, servers }) =>
    servers.map(({ server, runs }, place) => {
      const of = (key: keyof TailRun) => median(runs.map((run) => run[key]))
      const relative = ratios(runs, servers[0]?.runs ?? [])
      const ratio = summarize(relative)
      const compared = [renderNumber(ratio.median, 2), renderRange(ratio)]
      const cells = [
        load,
        server,
        renderNumber(of('requestsPerSecond'), 0),
        renderNumber(of('p50Ms'), 2),
        renderNumber(of('p99Ms'), 2),
        renderNumber(of('p999Ms'), 2),
        ...(place > 0 ? compared : ['', '']),
        server === OURS ? verdictOn(ratio, LIMIT, ratio.median <= LIMIT) : '',
      ]
      return `| ${cells.join(' | ')} |`
    }),
  )
  return [
    `| load | server | requests/s | p50 ms | p99 ms | p99.9 ms | p99, relative | 95 % interval | at most ${LIMIT} |`,
    '| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
    '',
    renderSlowRoute(slowRoute),
  ].join('\n')
}
