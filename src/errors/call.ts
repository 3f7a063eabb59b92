import { failure } from './failure.ts'

/* Failures of calls. */

/** Thrown by a user's `onCall` hook. `statusCode` can be changed. */
export const CallRefusedError = failure({
  code: 'WASM_SERVE_CALL_REFUSED',
  status: 403,
  message: '%s',
  isWhole: true,
  cause: "The app's `onCall` hook refused the call. It can choose another status.",
  remedy: 'Read the detail.',
})

export const GuestError = failure({
  code: 'WASM_SERVE_GUEST_ERROR',
  status: 409,
  message: '%s',
  isWhole: true,
  cause: 'The guest reported an error. The body is its message.',
  remedy: 'Read the body. `errorStatus` selects another status.',
})

/** `cause` has the engine's reason and the stack of the guest. */
export const GuestTrapError = failure({
  code: 'WASM_SERVE_GUEST_TRAP',
  status: 500,
  message: 'The guest function "%s" trapped; its instance was replaced',
  cause: 'The guest trapped. Its instance is replaced.',
  remedy:
    'Read the stack in the log. `--block-limit`, `--memory-max` or a failed [HTTP request](../write/outbound-http.md#limits-and-failures) can cause it.',
})

/** `cause` has the details. */
export const HostUnavailableError = failure({
  code: 'WASM_SERVE_HOST_UNAVAILABLE',
  status: 503,
  message: 'A service that the guest function "%s" needs is unavailable: try again later',
  cause:
    "The [store](../write/state.md) is full or unreachable, and the guest's function has no error code. The instance is replaced.",
  remedy: 'Check the store. `wasm-serve:kv` returns codes instead.',
})

export const GuestExitError = failure({
  code: 'WASM_SERVE_GUEST_EXIT',
  status: 500,
  message: 'The guest function "%s" exited (proc_exit); its instance was replaced',
  cause: 'With `--runtime sdk`: the guest called `proc_exit`.',
  remedy:
    'Use the kernel runtime, which treats the status as a [return code](../serve/plug-ins.md#exits-and-return-codes).',
})

export const VariablesFullError = failure({
  code: 'WASM_SERVE_VARIABLES_FULL',
  status: 500,
  message:
    'The variables of the guest function "%s" would exceed %d bytes (varMax); its instance was replaced',
  cause: 'The [variables](../serve/limits.md) of the guest would exceed `varMax`.',
  remedy: 'Raise `--var-max`, or keep less in variables.',
})

export const OutputTooLargeError = failure({
  code: 'WASM_SERVE_OUTPUT_TOO_LARGE',
  status: 502,
  message: 'The guest function "%s" produced %d bytes, more than the outputLimit of %d',
  cause: 'The output is larger than `outputLimit`.',
  remedy: 'Return less, or raise `--output-limit`.',
})

export const ContractBrokenError = failure({
  code: 'WASM_SERVE_CONTRACT_BROKEN',
  status: 502,
  message: 'The guest violated the %s contract: %s',
  cause: 'The output does not match the contract of the route.',
  remedy: 'Correct the field that the detail names.',
})

/** {@link ContractBrokenError} for a contract whose own server answers 500. */
export const SimplismBrokenError = failure({
  code: 'WASM_SERVE_SIMPLISM_BROKEN',
  status: 500,
  message: 'The guest violated the simplism contract: %s',
  cause: 'With `--contract simplism`: the output does not match the contract.',
  remedy: 'Correct the field that the body names.',
})

export const InstanceBusyError = failure({
  code: 'WASM_SERVE_INSTANCE_BUSY',
  status: 500,
  message: 'An instance of plug-in %s is already running a call: an instance runs one call at a time',
  cause: 'A host function called the instance that called it.',
  remedy: 'Do not call a plug-in from its own host function.',
})

export const GuestStallError = failure({
  code: 'WASM_SERVE_GUEST_STALL',
  site: 'log',
  message:
    '%s blocked the event loop for more than %d ms (stallMs): the process is killed so that its supervisor restarts it',
  cause: 'The guest blocked the event loop for longer than `stallMs`. The process is killed.',
  remedy: 'Set a deadline (`--timeout`), or raise `--stall-ms`.',
})

export const QueueFullError = failure({
  code: 'WASM_SERVE_QUEUE_FULL',
  status: 503,
  message: 'The queue of this route is full, %s: try again later',
  cause: 'The queue holds `maxQueue` calls or `maxQueueBytes`.',
  remedy: 'Retry after `Retry-After` seconds. Add threads (`--workers`), or raise `--max-queue`.',
})

export const QueueSlowError = failure({
  code: 'WASM_SERVE_QUEUE_SLOW',
  status: 503,
  message: 'This route is too busy to start the call within %d ms (maxWaitMs): try again later',
  cause: 'The call waited for `maxWaitMs`, or would wait longer.',
  remedy: 'Retry later. Add threads (`--workers`), or raise `--max-wait-ms`.',
})

export const InstancesFullError = failure({
  code: 'WASM_SERVE_INSTANCES_FULL',
  status: 503,
  message: 'All %d instances that may be open (maxInstances) are in use: try again later',
  cause:
    'A [lazy plug-in](../serve/plug-ins.md#thousands-of-plug-ins) needs an instance, but `maxInstances` are open and all were busy for `maxWaitMs`.',
  remedy: 'Retry later, or raise `--max-instances`.',
})

export const DeadlineError = failure({
  code: 'WASM_SERVE_DEADLINE_EXCEEDED',
  status: 504,
  message: 'The guest function "%s" ran longer than the timeout of %d ms and was terminated',
  cause: 'The guest ran longer than `timeoutMs` and was terminated.',
  remedy: 'Make the guest faster, or raise `--timeout`.',
})

export const BudgetExceededError = failure({
  code: 'WASM_SERVE_BUDGET_EXCEEDED',
  status: 504,
  message: 'The guest function "%s" did more work than its budget of %d checks and was terminated',
  cause: 'The guest exceeded its `budget` and was terminated.',
  remedy:
    'Make the guest do less, or raise `--budget`. `wasm-serve call --budget N --timing` shows the checks of a call.',
})

/** `cause` says why. */
export const WorkerLostError = failure({
  code: 'WASM_SERVE_WORKER_LOST',
  status: 500,
  message: 'The thread or process that ran the guest function "%s" terminated unexpectedly; it was replaced',
  cause: 'The thread or process of the guest terminated unexpectedly. It is replaced.',
  remedy:
    'Read the last output of V8 in the log. Reduce the memory of the guest and its host functions. `--idempotent` retries such a call once.',
})

export const BreakerOpenError = failure({
  code: 'WASM_SERVE_BREAKER_OPEN',
  status: 503,
  message: 'This route is unavailable: %d starts in a row failed (%s)',
  cause: "Five starts of the route's threads or processes failed in a row. Retries continue.",
  remedy: 'Read the reason in the log.',
})

export const ThreadsStuckError = failure({
  code: 'WASM_SERVE_THREADS_STUCK',
  status: 503,
  message:
    '%d threads of this plug-in are stuck in native calls and cannot be terminated: no new threads start until one of them ends',
  cause: 'Two threads of the plug-in cannot be terminated. No others start until one of them exits.',
  remedy: 'Find the native call that does not return, or use `--engine subprocess`.',
})

/** 499 is the status of nginx for it. */
export const ClientGoneError = failure({
  code: 'WASM_SERVE_CLIENT_GONE',
  status: 499,
  message: 'The client disconnected before it received the response',
  cause:
    'The client disconnected before its call began, or during a [stream](../write/streams.md). Only the log has this code.',
  remedy: 'Nothing to do.',
})

export const StreamTimeoutError = failure({
  code: 'WASM_SERVE_STREAM_TIMEOUT',
  status: 504,
  message: 'The exchange took longer than %d ms (streamTimeoutMs)',
  cause:
    'The [streamed](../write/streams.md) exchange took longer than `streamTimeoutMs`. A response in progress is aborted.',
  remedy: 'Shorten the exchange, or raise `--stream-timeout-ms`.',
})

export const StreamsFullError = failure({
  code: 'WASM_SERVE_STREAMS_FULL',
  status: 503,
  message:
    'This route serves at most %d streams at a time (workers: %d, streams of each: %d), and none finished within %d ms (maxWaitMs): try again later',
  cause: 'All [streams](../write/streams.md) of the route are in use, and none finished within `maxWaitMs`.',
  remedy: 'Retry later. Add threads (`--workers`), or lower `--stream-timeout-ms`.',
})

export const ShuttingDownError = failure({
  code: 'WASM_SERVE_SHUTTING_DOWN',
  status: 503,
  message:
    'The server is shutting down: the guest function "%s" was still running after the grace period (graceMs) and was terminated',
  cause: 'The server is shutting down. The guest ran longer than `graceMs` and was terminated.',
  remedy: 'Retry, or raise `--grace-ms`.',
})

export const EngineClosedError = failure({
  code: 'WASM_SERVE_ENGINE_CLOSED',
  status: 503,
  message: 'This route is being closed: try again later',
  cause: 'The route is being replaced or removed.',
  remedy: 'Retry.',
})
