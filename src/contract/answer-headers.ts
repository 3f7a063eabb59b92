import type { FastifyReply } from 'fastify'
import { isHeader } from '../platform/text.ts'

/**
 * Headers that only the server sets: those about the connection and the length of the answer (RFC 9110, section 7.6.1),
 * and the request id, which is also in the log.
 */
const OF_SERVER: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
])

/** Single-value headers: clients would interpret duplicates differently. */
const SINGLE: ReadonlySet<string> = new Set([
  'age',
  'content-disposition',
  'content-range',
  'content-type',
  'date',
  'etag',
  'expires',
  'last-modified',
  'location',
  'retry-after',
  'server',
])

/** The reason that a header cannot be part of an answer, phrased to follow its name. */
export function headerProblem(name: string, value: string): string | undefined {
  if (isOfServer(name)) return 'is set by the server'
  if (isHeader(name, value) && name !== PROTOTYPE) return undefined
  return 'has characters that HTTP does not allow, or is too long'
}

/** Whether only the server sets it. */
export function isOfServer(name: string): boolean {
  return OF_SERVER.has(name.toLowerCase())
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
