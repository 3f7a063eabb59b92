import { failure } from './failure.ts'

/* Why a call has no output. */

/**
 * For hooks of the user: thrown by `onCall`, it refuses the call, and the client is told its message. Another
 * `statusCode` can be set.
 */
export const CallRefusedError = failure<[reason: string]>('WASM_SERVE_CALL_REFUSED', '%s', 403)

/** The guest said no: it set an error or returned non-zero. The message is the guest's own. */
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

/** What the guest produced is no answer of the route's contract; the message names the field, not what is in it. */
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

/** The instance is running a call: a host function called the instance that it was called by. */
export const InstanceBusyError = failure<[plugin: string]>(
  'WASM_SERVE_INSTANCE_BUSY',
  'An instance of plug-in %s is running a call, and runs one at a time',
)

/** A guest on the event loop did not come back: the watchdog logs this and kills the process. Never thrown. */
export const GuestStallError = failure<[what: string, stallMs: number]>(
  'WASM_SERVE_GUEST_STALL',
  '%s held the event loop for more than %d ms (stallMs): the process is killed, to be started again',
)

/** As many calls wait for the route's instances as `maxQueue` or `maxQueueBytes` allows. */
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

/** The route's instances could not be started again and again; it is tried again from time to time. */
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

/** The client went away before its call was begun: the guest was not run. Only the log sees this. (499: nginx's) */
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
