import { failure } from './failure.ts'

/* Failures of HTTP requests of guests. The guest gets these errors. */

export const OutboundRequestInvalidError = failure({
  code: 'WASM_SERVE_OUTBOUND_REQUEST_INVALID',
  status: 502,
  site: 'guest',
  message: "The guest's HTTP request is not valid: %s",
  cause: 'The request is not JSON, or has no valid URL, header or method.',
  remedy: 'Correct the request in the guest.',
})

export const OutboundRefusedError = failure({
  code: 'WASM_SERVE_OUTBOUND_REFUSED',
  status: 502,
  site: 'guest',
  message: "The guest's HTTP request to %s is refused: %s",
  cause: 'The host is not allowed, or its address is not public.',
  remedy: 'Allow the host with `--allow-host`. A private address requires the full host name, without `*`.',
})

export const OutboundTimeoutError = failure({
  code: 'WASM_SERVE_OUTBOUND_TIMEOUT',
  status: 504,
  site: 'guest',
  message: "The guest's HTTP request to %s got no complete response within %d ms",
  cause: 'The response, including redirects, was not complete in time.',
  remedy: 'Raise `--timeout`, or use a faster server.',
})

export const OutboundTooLargeError = failure({
  code: 'WASM_SERVE_OUTBOUND_TOO_LARGE',
  status: 502,
  site: 'guest',
  message: "The response to the guest's HTTP request to %s is larger than the httpResponseMax of %d bytes",
  cause: 'The response is larger than `httpResponseMax`.',
  remedy: 'Raise `httpResponseMax`.',
})

export const OutboundFailedError = failure({
  code: 'WASM_SERVE_OUTBOUND_FAILED',
  status: 502,
  site: 'guest',
  message: "The guest's HTTP request to %s failed: %s",
  cause: 'The server cannot be reached or trusted, aborted the response, or redirects too often.',
  remedy: 'Check the address and the certificate.',
})
