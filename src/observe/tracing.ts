import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import { loadOtelPackage } from './otel-package.ts'
import { type TracedGuest, traceEngine } from './traced-engine.ts'

/** What makes spans, by OpenTelemetry's API: they go where the process' SDK sends them, or nowhere if there is none. */
export interface Tracing {
  /** Adds a span for each request of an app, by Fastify's own instrumentation. To be called before routes are added. */
  addTo(app: FastifyInstance): Promise<void>
  /** The engine with a span for each call. */
  engine(engine: Engine, guest: TracedGuest): Engine
}

/** @throws {@link PackageMissingError} */
export async function openTracing(): Promise<Tracing> {
  const api = await loadOtelPackage('@opentelemetry/api', () => import('@opentelemetry/api'))
  const { FastifyOtelInstrumentation } = await loadOtelPackage('@fastify/otel', () => import('@fastify/otel'))
  const tracer = api.trace.getTracer('wasm-serve')

  /** The guest finds the context in the request's headers, as if its client had sent it: what it does is part of the request. */
  const tellGuest: onRequestHookHandler = (request, _reply, done) => {
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
        instrumentHandler: false, // the call has a span of its own, with more to tell
        requestHook(span, { id, method, routeOptions: { url = '', config } }) {
          span.updateName(url === '' ? method : `${method} ${url}`)
          span.setAttribute('wasm_serve.request_id', id)
          if (config.wasmServe) span.setAttribute('wasm_serve.plugin', config.wasmServe.plugin)
        },
      })
      await app.register(instrumentation.plugin())
      app.addHook('onRequest', tellGuest)
    },
    engine: (engine, guest) => traceEngine(engine, guest, tracer, api),
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
