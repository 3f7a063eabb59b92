import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { createServer } from './create-server.ts'
import { EngineClosedError } from './errors/errors.ts'
import { callableExports, chooseExport } from './module/entry-points.ts'
import { checkWasmServeOptions, type RouteOptions, type ServerOptions } from './options/options.ts'
import { loadRoutePlugin } from './route/open-route.ts'

/**
 * Opens a plug-in for tests, without a port, in any test runner. It is started once, which reports start errors
 * immediately.
 *
 * A guest that does not return is ended after `timeoutMs`, and its call is answered with 504.
 *
 * @param source - As the `plugin` of a route: path, URL, bytes, manifest, or the result of {@link loadPlugin}.
 * @throws {@link OptionsError}, and errors of {@link loadPlugin} and of opening instances.
 */
export async function testPlugin(
  source: RouteOptions['plugin'],
  { logLevel = 'error', ...options }: TestOptions = {},
): Promise<TestedPlugin> {
  checkWasmServeOptions({ routes: [{ ...options, plugin: source }] })
  const defaults = { links: {}, isolation: 'reuse', runtime: 'kernel', interrupts: 'on' } as const
  const plugin = await loadRoutePlugin({ ...defaults, ...options, load: 'eager', plugin: source }, 1)
  const guest = new GuestApps((exportName) => {
    return createServer({ logLevel, routes: [{ ...options, plugin, function: exportName }] })
  }, defaultsOf(options))
  const [first = chooseExport(plugin, undefined)] = callableExports(plugin) // throws if there is none
  await guest.open(first)
  return guest
}

/** The options of a route except plug-in and function, and the log. */
export interface TestOptions extends Omit<RouteOptions, 'plugin' | 'function'> {
  /** Default: `error`, on standard error, which shows why a guest trapped. */
  logLevel?: ServerOptions['logLevel']
}

/** The parts of a request except its body. */
export interface TestRequest {
  /** Default: the first method of the route. */
  method?: string
  /** Default: the URL of the route. May include a query. */
  url?: string
  headers?: Readonly<Record<string, string>>
}

/** The answer as a client would get it. */
export interface TestAnswer {
  readonly status: number
  /** The headers by their names in lower case. */
  readonly headers: OutgoingHttpHeaders
  readonly bytes: Uint8Array
  /** The body as UTF-8. */
  text(): string
  /** The body as JSON. @throws SyntaxError if it is not JSON. */
  json<Value = unknown>(): Value
}

/** A plug-in under test. */
export interface TestedPlugin {
  /**
   * Answers a request like a route of this function, with all of HTTP except the socket. A function keeps its instance
   * between calls, as on a route.
   *
   * @param exportName - The name of the function.
   * @param body - Text and bytes are sent unchanged, other objects as JSON. Default: no body.
   * @throws {@link FunctionUnknownError}. Failures of the guest are answers, not exceptions.
   */
  call(exportName: string, body?: string | Uint8Array | object, request?: TestRequest): Promise<TestAnswer>

  /** Closes everything that was opened; `await using` calls it. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** One app per called function: the request does not select the function. */
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
      method: method as NonNullable<InjectOptions['method']>, // an unknown method is answered as by a route
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

  /** Resources that failed to open have closed themselves. */
  async #close(): Promise<void> {
    const opened = await Promise.allSettled(this.#apps.values())
    await Promise.all(opened.map((app) => app.status === 'fulfilled' && app.value.close()))
  }
}

function defaultsOf({ method = 'POST', url = '/' }: TestOptions): Required<TestRequest> {
  const [first = 'POST'] = [method].flat()
  return { method: first === '*' ? 'POST' : first, url, headers: {} }
}
