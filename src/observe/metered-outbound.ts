import type { Outbound } from '../guest/outbound/outbound.ts'
import type { Counts } from './counts.ts'

/** What can become of an HTTP request of a guest: an answer, by the first digit of its status, or a failure. */
export const OUTBOUND_RESULTS = [
  ...(['1xx', '2xx', '3xx', '4xx', '5xx'] as const),
  ...(['invalid', 'refused', 'timeout', 'too_large', 'failed'] as const),
] as const

export type OutboundResult = (typeof OUTBOUND_RESULTS)[number]

/** What of it is told by the code of an error. */
const RESULT_OF: Readonly<Record<string, OutboundResult>> = {
  WASM_SERVE_OUTBOUND_REQUEST_INVALID: 'invalid',
  WASM_SERVE_OUTBOUND_REFUSED: 'refused',
  WASM_SERVE_OUTBOUND_TIMEOUT: 'timeout',
  WASM_SERVE_OUTBOUND_TOO_LARGE: 'too_large',
}

/** Guests' way to other servers, with what becomes of their requests counted. */
export function meterOutbound(outbound: Outbound, counts: Counts<OutboundResult>): Outbound {
  return {
    async fetch(...request) {
      try {
        const response = await outbound.fetch(...request)
        counts.count(`${Math.floor(response.status / 100)}xx` as OutboundResult)
        return response
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : ''
        counts.count(RESULT_OF[code] ?? 'failed')
        throw error
      }
    },
    close: () => outbound.close(),
  }
}
