import { InternalError } from './errors.ts'
import { hasOwnCode, restoreError } from './failure.ts'

/** Why a call failed, as data: errors lose their class between threads. */
export interface CallFailure {
  readonly code: string
  readonly message: string
  /** For the log. */
  readonly cause?: unknown
}

/** Serializes an error for another thread. */
export function toFailure(error: unknown): CallFailure {
  if (!(error instanceof Error)) return toFailure(new Error(String(error)))
  const { message, cause, stack } = error
  return hasOwnCode(error)
    ? { code: error.code, message, cause: describeCause(cause) }
    : { code: '', message, cause: { reason: message, stack } }
}

/** Restores the error with its class. An error without a code of wasm-serve becomes an {@link InternalError}. */
export function fromFailure({ code, message, cause }: CallFailure): Error {
  return restoreError(code, message, cause) ?? new InternalError({ cause })
}

/** The cause in the form that the log shows. */
function describeCause(cause: unknown): unknown {
  return cause instanceof Error ? { reason: cause.message, stack: cause.stack } : cause
}
