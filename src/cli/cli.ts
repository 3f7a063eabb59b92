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
import { explainLimit } from '../platform/system-errors.ts'
import { printable } from '../platform/text.ts'
import type { Command, Host } from './command.ts'

/** Errors of the command line or the configuration. */
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

/** Codes of Node.js for a missing permission where it was started with `--permission`. */
const DENIED = ['ERR_ACCESS_DENIED', 'ERR_DLOPEN_DISABLED']

/** Codes of the system for a missing permission of the user or the container. */
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

/** A command, before its code is loaded: `serve` pays for none of the others. */
interface CommandEntry {
  /** Its line on the help page. */
  readonly summary: string
  load(): Promise<Command>
}

/** The commands, in the order of the help page. A first word that is one of them is never a file. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: {
    summary: 'Serve plug-ins over HTTP; this word may be left out.',
    load: async () => (await import('./serve.ts')).serve,
  },
  check: {
    summary: 'Do all that comes before listening; list what is wrong.',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  inspect: {
    summary: 'Show what a plug-in exports and what it needs.',
    load: async () => (await import('./inspect/inspect.ts')).inspect,
  },
  call: {
    summary: 'Call a function once, without HTTP.',
    load: async () => (await import('./call.ts')).callCommand,
  },
  bench: {
    summary: 'Measure a plug-in under load.',
    load: async () => (await import('./bench/bench.ts')).bench,
  },
  new: {
    summary: 'Make a plug-in project, in one of nine languages.',
    load: async () => (await import('./new/new.ts')).newProject,
  },
  openapi: {
    summary: 'Describe the routes as an OpenAPI document.',
    load: async () => (await import('./openapi.ts')).openapi,
  },
  store: {
    summary: 'Check what guests keep, export or import it.',
    load: async () => (await import('./store/store.ts')).storeCommand,
  },
  completion: {
    summary: 'Print a script that completes words in bash, zsh or fish.',
    load: async () => (await import('./completion/completion.ts')).completion,
  },
  help: {
    summary: 'Explain a command (help call), or list all flags (help flags).',
    load: async () => (await import('./help.ts')).help,
  },
}

/**
 * The command that the first word names, even if there is a file of that name, and the words that are left for it.
 * Anything else is for `serve`. `help NAME` is `NAME --help`.
 */
export async function chooseCommand(
  argv: readonly string[],
): Promise<{ command: Command; argv: readonly string[] }> {
  const [first = '', second = '', ...rest] = argv
  const named = commandEntry(first)
  const explained = first === 'help' && rest.length === 0 ? commandEntry(second) : undefined
  if (explained) return { command: await explained.load(), argv: ['--help'] }
  if (named) return { command: await named.load(), argv: argv.slice(1) }
  const { serve } = await import('./serve.ts')
  return { command: serve, argv }
}

function commandEntry(name: string): CommandEntry | undefined {
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
}
