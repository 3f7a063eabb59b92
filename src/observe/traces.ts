import { setTimeout as sleep } from 'node:timers/promises'
import type { Attributes, Context, Span } from '@opentelemetry/api'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { loadPackage } from '../platform/optional-package.ts'
import type { CallSpan, CallTimes, Outcome, StreamEvent } from './observe.ts'

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
  /** Adds a span for each request of an app. Call it before other hooks and routes are added. */
  addTo(app: FastifyInstance): void
  /** Creates spans for the calls of a function, as children of their requests' spans. */
  of(traced: TracedFunction): FunctionTraces
}

export interface FunctionTraces {
  /** Starts the span of a call. */
  begin(request: TracedRequest): CallSpan
}

/** A request has a span if its app creates spans. */
type TracedRequest = Partial<Pick<FastifyRequest, 'requestSpan'>>

declare module 'fastify' {
  interface FastifyRequest {
    /** The span of the request, in an app with the option `otel`. */
    requestSpan?: RequestSpan | null
  }
}

type Api = typeof import('@opentelemetry/api')

/** @throws {@link PackageMissingError} */
export async function openTracing(): Promise<Tracing> {
  const api = await loadOtelPackage('@opentelemetry/api', () => import('@opentelemetry/api'))
  const tracer = api.trace.getTracer('wasm-serve')
  const rpcMetadata = api.createContextKey(RPC_METADATA)

  /** The context of an HTTP instrumentation, if the process has one; otherwise that of the client. */
  const parentOf = ({ headers }: FastifyRequest): Context => {
    const active = api.context.active()
    return api.trace.getSpan(active) ? active : api.propagation.extract(active, headers)
  }

  const beginSpan = (request: FastifyRequest): RequestSpan => {
    const { id, method, url: path, routeOptions } = request
    const { wasmServe, wasmServeTable } = routeOptions.config ?? {}
    const route = wasmServe ?? wasmServeTable?.find(request)
    const url = route?.url ?? routeOptions.url
    const parent = parentOf(request)
    const outer = parent.getValue(rpcMetadata) as RpcMetadata | undefined
    const isInner = outer?.type === 'http'
    if (isInner && url !== undefined) outer.route = url
    const attributes: Attributes = {
      'http.request.method': method,
      'url.path': path,
      'wasm_serve.request_id': id,
    }
    if (url !== undefined) attributes['http.route'] = url
    if (route) attributes['wasm_serve.plugin'] = route.plugin
    const kind = isInner ? api.SpanKind.INTERNAL : api.SpanKind.SERVER
    const span = tracer.startSpan(url ? `${method} ${url}` : method, { attributes, kind }, parent)
    return new RequestSpan(api, span, api.trace.setSpan(parent, span))
  }

  /**
   * The guest gets the context in the request's headers, as if its client had sent it: its own requests belong to that
   * trace.
   *
   * The span is not made the active one. The calls of a turn run together, so that it would be the span of another request
   * for most of them, and Node 20 runs a hook for each callback of a process with an active context.
   */
  const traceRequest: onRequestHookHandler = (request, reply, done) => {
    const requestSpan = beginSpan(request)
    request.requestSpan = requestSpan
    const carrier: Record<string, string> = {}
    api.propagation.inject(requestSpan.context, carrier)
    for (const name in carrier) setHeader(request.raw, name, carrier[name] ?? '')
    if (requestSpan.isRecording) {
      const end = () => requestSpan.end(reply)
      reply.raw.on('finish', end).on('close', end) // a client that disconnects leaves no `finish`
    }
    done()
  }

  return {
    addTo(app) {
      app.decorateRequest('requestSpan', null)
      app.addHook('onRequest', traceRequest)
      app.addHook('onError', (request, _reply, error, done) => {
        request.requestSpan?.failed(error)
        done()
      })
    },
    of({ route, plugin, digest, function: name, engine }) {
      const attributes: Attributes = Object.freeze({
        'http.route': route,
        'wasm_serve.plugin': plugin,
        'wasm_serve.digest': digest,
        'wasm_serve.engine': engine,
        'wasm_serve.function': name,
      })
      const spanName = `${plugin} ${name}`
      return {
        begin(request) {
          const parent = request.requestSpan?.context ?? api.context.active()
          return new OtelSpan(api, tracer.startSpan(spanName, { attributes }, parent), parent)
        },
      }
    },
  }
}

/** Where HTTP instrumentations keep {@link RpcMetadata} in a context. (`@opentelemetry/core`, which the API does not include) */
const RPC_METADATA = 'OpenTelemetry SDK Context Key RPC_METADATA'

/** The span of an HTTP instrumentation: it learns the route here. */
interface RpcMetadata {
  readonly type: string
  route?: string
}

/** Sets one header, in both of Node's representations. @param name - In lower case. */
function setHeader(
  { headers, rawHeaders }: { headers: NodeJS.Dict<string | string[]>; rawHeaders: string[] },
  name: string,
  value: string,
): void {
  headers[name] = value
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    const known = rawHeaders[at]
    if (known?.length === name.length && known.toLowerCase() === name) rawHeaders.splice(at, 2)
  }
  rawHeaders.push(name, value)
}

/** The span of a request. */
class RequestSpan {
  /** Contains the span. */
  readonly context: Context
  readonly #api: Api
  readonly #span: Span
  #hasFailed = false
  #hasEnded = false

  constructor(api: Api, span: Span, context: Context) {
    this.#api = api
    this.#span = span
    this.context = context
  }

  /** Whether it was sampled. */
  get isRecording(): boolean {
    return this.#span.isRecording()
  }

  failed(error: Error): void {
    this.#hasFailed = true
    this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: error.message })
    this.#span.recordException(error)
  }

  /** Ends it with the status of the answer, unless nothing was sent. */
  end({ raw: { headersSent, statusCode } }: FastifyReply): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const span = this.#span
    if (headersSent) span.setAttribute('http.response.status_code', statusCode)
    if (headersSent && statusCode >= 500 && !this.#hasFailed)
      span.setStatus({ code: this.#api.SpanStatusCode.ERROR })
    span.end()
  }
}

class OtelSpan implements CallSpan {
  readonly #api: Api
  readonly #span: Span
  readonly #parent: Context

  constructor(api: Api, span: Span, parent: Context) {
    this.#api = api
    this.#span = span
    this.#parent = parent
  }

  outboundHeaders(): Record<string, string> {
    const headers: Record<string, string> = {}
    this.#api.propagation.inject(this.#api.trace.setSpan(this.#parent, this.#span), headers)
    return headers
  }

  happened(event: StreamEvent): void {
    this.#span.addEvent(`wasm_serve.${event}`)
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
const ALL_PACKAGES = '@opentelemetry/api @opentelemetry/sdk-node'

/** @throws {@link PackageMissingError} with the line that installs all of them. */
function loadOtelPackage<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  return loadPackage('the option otel', name, load, ALL_PACKAGES)
}
