import type { TokenOrHeader } from '@fastify/jwt'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { JwtKeyInvalidError, TokenRefusedError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { readJwtKeys } from './jwt-keys.ts'

/**
 * Lets pass who has a token that was signed with one of these keys. Others are answered before their body is read.
 *
 * @throws {@link PackageMissingError}, {@link JwtKeyInvalidError}
 */
export async function addJwt(
  app: FastifyInstance,
  options: NonNullable<CheckedServerOptions['jwt']>,
): Promise<void> {
  const keys = readJwtKeys(options)
  const { algorithms: allowed = keys.algorithms, audience, issuer, allowNoExpiry = false } = options
  const algorithms = keys.algorithms.filter((algorithm) => allowed.includes(algorithm))
  if (algorithms.length === 0) {
    const reason = `its keys are for ${keys.algorithms.join(', ')}, and algorithms has none of these`
    throw new JwtKeyInvalidError(options.publicKey ?? options.jwks ?? 'secret', reason)
  }
  const { default: jwt } = await loadPackage('the option jwt', '@fastify/jwt', () => import('@fastify/jwt'))
  await app.register(jwt, {
    secret: (_request: FastifyRequest, token: TokenOrHeader, done: KeyCallback) => {
      const key = 'header' in token ? keys.keyFor(token.header.kid) : undefined
      if (key === undefined) done(new Error('no key has the id that the token names'), undefined)
      else done(null, key)
    },
    decode: { complete: true }, // with the header
    verify: {
      algorithms,
      ...(audience && { allowedAud: audience }),
      ...(issuer && { allowedIss: issuer }),
      // Without this, a token that says nothing would do.
      requiredClaims: [...(audience ? ['aud'] : []), ...(issuer ? ['iss'] : [])],
    },
  })
  app.addHook('onRequest', async (request, reply) => {
    try {
      const claims = await request.jwtVerify<object>()
      if (!allowNoExpiry && !doesExpire(claims))
        throw Object.assign(new Error(NO_EXPIRY), { code: NO_EXPIRY })
    } catch (error) {
      const { code = '', message } = error as { code?: string; message: string }
      request.log.debug({ reason: message }, 'a token was refused')
      const isMissing = code === 'FST_JWT_NO_AUTHORIZATION_IN_HEADER'
      reply.header('www-authenticate', isMissing ? 'Bearer' : 'Bearer error="invalid_token"')
      throw new TokenRefusedError(
        isMissing ? 'the request has none' : (REASONS[code] ?? 'it is not valid here'),
      )
    }
  })
}

type KeyCallback = (error: Error | null, key: string | undefined) => void

/** Whether a token names a moment at which it ends. JSON may have numbers that are none: `1e999` is infinite. */
function doesExpire(claims: object): boolean {
  const exp: unknown = Object.hasOwn(claims, 'exp') ? (claims as { readonly exp: unknown }).exp : undefined
  return typeof exp === 'number' && exp <= MAX_DATE
}

/** The last moment that dates have, in seconds. */
const MAX_DATE = 8_640_000_000_000

const NO_EXPIRY = 'NO_EXPIRY'

/** What helps a client, and tells nothing of the keys. */
const REASONS: Readonly<Record<string, string>> = {
  FST_JWT_AUTHORIZATION_TOKEN_EXPIRED: 'it has expired',
  [NO_EXPIRY]: 'it never expires: it needs the claim exp, in seconds',
}
