import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  linkSync,
  openSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs'
import { constants as systemConstants } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Database, PutOptions, RootDatabase } from 'lmdb'
import { StoreFullError, StoreInvalidError, StoreUnavailableError } from '../../errors/errors.ts'
import { makeFolder } from '../../platform/node-workarounds.ts'
import { loadPackage } from '../../platform/packages.ts'
import { problemWithLmdbFile } from './lmdb-file.ts'
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

export interface LmdbStoreSettings {
  /** A folder; made if it is not there. On a disk of this machine: LMDB locks do not work across a network. */
  readonly folder: string
  /** Whether the store has to be there; otherwise it is made. */
  readonly mustExist?: boolean | undefined
  /** Whether all of the file is read before it is mapped, and not only its top. */
  readonly isReadWholly?: boolean | undefined
  /** Milliseconds since 1970. Default: the wall clock, because expiries outlive the process. */
  readonly now?: () => number
}

/**
 * A store in a folder, for all processes of a machine at once. What was acknowledged is on the disk: it survives
 * `kill -9` and, if the disk keeps its word, a power cut. Writes of a moment are one transaction, and so one flush.
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
    if (mustExist && !statOf(join(folder, DATA))?.size) throw new Error(`there is no ${join(folder, DATA)}`)
    makeFolder(resolve(folder))
    // The package ends the process with a signal if LMDB does not open, whatever the reason.
    await checkLmdbFolder(folder, isReadWholly ? Number.POSITIVE_INFINITY : PAGES_AT_START)
    reserve(folder)
    const environment = open<Buffer, Buffer>({
      path: folder,
      noSubdir: false, // or a folder with a dot in its name would be a file
      overlappingSync: false, // or a write would be acknowledged before it is flushed
      eventTurnBatching: false, // it makes promises that are not handled when a transaction fails
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

/** What LMDB calls its files. */
const [DATA, LOCK] = ['data.mdb', 'lock.mdb']

/** Pages that are read before LMDB maps a file: all of a small store, in a few milliseconds, and the top of a large one. */
const PAGES_AT_START = 1_000

/** After this, a file that another process was just making is whole. */
const RECHECK_MS = 100

/**
 * Looks at the files of a folder, as LMDB does not.
 *
 * @param mostPages - See {@link problemWithLmdbFile}.
 * @throws Error with the reason.
 */
async function checkLmdbFolder(folder: string, mostPages: number): Promise<void> {
  const [data, lock] = [join(folder, DATA), join(folder, LOCK)]
  const find = () => {
    for (const path of [data, lock]) {
      const found = statOf(path)
      if (found && !found.isFile()) return `${path} is no file`
      // The lock file is never opened here: to close it would take away the locks of this process.
      if (found) accessSync(path, constants.R_OK | constants.W_OK)
    }
    const problem = statOf(data) && problemWithLmdbFile(data, mostPages, [VALUES, EXPIRIES])
    return problem && `${data}: ${problem}`
  }
  if (find() === undefined) return
  await setTimeout(RECHECK_MS)
  const problem = find()
  if (problem !== undefined) throw new Error(problem)
}

/** Bytes for LMDB's first pages and its locks, and more than both need. */
const RESERVED = 65_536

/** Bytes of LMDB's lock file, with 126 readers. If a build of it needs more, it adds them. */
const LOCK_BYTES = 8_272

/**
 * Sees to it that the disk has room for a new store, and for its locks, which LMDB writes into memory: where a disk is
 * full that ends the process. So their file is made here, with its bytes on the disk.
 *
 * @throws the error of the system.
 */
function reserve(folder: string): void {
  const lock = join(folder, LOCK)
  const found = statOf(lock)
  const hasLocks = found !== undefined && found.size > 0 && found.blocks * BLOCK >= found.size
  if (hasLocks && statOf(join(folder, DATA))?.size) return
  const [own, rest] = [join(folder, `reserved-${randomUUID()}`), join(folder, `reserved-${randomUUID()}`)]
  try {
    writeToDisk(own, LOCK_BYTES)
    writeToDisk(rest, RESERVED)
    if (!found) linkIfAbsent(own, lock)
  } finally {
    rmSync(own, { force: true })
    rmSync(rest, { force: true })
  }
}

/** Makes a file of zeros. It is not closed before they are on the disk: only then it is sure that they have a place. */
function writeToDisk(path: string, length: number): void {
  const { O_WRONLY, O_CREAT, O_EXCL, O_DSYNC = 0 } = constants
  // Not `fsync`, which Node's permission model does not allow. Windows has no such flag.
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_DSYNC)
  try {
    for (let written = 0; written < length; ) written += writeSync(file, Buffer.alloc(length - written))
  } finally {
    closeSync(file)
  }
}

/** Bytes of what `stat` counts as a block. */
const BLOCK = 512

/** Another process may have been faster; and where there are no links, the disk has at least been seen to have room. */
function linkIfAbsent(path: string, name: string): void {
  try {
    linkSync(path, name)
  } catch {
    // LMDB makes it.
  }
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}

/** Names of databases in the file. */
const [VALUES, EXPIRIES] = ['values', 'expiries']

/** Of the system, for a disk, a quota or a limit of files' sizes. */
const NO_ROOM: ReadonlySet<number> = new Set(
  [systemConstants.errno.ENOSPC, systemConstants.errno.EDQUOT, systemConstants.errno.EFBIG].map(Number),
)

/** Expiries that each write looks at: more than it can add. */
const SWEPT_PER_WRITE = 4

/** Bytes of an expiry, in front of a value and of a key of `#expiries`: milliseconds; 0: never. */
const TIME_BYTES = 8

type ConditionalPut = (key: Buffer, value: Buffer, options: PutOptions) => Promise<boolean>

interface LmdbEntry {
  readonly value: Uint8Array
  readonly version: number
  readonly isLive: boolean
}

/**
 * Each write gives its entry another version, and writes that depend on what was read are made on the condition that
 * the version is still the same; LMDB checks it within the transaction. (Callbacks in a transaction would hold the
 * lock of all processes while they wait for this event loop.)
 */
class LmdbStore implements Store {
  readonly kind = 'lmdb'
  readonly sync = 'reads'
  readonly #name: string
  readonly #environment: RootDatabase<Buffer, Buffer>
  readonly #values: Database<Buffer, Buffer>
  /** Keys: the time, then the key of an entry that expired then, unless it was written again. */
  readonly #expiries: Database<Buffer, Buffer>
  /** `put` with a condition, which the package's types know of `putSync` only. */
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
            yield { fault: `${shownKey(at)} is not among what expires, and would stay on the disk` }
          }
        }
        yield entry
      }
    } finally {
      transaction.done()
    }
  }

  async restore(entries: Iterable<StoreEntry>, isReplacing: boolean): Promise<number | undefined> {
    this.#checkOpen()
    try {
      // If anything throws, LMDB forgets all of it.
      return this.#environment.transactionSync(() => this.#replaceAll(entries, isReplacing))
    } catch (error) {
      if (!FULL.has((error as { code?: unknown }).code)) throw error
      throw new StoreFullError(this.#name, `the disk takes no more (${(error as Error).message})`, {
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

  /** Writes an entry and what belongs to it. Its expiry comes first: whatever happens, no entry is without it. */
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

  /** @returns whether the last was made. */
  async #commit(writes: readonly Promise<boolean>[]): Promise<boolean> {
    const last = (await Promise.allSettled(writes)).at(-1)
    if (last?.status === 'fulfilled') return last.value
    throw await this.#explain(last?.reason)
  }

  /** lmdb says only in a second promise why a transaction failed. */
  async #explain(error: Error & { commitError?: Promise<never> }): Promise<Error> {
    const cause: Error & { code?: unknown } = await (error.commitError ?? Promise.reject(error)).catch(
      (reason) => reason,
    )
    if (!FULL.has(cause.code)) return new StoreUnavailableError(this.#name, cause.message, { cause })
    return new StoreFullError(this.#name, `the disk takes no more (${cause.message})`, { cause })
  }

  /** A write to a closed environment would end the process. */
  #checkOpen(): void {
    if (this.#isClosed) throw new StoreUnavailableError(this.#name, 'it is closed')
  }
}

const NO_BYTES = Buffer.alloc(0)

/** ENOSPC, EFBIG, EDQUOT, LMDB's MDB_MAP_FULL; and EIO, which LMDB makes of a write that the disk took half of. */
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
    return { fault: `${shownKey(at)} expires at no time` }
  const value = new Uint8Array(stored.subarray(TIME_BYTES))
  if (value.length > VALUE_MAX) return { fault: `${shownKey(at)} has more than ${VALUE_MAX} bytes` }
  return { namespace, key: key.toString(), value, ...(expiresAt > 0 && { expiresAt }) }
}

/** Whatever the bytes are. */
function shownKey(at: Buffer): string {
  return JSON.stringify(at.toString())
}

function timeBytes(time: number): Buffer {
  const bytes = Buffer.alloc(TIME_BYTES)
  bytes.writeDoubleBE(time) // of positive numbers the bytes compare as the numbers do
  return bytes
}

/** Another than any that the entry had, in whatever process; 0 is none. */
function newVersion(): number {
  return 1 + Math.floor(Math.random() * (Number.MAX_SAFE_INTEGER - 1))
}
