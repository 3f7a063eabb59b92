import { GUEST_LIMITS } from '../../platform/guest-limits.ts'

/** The levels at which a guest can log. */
export type GuestLogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error'

/** The destination of a call's log lines: a Fastify request's `log`, or any pino logger. */
export type Log = { readonly [level in GuestLogLevel]: (fields: object, message: string) => void }

/** Limits on an engine's lines, in addition to those of a call. */
export interface LogLimits {
  readonly lineRate?: LineRate | undefined
  /** Called with the number of dropped lines of a call. */
  readonly onDroppedLines?: ((lines: number) => void) | undefined
}

const { logLine: MAX_LINE, logLines: MAX_LINES } = GUEST_LIMITS

/**
 * Forwards the log lines of an instance to the log of the running call, so that they carry its request id. They are
 * buffered until the call ends, unless `atOnce` is set: when a guest has exhausted the stack, the logger must not run on
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
  /** Lines of the call above the limit per second. */
  #tooFast = 0
  #function: string | undefined

  /**
   * @param idle - Receives the lines that the guest logs during its start.
   * @param atOnce - Whether the logs accept lines while the guest runs.
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

  /** @param functionName - The called export. */
  begin(log: Log, functionName?: string): void {
    this.#log = log
    this.#function = functionName
  }

  /** The number of a call's or start's lines. */
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

  /** Reported once a second: there may be more calls than dropped lines. */
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

/** Limits the lines per second of all guests of an engine. */
export class LineRate {
  readonly perSecond: number
  #since = Number.NEGATIVE_INFINITY
  #left = 0
  #isReported = false

  constructor(perSecond: number) {
    this.perSecond = perSecond
  }

  /** @param now - In milliseconds. @returns whether one more line may be written. */
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

  /** @returns true once a second, when the caller should report dropped lines. */
  shouldReport(): boolean {
    const isFirst = !this.#isReported
    this.#isReported = true
    return isFirst
  }
}
