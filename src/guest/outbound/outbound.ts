import { isNativeError } from 'node:util/types'
import { EngineClosedError, OutboundFailedError, OutboundTimeoutError } from '../../errors/errors.ts'
import { allowHosts, type Reach } from '../../plugin/source/allowed-hosts.ts'
import { type OutboundClient, type OutboundResponse, openClient } from './client.ts'
import { checkRequest, type GuestRequest, type SendableRequest } from './guest-request.ts'
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
  /** Default: the network of this machine. */
  readonly network?: Network | undefined
}

/** Replaces the network of this machine in tests. */
export interface Network {
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
   * @throws {@link OutboundFailedError} if there is no complete response.
   * @throws {@link EngineClosedError} when the route is closed.
   * @throws the signal's reason, when it ends the request.
   */
  fetch(
    request: GuestRequest,
    body: Uint8Array | undefined,
    limits: OutboundLimits,
  ): Promise<OutboundResponse>
  /** Aborts all requests in flight and closes all connections. */
  close(): Promise<void>
}

/** Opens the HTTP client for the guests of a route. There is one for each route, which owns its connections. */
export function openOutbound(options: OutboundOptions): Outbound {
  return new HttpOutbound(options)
}

const MAX_REDIRECTS = 5

/** Maximum of Node's timers, in ms; a longer one would fire at once. */
const MAX_TIMER_MS = 2_147_483_647

class HttpOutbound implements Outbound {
  readonly #reachOf: (url: URL) => Reach
  readonly #surroundings: NetworkView
  readonly #client: OutboundClient
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
    const timer = setTimeout(onTimeout, Math.min(timeoutMs, MAX_TIMER_MS))
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
      const response = await this.#exchange(request, requestLabel(request, first), ended)
      const next = redirectedRequest(request, response)
      if (!next) return response
      if (redirects === MAX_REDIRECTS)
        throw new OutboundFailedError(
          showTarget(first.url),
          `it was redirected more than ${MAX_REDIRECTS} times`,
        )
      request = next
    }
  }

  async #exchange(request: SendableRequest, name: string, ended: AbortSignal): Promise<OutboundResponse> {
    const target = checkTarget(request.url, name, this.#reachOf, this.#surroundings)
    try {
      return await this.#client.exchange(request, target, ended)
    } catch (error) {
      throw ended.aborted ? ended.reason : toOutboundError(error, target)
    }
  }
}

/** For messages. */
function requestLabel({ url }: SendableRequest, first: SendableRequest): string {
  return url === first.url ? showTarget(url) : `${showTarget(url)} (redirected from ${showTarget(first.url)})`
}

/** Translates errors of Node's client for the author of the guest. Errors of wasm-serve pass unchanged. */
function toOutboundError(error: unknown, { url, name }: Target): unknown {
  const code = isNativeError(error) && 'code' in error ? error.code : undefined
  if (typeof code !== 'string' || code.startsWith('WASM_SERVE_')) return error
  return new OutboundFailedError(name, whyFailed(code, url), { cause: error })
}

function whyFailed(code: string, { protocol, host, hostname }: URL): string {
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} does not resolve (${code})`
    case 'ECONNREFUSED':
      return `nothing listens on ${host}`
    case 'ECONNRESET':
    case 'EPIPE':
      return `${host} closed the connection before the end`
    case 'HPE_HEADER_OVERFLOW':
      return `the headers of ${host} are larger than 16 KiB`
  }
  if (code.startsWith('HPE_')) return `${host} did not answer in HTTP (${code})`
  // Certificate errors have dozens of codes; unlike those of the system, all contain an underscore.
  if (protocol === 'https:' && (code.includes('_') || code === 'EPROTO'))
    return `no trusted TLS connection to ${host} (${code})`
  return `${host} cannot be reached (${code})`
}

/**
 * The request that a redirect leads to, as `fetch` makes it: 303, and 301 and 302 after a POST, become a GET without
 * body; 307 and 308 keep the body, to another origin too. Another origin receives only headers that hold no
 * credentials: a header of any other name may hold a key. The target is not checked here.
 *
 * @returns undefined if the response is not a redirect.
 * @throws {@link OutboundFailedError} if its target is not a valid URL.
 */
export function redirectedRequest(
  request: SendableRequest,
  { status, headers }: OutboundResponse,
): SendableRequest | undefined {
  const { location } = headers
  if (!REDIRECT_STATUSES.has(status) || location === undefined) return undefined
  if (!URL.canParse(location, request.url))
    throw new OutboundFailedError(showTarget(request.url), 'it was redirected to an invalid URL')

  const url = new URL(location, request.url)
  const isSame = url.origin === request.url.origin // scheme, host and port
  const kept = [...request.headers].filter(([name]) => isSame || HARMLESS_HEADERS.has(name))
  if (!becomesGet(status, request.method)) return { ...request, url, headers: new Map(kept) }
  const ofGet = kept.filter(([name]) => !BODY_HEADERS.has(name))
  return { url, method: 'GET', headers: new Map(ofGet), body: undefined }
}

const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** Headers that describe a body. */
const BODY_HEADERS: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-language',
  'content-location',
  'content-type',
])

/** Headers that are also sent to another origin: they describe response, body or trace, and hold no credentials. */
const HARMLESS_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-encoding',
  'content-language',
  'content-type',
  'range',
  'traceparent',
  'user-agent',
])

function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return status < 303 && method === 'POST'
}
