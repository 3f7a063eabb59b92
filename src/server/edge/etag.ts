import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'

/**
 * Adds an `ETag` to the answers to GET and HEAD that a client may keep, which are those with 200, and answers 304 when the
 * client's copy is current. An answer that is a stream has no tag unless it came with one.
 *
 * @param isWeak - Whether the bytes on the wire may differ with the same meaning, as with compression.
 */
export function addEtag(app: FastifyInstance, isWeak: boolean): void {
  app.addHook('onSend', ({ method, headers }, reply, payload, done) => {
    const isRead = method === 'GET' || method === 'HEAD'
    if (!isRead || reply.statusCode !== 200 || !isWhole(payload)) return done(null, payload)
    const present = reply.getHeader('etag')
    const tag = present === undefined ? tagOf(payload, isWeak) : String(present)
    reply.header('etag', tag)
    const wanted = headers['if-none-match']
    if (wanted === undefined || !isAmong(tag, wanted)) return done(null, payload)
    reply.code(304)
    done(null, null)
  })
}

function isWhole(payload: unknown): payload is string | Buffer {
  return typeof payload === 'string' || Buffer.isBuffer(payload)
}

function tagOf(payload: string | Buffer, isWeak: boolean): string {
  return `${isWeak ? 'W/' : ''}"${createHash('sha1').update(payload).digest('base64')}"`
}

/** Whether a list contains the tag, by weak comparison. (RFC 9110, section 13.1.2) */
function isAmong(tag: string, wanted: string): boolean {
  return wanted.trim() === '*' || opaqueTags(wanted).includes(opaqueTags(tag)[0] ?? tag)
}

/** A tag may contain commas. */
function opaqueTags(list: string): readonly string[] {
  return list.match(/"[^"]*"/g) ?? []
}
