import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import FindMyWay from 'find-my-way'
import { MethodNotAllowedError } from '../errors/errors.ts'
import { constraintsOf } from '../options/served-route.ts'
import { sendRouteError } from './error-response.ts'

/** URLs with routes; a URL may have several. */
interface GuardedUrl {
  readonly url: string
  readonly host?: string | undefined
}

/** The guarded URLs of an app, with their scopes. */
interface Guard {
  readonly urls: (readonly [scope: FastifyInstance, url: GuardedUrl])[]
  /** Made for the first request without a route. */
  router?: Router | undefined
}

type Router = FindMyWay.Instance<FindMyWay.HTTPVersion.V1>

/** By the outermost scope: an app has one answer for requests without a route. */
const guards = new WeakMap<FastifyInstance, Guard>()

/**
 * Guards URLs of a scope: a request that no route answers gets a 405 there, if a route answers other methods. No route
 * is added: other methods stay free for the app, and requests with a route pay nothing.
 *
 * In an app with a not-found handler of its own, that handler answers.
 *
 * @param isOwnApp - Whether the app's not-found handler calls {@link refusedMethod} itself.
 */
export function guardMethods(app: FastifyInstance, urls: readonly GuardedUrl[], isOwnApp = false): void {
  const root = outermost(app)
  const guard = guards.get(root) ?? { urls: [] }
  if (!guards.has(root) && !isOwnApp) refuseMethods(root)
  guards.set(root, guard)
  for (const url of urls) guard.urls.push([app, url])
  guard.router = undefined
}

/**
 * Why a request without a route is refused: its method. `Allow` has the methods of all routes at its URL, including the app's.
 *
 * @returns undefined if none of the URLs matches, or no other method is answered there.
 */
export function refusedMethod(
  app: FastifyInstance,
  { method, headers, raw: { url = '' } }: FastifyRequest,
): MethodNotAllowedError | undefined {
  const { host, ':authority': authority = host, 'accept-version': version } = headers
  const constraints = {
    ...(authority !== undefined && { host: String(authority) }),
    ...(version !== undefined && { version: String(version) }),
  }
  const root = outermost(app)
  const guard = guards.get(root)
  if (!guard) return undefined
  guard.router ??= routerOf(root, guard)
  if (!guard.router.find('GET', url, constraints)) return undefined
  const isAnswered = (other: string) => app.findRoute({ method: other, url, constraints }) !== null
  const refused = READING.includes(method) && isAnswered(method) ? READING : [method]
  const allow = app.supportedMethods
    .filter((other) => !refused.includes(other) && isAnswered(other))
    .sort()
    .join(', ')
  return allow === '' ? undefined : new MethodNotAllowedError(method, allow)
}

/** A route that answers one of them without a result, such as a folder of files, answers neither. */
export const READING = ['GET', 'HEAD']

/** The app of a scope, which inherits from the scope around it. */
export function outermost(app: FastifyInstance): FastifyInstance {
  const outer = Object.getPrototypeOf(app)
  return 'addHook' in outer ? outermost(outer) : app
}

/** Puts a hook in front of Fastify's own answer to requests without a route. It runs before their body is read. */
function refuseMethods(root: FastifyInstance): void {
  const onRequest: onRequestHookHandler = (request, reply, done) => {
    const refused = refusedMethod(root, request)
    if (refused) sendRouteError(refused, request, reply)
    else done()
  }
  try {
    // Without a handler, which the types require, an app may still set its own.
    Reflect.apply(root.setNotFoundHandler, root, [{ onRequest }])
  } catch (error) {
    if (!/already set/.test(String(error))) throw error
  }
}

function routerOf(app: FastifyInstance, { urls }: Guard): Router {
  const router = FindMyWay(pathOptions(app))
  for (const [scope, { url, host }] of urls)
    for (const path of fullPaths(scope, url).flatMap(expand)) addOnce(router, path, constraintsOf(host))
  return router
}

/** Routes may share a URL, or spell it differently. */
function addOnce(router: Router, path: string, constraints: { host?: RegExp }): void {
  try {
    router.on('GET', path, { constraints }, () => undefined)
  } catch (error) {
    if (!/already declared/.test(String(error))) throw error
  }
}

/** An optional last parameter makes two URLs of one. (find-my-way) */
function expand(url: string): string[] {
  const [parameter, name, slash] = /(\/:[^/()]*?)\?(\/?)/.exec(url) ?? []
  if (parameter === undefined) return [url]
  return [url.replace(parameter, `${name}${slash}`), url.replace(parameter, `${slash}`) || '/']
}

/** How the app compares URLs with those of its routes. */
function pathOptions({ initialConfig }: FastifyInstance): FindMyWay.Config<FindMyWay.HTTPVersion.V1> {
  const { caseSensitive, ignoreTrailingSlash, ignoreDuplicateSlashes, maxParamLength, allowUnsafeRegex } = {
    ...initialConfig,
    ...initialConfig.routerOptions,
  }
  return {
    ...(caseSensitive !== undefined && { caseSensitive }),
    ...(ignoreTrailingSlash !== undefined && { ignoreTrailingSlash }),
    ...(ignoreDuplicateSlashes !== undefined && { ignoreDuplicateSlashes }),
    ...(maxParamLength !== undefined && { maxParamLength }),
    ...(allowUnsafeRegex !== undefined && { allowUnsafeRegex }),
  }
}

/** The root of a prefix has two URLs: with and without a slash. */
export function fullPaths({ prefix }: FastifyInstance, url: string): readonly string[] {
  return url === '/' && prefix !== '' ? [prefix, `${prefix}/`] : [prefix.replace(/\/$/, '') + url]
}
