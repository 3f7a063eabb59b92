import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { onRequestHookHandler } from 'fastify'
import { AdminTokenRefusedError } from '../errors/errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** On the admin listener: whether the route is for everybody who reaches it. */
    needsNoToken?: true
  }
}

/** A token that nobody can guess: 256 bits, in base64url. */
export function makeToken(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * Makes the hook that lets pass who says `Authorization: Bearer TOKEN`, and what goes to a route that says that it
 * needs none. Whatever no route answers needs it too: who has none learns nothing of what is there.
 */
export function requireToken(token: string): onRequestHookHandler {
  const known = digest(token)
  return ({ headers: { authorization = '' }, routeOptions }, reply, done) => {
    if (routeOptions.config?.needsNoToken) return done()
    const [, given = ''] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (timingSafeEqual(known, digest(given))) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new AdminTokenRefusedError())
  }
}

/** Of one length, whatever the token's: how long a comparison takes tells nothing. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
