import { UsageError } from '../errors/errors.ts'
import { hasOwnCode, messageWithCode } from '../errors/failure.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { explainLimit } from '../platform/system-errors.ts'
import { printable } from '../platform/text.ts'

/** Node.js error codes for a permission that `--permission` does not grant. */
const DENIED = ['ERR_ACCESS_DENIED', 'ERR_DLOPEN_DISABLED']

/** System error codes for a permission that the user or the container lacks. */
const REFUSED = ['EACCES', 'EPERM', 'EROFS']

/** Explains mistakes of users and limits of the system in lines of words. Only a bug shows a stack trace. */
export function explain(error: unknown, secrets: Secrets): string {
  return `${secrets.hide(explanationOf(error)).split('\n').map(printable).join('\n')}\n`
}

function explanationOf(error: unknown): string {
  const limit = explainLimit(error)
  if (hasOwnCode(error)) {
    const more = limit === undefined || error.message.includes(limit) ? '' : `\n${limit}`
    return `wasm-serve: ${messageWithCode(error)}${more}${error instanceof UsageError ? '\nTry wasm-serve --help' : ''}`
  }
  if (limit !== undefined) return `wasm-serve: ${limit}\n${error instanceof Error ? error.message : ''}`
  if (error instanceof Error && 'code' in error && DENIED.includes(String(error.code))) {
    const { permission = 'Addons' } = error as { permission?: string }
    return `wasm-serve: Node.js was started with --permission and without ${permission}: ${error.message} (${error.code})`
  }
  if (error instanceof Error && 'code' in error && REFUSED.includes(String(error.code))) {
    return `wasm-serve: the system denied permission: ${error.message} (${error.code})`
  }
  return `wasm-serve: this is a bug, please report it (WASM_SERVE_INTERNAL_ERROR)\n${error instanceof Error ? error.stack : error}`
}
