import { failure } from './failure.ts'

/* Requests that do not reach a guest. */

export const ApiKeyRefusedError = failure({
  code: 'WASM_SERVE_API_KEY_REFUSED',
  status: 401,
  message: '%s: send one of its keys as Authorization: Bearer KEY or as x-api-key',
  cause: "The request has none of the server's [`apiKeys`](../guide/edge.md).",
  remedy: 'Send one of the keys as `Authorization: Bearer KEY` or `x-api-key`.',
})

export const TokenRefusedError = failure({
  code: 'WASM_SERVE_TOKEN_REFUSED',
  status: 401,
  message: 'This server needs a JSON Web Token, as Authorization: Bearer TOKEN: %s',
  cause: "The request carries no token that fits the server's [`jwt`](../guide/edge.md).",
  remedy:
    'Send a token that is signed by a configured key, has not expired, and has the audience and issuer of `jwt`.',
})

export const JwtKeysUnavailableError = failure({
  code: 'WASM_SERVE_JWT_KEYS_UNAVAILABLE',
  status: 503,
  message:
    "This server cannot verify tokens at present: the issuer's keys cannot be fetched. Try again later",
  cause: 'The keys of the issuer cannot be fetched from `jwksUrl`, and no cached key is valid.',
  remedy: 'Check that the server reaches the issuer, and that `jwksUrl` is right.',
})

export const RouteNotFoundError = failure({
  code: 'WASM_SERVE_ROUTE_NOT_FOUND',
  status: 404,
  message: 'No route answers %s %s%s',
  cause: 'No route has this URL.',
  remedy: 'Compare the URL with the routes that are printed at the start, or with `wasm-serve check`.',
})

const MethodNotAllowed = failure({
  code: 'WASM_SERVE_METHOD_NOT_ALLOWED',
  status: 405,
  message: 'This URL does not answer %s, only %s',
  cause:
    'No route at this URL answers this method, or it is the URL of a file; `Allow` has the methods that are answered.',
  remedy: 'Use a method of the `Allow` header, or add the method to the route (`--method`).',
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
    'A file of [`static`](../guide/edge.md#static-files) is not the one that `If-Match` or `If-Unmodified-Since` names.',
  remedy: 'Fetch the file again, and use its `ETag` or `Last-Modified`.',
})

const RangeNotSatisfiable = failure({
  code: 'WASM_SERVE_RANGE_NOT_SATISFIABLE',
  status: 416,
  message: 'The Range of the request has no byte of the file, which has %d bytes',
  cause:
    'A file of [`static`](../guide/edge.md#static-files) has none of the bytes that `Range` asks for. `Content-Range` has its size.',
  remedy: 'Ask for bytes that the file has, or for the whole file.',
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
  cause:
    'A package that the server uses refused the request. The detail is its reason. The status is that of the package, from 400 to 499.',
  remedy: 'The reason is in the detail.',
})

export const UpgradeRequiredError = failure({
  code: 'WASM_SERVE_UPGRADE_REQUIRED',
  status: 426,
  message: 'This route speaks WebSocket: connect with ws:// or wss://, over HTTP/1.1',
  cause: 'The route speaks [WebSocket](../guide/websockets.md), and the request is no handshake.',
  remedy: 'Connect with `ws://` or `wss://`, over HTTP/1.1. A proxy must pass `Connection` and `Upgrade` on.',
})

export const WebSocketOriginError = failure({
  code: 'WASM_SERVE_WEBSOCKET_ORIGIN_REFUSED',
  status: 403,
  message:
    'The connection was opened by a web page whose origin is neither that of the server nor one of websocketOrigins',
  cause: 'A web page of another origin has opened a [WebSocket](../guide/websockets.md).',
  remedy: 'Add the origin of the page to `websocketOrigins`. Behind a proxy, pass the header `Host` on.',
})

export const WebSocketsFullError = failure({
  code: 'WASM_SERVE_WEBSOCKETS_FULL',
  status: 503,
  message: 'This route has %d connections, and no more may be open (websocketMax): try again later',
  cause: 'As many [WebSockets](../guide/websockets.md) of the route are open as `websocketMax` allows.',
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
    'Bodies of requests and messages of [WebSockets](../guide/websockets.md) that have arrived in part take more than `maxPartialBytes`, and this one is the oldest. A WebSocket is closed with 1013.',
  remedy:
    'Retry later. If clients send much at the same time, raise `--max-partial-bytes`. Find clients that begin and do not go on.',
})

export const ControlFramesError = failure({
  code: 'WASM_SERVE_CONTROL_FRAMES_EXCEEDED',
  status: 429,
  message: 'A WebSocket may carry %d pings and pongs at once, and %d a second',
  cause:
    'The client of a [WebSocket](../guide/websockets.md) sends more pings than the limit. The connection is closed with 1008.',
  remedy: 'Send fewer pings: one in some seconds is usual.',
})

export const RateLimitedError = failure({
  code: 'WASM_SERVE_RATE_LIMITED',
  status: 429,
  message: 'Too many requests: the limit is %d within %d ms',
  cause:
    'The address has sent more than [`rateLimit`](../guide/edge.md) allows, or a client of tools more than [`mcp.rateLimit`](../guide/mcp.md#who-may-use-what). `Retry-After` says when to try again.',
  remedy: 'Wait for the seconds in `Retry-After`, or raise `rateLimit`.',
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
  remedy: 'Send it without `Expect`.',
})

export const HeadersTooLargeError = failure({
  code: 'WASM_SERVE_HEADERS_TOO_LARGE',
  status: 431,
  message: 'The request line and headers are larger than %d bytes',
  cause: 'Request line and headers are larger than 16 KiB.',
  remedy:
    'Send fewer or shorter headers, or a shorter URL. The limit is that of Node.js: `NODE_OPTIONS=--max-http-header-size=BYTES` changes it.',
})

export const BadRequestError = failure({
  code: 'WASM_SERVE_BAD_REQUEST',
  status: 400,
  message: 'The request is malformed: %s',
  cause: 'The request is malformed, or has no `Host` header, several, or one that is no host.',
  remedy:
    'Send a well-formed HTTP/1.1 request with exactly one `Host` header: a name or an address, and a port or none. The detail names the part that is wrong.',
})

/** RFC 9112, section 6.1. */
export const TransferCodingError = failure({
  code: 'WASM_SERVE_TRANSFER_CODING_UNSUPPORTED',
  status: 501,
  message:
    'The transfer coding %s is not supported, only chunked: send a compressed body with Content-Encoding',
  cause: 'The body has another `Transfer-Encoding` than `chunked`. The connection is closed.',
  remedy: 'Send the body with `Content-Length`, or with `Transfer-Encoding: chunked` alone.',
})

/** RFC 9110, section 15.6.6. */
export const HttpVersionError = failure({
  code: 'WASM_SERVE_HTTP_VERSION_UNSUPPORTED',
  status: 505,
  message: 'The request line names %s: send HTTP/1.1 or HTTP/1.0, or negotiate HTTP/2 over TLS',
  cause: 'The request line names another version than HTTP/1.1 or HTTP/1.0. The connection is closed.',
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
