import { setTimeout as sleep } from 'node:timers/promises'
import type { Attributes, Context, Span } from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { loadPackage } from '../platform/packages.ts'
import { type CallSpan, type CallTimes, type Outcome, servedRouteOf } from './observe.ts'

/** The calls with the same span name and attributes. */
export interface TracedFunction {
  /** URL of the route. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  /** The first digits of its digest. */
  readonly digest: string
  /** Name of the export. */
  readonly function: string
  readonly engine: string
}

/** Creates spans with OpenTelemetry's API: the SDK of the process exports them; without an SDK they are discarded. */
export interface Tracing {
  /** Adds a span for each request of an app, by Fastify's own instrumentation. Call it before routes are added. */
  addTo(app: FastifyInstance): Promise<void>
  /** Creates spans for the calls of a function, as children of their requests' spans. */
  of(traced: TracedFunction): FunctionTraces
}

export interface FunctionTraces {
  /** Starts the span of a call. */
  begin(request: TracedRequest): CallSpan
}

/** A request has a context if its app creates spans. */
type TracedRequest = Partial<Pick<FastifyRequest, 'opentelemetry'>>

type Api = typeof import('@opentelemetry/api')

/** @throws {@link PackageMissingError} */
export async function openTracing(): Promise<Tracing> {
  const api = await loadOtelPackage('@opentelemetry/api', () => import('@opentelemetry/api'))
  const { FastifyOtelInstrumentation } = await loadOtelPackage('@fastify/otel', () => import('@fastify/otel'))
  const tracer = api.trace.getTracer('wasm-serve')

  /**
   * The guest gets the context in the request's headers, as if its client had sent it: its own requests belong to that
   * trace.
   */
  const setGuestContext: onRequestHookHandler = (request, _reply, done) => {
    const { context } = request.opentelemetry()
    const carrier: Record<string, string> = {}
    if (context) api.propagation.inject(context, carrier)
    for (const [name, value] of Object.entries(carrier)) setHeader(request.raw, name, value)
    done()
  }

  return {
    async addTo(app) {
      const instrumentation = new FastifyOtelInstrumentation({
        instrumentHooks: false,
        instrumentHandler: false, // the call has its own span, with more attributes
        requestHook(span, request) {
          const { id, method, routeOptions } = request
          const route = servedRouteOf(request)
          const url = route?.url ?? routeOptions.url
          span.updateName(url ? `${method} ${url}` : method)
          span.setAttribute('wasm_serve.request_id', id)
          if (route) span.setAttribute('wasm_serve.plugin', route.plugin)
        },
      })
      await app.register(instrumentation.plugin())
      app.addHook('onRequest', setGuestContext)
    },
    of({ route, plugin, digest, function: name, engine }) {
      const attributes: Attributes = {
        'http.route': route,
        'wasm_serve.plugin': plugin,
        'wasm_serve.digest': digest,
        'wasm_serve.engine': engine,
        'wasm_serve.function': name,
      }
      const spanName = `${plugin} ${name}`
      return {
        begin(request) {
          const parent = request.opentelemetry?.().context ?? api.context.active()
          const span = tracer.startSpan(spanName, { attributes: { ...attributes } }, parent)
          return new OtelSpan(api, span, api.trace.setSpan(parent, span))
        },
      }
    },
  }
}

/** Sets one header, in both of Node's representations. @param name - In lower case. */
function setHeader(
  { headers, rawHeaders }: { headers: NodeJS.Dict<string | string[]>; rawHeaders: string[] },
  name: string,
  value: string,
): void {
  headers[name] = value
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    if (rawHeaders[at]?.toLowerCase() === name) rawHeaders.splice(at, 2)
  }
  rawHeaders.push(name, value)
}

class OtelSpan implements CallSpan {
  readonly #api: Api
  readonly #span: Span
  readonly #context: Context

  /** @param context - Contains the span. */
  constructor(api: Api, span: Span, context: Context) {
    this.#api = api
    this.#span = span
    this.#context = context
  }

  outboundHeaders(): Record<string, string> {
    const headers: Record<string, string> = {}
    this.#api.propagation.inject(this.#context, headers)
    return headers
  }

  end({ queueMs }: CallTimes, outcome: Outcome, code = ''): void {
    const span = this.#span
    // An error returned by the guest is not a failure of the server.
    if (outcome !== 'ok' && outcome !== 'guest_error')
      span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: code })
    span.setAttribute('wasm_serve.outcome', outcome)
    if (queueMs !== undefined) span.setAttribute('wasm_serve.queue_ms', queueMs)
    span.end()
  }
}

/** Time limit for exporting the last spans, in milliseconds. */
const FLUSH_MS = 1_000

/** The exporter of the process's spans. */
export interface TracingSdk {
  /** Sends the remaining spans. Spans that cannot be sent in time are lost. */
  close(): Promise<void>
}

/**
 * Starts OpenTelemetry's SDK for traces, as the standard variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`,
 * `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME` and so on). To be called before anything that makes spans is opened.
 *
 * @throws {@link PackageMissingError}
 */
export async function startTracingSdk(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<TracingSdk> {
  const name = '@opentelemetry/sdk-node'
  const { NodeSDK } = await loadOtelPackage(name, () => import('@opentelemetry/sdk-node'))
  const { OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES = '' } = environment
  const isNamed = OTEL_SERVICE_NAME !== undefined || /(?:^|,)\s*service\.name=/.test(OTEL_RESOURCE_ATTRIBUTES)
  const sdk = new NodeSDK({
    ...(!isNamed && { serviceName: 'wasm-serve' }),
    metricReaders: [], // /metrics provides them
    logRecordProcessors: [],
  })
  sdk.start()
  return {
    async close() {
      const sent = sdk.shutdown().catch(() => undefined) // an unreachable collector must not delay the shutdown
      await Promise.race([sent, sleep(FLUSH_MS, undefined, { ref: false })])
    },
  }
}

/** One command: installed one by one, npm would take the newest API, which the SDK may not support yet (ERESOLVE). */
const ALL_PACKAGES = '@opentelemetry/api @opentelemetry/sdk-node @fastify/otel'

/** @throws {@link PackageMissingError} with the line that installs all of them. */
function loadOtelPackage<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  return loadPackage('the option otel', name, load, ALL_PACKAGES)
}
