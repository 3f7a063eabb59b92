import type { FastifyInstance, InjectOptions } from 'fastify'
import Fastify from 'fastify'
import { SmokeFailedError } from '../errors/errors.ts'
import type { CheckedRouteOptions, CheckedWasmServeOptions } from '../options/options.ts'

/** Maximum number of characters of an answer in a message. */
const MAX_SHOWN_CHARACTERS = 200

/**
 * Sends a route its smoke request before it goes live: to a separate instance in a throwaway thread or process, so that
 * a guest which does not return blocks nothing, and with an empty in-memory store, so that nothing is kept.
 *
 * @param addRoutes - Adds the routes of options to an app.
 * @throws {@link SmokeFailedError}, and the errors of opening the route.
 */
export async function trySmoke(
  route: CheckedRouteOptions,
  options: CheckedWasmServeOptions,
  addRoutes: (app: FastifyInstance, options: CheckedWasmServeOptions) => Promise<unknown>,
): Promise<void> {
  const { smoke, url, host, method } = route
  if (!smoke) return
  const [first = 'POST'] = [method ?? 'POST'].flat()
  const app = Fastify({ pluginTimeout: 0, exposeHeadRoutes: false })
  try {
    app.register(async (scope) => {
      const own = {
        ...{ store: 'memory:', stallMs: 0, trial: false, meters: undefined },
        ...{ isOwnApp: false, isUnwatched: false, hidesTools: false },
      }
      const alone = { ...options, ...own, routes: [inThread(route)] }
      await addRoutes(scope, alone)
    })
    const answer = await app.inject({
      method: (smoke.method ?? (first === '*' ? 'POST' : first)) as NonNullable<InjectOptions['method']>,
      url: smoke.url ?? url,
      headers: { host: host ?? 'localhost', ...smoke.headers },
      ...(smoke.body !== undefined && { payload: Buffer.from(smoke.body) }),
    })
    const { status = 200, answer: body } = smoke
    const said = JSON.stringify(answer.body.slice(0, MAX_SHOWN_CHARACTERS))
    if (answer.statusCode !== status)
      throw new SmokeFailedError(url, `expected status ${status}, got ${answer.statusCode} and ${said}`)
    if (body !== undefined && answer.body !== body)
      throw new SmokeFailedError(
        url,
        `expected ${JSON.stringify(body.slice(0, MAX_SHOWN_CHARACTERS))}, got ${said}`,
      )
  } finally {
    await app.close()
  }
}

/** Host functions that are objects cannot be passed to a thread: such a route keeps its engine. */
function inThread({ smoke: _, ...route }: CheckedRouteOptions): CheckedRouteOptions {
  if (typeof route.functions === 'object') return route
  const timeoutMs = route.timeoutMs ?? route.startTimeoutMs
  const alone = { ...route, workers: 1, spareWorkers: 0, timeoutMs }
  if (route.engine !== 'subprocess') return { ...alone, engine: 'workers' }
  const { process: _shared, ...own } = alone
  return own
}
