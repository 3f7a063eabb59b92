import { lookup } from 'node:dns'
import type { FastifyBaseLogger } from 'fastify'
import { errors, type JWTVerifyGetKey } from 'jose'
import { JwtKeysUnavailableError } from '../../errors/errors.ts'
import { type OutboundClient, openClient } from '../../guest/outbound/client.ts'
import { type JwtAlgorithm, type JwtKeys, keySetOf, keysIn } from './jwt-keys.ts'

/** How old keys are when they are fetched again: so long a key counts that the issuer has taken back. */
export const FRESH_MS = 600_000

/** How old keys may be while the issuer cannot be reached. */
export const STALE_MS = 3_600_000

/** Between two fetches because of unknown key ids, which any client can make up, and after one that failed. */
export const COOL_DOWN_MS = 10_000

/** Those of large issuers, with their certificates, have 30 KiB. */
const MAX_BYTES = 262_144

/** A token without a key id may be tried with each of them. */
const MAX_KEYS = 100

export interface RemoteKeysOptions {
  /** Of https. */
  readonly url: URL
  /** Certificates to trust instead of Node's, in PEM. */
  readonly ca: string | undefined
  readonly log: FastifyBaseLogger
  /** Milliseconds of a clock that only goes forward. Default: `performance.now`. */
  readonly now?: () => number
  /** Of name, connection, and the whole answer. Default: 5 s. */
  readonly timeoutMs?: number
}

interface FetchedKeys {
  readonly text: string
  readonly keyFor: JWTVerifyGetKey
  readonly fetchedAt: number
}

/**
 * The keys of an issuer, from its JSON Web Key Set at a URL. They are fetched at once, and again when they are
 * {@link FRESH_MS} old, or when a token names a key that is not among them: after a rotation. While the issuer cannot be
 * reached, the last ones count until they are {@link STALE_MS} old. However many requests wait, one fetch runs at a time.
 */
export class RemoteKeys implements JwtKeys {
  /** A key of the set says what it is for. */
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
    this.#client = openClient(MAX_BYTES, options.ca)
    this.#timeoutMs = options.timeoutMs ?? 5_000
    this.#now = options.now ?? (() => performance.now())
    this.#fetch()
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted
  }

  /** For one more app. The function that it returns ends that; with the last one, what is being fetched ends too. */
  use(): () => Promise<void> {
    this.#users++
    return async () => {
      if (--this.#users > 0) return
      this.#closed.abort()
      this.#client.close()
      await this.#fetching
    }
  }

  /** @throws {@link JwtKeysUnavailableError} if there are no keys that still count. */
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
      // Once the issuer is known to be away, no request waits for it that can be answered without.
      if (!hasFailed || !this.#isYounger(known, STALE_MS)) await fetching
    }
    const keys = this.#keys
    if (keys && this.#isYounger(keys, STALE_MS)) return keys
    throw new JwtKeysUnavailableError()
  }

  /** After another fetch, unless the last one was a moment ago. */
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
      const fields = { url: this.#url, code, reason: whyUnfetched(error, this.#timeoutMs) }
      if (this.#isYounger(this.#keys, STALE_MS))
        log.warn(fields, 'keys of tokens cannot be fetched: the last ones count for now')
      else log.error(fields, 'keys of tokens cannot be fetched: requests are answered with 503')
    }
  }

  /** A redirect is no answer: keys come from where the operator said, and from nowhere else. */
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
    if (status !== 200) throw new Error(`the server answered with status ${status}`)
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

/** For the log. Several addresses that failed have no message together, but a code. */
function whyUnfetched(error: unknown, timeoutMs: number): string {
  if (error instanceof SyntaxError) return 'it is not JSON'
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `there was no answer within ${timeoutMs} ms`
  const code = 'code' in error ? String(error.code) : ''
  const isUntrusted = /CERT|SIGNATURE|ALTNAME/.test(code)
  const hint = isUntrusted ? '; for an authority of your own: jwksCa, or NODE_EXTRA_CA_CERTS' : ''
  return (error.message || code) + hint
}
