import type { FastifyReply } from 'fastify'
import { isHeader } from '../platform/text.ts'

/**
 * What is about the connection and the length of the answer, which the server knows best (RFC 9110, section 7.6.1), and
 * the request id, which is the log's too.
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

/** What has one value: twice, each client would read it in its own way. */
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

/** Why a header cannot be part of an answer; to be read after its name. */
export function headerProblem(name: string, value: string): string | undefined {
  if (isOfServer(name)) return 'is set by the server'
  if (isHeader(name, value) && name !== PROTOTYPE) return undefined
  return 'has characters that HTTP does not allow, or is too long'
}

/** Whether only the server says it. */
export function isOfServer(name: string): boolean {
  return OF_SERVER.has(name.toLowerCase())
}

/** A legal name, but one that no JavaScript object can have as a key. */
const PROTOTYPE = '__proto__'

/** Whether an answer may say it several times. */
export function isRepeatable(name: string): boolean {
  return !SINGLE.has(name)
}

/** Sets what every answer carries: its request id, and a word to browsers to believe its content type. */
export function setCommonHeaders(reply: FastifyReply): void {
  reply.header('x-request-id', reply.request.id).header('x-content-type-options', 'nosniff')
}
