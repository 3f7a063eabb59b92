import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { networkOf } from '../platform/client-network.ts'

/** Who sends a request: what was verified of it, else where it comes from. What a client only claims does not count. */
export interface Client {
  /** Limits are apart for each kind: addresses without a key do not use up what clients with one may have. */
  readonly kind: 'token' | 'key' | 'address'
  /** Unique among its kind, and short. */
  readonly id: string
  /** A digest of the key, or the subject of the token, for the log. */
  readonly name: string | undefined
  /** The issuer of the token. */
  readonly issuer: string | undefined
  /** The whole address, as long as the client is connected. */
  readonly address: string | undefined
}

/** What counts of a token that was verified. */
interface TokenClaims {
  /** The claim `sub`. */
  readonly subject: string | undefined
  /** The claim `iss`: another issuer may have the same subjects. */
  readonly issuer: string | undefined
  /** The claim `scope`, whose values are separated by spaces, or `scp`, which some issuers use. */
  readonly scopes: readonly string[]
}

/** API keys that the server knows. */
export class KnownKeys {
  readonly #keys: readonly string[]
  readonly #digests: readonly Buffer[]

  constructor(keys: readonly string[]) {
    this.#keys = [...new Set(keys)]
    this.#digests = this.#keys.map(keyDigest)
  }

  /** Whether a request has one of them. */
  areIn(headers: IncomingHttpHeaders): boolean {
    return keysIn(headers).some((key) => this.#positionsOf(key).length > 0)
  }

  /** Finds the known keys in a request. Their order does not depend on the request. */
  in(headers: IncomingHttpHeaders): readonly string[] {
    if (this.#keys.length === 0) return []
    const found = new Set(keysIn(headers).flatMap((key) => this.#positionsOf(key)))
    return this.#keys.filter((_, position) => found.has(position))
  }

  /** All keys are compared, so that timing reveals nothing about them. */
  #positionsOf(key: string): number[] {
    const sent = keyDigest(key)
    return this.#digests.flatMap((known, index) => (timingSafeEqual(known, sent) ? [index] : []))
  }
}

/** @param keys - Known keys of the request. Of several the first one counts. */
export function clientOf(request: FastifyRequest, [key]: readonly string[]): Client {
  const { ip: address } = request
  const { subject, issuer } = claimsOf(request) ?? {}
  if (subject !== undefined) {
    const id = keyDigest(JSON.stringify([issuer, subject])).toString('base64url')
    return { kind: 'token', id, name: `sub:${subject}`, issuer, address }
  }
  if (key !== undefined) {
    const id = `key:${keyDigest(key).toString('hex').slice(0, 12)}`
    return { kind: 'key', id, name: id, issuer: undefined, address }
  }
  return { kind: 'address', id: networkOf(address), name: undefined, issuer: undefined, address }
}

/** The key is the request with the token. */
const verified = new WeakMap<object, TokenClaims>()

/** Keeps the claims of a request's token. Call it only after the token was verified. */
export function keepClaims(
  request: object,
  { sub, iss, scope, scp }: Readonly<Record<string, unknown>>,
): void {
  const scopes = [scope, scp].flatMap((claim): unknown =>
    typeof claim === 'string' ? claim.split(' ') : claim,
  )
  verified.set(request, {
    subject: typeof sub === 'string' ? sub : undefined,
    issuer: typeof iss === 'string' ? iss : undefined,
    scopes: scopes.filter((each): each is string => typeof each === 'string' && each !== ''),
  })
}

/** The claims of a request's token; undefined if it has none that was verified. */
export function claimsOf(request: object): TokenClaims | undefined {
  return verified.get(request)
}

/** The keys that a request carries: `Authorization: Bearer KEY` and `x-api-key`. */
function keysIn({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string[] {
  if (authorization === undefined && apiKey === undefined) return []
  const [, token] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  return [token, apiKey].flat().filter((key) => key !== undefined)
}

/** A digest has the same length for every key. */
function keyDigest(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
