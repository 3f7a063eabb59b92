import type { FastifyInstance, FastifyRequest } from 'fastify'
import { MethodNotAllowedError } from '../errors/errors.ts'
import { addServerTiming } from '../observe/observe.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import type { SwaggerConfig } from './openapi/swagger.ts'
import { routeNotFound } from './route-error.ts'
import type { RouteHandler } from './route-pool.ts'

/** A route of a table. */
export interface TableRoute extends RouteHandler {
  readonly options: ResolvedRoute
  readonly methods: readonly string[]
  /** Whether its guests stream bodies and responses. */
  readonly isStreamed: boolean
  /** The description for the document of the app, if that has one. */
  readonly document?: SwaggerConfig | undefined
}

/**
 * Whether the routes of an app can be in a table: without parameters, wildcards and hosts, so that each request matches
 * one of them at most. Fastify needs 0.2 to 0.8 ms and 13 KiB for each of its own routes, and a table some microseconds.
 */
export function fitTable(app: FastifyInstance, routes: readonly TableRoute[]): boolean {
  const optionsTaken = hasOptions(app)
  return routes.every(({ options: { url, host }, methods }) => {
    const isStatic = !/[*%]/.test(url) && !url.replaceAll('::', '').includes(':')
    return isStatic && host === undefined && !(optionsTaken && methods.includes('OPTIONS'))
  })
}

/** Whether the app has a route for OPTIONS at all URLs, as for CORS. */
function hasOptions(app: FastifyInstance): boolean {
  return app.hasRoute({ method: 'OPTIONS', url: '/*' })
}

/** Serves routes as one route of Fastify, which answers all URLs that no other route of the app matches. See {@link fitTable}. */
export async function addRouteTable(app: FastifyInstance, routes: readonly TableRoute[]): Promise<void> {
  const table = new RouteTable()
  const pace = new EventLoopYielder()
  let isTimed = false
  for (const route of routes) {
    table.add(route)
    isTimed ||= route.options.timing
    await pace.step()
  }
  const optionsTaken = hasOptions(app)
  app.route({
    method: app.supportedMethods.filter((method) => method !== 'OPTIONS' || !optionsTaken),
    url: '/*',
    config: { wasmServeTable: table },
    exposeHeadRoute: false, // HEAD is one of the methods
    ...(isTimed && { onSend: addServerTiming }),
    handler(request, reply) {
      const { method, url } = request
      const place = table.placeOf(request)
      if (!place) throw routeNotFound(method, url)
      const route = place.get(method)
      if (!route) {
        const methods = [...place.keys(), ...(optionsTaken ? ['OPTIONS'] : [])]
        throw new MethodNotAllowedError(method, methods.sort().join(', '))
      }
      reply.headers(route.options.headers)
      return route.handler.call(app, request, reply)
    },
  })
}

/** The routes at one path, by method. */
type TableMethods = ReadonlyMap<string, TableRoute>

class RouteTable {
  readonly #places = new Map<string, Map<string, TableRoute>>()

  add(route: TableRoute): void {
    const path = route.options.url.slice(1).replaceAll('::', ':')
    const place = this.#places.get(path) ?? new Map()
    this.#places.set(path, place)
    for (const method of route.methods) place.set(method, route)
  }

  find(request: FastifyRequest): ServedRoute | undefined {
    return this.placeOf(request)?.get(request.method)?.config
  }

  placeOf({ params, url }: FastifyRequest): TableMethods | undefined {
    // The parameter is decoded, and an encoded delimiter is none.
    if (url.includes('%') && ENCODED_DELIMITER.test(url)) return undefined
    return this.#places.get((params as { readonly '*': string })['*'])
  }
}

/** Fastify's router leaves `# $ & + , / : ; = ? @` encoded. */
const ENCODED_DELIMITER = /^[^?#]*%(?:2[346bcf]|3[abdf]|40)/i
