import type { FastifyContextConfig, FastifyRequest, onSendHookHandler } from 'fastify'
import type { Log } from './log/guest-log.ts'

/** The route of a request; undefined if it is not one of wasm-serve, or if its URL is malformed. */
export function servedRouteOf(request: FastifyRequest): FastifyContextConfig['wasmServe'] {
  const { wasmServe, wasmServeTable } = request.routeOptions.config ?? {}
  return wasmServe ?? wasmServeTable?.find(request)
}

/** Everything that an engine needs from the caller of a guest. It is not a Fastify request. */
export interface Caller {
  /** Receives the log lines of the guest during the call. */
  readonly log: Log
  /**
   * Whether the client has disconnected. It is read while the call waits for an instance: an `AbortSignal` would cost
   * each request a listener, and this costs nothing. Default: false.
   */
  readonly isGone?: boolean
  /** Whether a guest in a thread or process is ended when the client has disconnected. Default: false. */
  readonly isCancelledWhenGone?: boolean
  /** Listens to the call. Default: nothing listens. */
  readonly observer?: CallObserver | undefined
  /** The value of `hostContext()` in host functions: on a route the Fastify request. Default: the caller itself. */
  readonly host?: unknown
}

/** Observes one call: the engine reports its progress, the route its outcome. */
export interface CallObserver {
  /** The engine has the call: it waits for an instance. Not reported if it need not wait. */
  queued(): void
  /** The guest starts. */
  started(): void
  /** The guest has ended. @param guestMs - How long it ran in milliseconds, where `started` was not reported. */
  ended(guestMs?: number): void
  /** The guest's output is available. The contract has not converted it yet. */
  returned(): void
  /** The call is over: it was answered, or failed. @param code - The code of its error. */
  settled(outcome: Outcome, code?: string): void
  /** Headers for the guest's HTTP requests, unless the guest sets them: the context of a trace. */
  outboundHeaders?(): Readonly<Record<string, string>> | undefined
}

/** The outcome of a call, by the code of its failure. */
const OUTCOME_OF = {
  WASM_SERVE_GUEST_ERROR: 'guest_error',
  WASM_SERVE_GUEST_TRAP: 'trap',
  WASM_SERVE_VARIABLES_FULL: 'trap',
  WASM_SERVE_GUEST_EXIT: 'exit',
  WASM_SERVE_OUTPUT_TOO_LARGE: 'output_too_large',
  WASM_SERVE_CONTRACT_BROKEN: 'contract_broken',
  WASM_SERVE_SIMPLISM_BROKEN: 'contract_broken',
  WASM_SERVE_DEADLINE_EXCEEDED: 'timeout',
  WASM_SERVE_BUDGET_EXCEEDED: 'timeout',
  WASM_SERVE_QUEUE_FULL: 'queue_full',
  WASM_SERVE_QUEUE_SLOW: 'queue_slow',
  WASM_SERVE_BREAKER_OPEN: 'breaker_open',
  WASM_SERVE_THREADS_STUCK: 'threads_stuck',
  WASM_SERVE_CLIENT_GONE: 'client_gone',
  WASM_SERVE_WORKER_LOST: 'worker_lost',
  WASM_SERVE_HOST_UNAVAILABLE: 'host_unavailable',
  WASM_SERVE_INSTANCE_START_FAILED: 'start_failed',
  WASM_SERVE_INSTANCES_FULL: 'start_failed',
  WASM_SERVE_ENGINE_CLOSED: 'closed',
  WASM_SERVE_BODY_TOO_LARGE: 'body_too_large',
  WASM_SERVE_STREAM_TIMEOUT: 'timeout',
  WASM_SERVE_STREAMS_FULL: 'queue_slow',
  WASM_SERVE_REQUEST_TIMEOUT: 'client_gone',
  WASM_SERVE_BAD_REQUEST: 'client_gone',
} as const

/** `ok`: it was answered. `error`: any other failure, such as an error in a contract of the user, or a bug. */
export type Outcome = 'ok' | 'error' | (typeof OUTCOME_OF)[keyof typeof OUTCOME_OF]

export const OUTCOMES: readonly Outcome[] = ['ok', ...new Set(Object.values(OUTCOME_OF)), 'error']

/** @param code - The code of the error that ended the call. */
export function outcomeOf(code: string): Outcome {
  return Object.hasOwn(OUTCOME_OF, code) ? OUTCOME_OF[code as keyof typeof OUTCOME_OF] : 'error'
}

/** Whether a call failed. An error returned by the guest, and a client that disconnected, are no failures. */
export function isFailure(outcome: Outcome): boolean {
  return outcome !== 'ok' && outcome !== 'guest_error' && outcome !== 'client_gone'
}

/** How long a call waited and ran, in milliseconds. */
export interface CallTimes {
  /** Time until the guest started, including the transfer to and from a thread. undefined if unknown. */
  readonly queueMs: number | undefined
  /** undefined if the guest never started, or its time is unknown. */
  readonly guestMs: number | undefined
}

/** The observers of a route. Each is optional; state that all calls share is created when the route is opened. */
export interface CallListeners {
  /** Whether answers have the header `Server-Timing`: see {@link addServerTiming}. */
  readonly timing?: boolean
  /** Metrics. */
  readonly meter?: { count(times: CallTimes, outcome: Outcome): void } | undefined
  /** Traces. */
  readonly traces?: { begin(request: FastifyRequest): CallSpan } | undefined
  /** The counts of this version, if calls are split between two. */
  readonly version?: VersionCounts | undefined
}

/** What happens in an exchange whose guest streams: the first byte of the request's body arrives, that of the answer leaves. */
export type StreamEvent = 'request.first_byte' | 'response.first_byte'

/** The span of a call in a trace. */
export interface CallSpan {
  happened(event: StreamEvent): void
  /** See {@link CallObserver.outboundHeaders}. */
  outboundHeaders(): Readonly<Record<string, string>>
  /** @param code - The code of the engine's error. */
  end(times: CallTimes, outcome: Outcome, code: string | undefined): void
}

/** Counters of one version while calls are split between two. */
export interface VersionCounts {
  calls: number
  /** Calls that failed in the engine, except errors returned by the guest. */
  failures: number
}

/** Creates the observer of a call, just before the call enters the engine. */
export type ObserveCall = (request: FastifyRequest) => ObservedCall

/**
 * Decides for a route whether its calls are observed.
 *
 * @returns undefined without observers: then a call has no overhead for them.
 */
export function observeCalls(listeners: CallListeners): ObserveCall | undefined {
  const { timing = false, meter, traces, version } = listeners
  if (!timing && !meter && !traces && !version) return undefined
  return (request) => {
    const call = new ObservedCall(listeners, traces?.begin(request))
    if (timing) request.observedCall = call
    return call
  }
}

/** One clock for all observers of a call, which are notified of its end. */
export class ObservedCall implements CallObserver, CallTimes {
  readonly #listeners: CallListeners
  readonly #span: CallSpan | undefined
  #queuedAt: number | undefined
  #startedAt: number | undefined
  #endedAt: number | undefined
  #hasReturned = false

  /** Starts with the call. */
  constructor(listeners: CallListeners, span?: CallSpan) {
    this.#listeners = listeners
    this.#span = span
    if (listeners.version) listeners.version.calls++
  }

  get queueMs(): number | undefined {
    const queued = this.#queuedAt
    if (queued === undefined) return this.#startedAt === undefined ? undefined : 0
    return (this.#startedAt ?? performance.now()) - queued
  }

  get guestMs(): number | undefined {
    const started = this.#startedAt
    const ended = this.#endedAt
    return started === undefined || ended === undefined ? undefined : ended - started
  }

  queued(): void {
    this.#queuedAt = performance.now()
  }

  started(): void {
    this.#startedAt = performance.now()
  }

  ended(guestMs?: number): void {
    this.#endedAt = performance.now()
    if (guestMs !== undefined) this.#startedAt = Math.max(this.#endedAt - guestMs, this.#queuedAt ?? 0)
  }

  returned(): void {
    this.#hasReturned = true
    this.#span?.end(this, 'ok', undefined)
  }

  settled(outcome: Outcome, code?: string): void {
    if (outcome === 'worker_lost') this.#queuedAt = this.#startedAt = undefined // the durations were lost too
    const { meter, version } = this.#listeners
    meter?.count(this, outcome)
    if (this.#hasReturned) return
    this.#span?.end(this, outcome, code)
    if (version && outcome !== 'guest_error') version.failures++
  }

  outboundHeaders(): Readonly<Record<string, string>> | undefined {
    return this.#span?.outboundHeaders()
  }

  /** Adds an event to the trace. */
  happened(event: StreamEvent): void {
    this.#span?.happened(event)
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Present if a call was made on a route with the option `timing`. */
    observedCall?: ObservedCall
  }
}

/**
 * The hook of a route with the option `timing`. It adds how long the call waited for an instance, and how long the guest
 * ran, in milliseconds: `Server-Timing: queue;dur=0.12, guest;dur=0.43`. Failures have it too; the answer to a request
 * that made no call, such as one with a body that is too large, does not.
 */
export const addServerTiming: onSendHookHandler = ({ observedCall }, reply, _payload, done) => {
  const header = observedCall && renderServerTiming(observedCall)
  if (header) reply.header('server-timing', header)
  done()
}

/** A call that never started, because the queue was full, only waited. */
export function renderServerTiming({ queueMs, guestMs }: CallTimes): string {
  return [renderDuration('queue', queueMs), renderDuration('guest', guestMs)].filter(Boolean).join(', ')
}

function renderDuration(name: string, ms: number | undefined): string {
  return ms === undefined ? '' : `${name};dur=${Math.round(ms * 1_000) / 1_000}`
}
