import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyBaseLogger } from 'fastify'
import type { Bindings, ChildLoggerOptions } from 'pino'
import { LazyLog } from './lazy-log.ts'

/** Creates the loggers of requests. A pino child is created on the first line: most requests write none. */
export function requestLogs(log: FastifyBaseLogger): ChildLoggerFactory {
  return (_none, bindings, options) => new RequestLog(log, bindings, options)
}

type ChildLoggerFactory = (
  none: unknown,
  bindings: Bindings,
  options: ChildLoggerOptions,
) => FastifyBaseLogger

class RequestLog extends LazyLog {
  readonly #parent: FastifyBaseLogger
  readonly #bindings: Bindings
  readonly #options: ChildLoggerOptions

  constructor(parent: FastifyBaseLogger, bindings: Bindings, options: ChildLoggerOptions) {
    super()
    this.#parent = parent
    this.#bindings = bindings
    this.#options = options
  }

  protected override make(): FastifyBaseLogger {
    return this.#parent.child(this.#bindings, this.#options)
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
