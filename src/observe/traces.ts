import { setTimeout as sleep } from 'node:timers/promises'
import type { Attributes, Context, Span } from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { loadPackage } from '../platform/packages.ts'
import type { CallSpan, CallTimes, Outcome } from './observe.ts'

/** Which calls have the same span name and attributes. */
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

/** Makes spans by OpenTelemetry's API: they go where the process' SDK sends them, or nowhere if there is none. */
export interface Tracing {
  /** Adds a span for each request of an app, by Fastify's own instrumentation. To be called before routes are added. */
  addTo(app: FastifyInstance): Promise<void>
  /** Makes spans for the calls of a function, below those of their requests. */
  of(traced: TracedFunction): FunctionTraces
}

export interface FunctionTraces {
  /** Begins the span of a call. */
  begin(request: TracedRequest): CallSpan
}

/** A request has a context if its app makes spans. */
type TracedRequest = Partial<Pick<FastifyRequest, 'opentelemetry'>>

type Api = typeof import('@opentelemetry/api')

/** @throws {@link PackageMissingError} */
export async function openTracing(): Promise<Tracing> {
  const api = await loadOtelPackage('@opentelemetry/api', () => import('@opentelemetry/api'))
  const { FastifyOtelInstrumentation } = await loadOtelPackage('@fastify/otel', () => import('@fastify/otel'))
  const tracer = api.trace.getTracer('wasm-serve')

  /** The guest finds the context in the request's headers, as if its client had sent it: its requests are part of that. */
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
        instrumentHandler: false, // the call has a span of its own, with more attributes
        requestHook(span, { id, method, routeOptions: { url = '', config } }) {
          span.updateName(url === '' ? method : `${method} ${url}`)
          span.setAttribute('wasm_serve.request_id', id)
          if (config.wasmServe) span.setAttribute('wasm_serve.plugin', config.wasmServe.plugin)
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

/** Sets one header, in both forms in which Node has them. @param name - In lower case. */
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

  /** @param context - With the span in it. */
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
    // A guest that says no is no failure of the server.
    if (outcome !== 'ok' && outcome !== 'guest_error')
      span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: code })
    span.setAttribute('wasm_serve.outcome', outcome)
    if (queueMs !== undefined) span.setAttribute('wasm_serve.queue_ms', queueMs)
    span.end()
  }
}

/** How long the last spans may take on their way. */
const FLUSH_MS = 1_000

/** Where the spans of the process go. */
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
    metricReaders: [], // /metrics has them
    logRecordProcessors: [],
  })
  sdk.start()
  return {
    async close() {
      const sent = sdk.shutdown().catch(() => undefined) // an unreachable collector does not delay the end
      await Promise.race([sent, sleep(FLUSH_MS, undefined, { ref: false })])
    },
  }
}

/** In one line: one after the other, npm takes the newest API, which the SDK may not be ready for (ERESOLVE). */
const ALL_PACKAGES = '@opentelemetry/api @opentelemetry/sdk-node @fastify/otel'

/** @throws {@link PackageMissingError} with the line that installs all of them. */
function loadOtelPackage<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  return loadPackage('the option otel', name, load, ALL_PACKAGES)
}
