import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { AdminOriginRefusedError, AdminTokenRefusedError } from '../errors/errors.ts'

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
  const known = tokenDigest(token)
  return ({ headers: { authorization = '' }, routeOptions }, reply, done) => {
    if (routeOptions.config?.needsNoToken) return done()
    const [, given = ''] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (timingSafeEqual(known, tokenDigest(given))) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new AdminTokenRefusedError())
  }
}

/** Of one length, whatever the token's: how long a comparison takes tells nothing. */
function tokenDigest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/**
 * Makes the hook that refuses what a web page of somebody else makes a browser send. Such a page may give its own name
 * the listener's address (DNS rebinding): so the name in `Host` must be an IP address, `localhost` or a known one. And
 * it may send requests to the address itself (CSRF): so the request must not say that it comes from another origin.
 *
 * @param names - Known ones. Undefined: any will do, because no browser reaches a Unix socket.
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
  if (names && !isKnownOrigin(host, names)) return 'the name in its Host header is not among adminHosts'
  if (origin !== undefined && origin !== `http://${host}`) return 'it comes from a page of another origin'
  if (site === undefined || site === 'same-origin' || site === 'none') return undefined
  // Somebody has followed a link: nothing but that person sees the answer, and no GET changes anything.
  const isNavigation = method === 'GET' && mode === 'navigate' && dest === 'document'
  return isNavigation ? undefined : 'it comes from a page of another site'
}

/** Nobody can make an IP address lead elsewhere. */
function isKnownOrigin(host: string, names: ReadonlySet<string>): boolean {
  const name = host.replace(/:\d+$/, '').toLowerCase()
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0 || names.has(name)
}
