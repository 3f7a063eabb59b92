import type { HostOperations } from '../engine/workers/host-bridge.ts'
import { type HttpResponse, httpFailure } from '../runtime/kernel-http.ts'
import { parseGuestRequest } from './guest-request.ts'
import type { Outbound, OutboundLimits } from './outbound.ts'
import { encodeHeaders } from './response-headers.ts'

/**
 * Sends what a guest gave to Extism's `http_request`. What is refused, or fails, is an answer too: the guest is told the
 * reason, and goes on.
 */
export async function sendForGuest(
  outbound: Outbound,
  json: Uint8Array,
  body: Uint8Array,
  limits: OutboundLimits,
): Promise<HttpResponse> {
  try {
    const response = await outbound.fetch(parseGuestRequest(json), body, limits)
    return { status: response.status, headers: encodeHeaders(response.headers), body: response.body }
  } catch (error) {
    return httpFailure(describe(error))
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? `${error.code}: ${error.message}` : error.message
}

/** The main thread's answer to guests in threads. */
export function httpOperations(outbound: Outbound): HostOperations {
  return {
    async http([request, body], { timeLeftMs, signal }) {
      const limits = { timeoutMs: Math.max(timeLeftMs, 1), signal }
      return sendForGuest(outbound, request as Uint8Array, body as Uint8Array, limits)
    },
  }
}
