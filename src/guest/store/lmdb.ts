import { isUtf8 } from 'node:buffer'
import { constants as systemConstants } from 'node:os'
import { join, resolve } from 'node:path'
import type { Database, PutOptions, RootDatabase } from 'lmdb'
import { StoreFullError, StoreInvalidError, StoreUnavailableError } from '../../errors/errors.ts'
import { makeFolder } from '../../platform/make-folder.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import {
  checkLmdbFolder,
  DATA,
  EXPIRIES,
  hasLmdbFile,
  PAGES_AT_START,
  reserve,
  VALUES,
} from './lmdb-folder.ts'
import {
  checkKey,
  checkList,
  checkTtl,
  checkValue,
  decodeNamespace,
  KEY_MAX,
  type KeyPage,
  keySpace,
  type SetOptions,
  type Store,
  type StoreEntry,
  type StoreFault,
  VALUE_MAX,
} from './store.ts'

interface LmdbStoreSettings {
  /** A folder; created if missing. It must be on a local disk: LMDB locks do not work across a network. */
  readonly folder: string
  /** Whether the store must exist; otherwise it is created. */
  readonly mustExist?: boolean | undefined
  /** Whether the whole file is read before it is mapped, not only its top. */
  readonly isReadWholly?: boolean | undefined
  /** Milliseconds since 1970. Default: the wall clock, because expiries outlive the process. */
  readonly now?: () => number
}

/**
 * A store in a folder, shared by all processes of a machine. Acknowledged writes are on the disk: they survive `kill
 * -9` and, if the disk flushes as it reports, a power cut. Concurrent writes are one transaction, and so one flush.
 *
 * @throws {@link PackageMissingError}
 * @throws {@link StoreInvalidError} if the folder cannot be used, or its files are damaged or belong to another program.
 * @throws {@link StoreFullError} if the disk has no room for a new store.
 */
export async function openLmdbStore({
  folder,
  mustExist,
  isReadWholly,
  now = Date.now,
}: LmdbStoreSettings): Promise<Store> {
  const name = `lmdb:${folder}`
  const { open } = await loadPackage(name, 'lmdb', () => import('lmdb'))
  try {
    if (mustExist && !hasLmdbFile(folder)) throw new Error(`there is no file ${join(folder, DATA)}`)
    makeFolder(resolve(folder))
    // The package ends the process with a signal if LMDB fails to open for any reason.
    await checkLmdbFolder(folder, isReadWholly ? Number.POSITIVE_INFINITY : PAGES_AT_START)
    reserve(folder)
    const environment = open<Buffer, Buffer>({
      path: folder,
      noSubdir: false, // or a folder with a dot in its name would be a file
      overlappingSync: false, // or a write would be acknowledged before it is flushed
      eventTurnBatching: false, // it creates promises that reject unhandled when a transaction fails
    })
    return new LmdbStore(name, environment, now)
  } catch (error) {
    const { errno, message } = error as NodeJS.ErrnoException
    if (errno !== undefined && NO_ROOM.has(-errno)) {
      throw new StoreFullError(name, `the disk has no room for a new store (${message})`, { cause: error })
    }
    throw new StoreInvalidError(name, message, { cause: error })
  }
}

/** Error codes of the system for a full disk, a quota or a file size limit. */
const NO_ROOM: ReadonlySet<number> = new Set(
  [systemConstants.errno.ENOSPC, systemConstants.errno.EDQUOT, systemConstants.errno.EFBIG].map(Number),
)

/** Expiries that each write checks: more than it can add. */
const SWEPT_PER_WRITE = 4

/** Bytes of an expiry, before a value and before a key of `#expiries`: milliseconds; 0: never. */
const TIME_BYTES = 8

type ConditionalPut = (key: Buffer, value: Buffer, options: PutOptions) => Promise<boolean>

interface LmdbEntry {
  readonly value: Uint8Array
  readonly version: number
  readonly isLive: boolean
}

/**
 * Each write gives its entry a new version, and a write that depends on a read has the condition that the version is
 * unchanged; LMDB checks it within the transaction. (Callbacks in a transaction would hold the lock of all processes
 * while they wait for this event loop.)
 */
class LmdbStore implements Store {
  readonly kind = 'lmdb'
  readonly sync = 'reads'
  readonly #name: string
  readonly #environment: RootDatabase<Buffer, Buffer>
  readonly #values: Database<Buffer, Buffer>
  /** Keys: the time, then the key of an entry that expired then, unless it was written again. */
  readonly #expiries: Database<Buffer, Buffer>
  /** `put` with a condition, which the package's types declare only for `putSync`. */
  readonly #putIf: ConditionalPut
  readonly #now: () => number
  #isClosed = false

  constructor(name: string, environment: RootDatabase<Buffer, Buffer>, now: () => number) {
    const binary = { keyEncoding: 'binary', encoding: 'binary' } as const
    this.#name = name
    this.#environment = environment
    this.#values = environment.openDB({ name: VALUES, useVersions: true, ...binary })
    this.#expiries = environment.openDB({ name: EXPIRIES, ...binary })
    this.#putIf = (...args) => Reflect.apply(this.#values.put, this.#values, args)
    this.#now = now
  }

  get(namespace: string, key: string): Uint8Array | undefined {
    const entry = this.#read(lmdbKey(namespace, key))
    return entry?.isLive ? entry.value : undefined
  }

  async set(namespace: string, key: string, value: Uint8Array, options: SetOptions = {}): Promise<void> {
    const at = lmdbKey(namespace, key)
    const stored = this.#encode(value, options)
    await this.#write(at, stored, () => this.#values.put(at, stored, newVersion()))
  }

  async delete(namespace: string, key: string): Promise<boolean> {
    const at = lmdbKey(namespace, key)
    for (;;) {
      const entry = this.#read(at)
      if (!entry?.isLive) return false
      if (await this.#commit([this.#values.remove(at, entry.version)])) return true
      this.#environment.resetReadTxn() // another writer was faster: read it again
    }
  }

  list(namespace: string, prefix: string, limit: number, cursor?: string): KeyPage {
    const space = keySpace(namespace)
    checkList(prefix, limit, cursor)
    this.#checkOpen()
    const start = Buffer.from(space + prefix)
    const after = Buffer.from(cursor === undefined ? '' : space + cursor)
    const keys: string[] = []
    for (const at of this.#values.getKeys({ start: Buffer.compare(after, start) > 0 ? after : start })) {
      if (!at.subarray(0, start.length).equals(start)) break
      if (at.equals(after) || !this.#isLive(this.#values.getBinaryFast(at))) continue
      if (keys.length === limit) return { keys, cursor: keys.at(-1) }
      keys.push(at.toString('utf8', space.length))
    }
    return { keys }
  }

  async compareAndSwap(
    namespace: string,
    key: string,
    expected: Uint8Array | undefined,
    value: Uint8Array,
    options: SetOptions = {},
  ): Promise<boolean> {
    const at = lmdbKey(namespace, key)
    const stored = this.#encode(value, options)
    for (;;) {
      const entry = this.#read(at)
      const found = entry?.isLive ? entry.value : undefined
      const isExpected = found && expected ? Buffer.compare(found, expected) === 0 : found === expected
      if (!isExpected) return false
      const condition = entry ? { ifVersion: entry.version } : { noOverwrite: true }
      const put = () => this.#putIf(at, stored, { version: newVersion(), ...condition })
      if (await this.#write(at, stored, put)) return true
      this.#environment.resetReadTxn() // another writer was faster: read it again
    }
  }

  async *entries(): AsyncGenerator<StoreEntry | StoreFault> {
    this.#checkOpen()
    const transaction = this.#environment.useReadTransaction()
    try {
      for (const { key: at, value: stored } of this.#values.getRange({ start: Buffer.of(0), transaction })) {
        const entry = readLmdbEntry(at, stored)
        if (!('fault' in entry)) {
          if (!this.#isLive(stored)) continue
          const expiry = Buffer.concat([stored.subarray(0, TIME_BYTES), at])
          if (entry.expiresAt !== undefined && !this.#expiries.get(expiry, { transaction })) {
            yield { fault: `${shownKey(at)} has no expiry record and would never be removed` }
          }
        }
        yield entry
      }
    } finally {
      transaction.done()
    }
  }

  async restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined> {
    return this.#inOneStep(() => this.#replaceAll(entries, isReplacing))
  }

  async rename(from: string, to: string, isReplacing: boolean): Promise<number | undefined> {
    const [space, other] = [Buffer.from(keySpace(from)), Buffer.from(keySpace(to))]
    return this.#inOneStep(() => {
      if (!isReplacing && this.list(to, '', 1).keys.length > 0) return undefined
      const keys: Buffer[] = []
      for (const at of this.#values.getKeys({ start: space })) {
        if (!at.subarray(0, space.length).equals(space)) break
        keys.push(at)
      }
      return keys.filter((at) => this.#move(at, Buffer.concat([other, at.subarray(space.length)]))).length
    })
  }

  /** @returns whether it is live. An expired entry is removed. */
  #move(from: Buffer, to: Buffer): boolean {
    const stored = this.#values.getBinary(from)
    if (!stored) return false
    const time = stored.subarray(0, TIME_BYTES)
    const [expires, isLive] = [time.readDoubleBE() > 0, this.#isLive(stored)]
    if (isLive) this.#values.putSync(to, stored, newVersion())
    if (isLive && expires) this.#expiries.putSync(Buffer.concat([time, to]), NO_BYTES)
    this.#values.removeSync(from)
    if (expires) this.#expiries.removeSync(Buffer.concat([time, from]))
    return isLive
  }

  /** Runs changes as one transaction. If anything throws, LMDB discards it. */
  #inOneStep<Result>(change: () => Result): Result {
    this.#checkOpen()
    try {
      return this.#environment.transactionSync(change)
    } catch (error) {
      if (!FULL.has((error as { code?: unknown }).code)) throw error
      throw new StoreFullError(this.#name, `the disk is full (${(error as Error).message})`, {
        cause: error,
      })
    }
  }

  #replaceAll(entries: Iterable<StoreEntry>, isReplacing: boolean): number | undefined {
    for (const stored of isReplacing ? [] : this.#values.getRange().map(({ value }) => value)) {
      if (this.#isLive(stored)) return undefined
    }
    this.#values.clearSync()
    this.#expiries.clearSync()
    let written = 0
    for (const { namespace, key, value, expiresAt = 0 } of entries) {
      if (expiresAt > 0 && expiresAt <= this.#now()) continue
      const at = lmdbKey(namespace, key)
      checkValue(value)
      this.#values.putSync(at, Buffer.concat([timeBytes(expiresAt), value]), newVersion())
      if (expiresAt > 0) this.#expiries.putSync(Buffer.concat([timeBytes(expiresAt), at]), NO_BYTES)
      written++
    }
    return written
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#environment.close()
  }

  #read(at: Buffer): LmdbEntry | undefined {
    this.#checkOpen()
    const entry = this.#values.getEntry(at)
    if (!entry) return undefined
    const { value, version = 0 } = entry
    return { value: new Uint8Array(value.subarray(TIME_BYTES)), version, isLive: this.#isLive(value) }
  }

  #isLive(stored: Buffer | undefined): boolean {
    if (!stored) return false
    const expiresAt = stored.readDoubleBE()
    return expiresAt === 0 || expiresAt > this.#now()
  }

  /** @throws {@link KvArgumentInvalidError}, {@link KvValueTooLargeError} */
  #encode(value: Uint8Array, { ttlMs }: SetOptions): Buffer {
    checkValue(value)
    checkTtl(ttlMs)
    const stored = Buffer.allocUnsafe(TIME_BYTES + value.length)
    stored.writeDoubleBE(ttlMs === undefined ? 0 : this.#now() + ttlMs)
    stored.set(value, TIME_BYTES)
    return stored
  }

  /** Writes an entry and its expiry. The expiry is written first, so that no entry lacks one after a crash. */
  #write(at: Buffer, stored: Buffer, put: () => Promise<boolean>): Promise<boolean> {
    this.#checkOpen()
    const time = stored.subarray(0, TIME_BYTES)
    const swept = this.#sweep()
    const expiry = time.readDoubleBE() > 0 ? [this.#expiries.put(Buffer.concat([time, at]), NO_BYTES)] : []
    return this.#commit([...swept, ...expiry, put()])
  }

  /** Removes some expired entries. */
  #sweep(): Promise<boolean>[] {
    const due = [...this.#expiries.getKeys({ end: timeBytes(this.#now()), limit: SWEPT_PER_WRITE })]
    return due.flatMap((expiry) => {
      const at = expiry.subarray(TIME_BYTES)
      const entry = this.#read(at)
      const removed = entry && !entry.isLive ? [this.#values.remove(at, entry.version)] : []
      return [this.#expiries.remove(expiry), ...removed]
    })
  }

  /** @returns whether the last write was made. */
  async #commit(writes: readonly Promise<boolean>[]): Promise<boolean> {
    const last = (await Promise.allSettled(writes)).at(-1)
    if (last?.status === 'fulfilled') return last.value
    throw await this.#explain(last?.reason)
  }

  /** lmdb gives the reason of a failed transaction only in a second promise. */
  async #explain(error: Error & { commitError?: Promise<never> }): Promise<Error> {
    const cause: Error & { code?: unknown } = await (error.commitError ?? Promise.reject(error)).catch(
      (reason) => reason,
    )
    if (!FULL.has(cause.code)) return new StoreUnavailableError(this.#name, cause.message, { cause })
    return new StoreFullError(this.#name, `the disk is full (${cause.message})`, { cause })
  }

  /** A write to a closed environment would end the process. */
  #checkOpen(): void {
    if (this.#isClosed) throw new StoreUnavailableError(this.#name, 'it is closed')
  }
}

const NO_BYTES = Buffer.alloc(0)

/** ENOSPC, EFBIG, EDQUOT, LMDB's MDB_MAP_FULL; and EIO, which LMDB reports for a write that the disk took half of. */
const FULL: ReadonlySet<unknown> = new Set([28, 27, 122, -30_792, 5])

function lmdbKey(namespace: string, key: string): Buffer {
  checkKey(key)
  return Buffer.from(keySpace(namespace) + key)
}

/** Decodes a stored entry. */
function readLmdbEntry(at: Buffer, stored: Buffer): StoreEntry | StoreFault {
  const colon = at.indexOf(':')
  const namespace = colon < 0 ? undefined : decodeNamespace(at.toString('latin1', 0, colon))
  const key = at.subarray(colon + 1)
  if (namespace === undefined) return { fault: `${shownKey(at)} has no namespace` }
  if (!isUtf8(key) || key.length === 0 || key.length > KEY_MAX) return { fault: `${shownKey(at)} has no key` }
  if (stored.length < TIME_BYTES) return { fault: `${shownKey(at)} has no time` }
  const expiresAt = stored.readDoubleBE()
  if (!Number.isSafeInteger(expiresAt) || expiresAt < 0)
    return { fault: `${shownKey(at)} has an invalid expiry` }
  const value = new Uint8Array(stored.subarray(TIME_BYTES))
  if (value.length > VALUE_MAX) return { fault: `${shownKey(at)} has more than ${VALUE_MAX} bytes` }
  return { namespace, key: key.toString(), value, ...(expiresAt > 0 && { expiresAt }) }
}

/** Accepts any bytes. */
function shownKey(at: Buffer): string {
  return JSON.stringify(at.toString())
}

function timeBytes(time: number): Buffer {
  const bytes = Buffer.alloc(TIME_BYTES)
  bytes.writeDoubleBE(time) // the bytes of positive numbers sort like the numbers
  return bytes
}

/** A new version, different from all former ones of the entry in any process; 0 means none. */
function newVersion(): number {
  return 1 + Math.floor(Math.random() * (Number.MAX_SAFE_INTEGER - 1))
}
