import { http2 } from './load/http2.ts'
import type { LoadResult, LoadTool } from './load/load.ts'
import { isRight, REQUEST_HEADERS, type Scenario } from './scenario.ts'
import type { ServerProcess } from './server-process.ts'

/** The result of one run under load. */
export interface Run {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  /** CPU time of the server process and of all that it started, in microseconds. */
  readonly cpuMicrosPerRequest: number
  /** The resident memory of these processes at the end. */
  readonly memoryBytes: number
  readonly answered: number
  /** Answers that were wrong, failed or lost: always 0, unless the scenario may fail. */
  readonly failed: number
  /** The load of the load generator: at 1 it is saturated. */
  readonly generatorLoad: number
}

/** The load for a server. */
interface Pressure {
  readonly tool: LoadTool
  readonly connections: number
  readonly seconds: number
}

/**
 * Loads a server without counting: for so many seconds, and up to three times as long until it has answered as many
 * requests as V8 wants to see before it optimizes.
 *
 * @throws when an answer was wrong, failed or lost.
 */
export async function warmUp(scenario: Scenario, server: ServerProcess, pressure: Pressure): Promise<void> {
  let answered = 0
  for (let round = 0; round < WARM_UP_ROUNDS && answered < WARM_UP_REQUESTS; round++) {
    const result = await fire(scenario, server.url, pressure)
    if (!scenario.mayFail) refuseFailures(scenario, pressure, result)
    answered += result.answered
  }
}

const WARM_UP_ROUNDS = 3
const WARM_UP_REQUESTS = 10_000

/**
 * Loads a server for some seconds, each connection sending its next request when it has its answer.
 *
 * @throws when an answer was wrong, failed or lost.
 */
export async function runUnderLoad(
  scenario: Scenario,
  server: ServerProcess,
  pressure: Pressure,
): Promise<Run> {
  await server.idle()
  const cpuBefore = server.cpuMicros()
  const result = await fire(scenario, server.url, pressure)
  refuseFailures(scenario, pressure, result)
  const memoryBytes = server.memoryBytes()
  await server.idle() // the last requests got no counted answer, but cost as much
  return {
    requestsPerSecond: result.answered / result.seconds,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    p999Ms: result.p999Ms,
    cpuMicrosPerRequest: (server.cpuMicros() - cpuBefore) / result.sent,
    memoryBytes,
    answered: result.answered,
    failed: result.wrong + result.refused + result.lost,
    generatorLoad: result.busyCores / pressure.tool.cores,
  }
}

/** For as long again, and again, if nothing was answered: too many connections, or too busy a machine. */
async function fire(scenario: Scenario, url: string, pressure: Pressure, tries = 5): Promise<LoadResult> {
  const { connections, seconds } = pressure
  const tool = scenario.isHttp2 ? http2 : pressure.tool
  const { path, paths = [path], headers = REQUEST_HEADERS, body, mayFail = false } = scenario
  const result = await tool.fire({
    url,
    paths,
    headers,
    body: scenario.encode?.(body) ?? body,
    isRight: (answer) => isRight(scenario, body, answer),
    connections,
    seconds,
    isStrict: !mayFail,
  })
  const isSilent = result.answered + result.refused + result.lost === 0
  return isSilent && tries > 1
    ? fire(scenario, url, { ...pressure, seconds: seconds * 2 }, tries - 1)
    : result
}

function refuseFailures(
  { name, mayFail = false }: Scenario,
  { connections }: Pressure,
  { sent, answered, wrong, refused, lost }: LoadResult,
): void {
  if (answered > 0 && (mayFail || wrong + refused + lost === 0)) return
  throw new Error(
    `${name}, ${connections} connections: of ${sent} requests ${answered} were answered, ` +
      `${wrong} of them wrongly; ${refused} failed, ${lost} were lost`,
  )
}
