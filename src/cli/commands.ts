import type { Command } from './command.ts'

/** A command, before its code is loaded: `serve` pays for none of the others. */
export interface CommandEntry {
  /** What it does, as the help page says it. */
  readonly summary: string
  load(): Promise<Command>
}

/** What the first word can name, in the order in which it is shown. A word that is here is never a file. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: {
    summary: 'Serve plug-ins over HTTP; this word may be left out.',
    load: async () => (await import('./serve.ts')).serve,
  },
  check: {
    summary: 'Do all that comes before listening; list what is wrong.',
    load: async () => (await import('./check.ts')).check,
  },
  inspect: {
    summary: 'Show what a plug-in exports and what it needs.',
    load: async () => (await import('./inspect/inspect.ts')).inspect,
  },
  call: {
    summary: 'Call a function once, without HTTP.',
    load: async () => (await import('./call.ts')).call,
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
  const named = entryOf(first)
  const explained = first === 'help' && rest.length === 0 ? entryOf(second) : undefined
  if (explained) return { command: await explained.load(), argv: ['--help'] }
  if (named) return { command: await named.load(), argv: argv.slice(1) }
  const { serve } = await import('./serve.ts')
  return { command: serve, argv }
}

function entryOf(name: string): CommandEntry | undefined {
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
}
