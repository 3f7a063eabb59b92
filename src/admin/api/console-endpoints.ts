import type { IncomingHttpHeaders } from 'node:http'
import { memoryUsage } from 'node:process'
import type { InjectOptions } from 'fastify'
import { type Behind, type Deployment, reload } from '../../deploy/deployments.ts'
import { desiredState } from '../../deploy/desired-state.ts'
import { NO_EDITS, pluginOf } from '../../deploy/edits.ts'
import { AdminRequestError } from '../../errors/errors.ts'
import { DURATION_BOUNDS_MS, RouteMetrics } from '../../observe/counters.ts'
import { addStats, type EngineStats, NO_STATS } from '../../observe/engine-stats.ts'
import type { MeterView, RouteMeter } from '../../observe/metrics.ts'
import { MCP_DEFAULTS } from '../../options/mcp-defaults.ts'
import { packageVersion } from '../../platform/packages.ts'
import type { AdminContext } from '../feature.ts'
import { applyEdit, type Endpoint, expectRevision } from './endpoint.ts'
import { metersOf, type ShownDeployment, showDeployment } from './route-endpoints.ts'
import { bodies, ref } from './schemas.ts'

/** A request for a route, as described by its schema. */
interface CallBody {
  readonly method?: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** The maximum number of log lines in an answer. */
const SHOWN_LINES = 200

/** The maximum number of routes whose counts a request can ask for. */
const MAX_LIVE_ROUTES = 200

const lineList = { type: 'array', items: ref('LogLine') } as const

/** The endpoints that only the console uses: current counts, log lines, and a call of a route. */
export function consoleEndpoints({ served, meters, lines, processes, fleet }: AdminContext): Endpoint[] {
  const memoryBytes = () =>
    memoryUsage.rss() + (processes?.list ?? []).reduce((sum, each) => sum + (each.memoryBytes ?? 0), 0)
  const allLines = async () => {
    const own = lines.all.map(readLine)
    if (!processes) return own
    const all = [...own, ...(await processes.lines()).map(readLine)]
    return all.sort((one, other) => String(one.time).localeCompare(String(other.time)))
  }
  return [
    {
      method: 'GET',
      path: '/api/live',
      id: 'live',
      summary: 'Current counts',
      description:
        'The counts of `/metrics` as JSON, for polling once a second. Compute rates and percentiles from two responses.',
      query: {
        routes: {
          type: 'string',
          pattern: `^([0-9a-f]{12}(,[0-9a-f]{12}){0,${MAX_LIVE_ROUTES - 1}})?$`,
          description: `Only the meters of these routes: at most ${MAX_LIVE_ROUTES} ids, with commas between them. Default: the meters of \`/metrics\`.`,
        },
      },
      answers: {
        200: { description: 'The counts of all routes together, and of each route.', schema: ref('Live') },
      },
      async run({ query }, deployments) {
        const shown = await showDeployment(deployments)
        const { current } = shown
        const { mcp } = current.options
        const all = meters.all
        return {
          revision: current.revision,
          state: served.state,
          url: served.server.url,
          ...(mcp && { mcp: mcp.url ?? MCP_DEFAULTS.url }),
          node: fleet?.status.node,
          version: packageVersion(),
          ms: Math.round(performance.now()),
          memoryBytes: memoryBytes(),
          boundsMs: DURATION_BOUNDS_MS,
          routes: current.served.length,
          plugins: current.edits.plugins.size,
          behind: deployments.behind && viewBehind(deployments.behind),
          total: viewCounts(sumOf(all)),
          meters:
            query.routes === undefined
              ? all.filter(({ isOpen }) => isOpen).map(viewMeter)
              : liveMeters(shown, query.routes.split(',')).map(viewRouteMeter),
        }
      },
    },
    {
      method: 'GET',
      path: '/api/logs',
      id: 'listLogs',
      summary: 'Recent log lines',
      answers: { 200: { description: `At most ${SHOWN_LINES} lines, the newest last.`, schema: lineList } },
      run: async () => (await allLines()).slice(-SHOWN_LINES),
    },
    {
      method: 'GET',
      path: '/api/plugins/{name}/logs',
      id: 'listPluginLogs',
      summary: 'Recent log lines of a plug-in’s calls',
      answers: { 200: { description: `At most ${SHOWN_LINES} lines, the newest last.`, schema: lineList } },
      async run({ params: { name = '' } }, { current }) {
        pluginOf(current.edits, name)
        return (await allLines()).filter(({ plugin }) => plugin === name).slice(-SHOWN_LINES)
      },
    },
    {
      method: 'POST',
      path: '/api/call',
      id: 'callRoute',
      summary: 'Send a test request to a route',
      description:
        'The request goes to the live routes without a socket. All limits apply except those of connections.',
      body: bodies.call,
      answers: {
        200: { description: 'The response that a client would get, with any status.', schema: ref('Answer') },
      },
      run: async ({ body }, { current }, reply) => {
        reply.type('application/json; charset=utf-8')
        // As bytes, because the answer must reach the console unchanged, without masking.
        return Buffer.from(JSON.stringify(await call(body as CallBody, current)))
      },
    },
  ]
}

/** The counts of a server or of a version on a route. */
type ShownCounts = Pick<MeterView, 'outcomes' | 'guestMs' | 'queueMs' | 'stats'>

function viewMeter(meter: MeterView): object {
  return { ...meter.labels, ...viewCounts(meter) }
}

function viewCounts({ outcomes, guestMs, queueMs, stats }: ShownCounts): object {
  return {
    outcomes: Object.fromEntries(outcomes.counted),
    guest: [...guestMs.counts],
    queue: [...queueMs.counts],
    ...viewStats(stats),
  }
}

function viewStats({ waiting, instances, guestBytes, kernelBytes }: EngineStats): object {
  return { waiting, instances, guestBytes, kernelBytes }
}

/** All meters together, including those of versions that are no longer served: so the counts never decrease. */
function sumOf(meters: readonly MeterView[]): ShownCounts {
  const { outcomes, guestMs, queueMs } = new RouteMetrics()
  for (const meter of meters) {
    outcomes.add(meter.outcomes)
    guestMs.add(meter.guestMs)
    queueMs.add(meter.queueMs)
  }
  return { outcomes, guestMs, queueMs, stats: meters.map(({ stats }) => stats).reduce(addStats, NO_STATS) }
}

function liveMeters({ routes, meters }: ShownDeployment, ids: readonly string[]): RouteMeter[] {
  const asked = ids.flatMap((id) => routes.byId.get(id) ?? [])
  return [...new Set(asked.flatMap(({ served }) => metersOf(served, meters)))]
}

/** The histograms and outcomes of a meter may be those of other routes too: then only its own counters are shown. */
function viewRouteMeter(meter: RouteMeter): object {
  if (!meter.isShared) return viewMeter(meter)
  const { calls, failures } = meter.totals
  const outcomes = { ok: calls - failures, error: failures }
  return { ...meter.labels, outcomes, guest: [], queue: [], ...viewStats(meter.stats) }
}

function readLine(line: string): Readonly<Record<string, unknown>> {
  return JSON.parse(line)
}

async function call(
  { method = 'POST', url, headers = {}, body }: CallBody,
  { app }: Deployment,
): Promise<object> {
  const payload = body === undefined ? undefined : decodeCallBody(body)
  const begun = performance.now()
  const answer = await app.inject({
    method: method as NonNullable<InjectOptions['method']>, // an unknown method gets the usual answer
    url,
    headers: { 'user-agent': 'wasm-serve console', ...headers } satisfies IncomingHttpHeaders,
    ...(payload !== undefined && { payload }),
  })
  const { statusCode: status, rawPayload } = answer
  const ms = Math.round((performance.now() - begun) * 1_000) / 1_000
  return { status, headers: answer.headers, body: rawPayload.toString('base64'), ms }
}

function decodeCallBody(text: string): Buffer {
  if (/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return Buffer.from(text, 'base64')
  throw new AdminRequestError('The body is not base64')
}

export const changeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/changes',
    id: 'listChanges',
    summary: 'Recent changes, the newest first',
    answers: { 200: { description: 'At most 50 changes.', schema: { type: 'array', items: ref('Change') } } },
    run: (_request, { log }) => log.records,
  },
  {
    method: 'POST',
    path: '/api/reload',
    id: 'reload',
    summary: 'Reload the configuration and the plug-ins',
    answers: { 200: { description: 'The reloaded configuration is live.', schema: ref('Changed') } },
    async run({ ifMatch, signal, by }, deployments) {
      expectRevision(ifMatch, deployments)
      const { record } = await deployments.apply(reload, 'reload', { signal, isEdit: true, by })
      return { change: record }
    },
  },
  {
    method: 'DELETE',
    path: '/api/changes',
    id: 'forgetChanges',
    summary: 'Reset to the configuration',
    description: 'Discards everything that the admin API has added or changed, including versions.',
    answers: { 200: { description: 'The configuration is live.', schema: ref('Changed') } },
    run: async (request, deployments) => ({
      change: await applyEdit(deployments, request, 'forget changes', ({ configuration, revision }) =>
        desiredState(configuration, NO_EDITS, revision),
      ),
    }),
  },
]

/** Why what is served is older than its sources. */
export function viewBehind({ since, reason, code, message, plugins }: Behind): object {
  return { since, reason, code, message, ...(plugins && { plugins }) }
}
