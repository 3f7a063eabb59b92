import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { type CryptoKey, errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose'
import { JwtKeyInvalidError, JwtKeysUnavailableError, TokenRefusedError } from '../../errors/errors.ts'
import { keepClaims } from '../../route/client.ts'
import { type JwtKeys, type JwtOptions, RemoteKeys, readAuthority, readJwtKeys } from './jwt-keys.ts'

/** An issuer's keys, shared by the successive apps of a server, so that a reload fetches none. */
export interface JwtKeyCache {
  /** The keys used last. */
  remote?: { readonly keys: RemoteKeys; readonly of: string }
}

/**
 * Accepts requests with a token signed with one of these keys. Others are answered before their body is read.
 *
 * @throws {@link JwtKeyInvalidError}
 */
export function addJwt(app: FastifyInstance, options: JwtOptions, kept: JwtKeyCache): void {
  const keys = options.jwksUrl === undefined ? readJwtKeys(options) : useRemoteKeys(app, options, kept)
  const verify = verifierOf(keys, options)
  app.addHook('onRequest', async (request, reply) => {
    const { isPublic, challenge } = request.routeOptions.config ?? {}
    if (isPublic) return
    const more = challenge === undefined ? [] : [challenge]
    const { authorization = '' } = request.headers
    if (!/^Bearer\s/i.test(authorization)) {
      reply.header('www-authenticate', ['Bearer', ...more].join(' '))
      throw new TokenRefusedError('the request has no token')
    }
    try {
      const [, token = '', ...others] = authorization.split(' ')
      keepClaims(request, await verify(others.length > 0 ? '' : token))
    } catch (error) {
      if (error instanceof JwtKeysUnavailableError) throw error
      request.log.debug({ reason: jwtMessage(error) }, 'a token was refused')
      reply.header('www-authenticate', `Bearer ${['error="invalid_token"', ...more].join(', ')}`)
      throw new TokenRefusedError(reasonFor(error))
    }
  })
}

function useRemoteKeys(
  app: FastifyInstance,
  { jwksUrl = '', jwksCa }: JwtOptions,
  kept: JwtKeyCache,
): RemoteKeys {
  const ca = jwksCa === undefined ? undefined : readAuthority(jwksCa)
  const keys = keptOrNew(jwksUrl, ca, kept, app.log)
  app.addHook('onClose', keys.use())
  return keys
}

function keptOrNew(
  url: string,
  ca: string | undefined,
  kept: JwtKeyCache,
  log: FastifyBaseLogger,
): RemoteKeys {
  const of = JSON.stringify([url, ca])
  if (kept.remote?.of === of && !kept.remote.keys.isClosed) return kept.remote.keys
  const keys = new RemoteKeys({ url: new URL(url), ca, log })
  kept.remote = { keys, of }
  return keys
}

function verifierOf(keys: JwtKeys, options: JwtOptions): (token: string) => Promise<JWTPayload> {
  const { algorithms: allowed = keys.algorithms, audience, issuer, allowNoExpiry = false } = options
  const algorithms = keys.algorithms.filter((algorithm) => allowed.includes(algorithm))
  if (algorithms.length === 0) {
    const reason = `its keys are for ${keys.algorithms.join(', ')}, none of which is in algorithms`
    throw new JwtKeyInvalidError(options.publicKey ?? options.jwks ?? options.jwksUrl ?? 'secret', reason)
  }
  const checks = { algorithms, ...(audience && { audience }), ...(issuer && { issuer }) }
  return async (token) => {
    const claims = await claimsOf(token, keys, checks)
    if (!allowNoExpiry && !doesExpire(claims)) throw new NoExpiryError()
    return claims
  }
}

/** @throws the errors of jose, and {@link JwtKeysUnavailableError}. */
async function claimsOf(token: string, keys: JwtKeys, checks: JWTVerifyOptions): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, keys.keyFor, checks)).payload
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    for await (const key of error) {
      const claims = await claimsWith(key, token, checks)
      if (claims) return claims
    }
    throw new errors.JWSSignatureVerificationFailed()
  }
}

/** @returns undefined if it was signed with another key. */
async function claimsWith(
  key: CryptoKey,
  token: string,
  checks: JWTVerifyOptions,
): Promise<JWTPayload | undefined> {
  try {
    return (await jwtVerify(token, key, checks)).payload
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return undefined
    throw error
  }
}

/** Whether a token has a finite expiry time. JSON allows infinite numbers, such as `1e999`. */
function doesExpire(claims: JWTPayload): boolean {
  const exp: unknown = Object.hasOwn(claims, 'exp') ? claims.exp : undefined
  return typeof exp === 'number' && exp <= MAX_DATE
}

/** The maximum of a Date, in seconds. */
const MAX_DATE = 8_640_000_000_000

class NoExpiryError extends Error {
  constructor() {
    super('it has no claim exp')
  }
}

/** A message that helps clients and reveals nothing about the keys. */
function reasonFor(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'it has expired'
  if (error instanceof NoExpiryError) return 'it never expires: it needs the claim exp, in seconds'
  return 'it is not valid here'
}

function jwtMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
