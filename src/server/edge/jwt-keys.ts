import { createPublicKey, type JsonWebKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createLocalJWKSet, type JWK, type JWTVerifyGetKey } from 'jose'
import { JwtKeyInvalidError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { fileProblem } from '../../platform/system-errors.ts'

export type JwtOptions = NonNullable<CheckedServerOptions['jwt']>
export type JwtAlgorithm = NonNullable<JwtOptions['algorithms']>[number]

/** What tokens are verified with. */
export interface JwtKeys {
  /** Algorithms that these keys are for. */
  readonly algorithms: readonly JwtAlgorithm[]
  /** Gives the key for the header of a token. Throws what jose throws, if none or several fit. */
  readonly keyFor: JWTVerifyGetKey
}

/**
 * Reads the keys that the options name, unless they are at a URL.
 *
 * @throws {@link JwtKeyInvalidError} naming the file that cannot be read or used.
 */
export function readJwtKeys({ secret, publicKey, jwks = '' }: JwtOptions): JwtKeys {
  if (secret !== undefined) return readSecret(secret)
  return publicKey === undefined ? readKeySet(jwks) : readPublicKey(publicKey)
}

/** jose would import bytes for each token, which takes as long as to verify one. */
function readSecret(secret: string): JwtKeys {
  const imported = new Map<string, ReturnType<typeof hmacKey>>()
  return {
    algorithms: ['HS256', 'HS384', 'HS512'],
    keyFor: ({ alg }) => {
      const key = imported.get(alg) ?? hmacKey(secret, alg)
      imported.set(alg, key) // one of the algorithms above: jose asks for no key of another
      return key
    },
  }
}

function hmacKey(secret: string, alg: string) {
  const algorithm = { name: 'HMAC', hash: alg.replace('HS', 'SHA-') }
  return crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify'])
}

/** Whatever key id a token names, it is for this key. */
function readPublicKey(path: string): JwtKeys {
  const what = 'it is not a public key or certificate in PEM'
  const key = attempt(path, what, () => createPublicKey(read(path)))
  const algorithms = algorithmsOf(key)
  if (typeof algorithms === 'string') throw new JwtKeyInvalidError(path, algorithms)
  return { keyFor: () => key, algorithms }
}

function readKeySet(path: string): JwtKeys {
  const what = 'it is not a JSON Web Key Set'
  const keys = attempt(path, what, () => keysIn(JSON.parse(String(read(path)))))
  const set = keySetOf(keys, (reason) => {
    throw new JwtKeyInvalidError(path, reason)
  })
  if (set) return set
  throw new JwtKeyInvalidError(path, 'it has no key that signatures are verified with')
}

/**
 * The certificates to trust, of a file in PEM.
 *
 * @throws {@link JwtKeyInvalidError}
 */
export function readAuthority(path: string): string {
  const pem = read(path)
  attempt(path, 'it is not a certificate in PEM', () => new X509Certificate(pem))
  return String(pem)
}

/**
 * The keys of a JSON Web Key Set. (RFC 7517, section 5)
 *
 * @throws TypeError if it is none.
 */
export function keysIn(set: unknown): readonly unknown[] {
  if (typeof set === 'object' && set !== null && 'keys' in set && Array.isArray(set.keys)) return set.keys
  throw new TypeError('it is no JSON Web Key Set')
}

/**
 * Makes keys of a JSON Web Key Set usable, those that are for verifying signatures: the members `use`, `key_ops` and
 * `alg` of a key are obeyed. jose finds the keys of a token by its `kid` and its algorithm. A token without `kid` is
 * for the only key, or for those that have no `kid` either.
 *
 * @param refuse - Called with the problem of a key; if it returns, the key is left out.
 * @returns undefined if there are none.
 */
export function keySetOf(keys: readonly unknown[], refuse: (reason: string) => void): JwtKeys | undefined {
  const usable: JWK[] = []
  const algorithms = new Set<JwtAlgorithm>()
  for (const jwk of keys) {
    const read = readJwk(jwk)
    if (typeof read === 'string') refuse(read)
    if (typeof read !== 'object') continue
    usable.push(read.jwk)
    for (const algorithm of read.algorithms) algorithms.add(algorithm)
  }
  if (usable.length === 0) return undefined
  const named = createLocalJWKSet({ keys: usable })
  const isNameless = ({ kid }: JWK) => kid === undefined
  const nameless = usable.length === 1 ? named : createLocalJWKSet({ keys: usable.filter(isNameless) })
  return {
    keyFor: (header, token) => (header.kid === undefined ? nameless : named)(header, token),
    algorithms: [...algorithms],
  }
}

/** A key and what it is for; undefined if it is not for verifying signatures; why not, if it cannot be used. */
function readJwk(jwk: unknown): { jwk: JWK; algorithms: readonly JwtAlgorithm[] } | string | undefined {
  if (!isJwk(jwk)) return 'a key of it is no JSON object'
  const { use, key_ops: operations, alg, kid } = jwk
  if (use !== undefined && use !== 'sig') return undefined
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify')))
    return undefined
  const name = `the key ${JSON.stringify(kid)}`
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    const possible = algorithmsOf(key)
    if (typeof possible === 'string') return `${name}: ${possible}`
    const algorithms = possible.filter((algorithm) => alg === undefined || algorithm === alg)
    if (algorithms.length === 0) return undefined
    const { kty = '', ...material } = key.export({ format: 'jwk' }) // nothing but the public key
    const [only] = alg === undefined ? [] : algorithms
    return {
      jwk: { ...material, kty, ...(typeof kid === 'string' && { kid }), ...(only && { alg: only }) },
      algorithms,
    }
  } catch {
    return `${name} is no public key`
  }
}

function isJwk(value: unknown): value is JsonWebKey {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Those that a key can be used for (RFC 7518, section 3.1; RFC 8037), or why there are none. */
function algorithmsOf({
  asymmetricKeyType,
  asymmetricKeyDetails,
}: KeyObject): readonly JwtAlgorithm[] | string {
  const { modulusLength = MIN_RSA_BITS, namedCurve = '' } = asymmetricKeyDetails ?? {}
  if (modulusLength < MIN_RSA_BITS) return `it has ${modulusLength} bits, and RSA needs ${MIN_RSA_BITS}`
  const algorithms = ALGORITHMS[asymmetricKeyType === 'ec' ? namedCurve : (asymmetricKeyType ?? '')]
  return algorithms ?? `tokens are not signed with keys of this type (${asymmetricKeyType})`
}

/** RFC 7518, section 3.3. */
const MIN_RSA_BITS = 2048

const ALGORITHMS: Readonly<Record<string, readonly JwtAlgorithm[]>> = {
  rsa: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  'rsa-pss': ['PS256', 'PS384', 'PS512'],
  ed25519: ['EdDSA'],
  prime256v1: ['ES256'],
  secp384r1: ['ES384'],
  secp521r1: ['ES512'],
}

function read(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new JwtKeyInvalidError(path, fileProblem(error), { cause: error })
  }
}

function attempt<Made>(path: string, problem: string, make: () => Made): Made {
  try {
    return make()
  } catch (error) {
    if (error instanceof JwtKeyInvalidError) throw error
    throw new JwtKeyInvalidError(path, problem, { cause: error })
  }
}
