import {
  CheckFailedError,
  ConfigInvalidError,
  ConfigUnreadableError,
  MountConflictError,
  OptionsError,
  StateInvalidError,
  StateUntrustedError,
  UsageError,
} from '../errors/errors.ts'
import { printable } from '../observe/log/printable.ts'
import { explainLimit } from '../platform/system-limits.ts'
import type { Host } from './command.ts'
import { chooseCommand } from './commands.ts'

/** Of how the command was called or configured. */
const MISTAKES = [
  CheckFailedError,
  ConfigInvalidError,
  ConfigUnreadableError,
  MountConflictError,
  OptionsError,
  StateInvalidError,
  StateUntrustedError,
  UsageError,
]

/** What Node.js throws where it was started with `--permission` and without what something takes. */
const DENIED = ['ERR_ACCESS_DENIED', 'ERR_DLOPEN_DISABLED']

/** What the system says where a user, or the container, lacks a permission. */
const REFUSED = ['EACCES', 'EPERM', 'EROFS']

/**
 * Runs the command line.
 *
 * @param argv - The words after the program's name.
 * @returns the exit code, once the work is done or, for a server, begun: 0, or 2 after a mistake of the user and 1
 * after any other failure, which was reported by `host.writeError`.
 */
export async function main(argv: readonly string[], host: Host): Promise<0 | 1 | 2> {
  try {
    const chosen = await chooseCommand(argv)
    await chosen.command.run(chosen.argv, host)
    return 0
  } catch (error) {
    host.writeError(`${host.secrets.hide(explain(error)).split('\n').map(printable).join('\n')}\n`)
    const isMistake = MISTAKES.some((mistake) => error instanceof mistake)
    return isMistake && explainLimit(error) === undefined ? 2 : 1
  }
}

/** A user's mistake and a limit of the system are explained in words; only a bug shows where it happened. */
function explain(error: unknown): string {
  const limit = explainLimit(error)
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_')) {
    const more = limit === undefined || error.message.includes(limit) ? '' : `\n${limit}`
    return `wasm-serve: ${error.message}${more}${error instanceof UsageError ? '\nTry wasm-serve --help' : ''}`
  }
  if (limit !== undefined) return `wasm-serve: ${limit}\n${error instanceof Error ? error.message : ''}`
  if (error instanceof Error && 'code' in error && DENIED.includes(String(error.code))) {
    const { permission = 'Addons' } = error as { permission?: string }
    return `wasm-serve: Node.js was started with --permission and without ${permission}: ${error.message}`
  }
  if (error instanceof Error && 'code' in error && REFUSED.includes(String(error.code))) {
    return `wasm-serve: the system does not permit it: ${error.message}`
  }
  return `wasm-serve: this is a bug, please report it\n${error instanceof Error ? error.stack : error}`
}
