import { failure } from './failure.ts'

/* Requests that do not reach a guest. */

export const ApiKeyRefusedError = failure({
  code: 'WASM_SERVE_API_KEY_REFUSED',
  status: 401,
  message: '%s: send one of its keys as Authorization: Bearer KEY or as x-api-key',
  cause: 'The request has none of the [`apiKeys`](../protect/tls-keys-cors.md).',
  remedy: 'Send a key as `Authorization: Bearer KEY` or `x-api-key`.',
})

export const TokenRefusedError = failure({
  code: 'WASM_SERVE_TOKEN_REFUSED',
  status: 401,
  message: 'This server needs a JSON Web Token, as Authorization: Bearer TOKEN: %s',
  cause: 'The request has no token that [`jwt`](../protect/tls-keys-cors.md) accepts.',
  remedy: 'Send an unexpired token, signed by a configured key, with the audience and issuer of `jwt`.',
})

export const JwtKeysUnavailableError = failure({
  code: 'WASM_SERVE_JWT_KEYS_UNAVAILABLE',
  status: 503,
  message:
    "This server cannot verify tokens at present: the issuer's keys cannot be fetched. Try again later",
  cause: 'The keys of the issuer cannot be fetched, and no cached key is valid.',
  remedy: 'Check `jwksUrl` and the network.',
})

export const RouteNotFoundError = failure({
  code: 'WASM_SERVE_ROUTE_NOT_FOUND',
  status: 404,
  message: 'No route matches %s %s%s',
  cause: 'No route has this URL.',
  remedy: 'Compare it with the routes that `wasm-serve check` prints.',
})

const MethodNotAllowed = failure({
  code: 'WASM_SERVE_METHOD_NOT_ALLOWED',
  status: 405,
  message: 'This URL does not allow %s, only %s',
  cause: 'The URL exists, but not for this method.',
  remedy: 'Use a method of `Allow`, or add it to the route (`--method`).',
})

/** The URL exists but does not accept the request's method. */
export class MethodNotAllowedError extends MethodNotAllowed {
  readonly headers: { readonly allow: string }

  /** @param allowed - The methods, separated by commas. */
  constructor(method: string, allowed: string) {
    super(method, allowed)
    this.headers = { allow: allowed }
  }
}

export const PreconditionFailedError = failure({
  code: 'WASM_SERVE_PRECONDITION_FAILED',
  status: 412,
  message: 'The file is not the one that If-Match or If-Unmodified-Since names',
  cause:
    'The [`static`](../protect/tls-keys-cors.md#static-files) file does not match `If-Match` or `If-Unmodified-Since`.',
  remedy: 'Fetch the file again, and use its `ETag` or `Last-Modified`.',
})

const RangeNotSatisfiable = failure({
  code: 'WASM_SERVE_RANGE_NOT_SATISFIABLE',
  status: 416,
  message: 'The Range of the request contains no byte of the file, which has %d bytes',
  cause: '`Range` names no byte of the [`static`](../protect/tls-keys-cors.md#static-files) file.',
  remedy: 'Request bytes that the file has.',
})

/** The file has none of the bytes that the request asks for. */
export class RangeNotSatisfiableError extends RangeNotSatisfiable {
  readonly headers: { readonly 'content-range': string }

  /** @param size - Of the file, in bytes. */
  constructor(size: number) {
    super(size)
    this.headers = { 'content-range': `bytes */${size}` }
  }
}

export const RequestRefusedError = failure({
  code: 'WASM_SERVE_REQUEST_REFUSED',
  status: 400,
  message: '%s',
  cause: 'A library of the server rejected the request, with a status from 400 to 499.',
  remedy: 'Read the detail.',
})

export const UpgradeRequiredError = failure({
  code: 'WASM_SERVE_UPGRADE_REQUIRED',
  status: 426,
  message: 'This route speaks WebSocket: connect with ws:// or wss://, over HTTP/1.1',
  cause: 'The route serves [WebSockets](../write/websockets.md), and the request is not a handshake.',
  remedy: 'Connect with `ws://` or `wss://`, over HTTP/1.1. Proxies must forward `Connection` and `Upgrade`.',
})

export const WebSocketOriginError = failure({
  code: 'WASM_SERVE_WEBSOCKET_ORIGIN_REFUSED',
  status: 403,
  message:
    'The connection was opened by a web page whose origin is neither that of the server nor one of websocketOrigins',
  cause: 'A web page of another origin opened the [WebSocket](../write/websockets.md).',
  remedy: 'Add its origin to `websocketOrigins`. A proxy must forward `Host`.',
})

export const WebSocketsFullError = failure({
  code: 'WASM_SERVE_WEBSOCKETS_FULL',
  status: 503,
  message: 'This route has %d connections, and no more may be open (websocketMax): try again later',
  cause: 'The route has `websocketMax` open [WebSockets](../write/websockets.md).',
  remedy: 'Retry later, or raise `--websocket-max`.',
})

export const RequestTimeoutError = failure({
  code: 'WASM_SERVE_REQUEST_TIMEOUT',
  status: 408,
  message: 'The request took too long to arrive',
  cause: 'The headers or the whole request took too long to arrive.',
  remedy: 'Send faster, or raise `headersTimeoutMs` or `requestTimeoutMs`.',
})

export const PartialBytesFullError = failure({
  code: 'WASM_SERVE_PARTIAL_BYTES_FULL',
  status: 503,
  message:
    'Bodies and messages that have not arrived whole take more than %d bytes (maxPartialBytes), and this one is the oldest: try again later',
  cause:
    'Incomplete bodies and [WebSocket](../write/websockets.md) messages exceed `maxPartialBytes`, and this one is the oldest. A WebSocket is closed with 1013.',
  remedy: 'Retry later. Find clients that stop sending, or raise `--max-partial-bytes`.',
})

export const ControlFramesError = failure({
  code: 'WASM_SERVE_CONTROL_FRAMES_EXCEEDED',
  status: 429,
  message: 'A WebSocket may carry %d pings and pongs at once, and %d a second',
  cause:
    'The [WebSocket](../write/websockets.md) client sends too many pings. The connection is closed with 1008.',
  remedy: 'Send fewer pings.',
})

export const RateLimitedError = failure({
  code: 'WASM_SERVE_RATE_LIMITED',
  status: 429,
  message: 'Too many requests: the limit is %d within %d ms',
  cause:
    'The client exceeded [`rateLimit`](../protect/tls-keys-cors.md) or, for tools, [`mcp.rateLimit`](../write/tools-for-agents.md#who-may-use-what).',
  remedy: 'Wait for `Retry-After` seconds, or raise the limit.',
})

export const BodyTooLargeError = failure({
  code: 'WASM_SERVE_BODY_TOO_LARGE',
  status: 413,
  message: 'The request body is larger than %s',
  cause: 'The body is larger than `bodyLimit`.',
  remedy: 'Send less, or raise `--body-limit`.',
})

/** RFC 9110, section 10.1.1. */
export const ExpectationFailedError = failure({
  code: 'WASM_SERVE_EXPECTATION_FAILED',
  status: 417,
  message: 'The expectation %s cannot be met, only 100-continue: send the request without Expect',
  cause: 'The request has an `Expect` header other than `100-continue`.',
  remedy: 'Remove the header.',
})

export const HeadersTooLargeError = failure({
  code: 'WASM_SERVE_HEADERS_TOO_LARGE',
  status: 431,
  message: 'The request line and headers are larger than %d bytes',
  cause: 'The request line and headers exceed 16 KiB.',
  remedy: 'Send less, or raise the limit with `NODE_OPTIONS=--max-http-header-size=BYTES`.',
})

export const BadRequestError = failure({
  code: 'WASM_SERVE_BAD_REQUEST',
  status: 400,
  message: 'The request is malformed: %s',
  cause: 'The request is malformed, or does not have exactly one valid `Host` header.',
  remedy: 'Correct the part that the detail names.',
})

/** RFC 9112, section 6.1. */
export const TransferCodingError = failure({
  code: 'WASM_SERVE_TRANSFER_CODING_UNSUPPORTED',
  status: 501,
  message:
    'The transfer coding %s is not supported, only chunked: send a compressed body with Content-Encoding',
  cause: 'The `Transfer-Encoding` is not `chunked`. The connection is closed.',
  remedy: 'Send `Content-Length`, or `Transfer-Encoding: chunked` alone.',
})

/** RFC 9110, section 15.6.6. */
export const HttpVersionError = failure({
  code: 'WASM_SERVE_HTTP_VERSION_UNSUPPORTED',
  status: 505,
  message: 'The request line names %s: send HTTP/1.1 or HTTP/1.0, or negotiate HTTP/2 over TLS',
  cause: 'The HTTP version is neither 1.1 nor 1.0. The connection is closed.',
  remedy: 'Send HTTP/1.1, or HTTP/2 where `http2` is on.',
})

/** The class of every error that has none of its own. */
export const InternalError = failure({
  code: 'WASM_SERVE_INTERNAL_ERROR',
  status: 500,
  message: 'Internal server error',
  cause: 'A bug in wasm-serve.',
  remedy: 'Report it with the log line of its `requestId`.',
})
