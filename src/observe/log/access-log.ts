import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { servedRouteOf } from '../observe.ts'
import { quotable, renderTime } from './access-text.ts'
import { openLines } from './lines.ts'
import { type LineStream, linesOf } from './log.ts'

interface AccessLogOptions {
  readonly accessLogFormat: 'json' | 'common' | 'combined'
  readonly accessLogLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  readonly accessLogHeaders: boolean
  readonly redactHeaders: readonly string[]
}

/** Call it when a request arrives. Its line is written when its answer was sent, or when its client has disconnected. */
type LogAccess = (request: FastifyRequest, reply: FastifyReply) => void

/** An exchange that is over. */
interface Exchange {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** undefined for a client of a Unix socket. */
  readonly ip: string | undefined
  /** When the request arrived, in ms, by `performance.now()`. */
  readonly at: number
}

type WriteLine = (exchange: Exchange) => unknown

/**
 * Opens the request log: lines of the log, or text in the format of web servers on standard output.
 *
 * @returns undefined if nothing would be written.
 */
export function openAccessLog(options: AccessLogOptions, log: FastifyBaseLogger): LogAccess | undefined {
  if (!isEnabled(log, options.accessLogLevel)) return undefined
  const redacted = new Set(options.redactHeaders.map((name) => name.toLowerCase()))
  const write = openFormat(options, redacted, log)
  return (request, reply) => {
    // After an answer over HTTP/2, or when the client has disconnected, Node no longer has the client's address.
    const exchange = { request, reply, ip: request.ip, at: performance.now() }
    // onResponse is skipped when a client disconnects, and slow requests are the ones worth logging.
    reply.raw.on('close', () => write(exchange))
  }
}

/** A user's logger without `isLevelEnabled` gets all lines. */
function isEnabled(log: FastifyBaseLogger, level: string): boolean {
  if (level === 'silent') return false
  return 'isLevelEnabled' in log ? (log as Logger).isLevelEnabled(level) : true
}

function openFormat(
  options: AccessLogOptions,
  redacted: ReadonlySet<string>,
  log: FastifyBaseLogger,
): WriteLine {
  const { accessLogFormat: format, accessLogLevel: level, accessLogHeaders } = options
  if (format !== 'json') return openText(format, redacted, log)
  const headersOf = ({ raw }: FastifyRequest) =>
    accessLogHeaders ? redact(raw.rawHeaders, redacted) : undefined
  const lines = linesOf(log)
  if (lines) {
    const write = openJson(lines, level, headersOf)
    return (exchange) => isEnabled(log, level) && write(exchange) // a reload may change the level of the log
  }
  return (exchange) => {
    const { request } = exchange
    const headers = headersOf(request)
    request.log[level]({ ...fieldsOf(exchange), ...(headers && { headers }) }, 'request')
  }
}

type HeadersOf = (request: FastifyRequest) => Record<string, string> | undefined

function fieldsOf({ request, reply, ip, at }: Exchange): object {
  const { method, url } = request
  const route = servedRouteOf(request)
  return {
    ...{ method, url, status: statusOf(reply), bytes: bytesSent(reply), ms: msSince(at), ip },
    ...(route && { route: route.url, plugin: route.plugin, function: route.function }),
    ...streamFields(request),
    ...socketFields(request),
  }
}

/** What a WebSocket has in addition: its line is written when it has closed. */
function socketFields({ socketStats }: FastifyRequest): object | undefined {
  if (!socketStats) return undefined
  const { received, receivedMessages, sentMessages, closeCode } = socketStats
  return { received, receivedMessages, sentMessages, closeCode }
}

/** What an answer that was streamed has in addition. */
function streamFields({ streamStats }: FastifyRequest): object | undefined {
  if (!streamStats) return undefined
  const { received, firstByteMs, isBroken } = streamStats
  return {
    received,
    ...(firstByteMs !== undefined && { firstByteMs: rounded(firstByteMs) }),
    broken: isBroken,
  }
}

/** Renders the same line as the log would, without a logger for each request. */
function openJson(lines: LineStream, level: string, headersOf: HeadersOf): WriteLine {
  const time = latest((ms) => new Date(ms).toISOString())
  const routes = new WeakMap<object, string>()
  const renderRoute = (route: { url: string; plugin: string; function: string }) => {
    const { url, plugin, function: name } = route
    const text = `,${JSON.stringify({ route: url, plugin, function: name }).slice(1, -1)}`
    routes.set(route, text)
    return text
  }
  return ({ request, reply, ip, at }) => {
    const { id, method, url } = request // an id is safe: see `requestId`
    const served = servedRouteOf(request)
    const route = served ? (routes.get(served) ?? renderRoute(served)) : ''
    const bytes = bytesSent(reply)
    const headers = headersOf(request)
    lines.write(
      `{"level":"${level}","time":"${time(Date.now())}","reqId":"${id}","method":"${method}","url":${JSON.stringify(url)},"status":${statusOf(reply)}${
        bytes === undefined ? '' : `,"bytes":${bytes}`
      },"ms":${msSince(at)}${ip === undefined ? '' : `,"ip":${JSON.stringify(ip)}`}${route}${
        headers ? `,"headers":${JSON.stringify(headers)}` : ''
      }${inner(request.streamStats && streamFields(request))}${inner(request.socketStats && socketFields(request))},"msg":"request"}\n`,
    )
  }
}

/** Fields for the end of an object in JSON. */
function inner(fields: object | undefined): string {
  return fields ? `,${JSON.stringify(fields).slice(1, -1)}` : ''
}

/** Keeps the text of the last value: the requests of a moment have the same time. */
function latest(render: (value: number) => string): (value: number) => string {
  let last = Number.NaN
  let text = ''
  return (value) => {
    if (value !== last) {
      last = value
      text = render(value)
    }
    return text
  }
}

function msSince(at: number): number {
  return rounded(performance.now() - at)
}

/** Rounds to microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

/** The status of the answer; 499, as in nginx, if the client disconnected before. */
function statusOf({ raw, request }: FastifyReply): number {
  if (request.socketStats) return 101
  return raw.headersSent ? raw.statusCode : 499
}

/** Size of the body; undefined if unknown before it was sent. */
function bytesSent(reply: FastifyReply): number | undefined {
  const length = reply.getHeader('content-length')
  if (length !== undefined) return Number(length)
  const { streamStats, socketStats } = reply.request
  return (streamStats ?? socketStats)?.sent
}

const REDACTED = '[redacted]'

/** Makes an object of alternating names and values, and redacts values. */
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
): WriteLine {
  const destination = openLines(1, (dropped, reason) => {
    log.error({ dropped, reason }, 'the access log could not be written')
  })
  const time = latest((seconds) => renderTime(new Date(seconds * 1_000)))
  const shown = ({ headers }: FastifyRequest, name: 'referer' | 'user-agent') =>
    redacted.has(name) ? REDACTED : quotable(headers[name] ?? '-')
  return ({ request, reply, ip }) => {
    const { method, url, raw } = request
    const what = quotable(`${method} ${url} HTTP/${raw.httpVersion}`)
    const now = time(Math.floor(Date.now() / 1_000))
    const line = `${quotable(ip || '-')} - - [${now}] "${what}" ${statusOf(reply)} ${bytesSent(reply) ?? '-'}`
    const more =
      format === 'combined' ? ` "${shown(request, 'referer')}" "${shown(request, 'user-agent')}"` : ''
    destination.write(`${line}${more}\n`)
  }
}
