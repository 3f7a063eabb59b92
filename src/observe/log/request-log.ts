import type { FastifyBaseLogger } from 'fastify'
import type { Bindings, ChildLoggerOptions } from 'pino'

/** Opens a log whose lines carry `bindings`. It is made when there is a line to write: most requests write none. */
export function openRequestLog(
  log: FastifyBaseLogger,
  bindings: Bindings,
  options: ChildLoggerOptions,
): FastifyBaseLogger {
  return new RequestLog(log, bindings, options)
}

type Line = [fields: object, message?: string]

class RequestLog implements FastifyBaseLogger {
  readonly #parent: FastifyBaseLogger
  readonly #bindings: Bindings
  readonly #options: ChildLoggerOptions
  #made: FastifyBaseLogger | undefined

  constructor(parent: FastifyBaseLogger, bindings: Bindings, options: ChildLoggerOptions) {
    this.#parent = parent
    this.#bindings = bindings
    this.#options = options
  }

  get level(): string {
    return this.#log().level
  }

  set level(level: string) {
    this.#log().level = level
  }

  trace(...line: unknown[]): void {
    this.#log().trace(...(line as Line))
  }

  debug(...line: unknown[]): void {
    this.#log().debug(...(line as Line))
  }

  info(...line: unknown[]): void {
    this.#log().info(...(line as Line))
  }

  warn(...line: unknown[]): void {
    this.#log().warn(...(line as Line))
  }

  error(...line: unknown[]): void {
    this.#log().error(...(line as Line))
  }

  fatal(...line: unknown[]): void {
    this.#log().fatal(...(line as Line))
  }

  silent(...line: unknown[]): void {
    this.#log().silent(...(line as Line))
  }

  child(bindings: Bindings, options?: ChildLoggerOptions): FastifyBaseLogger {
    return this.#log().child(bindings, options)
  }

  #log(): FastifyBaseLogger {
    this.#made ??= this.#parent.child(this.#bindings, this.#options)
    return this.#made
  }
}
