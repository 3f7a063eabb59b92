import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** The keys that a request carries: `Authorization: Bearer KEY` and `x-api-key`. */
export function apiKeysIn({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string[] {
  if (authorization === undefined && apiKey === undefined) return []
  const [, token] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  return [token, apiKey].flat().filter((key) => key !== undefined)
}

/** A digest has the same length for every key. */
export function keyDigest(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

/**
 * The positions of a key in a list. All keys are compared, so that timing reveals nothing about them.
 *
 * @param digests - See {@link keyDigest}.
 */
export function positionsOf(key: string, digests: readonly Buffer[]): number[] {
  const given = keyDigest(key)
  return digests.flatMap((known, index) => (timingSafeEqual(known, given) ? [index] : []))
}
