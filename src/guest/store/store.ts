/**
 * Where guests keep state. Namespaces keep plug-ins apart; keys are text, values are bytes. Bounds are those of
 * `keys.ts`, the same for every store.
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
   * Lists keys in the order of their UTF-8 bytes. Who follows the cursors sees each key that was there all the time
   * exactly once.
   *
   * @param limit - Most keys of a page, up to 1,000. A page may have fewer, even none, and still a cursor.
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
   * shows one moment; of `memory` and `redis`, what is written meanwhile may be there or not.
   *
   * @returns entries, and in between what is wrong. What can be read all the same is there as an entry too.
   */
  entries(): AsyncIterable<StoreEntry | StoreFault>

  /**
   * Fills an empty store, or one that is emptied for it. `lmdb` does all of it or nothing, in one transaction that holds up
   * other writers; the others may have a part of it when it fails.
   *
   * @param entries - Within the bounds of `keys.ts`. What has expired is left out.
   * @param isReplacing - Whether what is there is removed, of all namespaces.
   * @returns how many were written; undefined, and nothing is done, if the store is not empty and may not be emptied.
   */
  restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined>

  /** Waits for what was begun; no operation may follow. */
  close(): Promise<void>
}

/** Which operations answer at once, and never with a promise: all, `get` and `list`, or none. */
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
