import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { JwtKeyInvalidError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { whyNot } from '../../platform/why-not.ts'

type Jwt = NonNullable<CheckedServerOptions['jwt']>
export type Algorithm = NonNullable<Jwt['algorithms']>[number]

/** What tokens are verified with. */
export interface JwtKeys {
  /** The secret, or a public key in PEM. @param keyId - What the token calls it. @returns undefined if there is none. */
  keyFor(keyId: unknown): string | undefined
  /** That these keys are for. */
  readonly algorithms: readonly Algorithm[]
}

/**
 * Reads the keys that the options name.
 *
 * @throws {@link JwtKeyInvalidError} naming the file that cannot be read or used.
 */
export function readJwtKeys({ secret, publicKey, jwks }: Jwt): JwtKeys {
  if (secret !== undefined) return { keyFor: () => secret, algorithms: ['HS256', 'HS384', 'HS512'] }
  if (publicKey !== undefined) {
    const key = parse(publicKey, 'a public key or certificate in PEM', () => createPublicKey(read(publicKey)))
    const pem = toPem(key)
    return { keyFor: () => pem, algorithms: algorithmsOf(key, publicKey) }
  }
  return readSet(jwks ?? '')
}

/** A JSON Web Key Set. (RFC 7517, section 5) A token that names no key is for the only one, if there is only one. */
function readSet(path: string): JwtKeys {
  const text = String(read(path))
  const { keys } = parse(path, 'a JSON Web Key Set', () => JSON.parse(text) as { keys: Jwk[] })
  if (!Array.isArray(keys) || keys.length === 0) throw new JwtKeyInvalidError(path, 'it has no keys')
  const pems = new Map<unknown, string>()
  const algorithms = new Set<Algorithm>()
  for (const { kid, ...jwk } of keys) {
    const what = `a JSON Web Key Set of public keys: the key ${JSON.stringify(kid)} is none`
    const key = parse(path, what, () => createPublicKey({ key: jwk, format: 'jwk' }))
    pems.set(kid, toPem(key))
    for (const algorithm of algorithmsOf(key, path)) algorithms.add(algorithm)
  }
  const [only] = pems.size === 1 ? pems.values() : []
  return { keyFor: (keyId) => (keyId === undefined ? only : pems.get(keyId)), algorithms: [...algorithms] }
}

type Jwk = JsonWebKey & { readonly kid?: unknown }

/** Those that a key can be used for. (RFC 7518, section 3.1; RFC 8037) */
function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject, path: string): Algorithm[] {
  switch (asymmetricKeyType) {
    case 'rsa':
      return ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
    case 'rsa-pss':
      return ['PS256', 'PS384', 'PS512']
    case 'ed25519':
    case 'ed448':
      return ['EdDSA']
    case 'ec': {
      const algorithm = CURVES[asymmetricKeyDetails?.namedCurve ?? '']
      if (algorithm) return [algorithm]
    }
  }
  throw new JwtKeyInvalidError(path, `tokens are not signed with keys of this type (${asymmetricKeyType})`)
}

const CURVES: Readonly<Record<string, Algorithm>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
}

function toPem(key: KeyObject): string {
  return String(key.export({ type: 'spki', format: 'pem' }))
}

function read(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new JwtKeyInvalidError(path, whyNot(error), { cause: error })
  }
}

function parse<Parsed>(path: string, what: string, make: () => Parsed): Parsed {
  try {
    return make()
  } catch (error) {
    throw new JwtKeyInvalidError(path, `it is not ${what}`, { cause: error })
  }
}
