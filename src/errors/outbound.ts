import { failure } from './failure.ts'

/* Why an HTTP request of a guest has no answer. The guest is told. */

/** What the guest handed over is no request that can be sent: no JSON, no URL, a header that is none. */
export const OutboundRequestInvalidError = failure<[problem: string]>(
  'WASM_SERVE_OUTBOUND_REQUEST_INVALID',
  "The guest's HTTP request is not valid: %s",
  502,
)

/** The guest may not go there: host, scheme or address are not allowed, of the URL or of one it is redirected to. */
export const OutboundRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_REFUSED',
  "The guest's HTTP request to %s is refused: %s",
  502,
)

/** The answer was not complete when the time of the request, redirects included, was up. */
export const OutboundTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_OUTBOUND_TIMEOUT',
  "The guest's HTTP request to %s was not answered within %d ms",
  504,
)

/** The answer is larger than is allowed; it was cut off. */
export const OutboundTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_OUTBOUND_TOO_LARGE',
  "The answer to the guest's HTTP request to %s is larger than the httpResponseMax of %d bytes",
  502,
)

/** No server can be reached or trusted, it broke off, or it redirects too often. */
export const OutboundFailedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_FAILED',
  "The guest's HTTP request to %s failed: %s",
  502,
)
