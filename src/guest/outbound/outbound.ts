import { EngineClosedError, OutboundTimeoutError } from '../../errors/errors.ts'
import { allowHosts, type Reach } from '../../plugin/source/allowed-hosts.ts'
import { type OutboundClient, type OutboundResponse, openClient } from './client.ts'
import {
  checkRequest,
  type GuestRequest,
  type GuestStreamRequest,
  type SendableRequest,
} from './guest-request.ts'
import { toOutboundError } from './outbound-error.ts'
import { type OutboundStream, openStream, type StreamLimits } from './outbound-stream.ts'
import { followRedirects } from './redirect.ts'
import {
  checkTarget,
  type NetworkView,
  ownAddresses,
  type Resolve,
  resolveBySystem,
  showTarget,
  type Target,
} from './target.ts'

export interface OutboundOptions {
  /** Patterns as for `allowHosts`. Empty: no host can be reached. */
  readonly allowedHosts: readonly string[]
  /** Whether a host that is named, without `*`, may be in a private network or this machine. Default: true. */
  readonly opensPrivate?: boolean | undefined
  /** Maximum size of a response body, in bytes. */
  readonly responseMax: number
  /** Maximum bytes of a streamed response. Infinity: without limit. Default: `responseMax`. */
  readonly streamMax?: number | undefined
  /** Default: the network of this machine. */
  readonly network?: Network | undefined
}

/** Replaces the network of this machine in tests. */
interface Network {
  readonly resolve: Resolve
  /** Certificates to trust instead of Node's. */
  readonly ca?: string
  /** Addresses of this machine. Default: those of its network interfaces. */
  readonly addresses?: () => readonly string[]
}

export interface OutboundLimits {
  /** Time limit in ms for everything: names, redirects, headers, body. */
  readonly timeoutMs: number
  /** Ends the request early, for example when its call has ended. */
  readonly signal?: AbortSignal | undefined
}

/** The outbound HTTP client of a route. On the main thread only. */
export interface Outbound {
  /**
   * Sends a request of a guest and follows at most five redirects; each target is checked like the first. A response of
   * any status is a result.
   *
   * @param body - Do not change it until the promise settles.
   * @throws `OutboundRequestInvalidError` if it cannot be sent as it is.
   * @throws `OutboundRefusedError` if host or address are not allowed.
   * @throws {@link OutboundTimeoutError} after `timeoutMs` milliseconds.
   * @throws `OutboundTooLargeError` at `responseMax`.
   * @throws `OutboundFailedError` if there is no complete response.
   * @throws {@link EngineClosedError} when the route is closed.
   * @throws the signal's reason, when it ends the request.
   */
  fetch(
    request: GuestRequest,
    body: Uint8Array | undefined,
    limits: OutboundLimits,
  ): Promise<OutboundResponse>
  /**
   * Begins a request whose body is written and whose response is read piece by piece, under the same checks. A redirect
   * that would send a body again is a result. GET and HEAD are sent at once, others with the first piece or the end of their
   * body.
   *
   * @throws `OutboundRequestInvalidError` if it cannot be sent as it is.
   * @throws `OutboundRefusedError` if its host or address is not allowed. A name is resolved later.
   * @throws {@link EngineClosedError} when the route is closed.
   */
  open(request: GuestStreamRequest, limits: StreamLimits): OutboundStream
  /** Aborts all requests in flight and closes all connections. */
  close(): Promise<void>
}

/** Opens the HTTP client for the guests of a route. There is one for each route, which owns its connections. */
export function openOutbound(options: OutboundOptions): Outbound {
  return new HttpOutbound(options)
}

/** Maximum of Node's timers, in ms; a longer one would fire at once. */
const MAX_TIMER_MS = 2_147_483_647

class HttpOutbound implements Outbound {
  readonly #reachOf: (url: URL) => Reach
  readonly #context: NetworkView
  readonly #client: OutboundClient
  readonly #streamMax: number
  readonly #running = new Map<AbortController, Promise<unknown>>()
  readonly #streams = new Set<OutboundStream>()
  #closed = false

  constructor({
    allowedHosts,
    opensPrivate,
    responseMax,
    streamMax = responseMax,
    network,
  }: OutboundOptions) {
    this.#reachOf = allowHosts(allowedHosts, opensPrivate)
    this.#context = {
      resolve: network?.resolve ?? resolveBySystem,
      own: ownAddresses(network?.addresses),
    }
    this.#client = openClient(responseMax, network?.ca)
    this.#streamMax = streamMax
  }

  async fetch(
    request: GuestRequest,
    body: Uint8Array | undefined,
    limits: OutboundLimits,
  ): Promise<OutboundResponse> {
    if (this.#closed) throw new EngineClosedError()
    const sendable = checkRequest(request, body)
    const ended = new AbortController()
    const response = this.#fetchUntil(ended, sendable, limits)
    this.#running.set(ended, response)
    try {
      return await response
    } finally {
      this.#running.delete(ended)
    }
  }

  open(request: GuestStreamRequest, limits: StreamLimits): OutboundStream {
    if (this.#closed) throw new EngineClosedError()
    const { length, followsRedirects } = request
    const stream = openStream(checkRequest(request, undefined), length, limits, {
      client: this.#client,
      check: (url, name) => this.#check(url, name),
      maxBytes: this.#streamMax,
      followsRedirects,
    })
    this.#streams.add(stream)
    const forget = () => this.#streams.delete(stream)
    stream.done.then(forget, forget)
    return stream
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const stream of this.#streams) stream.close(new EngineClosedError())
    const running = [...this.#running]
    for (const [ended] of running) ended.abort(new EngineClosedError())
    await Promise.allSettled(running.map(([, response]) => response))
    this.#client.close()
  }

  async #fetchUntil(
    ended: AbortController,
    request: SendableRequest,
    { timeoutMs, signal }: OutboundLimits,
  ): Promise<OutboundResponse> {
    const onTimeout = () => ended.abort(new OutboundTimeoutError(showTarget(request.url), timeoutMs))
    const onAbort = () => ended.abort(signal?.reason)
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort)
    const timer = setTimeout(onTimeout, Math.min(timeoutMs, MAX_TIMER_MS))
    try {
      return await followRedirects(request, (next, label) => this.#exchange(next, label, ended.signal))
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async #exchange(request: SendableRequest, name: string, ended: AbortSignal): Promise<OutboundResponse> {
    const target = this.#check(request.url, name)
    try {
      return await this.#client.exchange(request, target, ended)
    } catch (error) {
      throw ended.aborted ? ended.reason : toOutboundError(error, target)
    }
  }
  #check(url: URL, name: string): Target {
    return checkTarget(url, name, this.#reachOf, this.#context)
  }
}
