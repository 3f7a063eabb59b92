import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { openLines } from './lines.ts'

/** How requests are logged. */
export interface AccessLogOptions {
  readonly accessLog: boolean
  readonly accessLogFormat: 'json' | 'common' | 'combined'
  readonly accessLogLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  readonly accessLogHeaders: boolean
  readonly redactHeaders: readonly string[]
}

/** Writes the line of a request that was answered. */
export type LogAccess = (request: FastifyRequest, reply: FastifyReply) => void

/**
 * Opens the log of requests: lines of the log, or text as web servers write it, on standard output.
 *
 * @returns undefined if none of it would be written.
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

/** A log of the user that cannot tell gets the lines. */
function isEnabled(log: FastifyBaseLogger, level: string): boolean {
  if (level === 'silent') return false
  return 'isLevelEnabled' in log ? (log as Logger).isLevelEnabled(level) : true
}

/** What is not known any more when a request is over. */
interface Arrival {
  readonly ip: string
  /** In ms, of `performance.now()`. */
  readonly at: number
}

const arrivals = new WeakMap<FastifyRequest, Arrival>()

/**
 * To be told of each request when it comes: when it has been answered over HTTP/2, or its client has gone away, Node
 * does not know the client's address any more.
 */
export function noteArrival(request: FastifyRequest): void {
  arrivals.set(request, { ip: request.ip, at: performance.now() })
}

/** Of a request that came with a URL that cannot be read, nobody was told. */
function arrivalOf(request: FastifyRequest): Arrival {
  return arrivals.get(request) ?? { ip: request.ip, at: performance.now() }
}

function fieldsOf(request: FastifyRequest, reply: FastifyReply): object {
  const { method, url, routeOptions } = request
  const { ip, at } = arrivalOf(request)
  const { plugin, function: name } = routeOptions.config?.wasmServe ?? {}
  const ms = Math.round((performance.now() - at) * 1_000) / 1_000
  return {
    ...{ method, url, status: statusOf(reply), bytes: bytesOf(reply), ms, ip },
    ...(plugin !== undefined && { route: routeOptions.url, plugin, function: name }),
  }
}

/** What the client was told; 499, as nginx has it, if it went away before. */
function statusOf({ raw, statusCode }: FastifyReply): number {
  return raw.headersSent ? statusCode : 499
}

/** Of the body; undefined if they were not known before it was sent. */
function bytesOf(reply: FastifyReply): number | undefined {
  const length = reply.getHeader('content-length')
  return length === undefined ? undefined : Number(length)
}

const REDACTED = '[redacted]'

/** From names and values in turn. */
function redact(raw: readonly string[], redacted: ReadonlySet<string>): Record<string, string> {
  const headers: Record<string, string> = Object.create(null) // a name may be __proto__
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = String(raw[at]).toLowerCase()
    const value = redacted.has(name) ? REDACTED : String(raw[at + 1])
    headers[name] = name in headers && value !== REDACTED ? `${headers[name]}, ${value}` : value
  }
  return headers
}

/** The formats that Apache calls so: `ip - - [time] "request" status bytes`, and who sent it from where. */
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
    const line = `${ip || '-'} - - [${renderTime(new Date())}] "${what}" ${statusOf(reply)} ${bytesOf(reply) ?? '-'}`
    const more =
      format === 'combined' ? ` "${shown(request, 'referer')}" "${shown(request, 'user-agent')}"` : ''
    destination.write(`${line}${more}\n`)
  }
}

/** What could end the quotes, the line, or move a cursor, as Apache escapes it. */
function quotable(text: string): string {
  return text.replace(UNSAFE, (character) =>
    character === '"' || character === '\\'
      ? `\\${character}`
      : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /["\\\u0000-\u001f\u007f-\u00ff]/g

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** `21/Nov/2026:20:15:03 +0000`. */
function renderTime(time: Date): string {
  const [date = '', clock = ''] = time.toISOString().split(/[T.]/)
  const [year, month, day] = date.split('-')
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000`
}
