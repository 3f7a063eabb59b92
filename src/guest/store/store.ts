import { KvArgumentInvalidError, KvValueTooLargeError } from '../../errors/errors.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'

/**
 * A key-value store for guests. Namespaces separate plug-ins; keys are text, values are bytes. Every store has the
 * bounds below ({@link KEY_MAX} and the others).
 *
 * An operation returns its result or a promise of it: {@link Store.sync} lists the synchronous ones. Errors are thrown
 * or rejected accordingly: {@link KvArgumentInvalidError} or {@link KvValueTooLargeError} for input that no store
 * accepts, {@link StoreFullError}, {@link StoreUnavailableError}. After the last, a write may nevertheless have
 * happened.
 *
 * A write is acknowledged when its operation has returned. Each implementation documents its durability.
 */
export interface Store {
  /** The scheme of its URL. */
  readonly kind: string
  readonly sync: StoreSync

  /** @returns a copy of the value, owned by the caller; undefined if there is none. */
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
   * @param cursor - The cursor of the previous page.
   */
  list(namespace: string, prefix: string, limit: number, cursor?: string): MaybePromise<KeyPage>

  /**
   * Sets a value if the key has the expected one, atomically across all processes.
   *
   * @param expected - undefined: there must be none.
   * @returns whether the value was set.
   */
  compareAndSwap(
    namespace: string,
    key: string,
    expected: Uint8Array | undefined,
    value: Uint8Array,
    options?: SetOptions,
  ): MaybePromise<boolean>

  /**
   * All live entries of all namespaces, for a copy or a check; each value is in memory only while it is read. `lmdb`
   * returns a snapshot; with `memory` and `redis`, concurrent writes may be included or not.
   *
   * @returns entries and, between them, faults. A faulty entry that can be read is returned as an entry too.
   */
  entries(): AsyncIterable<StoreEntry | StoreFault>

  /**
   * Fills a store that is empty or is emptied first. `lmdb` does this in one transaction, all or nothing, which blocks
   * other writers; the others may contain a part of the entries when it fails.
   *
   * @param entries - Within the bounds of this file. Expired entries are left out.
   * @param isReplacing - Whether all present entries of all namespaces are removed first.
   * @returns the number of written entries; undefined, without any change, if the store is not empty and must not be
   * emptied.
   */
  restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined>

  /**
   * Moves all entries of a namespace to another one, in one step: all or nothing, also if this process ends meanwhile.
   * Other writers wait for it.
   *
   * @param isReplacing - Whether the other namespace may have entries: a moved one takes the place of that with its key.
   * @returns the number of moved entries; undefined, without any change, if the other namespace has entries and must not.
   */
  rename(from: string, to: string, isReplacing: boolean): Promise<number | undefined>

  /** Waits for pending operations; no operation may follow. */
  close(): Promise<void>
}

/** The operations that are synchronous and never return a promise: all, `get` and `list`, or none. */
export type StoreSync = 'all' | 'reads' | 'none'

/** The scheme of the store's URL. */
export function syncOf(url: string): StoreSync {
  if (url.startsWith('memory:')) return 'all'
  return url.startsWith('lmdb:') ? 'reads' : 'none'
}

export interface SetOptions {
  /** Milliseconds until the value expires. Default: never. */
  readonly ttlMs?: number | undefined
}

/** A key and its value, in any store. */
export interface StoreEntry {
  readonly namespace: string
  readonly key: string
  readonly value: Uint8Array
  /** Expiry in milliseconds since 1970; undefined: never. */
  readonly expiresAt?: number | undefined
}

/** An invalid record in a store. */
export interface StoreFault {
  /** The place and the problem, as a line for people. */
  readonly fault: string
}

export interface KeyPage {
  readonly keys: readonly string[]
  /** The start of the next page; undefined if this was the last. */
  readonly cursor?: string | undefined
}

/** Maximum bytes of a key, as UTF-8. lmdb takes keys of up to 1978 bytes, including the namespace before the key. */
export const KEY_MAX = 512

/** Maximum bytes of a namespace, as UTF-8: the limit of file names. Encoded it may be three times as long. */
export const NAMESPACE_MAX = 255

/** Maximum bytes of a value. */
export const VALUE_MAX = 1_048_576

/** Maximum keys of a page. */
export const LIST_MAX = 1_000

/** A hundred years: the time of an expiry is a safe integer, in every store. */
export const TTL_MAX = 3_155_760_000_000

/**
 * A namespace as a key prefix. It has one colon, at its end, so keys of another namespace never begin with it.
 *
 * @throws {@link KvArgumentInvalidError}
 */
export function keySpace(namespace: string): string {
  checkText('the namespace', namespace, 1, NAMESPACE_MAX)
  return `${encodeURIComponent(namespace)}:`
}

/**
 * The namespace of a key prefix without its colon.
 *
 * @returns undefined if {@link keySpace} never returns this prefix.
 */
export function decodeNamespace(encoded: string): string | undefined {
  try {
    const namespace = decodeURIComponent(encoded)
    return keySpace(namespace) === `${encoded}:` ? namespace : undefined
  } catch {
    return undefined // no namespace is encoded as this
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
  // Unpaired surrogates all become the same character in UTF-8, so different keys would become equal.
  if (!text.isWellFormed()) throw new KvArgumentInvalidError(`${what} is not well-formed Unicode`)
  const bytes = Buffer.byteLength(text)
  if (bytes < min) throw new KvArgumentInvalidError(`${what} is empty`)
  if (bytes > max) throw new KvArgumentInvalidError(`${what} has ${bytes} bytes, more than ${max}`)
}
