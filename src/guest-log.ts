/** The levels at which a guest can log. */
export type GuestLogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error'

/** Where a call's log lines go; a Fastify request's `log` is one, and so is any pino logger. */
export type Log = { readonly [level in GuestLogLevel]: (fields: object, message: string) => void }

/** Longest line that is logged, in characters; the rest of it is cut. */
const MAX_LINE = 8_192

/** Lines that one call may log; the others are counted, and the count is logged when the call ends. */
const MAX_LINES = 100

/** Takes the log lines of an instance to the log of the call that is running, so that they carry its request id. */
export class GuestLog {
  readonly #fields: object
  readonly #idle: Log
  #log: Log
  #lines = 0

  /** @param idle - Takes what the guest logs while it starts. */
  constructor(idle: Log, fields: object) {
    this.#idle = idle
    this.#log = idle
    this.#fields = fields
  }

  begin(log: Log): void {
    this.#log = log
    this.#lines = 0
  }

  end(): void {
    const dropped = this.#lines - MAX_LINES
    if (dropped > 0)
      this.#log.warn({ ...this.#fields, dropped }, `the guest logged too much: dropped ${dropped} lines`)
    this.#log = this.#idle
    this.#lines = 0
  }

  write(level: GuestLogLevel, line: string): void {
    if (++this.#lines > MAX_LINES) return
    this.#log[level](this.#fields, line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}...` : line)
  }
}
