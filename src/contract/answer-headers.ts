import type { FastifyReply } from 'fastify'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { isHeader, isMediaType } from '../platform/text.ts'
import { AnswerProblem } from './http-answer.ts'
import type { JsonOutput } from './json-output.ts'
import { headersTooLarge } from './json-scan.ts'

/**
 * Headers that only the server sets: those about the connection (RFC 9110, section 7.6.1; Node's HTTP/2 refuses them) and
 * the length of the answer, and the request id, which is also in the log.
 */
const OF_SERVER: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
])

/**
 * Single-value headers: clients would interpret duplicates differently, and Node's HTTP/2 throws if there are several.
 * (its `lib/internal/http2/util.js`; `test/unit/contract/answer-headers.test.ts` asks it for each name)
 */
const SINGLE: ReadonlySet<string> = new Set([
  ...['content-disposition', 'server'],
  ...['access-control-allow-credentials', 'access-control-max-age', 'access-control-request-method'],
  ...['age', 'authorization', 'content-encoding', 'content-language', 'content-location', 'content-md5'],
  ...['content-range', 'content-type', 'date', 'dnt', 'etag', 'expires', 'from', 'host', 'if-match'],
  ...['if-modified-since', 'if-none-match', 'if-range', 'if-unmodified-since', 'last-modified', 'location'],
  ...['max-forwards', 'proxy-authorization', 'range', 'referer', 'retry-after', 'tk'],
  ...['upgrade-insecure-requests', 'user-agent', 'x-content-type-options'],
])

/** The reason that a header cannot be part of an answer, phrased to follow its name. */
export function headerProblem(name: string, value: string): string | undefined {
  if (isOfServer(name)) return 'is set by the server'
  if (!isHeader(name, value) || name === PROTOTYPE)
    return 'has characters that HTTP does not allow, or is too long'
  const isType = name.toLowerCase() === 'content-type'
  return isType && !isMediaType(value) ? 'must be a media type, such as text/html' : undefined
}

/** Whether only the server sets it. */
export function isOfServer(name: string): boolean {
  return OF_SERVER.has(name.toLowerCase())
}

/** Whether a message may quote the name. Others a guest has made up. */
export function isKnown(name: string): boolean {
  return isOfServer(name) || SINGLE.has(name.toLowerCase())
}

/** A valid name, but one that a JavaScript object cannot have as a key. */
const PROTOTYPE = '__proto__'

/** Whether an answer may contain it several times. */
export function isRepeatable(name: string): boolean {
  return !SINGLE.has(name)
}

/** Sets the headers of every answer: its request id, and a header that disables content sniffing. */
export function setCommonHeaders(reply: FastifyReply): void {
  reply.header('x-request-id', reply.request.id).header('x-content-type-options', 'nosniff')
}

/** Header lines as written by a guest, by name. */
type HeaderLines = ReadonlyMap<string, readonly string[]>

/**
 * Parses the headers of an answer: an object of strings, or arrays of strings. Null counts as an empty array if
 * `acceptsNull`. Of duplicate names the last one counts.
 *
 * @param given - undefined: the output as a whole.
 * @param field - The name of the headers' field in the answer.
 * @throws {@link AnswerProblem} if they are anything else, or exceed a limit of {@link GUEST_LIMITS}.
 */
export function readHeaderLines<Value>(
  output: JsonOutput<Value>,
  given: Value | undefined,
  field: string,
  acceptsNull = false,
): HeaderLines {
  const { headerJsonBytes, headerLines, headerBytes, jsonDepth } = GUEST_LIMITS
  if (given !== undefined) {
    if (output.kindOf(given) !== 'object') throw new AnswerProblem(`${field} must be an object`)
    if (output.sizeOf(given) > headerJsonBytes) throw headersTooLarge(headerJsonBytes)
  }
  const limits = { what: field, items: headerLines, depth: jsonDepth }
  const headers = new Map<string, readonly string[]>()
  let [lines, size] = [0, 0]
  for (const [name, value] of output.members(limits, given)) {
    const values = output.kindOf(value) === 'array' ? output.elements(limits, value) : [value]
    const texts: string[] = []
    for (const each of values) {
      const text = output.string(each)
      if (text !== undefined) {
        texts.push(text)
        size += name.length + text.length
      } else if (!acceptsNull || each !== value || output.kindOf(value) !== 'null') {
        throw new AnswerProblem(`${field} must be strings, or arrays of strings`)
      }
    }
    lines += texts.length
    headers.set(name, texts)
  }
  if (lines > headerLines) throw new AnswerProblem(`headers have more than ${headerLines} lines`)
  if (size > headerBytes) throw new AnswerProblem(`headers are larger than ${headerBytes} bytes`)
  return headers
}
