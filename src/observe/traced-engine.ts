import type { Context, Span, Tracer } from '@opentelemetry/api'
import type { FastifyRequest } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import type { Caller } from '../runtime/runtime.ts'
import { outcomeOf } from './outcome.ts'
import type { EngineStats } from './stats.ts'

/** Whose calls they are. */
export interface TracedGuest {
  /** URL of the route. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  readonly digest: string
}

type Api = typeof import('@opentelemetry/api')

/**
 * An engine with a span for each call, from when it is made, below that of its request. HTTP requests of the guest carry
 * its context.
 */
export function traceEngine(engine: Engine, guest: TracedGuest, tracer: Tracer, api: Api): Engine {
  return new TracedEngine(engine, guest, tracer, api)
}

class TracedEngine implements Engine {
  readonly name: Engine['name']
  readonly ready: Promise<void>
  readonly #engine: Engine
  readonly #tracer: Tracer
  readonly #api: Api
  readonly #plugin: string
  readonly #attributes: Readonly<Record<string, string>>

  constructor(engine: Engine, { route, plugin, digest }: TracedGuest, tracer: Tracer, api: Api) {
    this.name = engine.name
    this.ready = engine.ready
    this.#engine = engine
    this.#tracer = tracer
    this.#api = api
    this.#plugin = plugin
    this.#attributes = {
      'http.route': route,
      'wasm_serve.plugin': plugin,
      'wasm_serve.digest': digest,
      'wasm_serve.engine': engine.name,
    }
  }

  get trouble(): string | undefined {
    return this.#engine.trouble
  }

  get stats(): EngineStats {
    return this.#engine.stats
  }

  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array> {
    const span = this.#begin(exportName, caller)
    let output: ReturnType<Engine['call']>
    try {
      output = this.#engine.call(exportName, input, caller)
    } catch (error) {
      throw this.#failed(span, caller, error)
    }
    if (output instanceof Uint8Array) {
      this.#ended(span, caller, 'ok')
      return output
    }
    return output.then(
      (bytes) => {
        this.#ended(span, caller, 'ok')
        return bytes
      },
      (error) => {
        throw this.#failed(span, caller, error)
      },
    )
  }

  close(): Promise<void> {
    return this.#engine.close()
  }

  #begin(exportName: string, caller: Caller): Span {
    const { context, propagation, trace } = this.#api
    const parent = contextOf(caller) ?? context.active()
    const attributes = { ...this.#attributes, 'wasm_serve.function': exportName }
    const span = this.#tracer.startSpan(`${this.#plugin} ${exportName}`, { attributes }, parent)
    const own = trace.setSpan(parent, span)
    caller.outboundHeaders = () => {
      const headers: Record<string, string> = {}
      propagation.inject(own, headers)
      return headers
    }
    return span
  }

  #ended(span: Span, { callTiming }: Caller, outcome: string): void {
    span.setAttribute('wasm_serve.outcome', outcome)
    if (callTiming?.queueMs !== undefined) span.setAttribute('wasm_serve.queue_ms', callTiming.queueMs)
    span.end()
  }

  /** What the guest says itself is no failure of the server. */
  #failed(span: Span, caller: Caller, error: unknown): unknown {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const outcome = outcomeOf(code)
    if (outcome !== 'guest_error') span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: code })
    this.#ended(span, caller, outcome)
    return error
  }
}

/** Of a request of an app that makes spans. */
function contextOf(caller: Caller): Context | null | undefined {
  return (caller as Partial<Pick<FastifyRequest, 'opentelemetry'>>).opentelemetry?.().context
}
