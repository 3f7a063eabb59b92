import type { IncomingHttpHeaders } from 'node:http'
import { memoryUsage } from 'node:process'
import type { InjectOptions } from 'fastify'
import type { Deployment } from '../../deploy/deployments.ts'
import { desiredState } from '../../deploy/desired-state.ts'
import { NO_EDITS, pluginOf } from '../../deploy/edits.ts'
import { AdminRequestError } from '../../errors/errors.ts'
import { DURATION_BOUNDS_MS, type RouteMeter } from '../../observe/metrics.ts'
import { packageVersion } from '../../platform/packages.ts'
import type { AdminContext } from '../feature.ts'
import { applyEdit, type Endpoint } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'

/** A request for a route, as its schema has it. */
interface CallBody {
  readonly method?: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Lines of the log that are shown at once. */
const SHOWN_LINES = 200

const lineList = { type: 'array', items: ref('LogLine') } as const

/** What the console asks beside the rest: numbers of this moment, lines of the log, and a call of a route. */
export function consoleEndpoints({ served, meters, lines }: AdminContext): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/api/live',
      id: 'live',
      summary: 'What is counted, at this moment',
      description:
        'As `/metrics` has it, for who asks each second: rates and percentiles are to be made of two answers.',
      answers: { 200: { description: 'Of all routes.', schema: ref('Live') } },
      run: (_request, { current }) => ({
        revision: current.revision,
        state: served.state,
        url: served.url,
        version: packageVersion(),
        ms: Math.round(performance.now()),
        memoryBytes: memoryUsage.rss(),
        boundsMs: DURATION_BOUNDS_MS,
        meters: meters.all.filter(({ isOpen }) => isOpen).map(viewMeter),
      }),
    },
    {
      method: 'GET',
      path: '/api/logs',
      id: 'listLogs',
      summary: 'The last lines of the log',
      answers: { 200: { description: `At most ${SHOWN_LINES}, the newest last.`, schema: lineList } },
      run: () => lines.all.slice(-SHOWN_LINES).map(readLine),
    },
    {
      method: 'GET',
      path: '/api/plugins/{name}/logs',
      id: 'listPluginLogs',
      summary: 'The last lines of the log that are of a plug-in’s calls',
      answers: { 200: { description: `At most ${SHOWN_LINES}, the newest last.`, schema: lineList } },
      run({ params: { name = '' } }, { current }) {
        const names = logNames(current, name)
        return lines.all
          .map(readLine)
          .filter(({ plugin }) => names.has(String(plugin)))
          .slice(-SHOWN_LINES)
      },
    },
    {
      method: 'POST',
      path: '/api/call',
      id: 'callRoute',
      summary: 'Send a request to the routes, as a client would',
      description:
        'It goes to what is live, without a socket: limits of connections do not count for it, all others do.',
      body: bodies.call,
      answers: {
        200: { description: 'What a client would get, whatever its status.', schema: ref('Answer') },
      },
      run: async ({ body }, { current }, reply) => {
        reply.type('application/json; charset=utf-8')
        // As bytes: what a client would get is not searched for secrets, and may not be changed.
        return Buffer.from(JSON.stringify(await call(body as CallBody, current)))
      },
    },
  ]
}

function viewMeter({ labels, outcomes, guestMs, queueMs, stats }: RouteMeter): object {
  const { waiting, instances, guestBytes, kernelBytes } = stats
  return {
    ...labels,
    outcomes: Object.fromEntries(outcomes.counted),
    guest: [...guestMs.counts],
    queue: [...queueMs.counts],
    waiting,
    instances,
    guestBytes,
    kernelBytes,
  }
}

function readLine(line: string): Readonly<Record<string, unknown>> {
  return JSON.parse(line)
}

/** What a plug-in is called in the log, where it has the name of its file. */
function logNames({ edits }: Deployment, name: string): ReadonlySet<string> {
  return new Set(pluginOf(edits, name).versions.map((version) => version.name))
}

async function call(
  { method = 'POST', url, headers = {}, body }: CallBody,
  { app }: Deployment,
): Promise<object> {
  const payload = body === undefined ? undefined : decodeCallBody(body)
  const begun = performance.now()
  const answer = await app.inject({
    method: method as NonNullable<InjectOptions['method']>, // what is none is answered as it would be
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
  throw new AdminRequestError('body is no base64')
}

export const changeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/changes',
    id: 'listChanges',
    summary: 'What came of the last changes, the newest first',
    answers: { 200: { description: 'At most 50.', schema: { type: 'array', items: ref('Change') } } },
    run: (_request, { log }) => log.records,
  },
  {
    method: 'POST',
    path: '/api/reload',
    id: 'reload',
    summary: 'Read the configuration and the plug-ins again',
    answers: { 200: { description: 'What they say is live.', schema: ref('Changed') } },
    run: async (request, deployments) => ({
      change: await applyEdit(deployments, request, 'reload', (_now, reread) => reread()),
    }),
  },
  {
    method: 'DELETE',
    path: '/api/changes',
    id: 'forgetChanges',
    summary: 'Go back to what the configuration says',
    description: 'All that the admin API has added or changed is forgotten, versions included.',
    answers: { 200: { description: 'The configuration is live.', schema: ref('Changed') } },
    run: async (request, deployments) => ({
      change: await applyEdit(deployments, request, 'forget changes', ({ configuration, revision }) =>
        desiredState(configuration, NO_EDITS, revision),
      ),
    }),
  },
]
