import { KvArgumentInvalidError, KvValueTooLargeError } from '../../errors/errors.ts'

/** Most bytes of a key, as UTF-8. lmdb takes keys of up to 1978 bytes, and ours have their namespace in front. */
export const KEY_MAX = 512

/** Most bytes of a namespace, as UTF-8: as a file's name may have. Encoded they may become three times as many. */
export const NAMESPACE_MAX = 255

/** Most bytes of a value. */
export const VALUE_MAX = 1_048_576

/** Most keys of a page. */
export const LIST_MAX = 1_000

/** A hundred years: the time of an expiry is a safe integer, in every store. */
export const TTL_MAX = 3_155_760_000_000

/**
 * A namespace as the beginning of keys: no other namespace's keys can begin with it, because it has one colon, at its
 * end.
 *
 * @throws {@link KvArgumentInvalidError}
 */
export function keySpace(namespace: string): string {
  checkText('the namespace', namespace, 1, NAMESPACE_MAX)
  return `${encodeURIComponent(namespace)}:`
}

/**
 * The namespace that a beginning of keys, less its colon, stands for.
 *
 * @returns undefined if {@link keySpace} makes no such beginning.
 */
export function namespaceOf(encoded: string): string | undefined {
  try {
    const namespace = decodeURIComponent(encoded)
    return keySpace(namespace) === `${encoded}:` ? namespace : undefined
  } catch {
    return undefined // no namespace becomes this
  }
}

/** @throws {@link KvArgumentInvalidError} */
export function checkKey(key: string): void {
  checkText('the key', key, 1, KEY_MAX)
}

/** @throws {@link KvValueTooLargeError} */
export function checkValue({ length }: Uint8Array): void {
  if (length > VALUE_MAX) throw new KvValueTooLargeError(length, VALUE_MAX)
}

/** @throws {@link KvArgumentInvalidError} */
export function checkTtl(ttlMs: number | undefined): void {
  if (ttlMs === undefined || (Number.isInteger(ttlMs) && ttlMs >= 1 && ttlMs <= TTL_MAX)) return
  throw new KvArgumentInvalidError(`the time to live is not 1 to ${TTL_MAX} ms`)
}

/** @throws {@link KvArgumentInvalidError} */
export function checkList(prefix: string, limit: number, cursor: string | undefined): void {
  checkText('the prefix', prefix, 0, KEY_MAX)
  if (cursor !== undefined) checkText('the cursor', cursor, 1, KEY_MAX)
  if (Number.isInteger(limit) && limit >= 1 && limit <= LIST_MAX) return
  throw new KvArgumentInvalidError(`the limit of a list is not 1 to ${LIST_MAX}`)
}

function checkText(what: string, text: string, min: number, max: number): void {
  // Halves of surrogate pairs all become the same character in UTF-8, and keys with them the same key.
  if (!text.isWellFormed()) throw new KvArgumentInvalidError(`${what} is no Unicode text`)
  const bytes = Buffer.byteLength(text)
  if (bytes < min) throw new KvArgumentInvalidError(`${what} is empty`)
  if (bytes > max) throw new KvArgumentInvalidError(`${what} has ${bytes} bytes, more than ${max}`)
}
