import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { onRequestHookHandler } from 'fastify'
import { ApiKeyRefusedError } from '../../errors/errors.ts'

/**
 * Makes the hook that lets pass who has one of these keys, as `Authorization: Bearer KEY` or as `x-api-key`. Others are
 * answered before their body is read.
 */
export function requireApiKey(keys: readonly string[]): onRequestHookHandler {
  const digests = keys.map(digest)
  // All are compared, whichever fits: how long it takes tells nothing.
  const isKnown = (key: string) => {
    const given = digest(key)
    return digests.filter((known) => timingSafeEqual(known, given)).length > 0
  }
  return ({ headers }, reply, done) => {
    if (keysIn(headers).some(isKnown)) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new ApiKeyRefusedError())
  }
}

function keysIn({ authorization = '', 'x-api-key': apiKey }: IncomingHttpHeaders): string[] {
  const [, token] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
  return [token, apiKey].flat().filter((key) => key !== undefined)
}

/** Of one length, whatever the key's. */
function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
