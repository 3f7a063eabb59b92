import { StoreFullError } from '../../errors/errors.ts'
import {
  checkKey,
  checkList,
  checkTtl,
  checkValue,
  decodeNamespace,
  type KeyPage,
  keySpace,
  type SetOptions,
  type Store,
  type StoreEntry,
} from './store.ts'

interface MemoryStoreSettings {
  /** Maximum bytes of keys and values, plus 400 bytes an entry for V8. */
  readonly maxBytes: number
  /** Clock in milliseconds. Default: the wall clock. */
  readonly now?: () => number
}

/** A store in the memory of this process, lost when the process ends. Operations are synchronous; there are no timers. */
export function openMemoryStore(settings: MemoryStoreSettings): Store {
  return new MemoryStore(settings)
}

/** Bytes of an entry beside key and value: measured with 200,000 entries that expire. */
const ENTRY_COST = 400

/** Maximum number of expired entries that each write removes: more than a write can add. */
const SWEPT_PER_WRITE = 100

interface MemoryEntry {
  readonly value: Uint8Array
  /** Infinity: never. */
  readonly expiresAt: number
}

class MemoryStore implements Store {
  readonly kind = 'memory'
  readonly sync = 'all'
  readonly #maxBytes: number
  readonly #now: () => number
  #bytes = 0

  /** Entries by namespace and key. Each UTF-8 byte is one character, so that keys sort by their bytes. */
  readonly #entries = new Map<string, MemoryEntry>()
  readonly #order = new SortedKeys()
  /** Entries that expire: the time, then the key. */
  readonly #expiries = new SortedKeys()

  constructor({ maxBytes, now = Date.now }: MemoryStoreSettings) {
    this.#maxBytes = maxBytes
    this.#now = now
  }

  get(namespace: string, key: string): Uint8Array | undefined {
    const entry = this.#live(memoryKey(namespace, key))
    return entry && new Uint8Array(entry.value)
  }

  set(namespace: string, key: string, value: Uint8Array, options: SetOptions = {}): void {
    const at = memoryKey(namespace, key)
    checkValue(value)
    checkTtl(options.ttlMs)
    this.#sweep(SWEPT_PER_WRITE)
    this.#put(at, value, options)
  }

  delete(namespace: string, key: string): boolean {
    const at = memoryKey(namespace, key)
    const isThere = this.#live(at) !== undefined
    this.#remove(at)
    return isThere
  }

  list(namespace: string, prefix: string, limit: number, cursor?: string): KeyPage {
    const space = keySpace(namespace)
    checkList(prefix, limit, cursor)
    const start = characters(space + prefix)
    const after = cursor === undefined ? '' : characters(space + cursor)
    const keys: string[] = []
    for (const at of this.#order.from(after > start ? after : start)) {
      if (!at.startsWith(start)) break
      if (at === after || !this.#live(at)) continue
      if (keys.length === limit) return { keys, cursor: keys.at(-1) }
      keys.push(Buffer.from(at, 'latin1').toString().slice(space.length))
    }
    return { keys }
  }

  compareAndSwap(
    namespace: string,
    key: string,
    expected: Uint8Array | undefined,
    value: Uint8Array,
    options: SetOptions = {},
  ): boolean {
    const at = memoryKey(namespace, key)
    checkValue(value)
    checkTtl(options.ttlMs)
    this.#sweep(SWEPT_PER_WRITE)
    const found = this.#live(at)?.value
    const isExpected = found && expected ? Buffer.compare(found, expected) === 0 : found === expected
    if (isExpected) this.#put(at, value, options)
    return isExpected
  }

  async *entries(): AsyncGenerator<StoreEntry> {
    for (const [at, { value, expiresAt }] of this.#entries) {
      if (!this.#live(at)) continue
      const text = Buffer.from(at, 'latin1').toString()
      const colon = text.indexOf(':')
      const namespace = decodeNamespace(text.slice(0, colon)) ?? ''
      const expiry = expiresAt === Number.POSITIVE_INFINITY ? {} : { expiresAt }
      yield { namespace, key: text.slice(colon + 1), value: new Uint8Array(value), ...expiry }
    }
  }

  async restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined> {
    const old = [...this.#entries.keys()].filter((at) => this.#live(at))
    if (old.length > 0 && !isReplacing) return undefined
    for (const at of old) this.#remove(at)
    let written = 0
    for (const { namespace, key, value, expiresAt } of entries) {
      const ttlMs = expiresAt === undefined ? undefined : expiresAt - this.#now()
      if (ttlMs !== undefined && ttlMs <= 0) continue
      this.set(namespace, key, value, { ttlMs })
      written++
    }
    return written
  }

  async rename(from: string, to: string, isReplacing: boolean): Promise<number | undefined> {
    if (!isReplacing && this.list(to, '', 1).keys.length > 0) return undefined
    const space = characters(keySpace(from))
    const other = characters(keySpace(to))
    let count = 0
    for (const at of [...this.#order.from(space)]) {
      if (!at.startsWith(space)) break
      const entry = this.#live(at)
      this.#remove(at)
      if (!entry) continue
      const moved = other + at.slice(space.length)
      this.#remove(moved)
      this.#insert(moved, entry)
      count++
    }
    return count
  }

  async close(): Promise<void> {
    this.#entries.clear()
  }

  #live(at: string): MemoryEntry | undefined {
    const entry = this.#entries.get(at)
    return entry && entry.expiresAt > this.#now() ? entry : undefined
  }

  #put(at: string, value: Uint8Array, { ttlMs }: SetOptions): void {
    const old = this.#entries.get(at)
    const more = entryBytes(at, value) - (old ? entryBytes(at, old.value) : 0)
    // All expired entries are removed before a write is refused; each entry is removed once in any case.
    if (this.#bytes + more > this.#maxBytes) this.#sweep(Number.POSITIVE_INFINITY, at)
    if (this.#bytes + more > this.#maxBytes) {
      throw new StoreFullError('memory:', `it may hold ${this.#maxBytes} bytes (--store-max)`)
    }
    this.#remove(at)
    const expiresAt = ttlMs === undefined ? Number.POSITIVE_INFINITY : this.#now() + ttlMs
    this.#insert(at, { value: new Uint8Array(value), expiresAt })
  }

  /** @param at - Without an entry. */
  #insert(at: string, entry: MemoryEntry): void {
    this.#entries.set(at, entry)
    this.#bytes += entryBytes(at, entry.value)
    this.#order.add(at)
    if (entry.expiresAt !== Number.POSITIVE_INFINITY) this.#expiries.add(expiry(entry.expiresAt, at))
  }

  #remove(at: string): void {
    const entry = this.#entries.get(at)
    if (!entry) return
    this.#entries.delete(at)
    this.#bytes -= entryBytes(at, entry.value)
    this.#order.delete(at)
    if (entry.expiresAt !== Number.POSITIVE_INFINITY) this.#expiries.delete(expiry(entry.expiresAt, at))
  }

  /** @param kept - Not removed: it is about to be replaced and is already counted. */
  #sweep(most: number, kept?: string): void {
    const now = this.#now()
    const due: string[] = []
    for (const each of this.#expiries.from('')) {
      if (due.length >= most || Number(each.slice(0, TIME_DIGITS)) > now) break
      due.push(each.slice(TIME_DIGITS))
    }
    for (const at of due) if (at !== kept) this.#remove(at)
  }
}

function memoryKey(namespace: string, key: string): string {
  checkKey(key)
  return characters(keySpace(namespace) + key)
}

/** Returns one character per UTF-8 byte. */
function characters(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function entryBytes(at: string, value: Uint8Array): number {
  return at.length + value.length + ENTRY_COST
}

/** Digits of a safe integer. */
const TIME_DIGITS = 16

/** Orders by time. */
function expiry(at: number, key: string): string {
  return String(at).padStart(TIME_DIGITS, '0') + key
}

/** Maximum keys of a chunk: an insertion moves half of them on average. */
const MAX_CHUNK_KEYS = 512

/** A sorted set of strings, by code units. Adding, deleting and finding stay fast in a large set. */
export class SortedKeys {
  /** Sorted chunks, none of them empty. */
  readonly #chunks: string[][] = []

  add(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at]
    if (!chunk) {
      this.#chunks.push([key])
      return
    }
    const index = lowerBound(key, chunk)
    if (chunk[index] === key) return
    chunk.splice(index, 0, key)
    if (chunk.length > MAX_CHUNK_KEYS) this.#chunks.splice(at + 1, 0, chunk.splice(MAX_CHUNK_KEYS / 2))
  }

  delete(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at]
    const index = chunk ? lowerBound(key, chunk) : 0
    if (chunk?.[index] !== key) return
    chunk.splice(index, 1)
    if (chunk.length === 0) this.#chunks.splice(at, 1)
  }

  first(): string | undefined {
    return this.#chunks[0]?.[0]
  }

  /** The keys from `start` on, in order. The set must not change meanwhile. */
  *from(start: string): Generator<string> {
    const at = this.#chunkOf(start)
    for (const chunk of this.#chunks.slice(at)) {
      for (let i = lowerBound(start, chunk); i < chunk.length; i++) yield chunk[i] as string
    }
  }

  /** The last chunk that begins with the key or a lesser one, else the first. */
  #chunkOf(key: string): number {
    let [low, high] = [0, this.#chunks.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#chunks[middle]?.[0] as string) <= key) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }
}

/** Index of the first key that is not less. */
function lowerBound(key: string, sorted: readonly string[]): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as string) < key) low = middle + 1
    else high = middle
  }
  return low
}
