import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { apiKeysIn, keyDigest, positionsOf } from '../platform/api-keys.ts'
import { networkOf } from '../platform/client-network.ts'
import { claimsOf } from './token-claims.ts'

/** Who sends a request: what was verified of it, else where it comes from. What a client only claims does not count. */
export interface Client {
  /** Limits are apart for each kind: addresses without a key do not use up what clients with one may have. */
  readonly kind: 'token' | 'key' | 'address'
  /** Unique among its kind, and short. */
  readonly id: string
  /** For the log: a digest of the key, or the subject of the token. */
  readonly name: string | undefined
  /** The issuer of the token. */
  readonly issuer: string | undefined
  /** The whole address, as long as the client is connected. */
  readonly address: string | undefined
}

/** The keys that the server knows. */
export class KnownKeys {
  readonly #keys: readonly string[]
  readonly #digests: readonly Buffer[]

  constructor(keys: readonly string[]) {
    this.#keys = [...new Set(keys)]
    this.#digests = this.#keys.map(keyDigest)
  }

  /** Those that a request has, in an order that does not depend on the request. */
  in(headers: IncomingHttpHeaders): readonly string[] {
    if (this.#keys.length === 0) return []
    const found = new Set(apiKeysIn(headers).flatMap((key) => positionsOf(key, this.#digests)))
    return this.#keys.filter((_, position) => found.has(position))
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
