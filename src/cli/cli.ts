import { isMistake } from '../errors/failure.ts'
import { explainLimit } from '../platform/system-errors.ts'
import type { Command, ExitCode, Host } from './command.ts'
import { explain } from './explain.ts'

/**
 * Runs the command line.
 *
 * @param argv - The arguments after the program's name.
 * @returns the exit code, when the work is done or a server is running: 0; 2 after a user's mistake; 1 after any other
 * failure; another one if the command says so. Failures were reported through `host.writeError`.
 */
export async function main(argv: readonly string[], host: Host): Promise<ExitCode> {
  try {
    const chosen = await chooseCommand(argv)
    const code: unknown = await chosen.command.run(chosen.argv, host)
    return isExitCode(code) ? code : 0 // `void` can be any value, such as that of a stream's write
  } catch (error) {
    host.writeError(explain(error, host.secrets))
    return isMistake(error) && explainLimit(error) === undefined ? 2 : 1
  }
}

function isExitCode(value: unknown): value is ExitCode {
  return value === 0 || value === 1 || value === 2 || value === 3
}

/** A command whose code is loaded on demand, so that `serve` does not load the others. */
interface CommandEntry {
  /** The line on the help page. */
  readonly summary: string
  load(): Promise<Command>
}

/** The commands, in the order of the help page. A first argument with one of these names is never a file. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: {
    summary: 'Serve plug-ins over HTTP (the default command).',
    load: async () => (await import('./serve.ts')).serve,
  },
  dev: {
    summary: 'Serve a project while you change it: build, reload, keys.',
    load: async () => (await import('./dev/dev.ts')).dev,
  },
  check: {
    summary: 'Check a configuration without listening; list all problems.',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  inspect: {
    summary: 'Show the exports and requirements of a plug-in.',
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
    summary: 'Create a plug-in project in one of ten languages.',
    load: async () => (await import('./new/new.ts')).newProject,
  },
  init: {
    summary: 'Write wasm-serve.yaml for the plug-ins of a folder.',
    load: async () => (await import('./new/init.ts')).init,
  },
  build: {
    summary: 'Build an Extism plug-in from a JavaScript or TypeScript file.',
    load: async () => (await import('./build.ts')).buildCommand,
  },
  openapi: {
    summary: 'Print an OpenAPI document of the routes.',
    load: async () => (await import('./openapi.ts')).openapi,
  },
  push: {
    summary: 'Push a plug-in to an OCI registry.',
    load: async () => (await import('./push.ts')).pushCommand,
  },
  mcp: {
    summary: 'Serve plug-ins as tools to one agent (MCP), over stdio.',
    load: async () => (await import('./mcp.ts')).mcp,
  },
  store: {
    summary: 'Check, export or import the data that guests store.',
    load: async () => (await import('./store/store.ts')).storeCommand,
  },
  fleet: {
    summary: 'Show, change or roll back what a fleet of servers serves.',
    load: async () => (await import('./fleet/fleet.ts')).fleetCommand,
  },
  cache: {
    summary: 'List, verify or prune the cache of downloads.',
    load: async () => (await import('./cache.ts')).cacheCommand,
  },
  doctor: {
    summary: 'Show which tools, packages and limits this machine has.',
    load: async () => (await import('./doctor/doctor.ts')).doctor,
  },
  completion: {
    summary: 'Print a completion script for bash, zsh or fish.',
    load: async () => (await import('./completion/completion.ts')).completion,
  },
  help: {
    summary: 'Explain a command (help call), or list all flags (help flags).',
    load: async () => (await import('./help.ts')).help,
  },
}

/**
 * The command that the first argument names, even if a file has that name, and the remaining arguments. Anything else
 * is for `serve`. `help NAME` is `NAME --help`.
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
