import { KvArgumentInvalidError, KvValueTooLargeError } from '../../errors/errors.ts'

/**
 * Where guests keep state. Namespaces keep plug-ins apart; keys are text, values are bytes. Every store has the
 * bounds below ({@link KEY_MAX} and the others).
 *
 * An operation answers at once or with a promise: {@link Store.sync} says which do. What fails throws, or rejects
 * where it would have promised: {@link KvArgumentInvalidError} or {@link KvValueTooLargeError} for what no store takes,
 * {@link StoreFullError}, {@link StoreUnavailableError}. After the last, a write may have happened all the same.
 *
 * A write is acknowledged when its operation has answered: what that is worth says each implementation.
 */
export interface Store {
  readonly kind: 'memory' | 'lmdb' | 'redis'
  readonly sync: StoreSync

  /** @returns a copy of the value, the caller's own; undefined if there is none. */
  get(namespace: string, key: string): MaybePromise<Uint8Array | undefined>

  /** @param value - Copied. */
  set(namespace: string, key: string, value: Uint8Array, options?: SetOptions): MaybePromise<void>

  /** @returns whether there was a value. */
  delete(namespace: string, key: string): MaybePromise<boolean>

  /**
   * Lists keys in the order of their UTF-8 bytes. Following the cursors returns each key that existed all the
   * time exactly once.
   *
   * @param limit - Maximum keys of a page, up to 1,000. A page may have fewer, even none, and still a cursor.
   * @param cursor - Of the page before.
   */
  list(namespace: string, prefix: string, limit: number, cursor?: string): MaybePromise<KeyPage>

  /**
   * Sets a value if the key has the expected one; no other write comes in between, of whatever process.
   *
   * @param expected - undefined: there must be none.
   * @returns whether it did.
   */
  compareAndSwap(
    namespace: string,
    key: string,
    expected: Uint8Array | undefined,
    value: Uint8Array,
    options?: SetOptions,
  ): MaybePromise<boolean>

  /**
   * All that is live in all namespaces, for a copy or a check; no value is in memory longer than it is looked at. `lmdb`
   * shows one moment; with `memory` and `redis`, concurrent writes may be included or not.
   *
   * @returns entries and, between them, faults. A faulty entry that can be read is returned as an entry too.
   */
  entries(): AsyncIterable<StoreEntry | StoreFault>

  /**
   * Fills an empty store, or one that is emptied for it. `lmdb` does all of it or nothing, in one transaction that holds up
   * other writers; the others may have a part of it when it fails.
   *
   * @param entries - Within the bounds of this file. Expired entries are left out.
   * @param isReplacing - Whether all present entries of all namespaces are removed first.
   * @returns how many were written; undefined, and nothing is done, if the store is not empty and may not be emptied.
   */
  restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined>

  /** Waits for pending operations; no operation may follow. */
  close(): Promise<void>
}

/** The operations that are synchronous and never return a promise: all, `get` and `list`, or none. */
export type StoreSync = 'all' | 'reads' | 'none'

/** That of the store that a URL names. */
export function syncOf(url: string): StoreSync {
  if (url.startsWith('memory:')) return 'all'
  return url.startsWith('lmdb:') ? 'reads' : 'none'
}

export interface SetOptions {
  /** Milliseconds after which the value is gone. Default: it stays. */
  readonly ttlMs?: number | undefined
}

/** A key and its value, wherever they are kept. */
export interface StoreEntry {
  readonly namespace: string
  readonly key: string
  readonly value: Uint8Array
  /** When it is gone, in milliseconds since 1970; undefined: it stays. */
  readonly expiresAt?: number | undefined
}

/** Something in a store that is not as the store writes it. */
export interface StoreFault {
  /** Where, and what; a line for people. */
  readonly fault: string
}

export interface KeyPage {
  readonly keys: readonly string[]
  /** Where the next page begins; undefined if this was the last. */
  readonly cursor?: string | undefined
}

export type MaybePromise<T> = T | Promise<T>

/** Maximum bytes of a key, as UTF-8. lmdb takes keys of up to 1978 bytes, and ours have their namespace in front. */
export const KEY_MAX = 512

/** Maximum bytes of a namespace, as UTF-8: as a file's name may have. Encoded they may become three times as many. */
export const NAMESPACE_MAX = 255

/** Maximum bytes of a value. */
export const VALUE_MAX = 1_048_576

/** Maximum keys of a page. */
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
export function decodeNamespace(encoded: string): string | undefined {
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
