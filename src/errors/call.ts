import { failure } from './failure.ts'

/* Failures of a request: the call failed, the server refused the request, or the guest's own HTTP request failed. */

/* Calls. */

/** Thrown by a user's `onCall` hook to refuse the call. The client gets its message. `statusCode` can be changed. */
export const CallRefusedError = failure<[reason: string]>('WASM_SERVE_CALL_REFUSED', '%s', 403, false)

/** The guest set an error or returned a non-zero status. The message is the guest's own. */
export const GuestError = failure<[message: string]>('WASM_SERVE_GUEST_ERROR', '%s', 409, false)

/** The guest trapped: its instance is replaced. `cause` holds the engine's reason and the guest's stack. */
export const GuestTrapError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_TRAP',
  'The guest function "%s" trapped; its instance was replaced',
)

/** A host function failed because its backend is unavailable: a store is full or unreachable. `cause` has the details. */
export const HostUnavailableError = failure<[exportName: string]>(
  'WASM_SERVE_HOST_UNAVAILABLE',
  'A service that the guest function "%s" needs is unavailable: try again later',
  503,
)

/** With `--runtime sdk`, which hides the exit status: the guest exited with WASI's `proc_exit`. Its instance is replaced. */
export const GuestExitError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_EXIT',
  'The guest function "%s" exited (proc_exit); its instance was replaced',
)

/** The guest set a variable beyond the route's `varMax`: its instance is replaced. */
export const VariablesFullError = failure<[exportName: string, varMax: number]>(
  'WASM_SERVE_VARIABLES_FULL',
  'The variables of the guest function "%s" would exceed %d bytes (varMax); its instance was replaced',
)

/** The guest produced more than the route's `outputLimit` allows: its instance is replaced. */
export const OutputTooLargeError = failure<[exportName: string, bytes: number, limit: number]>(
  'WASM_SERVE_OUTPUT_TOO_LARGE',
  'The guest function "%s" produced %d bytes, more than the outputLimit of %d',
  502,
)

/** The guest's output violates the route's contract. The message names the field and omits its value. */
export const ContractBrokenError = failure<[contract: string, problem: string]>(
  'WASM_SERVE_CONTRACT_BROKEN',
  'The guest violated the %s contract: %s',
  502,
)

/** {@link ContractBrokenError} for the `simplism` contract, which answers 500. */
export const SimplismBrokenError = failure<[problem: string]>(
  'WASM_SERVE_SIMPLISM_BROKEN',
  'The guest violated the simplism contract: %s',
)

/** A host function called the instance that runs it. An instance runs one call at a time. */
export const InstanceBusyError = failure<[plugin: string]>(
  'WASM_SERVE_INSTANCE_BUSY',
  'An instance of plug-in %s is already running a call: an instance runs one call at a time',
)

/** A guest blocked the event loop too long: the watchdog logs this and kills the process. Never thrown. */
export const GuestStallError = failure<[what: string, stallMs: number]>(
  'WASM_SERVE_GUEST_STALL',
  '%s blocked the event loop for more than %d ms (stallMs): the process is killed so that its supervisor restarts it',
)

/** The queue of the route is full: `maxQueue` or `maxQueueBytes`. */
export const QueueFullError = failure<[limit: string]>(
  'WASM_SERVE_QUEUE_FULL',
  'The queue of this route is full, %s: try again later',
  503,
)

/** A call waited, or would wait, for an instance longer than the route's `maxWaitMs`. */
export const QueueSlowError = failure<[maxWaitMs: number]>(
  'WASM_SERVE_QUEUE_SLOW',
  'This route is too busy to start the call within %d ms (maxWaitMs): try again later',
  503,
)

/** The first call of a plug-in would need one instance too many, and none of the others may be closed. */
export const InstancesFullError = failure<[maxInstances: number, reason: string]>(
  'WASM_SERVE_INSTANCES_FULL',
  'The plug-in cannot be loaded, because %d instances (maxInstances) are the limit: %s',
  503,
)

/** The guest ran longer than the route's `timeoutMs`: its thread or process was terminated. */
export const DeadlineError = failure<[exportName: string, timeoutMs: number]>(
  'WASM_SERVE_DEADLINE_EXCEEDED',
  'The guest function "%s" ran longer than the timeout of %d ms and was terminated',
  504,
)

/** The thread or process that ran the guest ended: out of memory, an abort of V8, `process.exit` in a host function. `cause` says why. */
export const WorkerLostError = failure<[exportName: string]>(
  'WASM_SERVE_WORKER_LOST',
  'The thread or process that ran the guest function "%s" ended unexpectedly; it was replaced',
)

/** Several starts of the route's instances failed in a row. The route retries periodically. */
export const BreakerOpenError = failure<[starts: number, reason: string]>(
  'WASM_SERVE_BREAKER_OPEN',
  'This route is unavailable: %d starts in a row failed (%s)',
  503,
)

/** Threads of the route's plug-in are stuck in native calls. No new threads start, and its calls are refused. */
export const ThreadsStuckError = failure<[threads: number]>(
  'WASM_SERVE_THREADS_STUCK',
  '%d threads of this plug-in are stuck in native calls and cannot be terminated: no new threads start until one of them ends',
  503,
)

/** The client disconnected before it had its answer. Only logged. 499 is nginx's status for it. */
export const ClientGoneError = failure<[]>(
  'WASM_SERVE_CLIENT_GONE',
  'The client disconnected before it had its answer',
  499,
)

/** The exchange of a guest that streams took longer than the route's `streamTimeoutMs`. */
export const StreamTimeoutError = failure<[streamTimeoutMs: number]>(
  'WASM_SERVE_STREAM_TIMEOUT',
  'The exchange took longer than %d ms (streamTimeoutMs)',
  504,
)

/** All threads of a route whose guests stream had as many exchanges as they can have, until `maxWaitMs` was over. */
export const StreamsFullError = failure<
  [streams: number, workers: number, streamsPerWorker: number, maxWaitMs: number]
>(
  'WASM_SERVE_STREAMS_FULL',
  'This route serves at most %d streams at a time (workers: %d, streams of each: %d), and none ended within %d ms (maxWaitMs): try again later',
  503,
)

/** The guest was still running `graceMs` after shutdown began: its thread was terminated. */
export const ShuttingDownError = failure<[exportName: string]>(
  'WASM_SERVE_SHUTTING_DOWN',
  'The server is shutting down: the guest function "%s" was still running after the grace period (graceMs) and was terminated',
  503,
)

/** The route is being closed and takes no more calls. */
export const EngineClosedError = failure<[]>(
  'WASM_SERVE_ENGINE_CLOSED',
  'This route is being closed: try again later',
  503,
)

/* Requests that do not reach a guest. */

/** The request has no API key, or an unknown one. */
export const ApiKeyRefusedError = failure<[]>(
  'WASM_SERVE_API_KEY_REFUSED',
  'This server needs an API key, as Authorization: Bearer KEY or as x-api-key',
  401,
)

/** The request has no token, or its token has expired or was not signed for this server. */
export const TokenRefusedError = failure<[reason: string]>(
  'WASM_SERVE_TOKEN_REFUSED',
  'This server needs a JSON Web Token, as Authorization: Bearer TOKEN: %s',
  401,
)

/** No keys to verify tokens with: the issuer's keys cannot be fetched, and the cached keys have expired. */
export const JwtKeysUnavailableError = failure<[]>(
  'WASM_SERVE_JWT_KEYS_UNAVAILABLE',
  "This server cannot verify tokens at present: the issuer's keys cannot be fetched. Try again later",
  503,
)

/** No route has the request's URL. */
export const RouteNotFoundError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_NOT_FOUND',
  'No route answers %s %s',
  404,
)

const MethodNotAllowed = failure<[method: string, allowed: string]>(
  'WASM_SERVE_METHOD_NOT_ALLOWED',
  'This URL does not answer %s, only %s',
  405,
)

/** The URL exists but does not accept the request's method. */
export class MethodNotAllowedError extends MethodNotAllowed {
  readonly headers: { readonly allow: string }

  /** @param allowed - The methods, separated by commas. */
  constructor(method: string, allowed: string) {
    super(method, allowed)
    this.headers = { allow: allowed }
  }
}

/** A condition of the request, such as `If-Match`, is false for the file that it asks for. */
export const PreconditionFailedError = failure<[]>(
  'WASM_SERVE_PRECONDITION_FAILED',
  'The file is not the one that If-Match or If-Unmodified-Since names',
  412,
)

const RangeNotSatisfiable = failure<[size: number]>(
  'WASM_SERVE_RANGE_NOT_SATISFIABLE',
  'The Range of the request has no byte of the file, which has %d bytes',
  416,
)

/** The file has none of the bytes that the request asks for. */
export class RangeNotSatisfiableError extends RangeNotSatisfiable {
  readonly headers: { readonly 'content-range': string }

  /** @param size - Of the file, in bytes. */
  constructor(size: number) {
    super(size)
    this.headers = { 'content-range': `bytes */${size}` }
  }
}

/** A library refused the request before it became a call. The message is the library's, and so is the status. */
export const RequestRefusedError = failure<[reason: string]>('WASM_SERVE_REQUEST_REFUSED', '%s', 400)

/** The route has the contract `websocket`, and the request is no handshake. */
export const UpgradeRequiredError = failure<[]>(
  'WASM_SERVE_UPGRADE_REQUIRED',
  'This route speaks WebSocket: connect with ws:// or wss://, over HTTP/1.1',
  426,
)

/** The handshake comes from a web page of another origin. */
export const WebSocketOriginError = failure<[]>(
  'WASM_SERVE_WEBSOCKET_ORIGIN_REFUSED',
  'The connection was opened by a web page whose origin is neither that of the server nor one of websocketOrigins',
  403,
)

/** The route has as many connections as `websocketMax` allows. */
export const WebSocketsFullError = failure<[websocketMax: number]>(
  'WASM_SERVE_WEBSOCKETS_FULL',
  'This route has %d connections, and no more may be open (websocketMax): try again later',
  503,
)

/** The request was not complete within `requestTimeoutMs`. */
export const RequestTimeoutError = failure<[]>(
  'WASM_SERVE_REQUEST_TIMEOUT',
  'The request took too long to arrive',
  408,
)

/** Of all bodies and messages that have arrived in part, this one is the oldest. */
export const PartialBytesFullError = failure<[maxPartialBytes: number]>(
  'WASM_SERVE_PARTIAL_BYTES_FULL',
  'Bodies and messages that have not arrived whole take more than %d bytes (maxPartialBytes), and this one is the oldest: try again later',
  503,
)

/** The client of a WebSocket sends pings faster than a client needs them. */
export const ControlFramesError = failure<[burst: number, perSecond: number]>(
  'WASM_SERVE_CONTROL_FRAMES_EXCEEDED',
  'A WebSocket may carry %d pings and pongs at once, and %d a second',
  429,
)

/** The client has sent too many requests; `Retry-After` says when to try again. */
export const RateLimitedError = failure<[max: number, timeWindowMs: number]>(
  'WASM_SERVE_RATE_LIMITED',
  'Too many requests: the limit is %d within %d ms',
  429,
)

/** The body is larger than the route's `bodyLimit`. */
export const BodyTooLargeError = failure<[limit: string]>(
  'WASM_SERVE_BODY_TOO_LARGE',
  'The request body is larger than %s',
  413,
)

/** An `Expect` header other than `100-continue`. (RFC 9110, section 10.1.1) */
export const ExpectationFailedError = failure<[expectation: string]>(
  'WASM_SERVE_EXPECTATION_FAILED',
  'The expectation %s cannot be met, only 100-continue: send the request without Expect',
  417,
)

/** Request line and headers exceed Node.js's limit. */
export const HeadersTooLargeError = failure<[maxBytes: number]>(
  'WASM_SERVE_HEADERS_TOO_LARGE',
  'The request line and headers are larger than %d bytes',
  431,
)

/** The request violates the HTTP protocol. */
export const BadRequestError = failure<[problem: string]>(
  'WASM_SERVE_BAD_REQUEST',
  'The request is malformed: %s',
  400,
)

/** The body's transfer coding is not `chunked`. (RFC 9112, section 6.1) */
export const TransferCodingError = failure<[codings: string]>(
  'WASM_SERVE_TRANSFER_CODING_UNSUPPORTED',
  'The transfer coding %s is not supported, only chunked: send a compressed body with Content-Encoding',
  501,
)

/** The request line names an unsupported HTTP version. (RFC 9110, section 15.6.6) */
export const HttpVersionError = failure<[version: string]>(
  'WASM_SERVE_HTTP_VERSION_UNSUPPORTED',
  'The request line names %s: send HTTP/1.1 or HTTP/1.0, or negotiate HTTP/2 over TLS',
  505,
)

/** Any error without a class of its own: a bug in wasm-serve. */
export const InternalError = failure<[]>('WASM_SERVE_INTERNAL_ERROR', 'Internal server error')

/* HTTP requests of guests. The guest gets these errors. */

/** The guest's request cannot be sent: it is not JSON, or its URL or one of its headers is invalid. */
export const OutboundRequestInvalidError = failure<[problem: string]>(
  'WASM_SERVE_OUTBOUND_REQUEST_INVALID',
  "The guest's HTTP request is not valid: %s",
  502,
)

/** The host, scheme or address of the URL or of a redirect's target is not allowed. */
export const OutboundRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_REFUSED',
  "The guest's HTTP request to %s is refused: %s",
  502,
)

/** The response was not complete within the time limit of the request. The limit includes redirects. */
export const OutboundTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_OUTBOUND_TIMEOUT',
  "The guest's HTTP request to %s was not answered within %d ms",
  504,
)

/** The response is larger than `httpResponseMax`; reading stopped there. */
export const OutboundTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_OUTBOUND_TOO_LARGE',
  "The response to the guest's HTTP request to %s is larger than the httpResponseMax of %d bytes",
  502,
)

/** The server cannot be reached or trusted, the connection broke, or there were too many redirects. */
export const OutboundFailedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_FAILED',
  "The guest's HTTP request to %s failed: %s",
  502,
)
