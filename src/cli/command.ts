import type { LineStream, Terminal } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import type { Environment } from '../options/config.ts'
import type { ProcessSignals } from '../server/shutdown.ts'

/** Something that the command line can do. */
export interface Command {
  /**
   * @param argv - The words after the program's name.
   * @returns once its work is done or, for a server, begun.
   */
  run(argv: readonly string[], host: Host): Promise<void>
}

/** The process, as far as a command may touch it. */
export interface Host {
  readonly environment: Environment
  /** Takes the results. */
  readonly out: Terminal
  /** Whether a person reads the results as they come. */
  readonly isOutTerminal: boolean
  /** Takes results that are bytes, at once. */
  writeBytes(bytes: Uint8Array): void
  /** Takes what is said about the work, and is no result. */
  writeError(text: string): void
  /** Reads the standard input to its end. */
  readInput(): Promise<Uint8Array>
  /** Where the log is read by a person; undefined if it is not. */
  readonly logTerminal: Terminal | undefined
  /** Where the log goes otherwise; undefined for standard error. */
  readonly logLines: LineStream | undefined
  /** Values that are never shown; commands add to them. */
  readonly secrets: Secrets
  /** The commands that there are, by name, with what they do. */
  readonly commands: Readonly<Record<string, { readonly summary: string }>>
  /** What starts this program again: a path and the words that come before its own. */
  readonly program: readonly [path: string, ...words: string[]]
  /** What ends and reloads a server. */
  readonly signals: ProcessSignals
}
