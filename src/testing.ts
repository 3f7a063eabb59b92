import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { createServer } from './create-server.ts'
import { EngineClosedError } from './errors/errors.ts'
import { callableExports, chooseExport } from './module/entry-points.ts'
import { checkWasmServeOptions, type RouteOptions, type ServerOptions } from './options/options.ts'
import { loadRoutePlugin } from './route/open-route.ts'

/**
 * Opens a plug-in for tests, without a port, in any test runner. It is started once, to see that it can be.
 *
 * A guest that does not return cannot be ended: with `timeoutMs` it can, and its call is answered with 504.
 *
 * @param source - What the `plugin` of a route can be: path, URL, bytes, manifest, or what {@link loadPlugin} returned.
 * @throws {@link OptionsError}, and what {@link loadPlugin} and the opening of instances throw.
 */
export async function testPlugin(
  source: RouteOptions['plugin'],
  { logLevel = 'error', ...options }: TestOptions = {},
): Promise<TestedPlugin> {
  checkWasmServeOptions({ routes: [{ ...options, plugin: source }] })
  const plugin = await loadRoutePlugin({
    links: {},
    isolation: 'reuse',
    runtime: 'kernel',
    ...options,
    plugin: source,
  })
  const guest = new GuestApps((exportName) => {
    return createServer({ logLevel, routes: [{ ...options, plugin, function: exportName }] })
  }, defaultsOf(options))
  const [first = chooseExport(plugin, undefined)] = callableExports(plugin) // if there is none, it says what there is
  await guest.open(first)
  return guest
}

/** The options of a route, but for what it calls; and the log. */
export interface TestOptions extends Omit<RouteOptions, 'plugin' | 'function'> {
  /** Default: `error`, on standard error: why a guest trapped. */
  logLevel?: ServerOptions['logLevel']
}

/** What makes a request, beside its body. */
export interface TestRequest {
  /** Default: the first that the route answers. */
  method?: string
  /** Default: the route's. With a query, if there is to be one. */
  url?: string
  headers?: Readonly<Record<string, string>>
}

/** What a client would get. */
export interface TestAnswer {
  readonly status: number
  /** By name in lower case. */
  readonly headers: OutgoingHttpHeaders
  readonly bytes: Uint8Array
  /** The body as UTF-8. */
  text(): string
  /** The body as JSON. @throws SyntaxError if it is none. */
  json<Value = unknown>(): Value
}

/** A plug-in to be tested. */
export interface TestedPlugin {
  /**
   * Answers a request as a route of this function would, all of HTTP included but the socket. A function keeps its
   * instance from call to call, as a route does.
   *
   * @param exportName - Of the function.
   * @param body - Text and bytes are sent as they are, another object as JSON. Default: none.
   * @throws {@link FunctionUnknownError}; what the guest does is no reason to throw, but an answer.
   */
  call(exportName: string, body?: string | Uint8Array | object, request?: TestRequest): Promise<TestAnswer>

  /** Closes all that was opened; `await using` does it by itself. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** An app for each function that was called: what a route calls cannot be told from a request. */
class GuestApps implements TestedPlugin {
  readonly #create: (exportName: string) => Promise<FastifyInstance>
  readonly #defaults: Required<TestRequest>
  readonly #apps = new Map<string, Promise<FastifyInstance>>()
  #closing: Promise<void> | undefined

  constructor(create: (exportName: string) => Promise<FastifyInstance>, defaults: Required<TestRequest>) {
    this.#create = create
    this.#defaults = defaults
  }

  open(exportName: string): Promise<FastifyInstance> {
    if (this.#closing) throw new EngineClosedError()
    const app = this.#apps.get(exportName) ?? this.#create(exportName)
    this.#apps.set(exportName, app)
    return app
  }

  async call(
    exportName: string,
    body?: string | Uint8Array | object,
    request: TestRequest = {},
  ): Promise<TestAnswer> {
    const app = await this.open(exportName)
    const { method, ...rest } = { ...this.#defaults, ...request }
    const payload = body instanceof Uint8Array ? Buffer.from(body) : body
    const answer = await app.inject({
      ...rest,
      method: method as NonNullable<InjectOptions['method']>, // what is none is answered as it would be
      ...(payload !== undefined && { payload }),
    })
    const { statusCode: status, headers, rawPayload: bytes } = answer
    return { status, headers, bytes, text: () => bytes.toString(), json: () => answer.json() }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** What could not be opened has closed itself. */
  async #close(): Promise<void> {
    const opened = await Promise.allSettled(this.#apps.values())
    await Promise.all(opened.map((app) => app.status === 'fulfilled' && app.value.close()))
  }
}

function defaultsOf({ method = 'POST', url = '/' }: TestOptions): Required<TestRequest> {
  const [first = 'POST'] = [method].flat()
  return { method: first === '*' ? 'POST' : first, url, headers: {} }
}
