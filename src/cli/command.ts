import type { LineStream, Terminal } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import type { Environment } from '../options/config.ts'
import type { ProcessSignals } from '../server/shutdown.ts'

/** A command of the command line. */
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
  /** Writes the results. */
  readonly out: Terminal
  /** Whether a person reads the results as they come. */
  readonly isOutTerminal: boolean
  /** Writes results that are bytes, unbuffered. */
  writeBytes(bytes: Uint8Array): void
  /** Writes messages that are not results. */
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
  /** How to start this program again: its path, and the words before its arguments. */
  readonly program: readonly [path: string, ...words: string[]]
  /** Ends and reloads a server. */
  readonly signals: ProcessSignals
}
