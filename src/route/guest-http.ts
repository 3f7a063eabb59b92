import { encodeHeaders } from '../guest/outbound/client.ts'
import {
  type GuestHttp,
  type HttpResponse,
  httpFailure,
  type RouteHttp,
} from '../guest/outbound/guest-http.ts'
import { type GuestRequest, parseGuestRequest } from '../guest/outbound/guest-request.ts'
import type { Outbound, OutboundLimits } from '../guest/outbound/outbound.ts'
import type { Caller } from '../observe/observe.ts'

/**
 * Sends a guest's `http_request`. A refusal or failure becomes a response with status 0 and the reason. The runtime
 * decides whether it ends the call (`httpErrors`).
 */
async function sendForGuest(
  outbound: Outbound,
  json: Uint8Array,
  body: Uint8Array,
  limits: OutboundLimits,
  caller?: Caller,
): Promise<HttpResponse> {
  try {
    const request = withHeaders(parseGuestRequest(json), caller?.observer?.outboundHeaders?.())
    const response = await outbound.fetch(request, body, limits)
    return { status: response.status, headers: encodeHeaders(response.headers), body: response.body }
  } catch (error) {
    return httpFailure(describeRequestFailure(error))
  }
}

/** Adds headers to a request. The guest's own take precedence. */
export function withHeaders<Request extends GuestRequest>(
  request: Request,
  headers: Readonly<Record<string, string>> | undefined,
): Request {
  if (!headers) return request
  const names = new Set(Object.keys(request.headers).map((name) => name.toLowerCase()))
  const added = Object.entries(headers).filter(([name]) => !names.has(name))
  return { ...request, headers: { ...request.headers, ...Object.fromEntries(added) } }
}

function describeRequestFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? `${error.code}: ${error.message}` : error.message
}

/** Time limit if no deadline ends the call: of a request, or of all requests of a call on the event loop. */
const HTTP_TIMEOUT_MS = 30_000

/**
 * For guests on the event loop. Other calls of the route wait for a guest that waits, and nothing ends its call: all its requests
 * together have `limitMs`, or each of them if `areConcurrent`.
 *
 * @param areConcurrent - Whether a call that waits holds up no other.
 */
export function directHttp(
  outbound: Outbound,
  areConcurrent: boolean,
  limitMs: number = HTTP_TIMEOUT_MS,
): GuestHttp {
  const spent = new WeakMap<Caller, number>()
  return {
    isAsync: true,
    async send(request, body, caller) {
      const before = (caller && spent.get(caller)) ?? 0
      const since = performance.now()
      const limits = { timeoutMs: Math.max(1, Math.ceil(limitMs - before)) }
      // Copies: the guest's memory may move during the wait.
      const response = await sendForGuest(outbound, request.slice(), body.slice(), limits, caller)
      if (caller && !areConcurrent) spent.set(caller, before + performance.now() - since)
      return response
    },
  }
}

/** The outbound HTTP of a route. The deadline of a guest in a thread or process also ends its requests. */
export function routeHttp(outbound: Outbound, areConcurrent: boolean): RouteHttp {
  return {
    outbound,
    direct: directHttp(outbound, areConcurrent),
    send(request, body, { hasDeadline, signal, caller }) {
      const limits = { timeoutMs: hasDeadline ? Number.POSITIVE_INFINITY : HTTP_TIMEOUT_MS, signal }
      return sendForGuest(outbound, request, body, limits, caller)
    },
  }
}
