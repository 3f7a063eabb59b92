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
  const { message, cause } = error
  return hasOwnCode(error)
    ? { code: error.code, message, cause: describeCause(cause) }
    : { code: '', message, cause: describeCause(error) }
}

/** Restores the error with its class. An error without a code of wasm-serve becomes an {@link InternalError}. */
export function fromFailure({ code, message, cause }: CallFailure): Error {
  return restoreError(code, message, cause) ?? new InternalError({ cause })
}

/** The most causes of one another that are kept. */
const MAX_CAUSES = 5

/** The causes in the form that the log shows. The last one may be a limit of the system, which decides a status. */
function describeCause(error: unknown, left = MAX_CAUSES): unknown {
  if (!(error instanceof Error)) return error
  const { message, stack, cause } = error
  const code = 'code' in error && { code: error.code }
  return {
    ...code,
    reason: message,
    stack,
    ...(cause !== undefined && left > 1 && { cause: describeCause(cause, left - 1) }),
  }
}
