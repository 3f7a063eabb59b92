import type { FastifyInstance } from 'fastify'
import { loadPackage } from '../../platform/packages.ts'

/**
 * Adds an `ETag` to answers. Answers 304 when the client's copy is current.
 *
 * @param isWeak - Whether the bytes on the wire may differ with the same meaning, as with compression.
 * @throws {@link PackageMissingError}
 */
export async function addEtag(app: FastifyInstance, isWeak: boolean): Promise<void> {
  const { default: etag } = await loadPackage(
    'the option etag',
    '@fastify/etag',
    () => import('@fastify/etag'),
  )
  // Fastify's plugin would answer 304 to POST too: the client would conclude that nothing was done.
  await app.register(etag, { weak: isWeak, replyWith304: false })
  app.addHook('onSend', (request, reply, payload, done) => {
    const wanted = request.headers['if-none-match']
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (wanted === undefined || !isRead || reply.statusCode !== 200) return done(null, payload)
    if (!isAmong(String(reply.getHeader('etag')), wanted)) return done(null, payload)
    reply.code(304)
    done(null, '')
  })
}

/** Whether two tags match by weak comparison. (RFC 9110, section 13.1.2) */
function isAmong(tag: string, wanted: string): boolean {
  return wanted.trim() === '*' || wanted.split(',').some((each) => opaque(each) === opaque(tag))
}

function opaque(tag: string): string {
  return tag.trim().replace(/^W\//, '')
}
