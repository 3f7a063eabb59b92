import type { FastifyInstance, FastifyRequest } from 'fastify'
import { MethodNotAllowedError, RouteNotFoundError } from '../errors/errors.ts'
import { addServerTiming } from '../observe/observe.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { ServedRoute } from '../options/served-route.ts'
import type { RouteHandler } from './route-pool.ts'

/** A route of a table. */
export interface TableRoute extends RouteHandler {
  readonly options: ResolvedRoute
  readonly methods: readonly string[]
}

/** Fewer routes are routes of Fastify. */
const LEAST_ROUTES = 256

/**
 * Whether routes can be in a table: many, without parameters, wildcards and hosts. Then no URL matches two of them.
 * Fastify needs 0.2 to 0.8 ms and 13 KiB for each of its own routes, and a table a thousandth of that.
 */
export function fitTable(
  routes: readonly { readonly url: string; readonly host?: string | undefined }[],
): boolean {
  return (
    routes.length >= LEAST_ROUTES &&
    routes.every(
      ({ url, host }) => host === undefined && !/[*%]/.test(url) && !url.replaceAll('::', '').includes(':'),
    )
  )
}

/** Serves routes as one route of Fastify, which answers all URLs that no other route of the app matches. */
export function addRouteTable(app: FastifyInstance, routes: readonly TableRoute[]): void {
  const table = new RouteTable(routes)
  // Of CORS, the app has its own route for OPTIONS.
  const isFree = (method: string) => !app.hasRoute({ method, url: '/*' })
  app.route({
    method: app.supportedMethods.filter(isFree),
    url: '/*',
    config: { wasmServeTable: table },
    exposeHeadRoute: false, // HEAD is one of the methods
    ...(routes.some(({ options }) => options.timing) && { onSend: addServerTiming }),
    handler(request, reply) {
      const { method, url } = request
      const place = table.placeOf(request)
      if (!place) throw new RouteNotFoundError(method, url)
      const route = place.get(method)
      if (!route) {
        const allow = [...place.keys()].sort().join(', ')
        reply.header('allow', allow)
        throw new MethodNotAllowedError(method, allow)
      }
      reply.headers(route.options.headers)
      return route.handler.call(app, request, reply)
    },
  })
}

/** The routes at one path, by method. */
type TablePlace = ReadonlyMap<string, TableRoute>

class RouteTable {
  readonly #places = new Map<string, Map<string, TableRoute>>()

  constructor(routes: readonly TableRoute[]) {
    for (const route of routes) {
      const path = route.options.url.slice(1).replaceAll('::', ':')
      const place = this.#places.get(path) ?? new Map()
      this.#places.set(path, place)
      for (const method of route.methods) place.set(method, route)
    }
  }

  find(request: FastifyRequest): ServedRoute | undefined {
    return this.placeOf(request)?.get(request.method)?.config
  }

  placeOf({ params, url }: FastifyRequest): TablePlace | undefined {
    // The parameter is decoded, and an encoded slash does not separate parts of a path.
    if (url.includes('%') && ENCODED_DELIMITER.test(url)) return undefined
    return this.#places.get((params as { readonly '*': string })['*'])
  }
}

const ENCODED_DELIMITER = /^[^?#]*%(?:2f|23|3f)/i
