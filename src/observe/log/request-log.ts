import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Bindings, ChildLoggerOptions, Logger } from 'pino'
import { servedRouteOf } from '../observe.ts'
import { openLines } from './lines.ts'

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

/** The request log. */
interface AccessLogOptions {
  readonly accessLog: boolean
  readonly accessLogFormat: 'json' | 'common' | 'combined'
  readonly accessLogLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  readonly accessLogHeaders: boolean
  readonly redactHeaders: readonly string[]
}

/** Writes the line of an answered request. */
type LogAccess = (request: FastifyRequest, reply: FastifyReply) => void

/**
 * Opens the request log: lines of the log, or text in the format of web servers on standard output.
 *
 * @returns undefined if nothing would be written.
 */
export function openAccessLog(options: AccessLogOptions, log: FastifyBaseLogger): LogAccess | undefined {
  const { accessLog, accessLogLevel: level, accessLogFormat: format } = options
  if (!accessLog || !isEnabled(log, level)) return undefined
  const redacted = new Set(options.redactHeaders.map((name) => name.toLowerCase()))
  if (format !== 'json') return openText(format, redacted, log)
  return (request, reply) => {
    const headers = options.accessLogHeaders && { headers: redact(request.raw.rawHeaders, redacted) }
    request.log[level]({ ...fieldsOf(request, reply), ...headers }, 'request')
  }
}

/** A user's logger without `isLevelEnabled` gets all lines. */
function isEnabled(log: FastifyBaseLogger, level: string): boolean {
  if (level === 'silent') return false
  return 'isLevelEnabled' in log ? (log as Logger).isLevelEnabled(level) : true
}

/** Data of a request that is not available after it. */
interface Arrival {
  readonly ip: string
  /** In ms, by `performance.now()`. */
  readonly at: number
}

const arrivals = new WeakMap<FastifyRequest, Arrival>()

/**
 * Call it when a request arrives. After an answer over HTTP/2, or when the client has disconnected, Node no longer has the
 * client's address.
 */
export function noteArrival(request: FastifyRequest): void {
  arrivals.set(request, { ip: request.ip, at: performance.now() })
}

/** A request with a malformed URL has no recorded arrival. */
function arrivalOf(request: FastifyRequest): Arrival {
  return arrivals.get(request) ?? { ip: request.ip, at: performance.now() }
}

function fieldsOf(request: FastifyRequest, reply: FastifyReply): object {
  const { method, url } = request
  const { ip, at } = arrivalOf(request)
  const route = servedRouteOf(request)
  const ms = Math.round((performance.now() - at) * 1_000) / 1_000
  return {
    ...{ method, url, status: statusOf(reply), bytes: bytesSent(reply), ms, ip },
    ...(route && { route: route.url, plugin: route.plugin, function: route.function }),
  }
}

/** The status of the answer; 499, as in nginx, if the client disconnected before. */
function statusOf({ raw, statusCode }: FastifyReply): number {
  return raw.headersSent ? statusCode : 499
}

/** Size of the body; undefined if unknown before it was sent. */
function bytesSent(reply: FastifyReply): number | undefined {
  const length = reply.getHeader('content-length')
  return length === undefined ? undefined : Number(length)
}

const REDACTED = '[redacted]'

/** From alternating names and values. */
function redact(raw: readonly string[], redacted: ReadonlySet<string>): Record<string, string> {
  const headers: Record<string, string> = Object.create(null) // a name may be __proto__
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = String(raw[at]).toLowerCase()
    const value = redacted.has(name) ? REDACTED : String(raw[at + 1])
    headers[name] = name in headers && value !== REDACTED ? `${headers[name]}, ${value}` : value
  }
  return headers
}

/** Apache's formats of these names: `ip - - [time] "request" status bytes`, with referer and user agent if combined. */
function openText(
  format: 'common' | 'combined',
  redacted: ReadonlySet<string>,
  log: FastifyBaseLogger,
): LogAccess {
  const destination = openLines(1, (dropped, reason) => {
    log.error({ dropped, reason }, 'the access log could not be written')
  })
  const shown = ({ headers }: FastifyRequest, name: 'referer' | 'user-agent') =>
    redacted.has(name) ? REDACTED : quotable(headers[name] ?? '-')
  return (request, reply) => {
    const { method, url, raw } = request
    const { ip } = arrivalOf(request)
    const what = quotable(`${method} ${url} HTTP/${raw.httpVersion}`)
    const line = `${ip || '-'} - - [${renderTime(new Date())}] "${what}" ${statusOf(reply)} ${bytesSent(reply) ?? '-'}`
    const more =
      format === 'combined' ? ` "${shown(request, 'referer')}" "${shown(request, 'user-agent')}"` : ''
    destination.write(`${line}${more}\n`)
  }
}

/** Escapes characters that could end the quotes or the line, or move a cursor, as Apache does. */
function quotable(text: string): string {
  return text.replace(UNSAFE, (character) =>
    character === '"' || character === '\\'
      ? `\\${character}`
      : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters
const UNSAFE = /["\\\u0000-\u001f\u007f-\u00ff]/g

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** `21/Nov/2026:20:15:03 +0000`. */
function renderTime(time: Date): string {
  const [date = '', clock = ''] = time.toISOString().split(/[T.]/)
  const [year, month, day] = date.split('-')
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000`
}

/** Ids of clients that are safe to repeat in headers and logs. */
const SANE = /^[\w.~:@+/=-]{1,128}$/

/** Ids with a common prefix except for the last four digits: generating a random UUID for each takes 0.8 us. */
const IDS_PER_UUID = 0x10000

let prefix = ''
let next = IDS_PER_UUID

/** The client's `x-request-id` if it is sane, else a globally unique UUID. The next one can be guessed from it. */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  if (typeof given === 'string' && SANE.test(given)) return given
  if (next === IDS_PER_UUID) {
    prefix = randomUUID().slice(0, -4)
    next = 0
  }
  const id = next++
  return `${prefix}${HEX_BYTES[id >> 8]}${HEX_BYTES[id & 0xff]}`
}

const HEX_BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
