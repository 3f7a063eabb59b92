import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { onRequestHookHandler } from 'fastify'
import { AdminOriginRefusedError, AdminTokenRefusedError } from '../errors/errors.ts'
import { type ForeignSign, webOriginCheck } from '../platform/web-origin.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether a route of the admin listener needs no token. */
    needsNoToken?: true
  }
}

/** Generates an unguessable token: 256 bits, in base64url. */
export function makeToken(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * Makes the hook that requires `Authorization: Bearer TOKEN`, except for routes with `needsNoToken`. Unknown URLs
 * require the token too, so that a client without it cannot find out which routes exist.
 */
export function requireToken(token: string): onRequestHookHandler {
  const known = tokenDigest(token)
  return ({ headers: { authorization = '' }, routeOptions }, reply, done) => {
    if (routeOptions.config?.needsNoToken) return done()
    const [, sent = ''] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (timingSafeEqual(known, tokenDigest(sent))) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new AdminTokenRefusedError())
  }
}

/** Digests have one length whatever the token's, so the comparison leaks nothing through timing. */
function tokenDigest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/**
 * Makes the hook that rejects requests which a foreign web page makes a browser send: see {@link webOriginCheck}.
 *
 * @param hosts - Known names. undefined: the name is not checked, because browsers cannot reach a Unix socket.
 */
export function checkOrigin(hosts: readonly string[] | undefined): onRequestHookHandler {
  const foreignSign = webOriginCheck({ hosts })
  return (request, _reply, done) => {
    const sign = foreignSign(request)
    done(sign && new AdminOriginRefusedError(PROBLEMS[sign]))
  }
}

const PROBLEMS: Readonly<Record<ForeignSign, string>> = {
  host: 'the name in its Host header is not one of adminHosts',
  origin: 'it comes from a page of another origin',
  site: 'it comes from a page of another site',
}
