import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { AdminOriginRefusedError, AdminTokenRefusedError } from '../errors/errors.ts'
import { isKnownHost } from '../platform/host-header.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** For routes of the admin listener: no token is required. */
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
    const [, given = ''] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (timingSafeEqual(known, tokenDigest(given))) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new AdminTokenRefusedError())
  }
}

/** Digests have one length whatever the token's, so the comparison leaks nothing through timing. */
function tokenDigest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/**
 * Makes the hook that rejects requests which a foreign web page makes a browser send. Such a page may point its own
 * host name at the listener's address (DNS rebinding): so the name in `Host` must be an IP address, `localhost` or a
 * known name. It may also send requests to the address itself (CSRF): so the request must not name another origin.
 *
 * @param names - Known names. undefined: any name, because browsers cannot reach a Unix socket.
 */
export function checkOrigin(names: readonly string[] | undefined): onRequestHookHandler {
  const known = names && new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  return (request, _reply, done) => {
    const problem = problemOf(request, known)
    done(problem === undefined ? undefined : new AdminOriginRefusedError(problem))
  }
}

function problemOf(
  { method, headers }: FastifyRequest,
  names: ReadonlySet<string> | undefined,
): string | undefined {
  const {
    host = '',
    origin,
    'sec-fetch-site': site,
    'sec-fetch-mode': mode,
    'sec-fetch-dest': dest,
  } = headers
  if (names && !isKnownHost(host, names)) return 'the name in its Host header is not one of adminHosts'
  if (origin !== undefined && origin !== `http://${host}`) return 'it comes from a page of another origin'
  if (site === undefined || site === 'same-origin' || site === 'none') return undefined
  // The user followed a link: only the user sees the answer, and GET requests change nothing.
  const isNavigation = method === 'GET' && mode === 'navigate' && dest === 'document'
  return isNavigation ? undefined : 'it comes from a page of another site'
}
