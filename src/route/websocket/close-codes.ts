import type { KnownError } from '../error-response.ts'

/** The closing code for a failure, by the status that a request would get. (RFC 6455, section 7.4.1) */
export function closeCodeOf({ code, statusCode }: KnownError): number {
  if (code === 'WASM_SERVE_ENGINE_CLOSED' || code === 'WASM_SERVE_SHUTTING_DOWN') return 1001
  if (statusCode === 503) return 1013
  return code !== 'WASM_SERVE_GUEST_ERROR' && statusCode >= 400 && statusCode < 500 ? 1008 : 1011
}

/** The code of the closing frame that the package `ws` sends after a violation of the protocol. */
export function violationCodeOf(error: Error): number {
  const code = 'code' in error ? String(error.code) : ''
  return CODES[code] ?? (code.startsWith('WS_ERR_') ? 1002 : 1006)
}

const CODES: Readonly<Record<string, number | undefined>> = {
  WS_ERR_INVALID_UTF8: 1007,
  WS_ERR_TOO_MANY_BUFFERED_PARTS: 1008,
  WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH: 1009,
  WS_ERR_UNSUPPORTED_MESSAGE_LENGTH: 1009,
}
