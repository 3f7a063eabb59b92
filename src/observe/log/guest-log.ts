import { GUEST_LIMITS } from '../../platform/guest-limits.ts'

/** The levels at which a guest can log. */
export type GuestLogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error'

/** Where a call's log lines go; a Fastify request's `log` is one, and so is any pino logger. */
export type Log = { readonly [level in GuestLogLevel]: (fields: object, message: string) => void }

/** Limits of an engine's lines, besides those of a call. */
export interface LogLimits {
  readonly lineRate?: LineRate | undefined
  /** Called with the number of dropped lines of a call. */
  readonly onDroppedLines?: ((lines: number) => void) | undefined
}

const { logLine: MAX_LINE, logLines: MAX_LINES } = GUEST_LIMITS

/**
 * Takes the log lines of an instance to the log of the call that is running, so that they carry its request id. They
 * are kept until the call ends, unless `atOnce` is set: a guest that has used up the stack must not run the logger on
 * the rest of it.
 */
export class GuestLog {
  readonly #fields: object
  readonly #isAtOnce: boolean
  readonly #idle: Log
  readonly #rate: LineRate | undefined
  readonly #onDropped: ((lines: number) => void) | undefined
  #log: Log
  #kept: [level: GuestLogLevel, line: string][] = []
  #lines = 0
  /** Lines of the call that were too many in their second. */
  #tooFast = 0
  #function: string | undefined

  /**
   * @param idle - Takes what the guest logs while it starts.
   * @param atOnce - Whether the logs take lines while the guest runs.
   * @param limits - The engine's limits on lines.
   */
  constructor(idle: Log, fields: object, atOnce = false, limits: LogLimits = {}) {
    this.#idle = idle
    this.#isAtOnce = atOnce
    this.#rate = limits.lineRate
    this.#onDropped = limits.onDroppedLines
    this.#log = idle
    this.#fields = fields
  }

  /** @param functionName - The export that is called. */
  begin(log: Log, functionName?: string): void {
    this.#log = log
    this.#function = functionName
  }

  /** Of a call, or of the guest's start. */
  end(): void {
    if (this.#lines > 0) this.#flush()
    this.#log = this.#idle
    this.#function = undefined
  }

  write(level: GuestLogLevel, line: string): void {
    if (++this.#lines > MAX_LINES) return
    if (this.#rate?.take() === false) {
      this.#tooFast++
      return
    }
    const cut = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}...` : line
    if (this.#isAtOnce) this.#log[level](this.#fieldsNow(), cut)
    else this.#kept.push([level, cut])
  }

  #fieldsNow(): object {
    return this.#function === undefined ? this.#fields : { ...this.#fields, function: this.#function }
  }

  #flush(): void {
    const kept = this.#kept
    const dropped = this.#lines - MAX_LINES
    this.#kept = []
    this.#lines = 0
    const fields = this.#fieldsNow()
    for (const [level, line] of kept) this.#log[level](fields, line)
    if (dropped > 0) {
      this.#log.warn({ ...fields, dropped }, `the guest logged too much: dropped ${dropped} lines`)
      this.#onDropped?.(dropped)
    }
    if (this.#tooFast > 0) this.#flushTooFast(fields)
  }

  /** Said once a second: calls may come faster than the lines that were dropped. */
  #flushTooFast(fields: object): void {
    const dropped = this.#tooFast
    this.#tooFast = 0
    this.#onDropped?.(dropped)
    if (!this.#rate?.shouldReport()) return
    const { perSecond } = this.#rate
    this.#log.warn(
      { ...fields, dropped, perSecond },
      `the guest logs more than ${perSecond} lines a second (logRate): some are dropped`,
    )
  }
}

/** Limits the lines a second of all guests of an engine. */
export class LineRate {
  readonly perSecond: number
  #since = Number.NEGATIVE_INFINITY
  #left = 0
  #isReported = false

  constructor(perSecond: number) {
    this.perSecond = perSecond
  }

  /** @param now - In milliseconds. @returns whether one more may be written. */
  take(now = performance.now()): boolean {
    if (now - this.#since >= 1_000) {
      this.#since = now
      this.#left = this.perSecond
      this.#isReported = false
    }
    if (this.#left === 0) return false
    this.#left--
    return true
  }

  /** @returns true once a second: the caller then reports that lines are dropped. */
  shouldReport(): boolean {
    const isFirst = !this.#isReported
    this.#isReported = true
    return isFirst
  }
}
