import { EngineClosedError, OutboundFailedError, OutboundTimeoutError } from '../../errors/errors.ts'
import { allowHosts, type Reach } from '../../plugin/source/allowed-hosts.ts'
import { type Client, type OutboundResponse, openClient } from './client.ts'
import { toFailure } from './failure.ts'
import { checkRequest, type GuestRequest, type SendableRequest } from './guest-request.ts'
import { ownAddresses } from './own-addresses.ts'
import { redirected } from './redirect.ts'
import { checkTarget, type Resolve, resolveBySystem, type Surroundings, showTarget } from './target.ts'

export interface OutboundOptions {
  /** As `allowHosts` takes them. Empty: nothing can be reached. */
  readonly allowedHosts: readonly string[]
  /** Whether a host that is named, without `*`, may be in a private network or this machine. Default: true. */
  readonly opensPrivate?: boolean | undefined
  /** Bytes of the body of a response. */
  readonly responseMax: number
  /** Default: that of this machine. */
  readonly network?: Network | undefined
}

/** What tests have of their own. */
export interface Network {
  readonly resolve: Resolve
  /** Certificates to trust instead of Node's. */
  readonly ca?: string
  /** Addresses of this machine. Default: those of its network interfaces. */
  readonly addresses?: () => readonly string[]
}

export interface OutboundLimits {
  /** Of all: names, redirects, headers, body. */
  readonly timeoutMs: number
  /** Ends the request early: nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined
}

/** How the guests of a route reach other servers. On the main thread only. */
export interface Outbound {
  /**
   * Sends what a guest asked for, and follows at most five redirects, each to a place that could have been asked for.
   * A response is an answer whatever its status.
   *
   * @param body - Do not change it until the promise settles.
   * @throws `OutboundRequestInvalidError` if it cannot be sent as it is.
   * @throws `OutboundRefusedError` if host or address are not allowed.
   * @throws {@link OutboundTimeoutError} after `timeoutMs` milliseconds.
   * @throws `OutboundTooLargeError` at `responseMax`.
   * @throws {@link OutboundFailedError} if there is no whole answer.
   * @throws {@link EngineClosedError} when the route is closed.
   * @throws the signal's reason, when it ends the request.
   */
  fetch(
    request: GuestRequest,
    body: Uint8Array | undefined,
    limits: OutboundLimits,
  ): Promise<OutboundResponse>
  /** Ends what is in flight and closes all connections. */
  close(): Promise<void>
}

/** Opens the door of a route's guests to other servers; made once for a route, which owns its connections. */
export function openOutbound(options: OutboundOptions): Outbound {
  return new HttpOutbound(options)
}

const MAX_REDIRECTS = 5

/** Of Node's timers, in ms; a longer one would fire at once. */
const MAX_TIMER = 2_147_483_647

class HttpOutbound implements Outbound {
  readonly #reachOf: (url: URL) => Reach
  readonly #surroundings: Surroundings
  readonly #client: Client
  readonly #running = new Map<AbortController, Promise<unknown>>()
  #closed = false

  constructor({ allowedHosts, opensPrivate, responseMax, network }: OutboundOptions) {
    this.#reachOf = allowHosts(allowedHosts, opensPrivate)
    this.#surroundings = {
      resolve: network?.resolve ?? resolveBySystem,
      own: ownAddresses(network?.addresses),
    }
    this.#client = openClient(responseMax, network?.ca)
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

  async close(): Promise<void> {
    this.#closed = true
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
    const timer = setTimeout(onTimeout, Math.min(timeoutMs, MAX_TIMER))
    try {
      return await this.#follow(request, ended.signal)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async #follow(first: SendableRequest, ended: AbortSignal): Promise<OutboundResponse> {
    let request = first
    for (let redirects = 0; ; redirects++) {
      const response = await this.#exchange(request, nameOf(request, first), ended)
      const next = redirected(request, response)
      if (!next) return response
      if (redirects === MAX_REDIRECTS)
        throw new OutboundFailedError(
          showTarget(first.url),
          `it is redirected more than ${MAX_REDIRECTS} times`,
        )
      request = next
    }
  }

  async #exchange(request: SendableRequest, name: string, ended: AbortSignal): Promise<OutboundResponse> {
    const target = checkTarget(request.url, name, this.#reachOf, this.#surroundings)
    try {
      return await this.#client.exchange(request, target, ended)
    } catch (error) {
      throw ended.aborted ? ended.reason : toFailure(error, target)
    }
  }
}

/** For messages. */
function nameOf({ url }: SendableRequest, first: SendableRequest): string {
  return url === first.url ? showTarget(url) : `${showTarget(url)} (redirected from ${showTarget(first.url)})`
}
