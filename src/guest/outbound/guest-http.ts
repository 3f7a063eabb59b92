import type { Caller } from '../../observe/observe.ts'
import type { Outbound } from './outbound.ts'

/** The response to an HTTP request of a guest. */
export interface HttpResponse {
  /** 0 if the request was refused or failed. */
  readonly status: number
  /** JSON; undefined if there are no headers. */
  readonly headers: Uint8Array | undefined
  /** The reason, if the request was refused or failed. */
  readonly body: Uint8Array
}

/** The outbound HTTP service of a guest. */
export interface GuestHttp {
  /** Whether it responds later: the guest has to be able to wait. */
  readonly isAsync: boolean

  /**
   * @param request - Extism's JSON: `{ "url", "method", "headers" }`. Valid only during this call.
   * @param body - Empty if there is none. Valid only during this call.
   * @param caller - The caller of the current call; undefined while the guest starts.
   */
  send(request: Uint8Array, body: Uint8Array, caller?: Caller): HttpResponse | Promise<HttpResponse>
}

/** The outbound HTTP of a route, on the main thread. */
export interface RouteHttp {
  readonly outbound: Outbound
  /** The service for guests on the event loop. */
  readonly direct: GuestHttp

  /** Sends a request of a guest in a thread or process. @param call - Its signal is aborted at its deadline, if it has one. */
  send(
    request: Uint8Array,
    body: Uint8Array,
    call: {
      readonly caller: Caller | undefined
      readonly hasDeadline: boolean
      readonly signal: AbortSignal
    },
  ): Promise<HttpResponse>
}

/** Extism's function for HTTP requests. */
export const HTTP_REQUEST = 'http_request'

/** The reason of every refused request if no host is allowed. */
export const HTTP_NOT_ALLOWED = 'HTTP requests are not allowed: set --allow-host to allow a host'

/** The response to a refused or failed request. The runtime decides whether it ends the call. */
export function httpFailure(reason: string): HttpResponse {
  return { status: 0, headers: undefined, body: Buffer.from(reason) }
}
