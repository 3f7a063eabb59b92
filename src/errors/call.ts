import { failure } from './failure.ts'

/* A request that gets no answer from a guest: the call failed, the request was refused, or a guest's own request failed. */

/* Calls. */

/**
 * For hooks of the user: thrown by `onCall`, it refuses the call. The client gets its message. Another `statusCode` can
 * be set.
 */
export const CallRefusedError = failure<[reason: string]>('WASM_SERVE_CALL_REFUSED', '%s', 403)

/** The guest set an error or returned a non-zero status. The message is the guest's own. */
export const GuestError = failure<[message: string]>('WASM_SERVE_GUEST_ERROR', '%s', 409)

/** The guest trapped: its instance is replaced. `cause` holds the engine's reason and the guest's stack. */
export const GuestTrapError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_TRAP',
  'The guest function "%s" trapped; its instance was replaced',
)

/** A host function could not do what the guest asked for: a store that is full or cannot be reached. `cause` says more. */
export const HostUnavailableError = failure<[exportName: string]>(
  'WASM_SERVE_HOST_UNAVAILABLE',
  'Something that the guest function "%s" needs is out of order: try again later',
  503,
)

/** The guest ended its program with WASI's `proc_exit`: its instance is replaced. */
export const GuestExitError = failure<[exportName: string]>(
  'WASM_SERVE_GUEST_EXIT',
  'The guest function "%s" ended its program (proc_exit); its instance was replaced',
)

/** The guest produced more than the route's `outputLimit` allows: its instance is replaced. */
export const OutputTooLargeError = failure<[exportName: string, bytes: number, limit: number]>(
  'WASM_SERVE_OUTPUT_TOO_LARGE',
  'The guest function "%s" produced %d bytes, more than the outputLimit of %d',
  502,
)

/** The guest's output breaks the route's contract. The message names the field and leaves its value out. */
export const ContractBrokenError = failure<[contract: string, problem: string]>(
  'WASM_SERVE_CONTRACT_BROKEN',
  'The guest broke the %s contract: %s',
  502,
)

/** {@link ContractBrokenError} for the `simplism` contract, where it is a 500. */
export const SimplismBrokenError = failure<[problem: string]>(
  'WASM_SERVE_SIMPLISM_BROKEN',
  'The guest broke the simplism contract: %s',
)

/** A host function called the instance that runs it. An instance runs one call at a time. */
export const InstanceBusyError = failure<[plugin: string]>(
  'WASM_SERVE_INSTANCE_BUSY',
  'An instance of plug-in %s is running a call, and runs one at a time',
)

/** A guest held the event loop too long: the watchdog logs this and kills the process. Never thrown. */
export const GuestStallError = failure<[what: string, stallMs: number]>(
  'WASM_SERVE_GUEST_STALL',
  '%s held the event loop for more than %d ms (stallMs): the process is killed, to be started again',
)

/** The queue of the route is full: `maxQueue` or `maxQueueBytes`. */
export const QueueFullError = failure<[limit: string]>(
  'WASM_SERVE_QUEUE_FULL',
  'As much waits for this route as may, %s: try again later',
  503,
)

/** A call would have to wait for an instance longer than the route's `maxWaitMs`, or has waited so long. */
export const QueueSlowError = failure<[maxWaitMs: number]>(
  'WASM_SERVE_QUEUE_SLOW',
  'This route is too busy to begin the call within %d ms (maxWaitMs): try again later',
  503,
)

/** The guest ran longer than the route's `timeoutMs`: it was ended with its thread or process. */
export const DeadlineError = failure<[exportName: string, timeoutMs: number]>(
  'WASM_SERVE_DEADLINE_EXCEEDED',
  'The guest function "%s" ran longer than the timeout of %d ms, and was ended',
  504,
)

/** The thread or process that ran the guest ended: out of memory, an abort of V8, `process.exit` in a host function. `cause` says why. */
export const WorkerLostError = failure<[exportName: string]>(
  'WASM_SERVE_WORKER_LOST',
  'What ran the guest function "%s" ended, a thread or a process; it was replaced',
)

/** Several starts of the route's instances failed in a row. The route tries again from time to time. */
export const BreakerOpenError = failure<[starts: number, reason: string]>(
  'WASM_SERVE_BREAKER_OPEN',
  'This route is out of order: %d starts in a row failed (%s)',
  503,
)

/** Threads that ran the route's plug-in are stuck in native calls: no others start, and its calls are refused. */
export const ThreadsStuckError = failure<[threads: number]>(
  'WASM_SERVE_THREADS_STUCK',
  '%d threads that ran this plug-in are in native calls and cannot be ended: no others start until one of them ends',
  503,
)

/** The client disconnected before its call began: the guest was not run. Only the log shows this. (499: nginx's) */
export const ClientGoneError = failure<[]>(
  'WASM_SERVE_CLIENT_GONE',
  'The client went away before the call was begun',
  499,
)

/** The server ended before the guest did: it waited for `graceMs`, and then ended the guest with its thread. */
export const ShuttingDownError = failure<[exportName: string]>(
  'WASM_SERVE_SHUTTING_DOWN',
  'The server was shutting down and did not wait longer for the guest function "%s", which was ended (graceMs)',
  503,
)

/** The route is being closed and takes no more calls. */
export const EngineClosedError = failure<[]>(
  'WASM_SERVE_ENGINE_CLOSED',
  'This route is being closed: try again later',
  503,
)

/* Requests that do not reach a guest. */

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

/** There are no keys to verify tokens with: the issuer's keys cannot be fetched, and those in the cache have expired. */
export const JwtKeysUnavailableError = failure<[]>(
  'WASM_SERVE_JWT_KEYS_UNAVAILABLE',
  'This server cannot verify tokens at present: it has no keys of their issuer',
  503,
)

/** No route has the request's URL. */
export const RouteNotFoundError = failure<[method: string, url: string]>(
  'WASM_SERVE_ROUTE_NOT_FOUND',
  'No route answers %s %s',
  404,
)

/** The route exists and does not take the request's method. */
export const MethodNotAllowedError = failure<[method: string, allowed: string]>(
  'WASM_SERVE_METHOD_NOT_ALLOWED',
  'This route does not answer %s, only %s',
  405,
)

/** The request was not complete within `requestTimeoutMs`. */
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

/** The body is larger than the route's `bodyLimit`. */
export const BodyTooLargeError = failure<[limit: string]>(
  'WASM_SERVE_BODY_TOO_LARGE',
  'The request body is larger than %s',
  413,
)

/** Request line and headers are larger than Node.js reads. */
export const HeadersTooLargeError = failure<[]>(
  'WASM_SERVE_HEADERS_TOO_LARGE',
  'The request line and headers are larger than 16 KiB',
  431,
)

/** The request breaks the protocol. */
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

/** The request line names a version of HTTP that the server does not support there. (RFC 9110, section 15.6.6) */
export const HttpVersionError = failure<[version: string]>(
  'WASM_SERVE_HTTP_VERSION_UNSUPPORTED',
  'The request line names %s; this server speaks HTTP/1.1 and HTTP/1.0 there, and HTTP/2 where TLS agrees on it',
  505,
)

/** An error without a class of its own: a bug. */
export const InternalError = failure<[]>('WASM_SERVE_INTERNAL_ERROR', 'Something went wrong on the server')

/* HTTP requests of guests. The guest gets these errors. */

/** The guest's request cannot be sent: it is not JSON, its URL is not valid, or one of its headers is not. */
export const OutboundRequestInvalidError = failure<[problem: string]>(
  'WASM_SERVE_OUTBOUND_REQUEST_INVALID',
  "The guest's HTTP request is not valid: %s",
  502,
)

/** Host, scheme or address of the URL, or of a redirect's target, are not allowed. */
export const OutboundRefusedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_REFUSED',
  "The guest's HTTP request to %s is refused: %s",
  502,
)

/** The answer was not complete within the time limit of the request. Redirects count. */
export const OutboundTimeoutError = failure<[url: string, timeoutMs: number]>(
  'WASM_SERVE_OUTBOUND_TIMEOUT',
  "The guest's HTTP request to %s was not answered within %d ms",
  504,
)

/** The answer is larger than `httpResponseMax`; it was cut off. */
export const OutboundTooLargeError = failure<[url: string, maxBytes: number]>(
  'WASM_SERVE_OUTBOUND_TOO_LARGE',
  "The answer to the guest's HTTP request to %s is larger than the httpResponseMax of %d bytes",
  502,
)

/** The server cannot be reached or trusted, the connection broke, or there were too many redirects. */
export const OutboundFailedError = failure<[url: string, reason: string]>(
  'WASM_SERVE_OUTBOUND_FAILED',
  "The guest's HTTP request to %s failed: %s",
  502,
)
