import type { Environment } from '../config/config.ts'
import type { Terminal } from '../log.ts'

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
  /** Where the log is read by a person; undefined if it is not. */
  readonly logTerminal: Terminal | undefined
  /** Process id of the parent. */
  parentId(): number
}
