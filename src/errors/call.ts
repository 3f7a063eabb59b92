import { failure } from './failure.ts'

/* Failures of calls. */

/** Thrown by a user's `onCall` hook. `statusCode` can be changed. */
export const CallRefusedError = failure({
  code: 'WASM_SERVE_CALL_REFUSED',
  status: 403,
  message: '%s',
  isWhole: true,
  cause:
    'A hook of the app (`onCall`) refused the call. The detail is its reason. The hook may choose another status.',
  remedy: 'The reason is in the detail. The hook belongs to the app.',
})

export const GuestError = failure({
  code: 'WASM_SERVE_GUEST_ERROR',
  status: 409,
  message: '%s',
  isWhole: true,
  cause: 'The guest reported an error. The body is its message.',
  remedy: 'Read the body: it is the message of the guest. `errorStatus` selects another status.',
})

/** `cause` has the engine's reason and the stack of the guest. */
export const GuestTrapError = failure({
  code: 'WASM_SERVE_GUEST_TRAP',
  status: 500,
  message: 'The guest function "%s" trapped; its instance was replaced',
  cause: 'The guest trapped. Its instance is replaced before the next call.',
  remedy:
    'Read the log: it has the message and the stack of the trap. `--block-limit` and `--memory-max` are limits that can cause it, and so can a refused or failed [HTTP request](../write/outbound-http.md#limits-and-failures).',
})

/** `cause` has the details. */
export const HostUnavailableError = failure({
  code: 'WASM_SERVE_HOST_UNAVAILABLE',
  status: 503,
  message: 'A service that the guest function "%s" needs is unavailable: try again later',
  cause:
    "The guest's [store](../write/state.md) is full or cannot be reached, and the function that it called has no error code. Its instance is replaced.",
  remedy: 'Check the store. A guest that uses `wasm-serve:kv` gets a code instead and can continue.',
})

export const GuestExitError = failure({
  code: 'WASM_SERVE_GUEST_EXIT',
  status: 500,
  message: 'The guest function "%s" exited (proc_exit); its instance was replaced',
  cause: 'With `--runtime sdk`: a function of the guest exited (`proc_exit`). Its instance is replaced.',
  remedy:
    'Use the kernel runtime (the default), for which the exit status is a [return code](../serve/plug-ins.md#exits-and-return-codes).',
})

export const VariablesFullError = failure({
  code: 'WASM_SERVE_VARIABLES_FULL',
  status: 500,
  message:
    'The variables of the guest function "%s" would exceed %d bytes (varMax); its instance was replaced',
  cause:
    'The guest set a variable for which its [variables](../serve/limits.md) have no room. Its instance is replaced.',
  remedy: 'Raise `--var-max`, or keep less in variables. With 0 there are none.',
})

export const OutputTooLargeError = failure({
  code: 'WASM_SERVE_OUTPUT_TOO_LARGE',
  status: 502,
  message: 'The guest function "%s" produced %d bytes, more than the outputLimit of %d',
  cause: 'The guest produced more than `outputLimit`. Its instance is replaced.',
  remedy: 'Return less, or raise `--output-limit`.',
})

export const ContractBrokenError = failure({
  code: 'WASM_SERVE_CONTRACT_BROKEN',
  status: 502,
  message: 'The guest violated the %s contract: %s',
  cause:
    'The output is not an answer of the contract of the route. The detail names the field, not its content.',
  remedy: 'Return an output that matches the contract of the route. The detail names the field.',
})

/** {@link ContractBrokenError} for a contract whose own server answers 500. */
export const SimplismBrokenError = failure({
  code: 'WASM_SERVE_SIMPLISM_BROKEN',
  status: 500,
  message: 'The guest violated the simplism contract: %s',
  cause: 'With `--contract simplism`: the output is not an answer of the contract.',
  remedy: 'Return an output that matches the simplism contract. The text names the field.',
})

export const InstanceBusyError = failure({
  code: 'WASM_SERVE_INSTANCE_BUSY',
  status: 500,
  message: 'An instance of plug-in %s is already running a call: an instance runs one call at a time',
  cause: 'A host function called the instance that it was called from.',
  remedy: 'Do not call a plug-in from its own host function.',
})

export const GuestStallError = failure({
  code: 'WASM_SERVE_GUEST_STALL',
  site: 'log',
  message:
    '%s blocked the event loop for more than %d ms (stallMs): the process is killed so that its supervisor restarts it',
  cause: 'The guest did not return within `stallMs`. The process is killed, and this is its last log line.',
  remedy:
    'Give the route a deadline (`--timeout`), or raise `--stall-ms`. Let a supervisor restart the process.',
})

export const QueueFullError = failure({
  code: 'WASM_SERVE_QUEUE_FULL',
  status: 503,
  message: 'The queue of this route is full, %s: try again later',
  cause: '`maxQueue` calls or `maxQueueBytes` wait already. `Retry-After` says when to try again.',
  remedy: 'Retry after the seconds in `Retry-After`. Add threads (`--workers`), or raise `--max-queue`.',
})

export const QueueSlowError = failure({
  code: 'WASM_SERVE_QUEUE_SLOW',
  status: 503,
  message: 'This route is too busy to start the call within %d ms (maxWaitMs): try again later',
  cause: 'The call would have to wait longer than `maxWaitMs`, or has.',
  remedy: 'Retry later. Add threads (`--workers`), or raise `--max-wait-ms`.',
})

export const InstancesFullError = failure({
  code: 'WASM_SERVE_INSTANCES_FULL',
  status: 503,
  message: 'All %d instances that may be open (maxInstances) are in use: try again later',
  cause:
    'The call of a [lazy plug-in](../serve/plug-ins.md#thousands-of-plug-ins) would open more than `maxInstances`, and calls ran in all others for `maxWaitMs`.',
  remedy: 'Retry later, or raise `--max-instances`.',
})

export const DeadlineError = failure({
  code: 'WASM_SERVE_DEADLINE_EXCEEDED',
  status: 504,
  message: 'The guest function "%s" ran longer than the timeout of %d ms and was terminated',
  cause: 'The guest ran longer than `timeoutMs`, and was ended. Its instance is replaced.',
  remedy: 'Make the guest faster, or raise `--timeout`.',
})

export const BudgetExceededError = failure({
  code: 'WASM_SERVE_BUDGET_EXCEEDED',
  status: 504,
  message: 'The guest function "%s" did more work than its budget of %d checks and was terminated',
  cause: 'The guest did more work than `budget` allows, and was ended. Its instance is replaced.',
  remedy:
    'Make the guest do less, or raise `--budget`. `wasm-serve call --budget N --timing` shows the checks of a call.',
})

/** `cause` says why. */
export const WorkerLostError = failure({
  code: 'WASM_SERVE_WORKER_LOST',
  status: 500,
  message: 'The thread or process that ran the guest function "%s" ended unexpectedly; it was replaced',
  cause:
    'The thread or process that ran the guest ended: out of memory, by an abort of V8, or by a host function. It is replaced.',
  remedy:
    'Read the log for the last words of V8. Lower the memory that the guest or its host functions use. `--idempotent` runs such a call once more.',
})

export const BreakerOpenError = failure({
  code: 'WASM_SERVE_BREAKER_OPEN',
  status: 503,
  message: 'This route is unavailable: %d starts in a row failed (%s)',
  cause:
    "Five starts of the route's threads or processes failed in a row; it is tried again from time to time.",
  remedy: 'Read the log: it has the reason of each failed start.',
})

export const ThreadsStuckError = failure({
  code: 'WASM_SERVE_THREADS_STUCK',
  status: 503,
  message:
    '%d threads of this plug-in are stuck in native calls and cannot be terminated: no new threads start until one of them ends',
  cause:
    'Two threads that ran the plug-in of the route cannot be ended. No others start until one of them ends.',
  remedy:
    'Find the native call that does not return (the log names route and plug-in), or run the plug-in with `--engine subprocess`.',
})

/** 499 is the status of nginx for it. */
export const ClientGoneError = failure({
  code: 'WASM_SERVE_CLIENT_GONE',
  status: 499,
  message: 'The client disconnected before it had its answer',
  cause:
    'The client left before its call began, so the guest did not run; or during a [stream](../write/streams.md). Only the log has this code.',
  remedy: 'Nothing: the client did not wait.',
})

export const StreamTimeoutError = failure({
  code: 'WASM_SERVE_STREAM_TIMEOUT',
  status: 504,
  message: 'The exchange took longer than %d ms (streamTimeoutMs)',
  cause:
    'The exchange of a guest that [streams](../write/streams.md) took longer than `streamTimeoutMs`. If its answer had been started, it was broken off.',
  remedy: 'Make the exchange shorter, or raise `--stream-timeout-ms`.',
})

export const StreamsFullError = failure({
  code: 'WASM_SERVE_STREAMS_FULL',
  status: 503,
  message:
    'This route serves at most %d streams at a time (workers: %d, streams of each: %d), and none ended within %d ms (maxWaitMs): try again later',
  cause:
    'The threads of a route whose guests [stream](../write/streams.md) have as many exchanges as they can have, and none ended within `maxWaitMs`. A thread has 256 at a time, or one before Node.js 24.',
  remedy:
    'Retry later. Add threads (`--workers`), or limit how long an exchange may take (`--stream-timeout-ms`).',
})

export const ShuttingDownError = failure({
  code: 'WASM_SERVE_SHUTTING_DOWN',
  status: 503,
  message:
    'The server is shutting down: the guest function "%s" was still running after the grace period (graceMs) and was terminated',
  cause:
    'The guest had not ended when the server, which shuts down, had waited for `graceMs`. It was ended with its thread.',
  remedy: 'Retry: another process answers. `--grace-ms` is how long calls may take after SIGTERM.',
})

export const EngineClosedError = failure({
  code: 'WASM_SERVE_ENGINE_CLOSED',
  status: 503,
  message: 'This route is being closed: try again later',
  cause: 'The route is being closed.',
  remedy: 'Retry: the route is being replaced or removed.',
})
