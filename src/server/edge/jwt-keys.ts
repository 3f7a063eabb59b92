import { createPublicKey, type JsonWebKey, type KeyObject, X509Certificate } from 'node:crypto'
import { lookup } from 'node:dns'
import { readFileSync } from 'node:fs'
import type { FastifyBaseLogger } from 'fastify'
import { createLocalJWKSet, errors, type JWK, type JWTVerifyGetKey } from 'jose'
import { JwtKeyInvalidError, JwtKeysUnavailableError } from '../../errors/errors.ts'
import { type OutboundClient, openClient } from '../../guest/outbound/client.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { fileProblem } from '../../platform/system-errors.ts'

export type JwtOptions = NonNullable<CheckedServerOptions['jwt']>
export type JwtAlgorithm = NonNullable<JwtOptions['algorithms']>[number]

/** The keys for verifying tokens. */
export interface JwtKeys {
  /** Algorithms of these keys. */
  readonly algorithms: readonly JwtAlgorithm[]
  /** Returns the key for a token's header. Throws jose's error if no key or several keys match. */
  readonly keyFor: JWTVerifyGetKey
}

/**
 * Reads the keys in the options, except those at a URL.
 *
 * @throws {@link JwtKeyInvalidError} naming the file that cannot be read or used.
 */
export function readJwtKeys({ secret, publicKey, jwks = '' }: JwtOptions): JwtKeys {
  if (secret !== undefined) return readSecret(secret)
  return publicKey === undefined ? readKeySet(jwks) : readPublicKey(publicKey)
}

/** Imports keys once: jose would import bytes for each token, which takes as long as verifying one. */
function readSecret(secret: string): JwtKeys {
  const imported = new Map<string, ReturnType<typeof hmacKey>>()
  return {
    algorithms: ['HS256', 'HS384', 'HS512'],
    keyFor: ({ alg }) => {
      const key = imported.get(alg) ?? hmacKey(secret, alg)
      imported.set(alg, key) // one of the algorithms above: jose requests no others
      return key
    },
  }
}

function hmacKey(secret: string, alg: string) {
  const algorithm = { name: 'HMAC', hash: alg.replace('HS', 'SHA-') }
  return crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify'])
}

/** Verifies with this key whatever key id a token names. */
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
  throw new JwtKeyInvalidError(path, 'it has no key for verifying signatures')
}

/**
 * Reads the certificates to trust from a PEM file.
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
 * @throws TypeError if it is not a key set.
 */
function keysIn(set: unknown): readonly unknown[] {
  if (typeof set === 'object' && set !== null && 'keys' in set && Array.isArray(set.keys)) return set.keys
  throw new TypeError('it is not a JSON Web Key Set')
}

/**
 * Imports the keys of a JSON Web Key Set that are for verifying signatures, according to their members `use`, `key_ops`
 * and `alg`. jose selects a token's key by its `kid` and algorithm. A token without `kid` matches the only key, or the
 * keys that have no `kid` either.
 *
 * @param refuse - Called with the problem of a key; if it returns, the key is skipped.
 * @returns undefined if there are none.
 */
function keySetOf(keys: readonly unknown[], refuse: (reason: string) => void): JwtKeys | undefined {
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

/** A key with its purpose; undefined if it is not for verifying signatures; the problem if it cannot be used. */
function readJwk(jwk: unknown): { jwk: JWK; algorithms: readonly JwtAlgorithm[] } | string | undefined {
  if (!isJwk(jwk)) return 'one of its keys is not a JSON object'
  const { use, key_ops: operations, alg, kid } = jwk
  if (use !== undefined && use !== 'sig') return undefined
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify')))
    return undefined
  const name = `the key ${JSON.stringify(kid)?.slice(0, 80)}`
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    const possible = algorithmsOf(key)
    if (typeof possible === 'string') return `${name}: ${possible}`
    const algorithms = possible.filter((algorithm) => alg === undefined || algorithm === alg)
    if (algorithms.length === 0) return undefined
    const { kty = '', ...material } = key.export({ format: 'jwk' }) // drops the private part
    const [only] = alg === undefined ? [] : algorithms
    return {
      jwk: { ...material, kty, ...(typeof kid === 'string' && { kid }), ...(only && { alg: only }) },
      algorithms,
    }
  } catch {
    return `${name} is not a public key`
  }
}

function isJwk(value: unknown): value is JsonWebKey {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The algorithms of a key (RFC 7518, section 3.1; RFC 8037), or the reason that there are none. */
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

/** Age at which keys are fetched again: the maximum time that a revoked key stays valid. */
export const FRESH_MS = 600_000

/** Maximum age of keys while the issuer is unreachable. */
export const STALE_MS = 3_600_000

/** Minimum interval between fetches after unknown key ids, which any client can make up, and after a failed fetch. */
export const COOL_DOWN_MS = 10_000

/** Key sets of large issuers, with their certificates, have 30 KiB. */
const MAX_KEY_SET_BYTES = 262_144

/** Limit on keys, because a token without a key id may be tried with each. */
const MAX_KEYS = 100

interface RemoteKeysOptions {
  /** An https URL. */
  readonly url: URL
  /** Certificates to trust instead of Node's, in PEM. */
  readonly ca: string | undefined
  readonly log: FastifyBaseLogger
  /** A monotonic clock in milliseconds. Default: `performance.now`. */
  readonly now?: () => number
  /** Time limit for name lookup, connection and complete response. Default: 5 s. */
  readonly timeoutMs?: number
}

interface FetchedKeys {
  readonly text: string
  readonly keyFor: JWTVerifyGetKey
  readonly fetchedAt: number
}

/**
 * The keys of an issuer, from its JSON Web Key Set at a URL. They are fetched immediately, and again at an age of
 * {@link FRESH_MS} or when a token names an unknown key, as after a rotation. While the issuer is unreachable, the last
 * keys are used up to an age of {@link STALE_MS}. Only one fetch runs at a time.
 */
export class RemoteKeys implements JwtKeys {
  /** Allowed algorithms. Each key of the set states its own. */
  readonly algorithms: readonly JwtAlgorithm[] = [
    ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
    ...(['ES256', 'ES384', 'ES512', 'EdDSA'] as const),
  ]
  readonly #options: RemoteKeysOptions
  readonly #url: string
  readonly #client: OutboundClient
  readonly #now: () => number
  readonly #timeoutMs: number
  #keys: FetchedKeys | undefined
  #fetching: Promise<void> | undefined
  #failedAt: number | undefined
  #soughtAt = Number.NEGATIVE_INFINITY
  #users = 0
  readonly #closed = new AbortController()

  constructor(options: RemoteKeysOptions) {
    this.#options = options
    this.#url = `${options.url.origin}${options.url.pathname}` // a query may hold a secret
    this.#client = openClient(MAX_KEY_SET_BYTES, options.ca)
    this.#timeoutMs = options.timeoutMs ?? 5_000
    this.#now = options.now ?? (() => performance.now())
    void this.#fetch()
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted
  }

  /** Registers one more app. The returned function unregisters it; with the last one, a pending fetch is aborted. */
  use(): () => Promise<void> {
    this.#users++
    return async () => {
      if (--this.#users > 0) return
      this.#closed.abort()
      this.#client.close()
      await this.#fetching
    }
  }

  /** @throws {@link JwtKeysUnavailableError} if there are no valid keys. */
  readonly keyFor: JWTVerifyGetKey = async (header, token) => {
    const keys = await this.#current()
    try {
      return await keys.keyFor(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || header.kid === undefined) throw error
      const newer = await this.#newerThan(keys)
      if (newer === undefined) throw error
      return newer.keyFor(header, token)
    }
  }

  async #current(): Promise<FetchedKeys> {
    const known = this.#keys
    if (!this.#isYounger(known, FRESH_MS)) {
      const hasFailed = this.#failedAt !== undefined
      const fetching = this.#fetch()
      // Once the issuer is known to be away, requests that cached keys can answer do not wait for it.
      if (!hasFailed || !this.#isYounger(known, STALE_MS)) await fetching
    }
    const keys = this.#keys
    if (keys && this.#isYounger(keys, STALE_MS)) return keys
    throw new JwtKeysUnavailableError()
  }

  /** Fetches again, at most every COOL_DOWN_MS. */
  async #newerThan(keys: FetchedKeys): Promise<FetchedKeys | undefined> {
    if (this.#keys === keys) {
      if (!this.#fetching) {
        if (this.#now() - this.#soughtAt < COOL_DOWN_MS) return undefined
        this.#soughtAt = this.#now()
      }
      await this.#fetch()
    }
    return this.#keys?.text === keys.text ? undefined : this.#keys
  }

  #isYounger(keys: FetchedKeys | undefined, ms: number): boolean {
    return keys !== undefined && this.#now() - keys.fetchedAt < ms
  }

  /** Joins a fetch that runs. Never rejects; does nothing for a while after one that failed. */
  #fetch(): Promise<void> {
    const isCool = this.#failedAt === undefined || this.#now() - this.#failedAt >= COOL_DOWN_MS
    if (!this.#fetching && !isCool) return Promise.resolve()
    this.#fetching ??= this.#exchange().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  async #exchange(): Promise<void> {
    const { log } = this.#options
    try {
      const text = await this.#download()
      const isNew = this.#keys?.text !== text
      const keyFor = this.#keys && !isNew ? this.#keys.keyFor : this.#parse(text)
      this.#keys = { text, keyFor, fetchedAt: this.#now() }
      if (isNew || this.#failedAt !== undefined) log.info({ url: this.#url }, 'keys of tokens were fetched')
      this.#failedAt = undefined
    } catch (error) {
      this.#failedAt = this.#now()
      if (this.isClosed) return
      const { code } = new JwtKeysUnavailableError()
      const fields = { url: this.#url, code, reason: fetchFailureReason(error, this.#timeoutMs) }
      if (this.#isYounger(this.#keys, STALE_MS))
        log.warn(fields, 'keys of tokens cannot be fetched: the last ones remain valid for now')
      else log.error(fields, 'keys of tokens cannot be fetched: requests get 503')
    }
  }

  /** A redirect is not followed: keys come only from the operator's URL. */
  async #download(): Promise<string> {
    const { url } = this.#options
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const target = { url, name: this.#url, host, lookup, problemWithPeer: () => undefined }
    const headers = new Map([
      ['accept', 'application/jwk-set+json, application/json'],
      ['connection', 'close'],
    ])
    const request = { url, method: 'GET', headers, body: undefined }
    const ended = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(this.#timeoutMs)])
    const { status, body } = await this.#client.exchange(request, target, ended)
    if (status !== 200) throw new Error(`the server responded with status ${status}`)
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  }

  #parse(text: string): JWTVerifyGetKey {
    const keys = keysIn(JSON.parse(text))
    if (keys.length > MAX_KEYS) throw new Error(`it has more than ${MAX_KEYS} keys`)
    const leftOut = (reason: string) =>
      this.#options.log.debug({ url: this.#url, reason }, 'a key is left out')
    const set = keySetOf(keys, leftOut)
    if (set) return set.keyFor
    throw new Error('it has no key that signatures are verified with')
  }
}

/** Explains the failure for the log. If several addresses failed, the error has a code, but no message. */
function fetchFailureReason(error: unknown, timeoutMs: number): string {
  if (error instanceof SyntaxError) return 'it is not JSON'
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `there was no response within ${timeoutMs} ms`
  const code = 'code' in error ? String(error.code) : ''
  const isUntrusted = /CERT|SIGNATURE|ALTNAME/.test(code)
  const hint = isUntrusted ? '; for an authority of your own: jwksCa, or NODE_EXTRA_CA_CERTS' : ''
  return (error.message || code) + hint
}
