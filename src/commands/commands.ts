import type { Command } from './command.ts'
import { type CommandName, isCommandName } from './command-names.ts'

/** Each is loaded when it is asked for: `serve` pays for none of the others. */
const LOADERS: Readonly<Record<CommandName, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.ts')).serve,
  inspect: async () => (await import('./inspect.ts')).inspect,
  call: async () => (await import('./call.ts')).call,
  bench: async () => (await import('./bench.ts')).bench,
  completion: async () => (await import('./completion.ts')).completion,
  help: async () => (await import('./help.ts')).help,
}

/**
 * The command that the first word names, even if there is a file of that name, and the words that are left for it.
 * Anything else is for `serve`. `help NAME` is `NAME --help`.
 */
export async function chooseCommand(
  argv: readonly string[],
): Promise<{ command: Command; argv: readonly string[] }> {
  const [first = '', second = '', ...rest] = argv
  if (first === 'help' && isCommandName(second) && rest.length === 0) {
    return { command: await LOADERS[second](), argv: ['--help'] }
  }
  if (isCommandName(first)) return { command: await LOADERS[first](), argv: argv.slice(1) }
  return { command: await LOADERS.serve(), argv }
}
