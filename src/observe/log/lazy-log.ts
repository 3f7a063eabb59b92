import type { FastifyBaseLogger } from 'fastify'
import type { Bindings, ChildLoggerOptions } from 'pino'

type Line = [fields: object, message?: string]

/** A logger that is made for its first line. */
export abstract class LazyLog<Log extends FastifyBaseLogger = FastifyBaseLogger>
  implements FastifyBaseLogger
{
  #made: Log | undefined

  protected abstract make(): Log

  get level(): string {
    return this.made.level
  }

  set level(level: string) {
    this.made.level = level
  }

  trace(...line: Line): void {
    this.made.trace(...line)
  }

  debug(...line: Line): void {
    this.made.debug(...line)
  }

  info(...line: Line): void {
    this.made.info(...line)
  }

  warn(...line: Line): void {
    this.made.warn(...line)
  }

  error(...line: Line): void {
    this.made.error(...line)
  }

  fatal(...line: Line): void {
    this.made.fatal(...line)
  }

  silent(...line: Line): void {
    this.made.silent(...line)
  }

  child(bindings: Bindings, options?: ChildLoggerOptions): FastifyBaseLogger {
    return this.made.child(bindings, options)
  }

  protected get made(): Log {
    this.#made ??= this.make()
    return this.#made
  }
}
