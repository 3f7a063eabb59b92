import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyBaseLogger } from 'fastify'
import type { Bindings, ChildLoggerOptions } from 'pino'

/** Creates the loggers of requests. A pino child is created on the first line: most requests write none. */
export function requestLogs(log: FastifyBaseLogger): ChildLoggerFactory {
  return (_none, bindings, options) => new RequestLog(log, bindings, options)
}

type ChildLoggerFactory = (
  none: unknown,
  bindings: Bindings,
  options: ChildLoggerOptions,
) => FastifyBaseLogger

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

  trace(...line: Line): void {
    this.#log().trace(...line)
  }

  debug(...line: Line): void {
    this.#log().debug(...line)
  }

  info(...line: Line): void {
    this.#log().info(...line)
  }

  warn(...line: Line): void {
    this.#log().warn(...line)
  }

  error(...line: Line): void {
    this.#log().error(...line)
  }

  fatal(...line: Line): void {
    this.#log().fatal(...line)
  }

  silent(...line: Line): void {
    this.#log().silent(...line)
  }

  child(bindings: Bindings, options?: ChildLoggerOptions): FastifyBaseLogger {
    return this.#log().child(bindings, options)
  }

  #log(): FastifyBaseLogger {
    this.#made ??= this.#parent.child(this.#bindings, this.#options)
    return this.#made
  }
}

/** Ids of clients that are safe to repeat in headers and logs. */
const SANE = /^[\w.~:@+/=-]{1,128}$/

/** The client's `x-request-id` if it is sane, else a new one. */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const received = headers['x-request-id']
  return typeof received === 'string' && SANE.test(received) ? received : newRequestId()
}

/** Hexadecimal digits of an id: 128 bits. */
const ID_LENGTH = 32

/** Ids that are made together: a part of a long text costs a tenth of a random UUID. */
const IDS = Buffer.alloc((256 * ID_LENGTH) / 2)

let ids = ''
let used = 0

/** Random: it says nothing about other ids or their number. */
export function newRequestId(): string {
  if (used === ids.length) {
    ids = randomFillSync(IDS).toString('hex')
    used = 0
  }
  used += ID_LENGTH
  return ids.slice(used - ID_LENGTH, used)
}
