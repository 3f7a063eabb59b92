import { failure } from './failure.ts'

/* Why a request is not for a guest. */

/** The request has no key, or none that the server knows. */
export const ApiKeyRefusedError = failure<[]>(
  'WASM_SERVE_API_KEY_REFUSED',
  'This server needs an API key, as Authorization: Bearer KEY or as x-api-key',
  401,
)

/** The request has no token, or one that was not signed for this server, or no longer. */
export const TokenRefusedError = failure<[reason: string]>(
  'WASM_SERVE_TOKEN_REFUSED',
  'This server needs a JSON Web Token, as Authorization: Bearer TOKEN: %s',
  401,
)

/** There are no keys to verify tokens with: the issuer's cannot be fetched, and none that still count are known. */
export const JwtKeysUnavailableError = failure<[]>(
  'WASM_SERVE_JWT_KEYS_UNAVAILABLE',
  'This server cannot verify tokens at present: it has no keys of their issuer',
  503,
)

export const RouteNotFoundError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_NOT_FOUND',
  'No route answers %s %s',
  404,
)

export const MethodNotAllowedError = failure<[method: string, allowed: string]>(
  'WASM_SERVE_METHOD_NOT_ALLOWED',
  'This route does not answer %s, only %s',
  405,
)

export const RequestTimeoutError = failure<[]>(
  'WASM_SERVE_REQUEST_TIMEOUT',
  'The request took too long to arrive',
  408,
)

/** The client has sent too many requests; `Retry-After` says when to try again. */
export const RateLimitedError = failure<[max: number, timeWindowMs: number]>(
  'WASM_SERVE_RATE_LIMITED',
  'More than %d requests within %d ms',
  429,
)

export const BodyTooLargeError = failure<[limit: string]>(
  'WASM_SERVE_BODY_TOO_LARGE',
  'The request body is larger than %s',
  413,
)

export const HeadersTooLargeError = failure<[]>(
  'WASM_SERVE_HEADERS_TOO_LARGE',
  'The request line and headers are larger than 16 KiB',
  431,
)

export const BadRequestError = failure<[problem: string]>(
  'WASM_SERVE_BAD_REQUEST',
  'The request is malformed: %s',
  400,
)

/** The body has another transfer coding than `chunked`. (RFC 9112, section 6.1) */
export const TransferCodingError = failure<[codings: string]>(
  'WASM_SERVE_TRANSFER_CODING_UNSUPPORTED',
  'The transfer coding %s is not supported, only chunked: send a compressed body with Content-Encoding',
  501,
)

/** The request line names a version of HTTP that is not spoken there. (RFC 9110, section 15.6.6) */
export const HttpVersionError = failure<[version: string]>(
  'WASM_SERVE_HTTP_VERSION_UNSUPPORTED',
  'The request line names %s; this server speaks HTTP/1.1 and HTTP/1.0 there, and HTTP/2 where TLS agrees on it',
  505,
)

/** Something broke that no other class names: a bug. */
export const InternalError = failure<[]>('WASM_SERVE_INTERNAL_ERROR', 'Something went wrong on the server')
