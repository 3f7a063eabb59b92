import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { arch, endianness } from 'node:os'

/**
 * Returns why LMDB must not map a file. LMDB has no checksums and trusts the mapped file: a damaged or foreign file
 * ends the process with SIGSEGV or SIGBUS. So the header is read first, and then the trees: each page must be in the
 * file, must have its own number, and must keep its entries within its bounds.
 *
 * Layout: `MDB_meta`, `MDB_page_header`, `MDB_node`, `MDB_db` and `MDB_ovpage` of `mdb.c`, data version 2, 64 bits.
 *
 * @param mostPages - Number of pages to read, from the roots of the trees down. Not a limit if the file is shorter than
 * its header says, which is valid if only free pages are missing.
 * @param databases - Names that the file may have; any other name belongs to another program.
 * @returns undefined if nothing is wrong, or the file is empty: LMDB then initializes it.
 * @throws the error of the system if the file cannot be read.
 */
export function problemWithLmdbFile(
  path: string,
  mostPages: number,
  databases: readonly string[],
): string | undefined {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    // On 32 bits all offsets differ: the file is not checked there.
    if (size === 0 || ARCHITECTURES_32_BIT.has(arch())) return undefined
    return problemWithHeader(file) ?? problemWithTrees(file, mostPages, databases)
  } finally {
    closeSync(file)
  }
}

const ARCHITECTURES_32_BIT: ReadonlySet<string> = new Set(['arm', 'ia32', 'mips', 'mipsel'])

/** The file has the byte order of the machine that wrote it. */
const IS_LITTLE = endianness() === 'LE'

const LMDB_MAGIC = 0xbeef_c0de
const DATA_VERSION = 2
const ENCRYPTED = 0x2000

/** Bytes in front of each page's own. */
const PAGE_HEADER_BYTES = 24
/** Bytes of a page with `MDB_meta` that are read. */
const META_BYTES = 168

const IS_BRANCH = 1
const IS_LEAF = 2
const IS_OVERFLOW = 4
const IS_META = 8

/** Flags of entries. */
const IS_BIG_DATA = 1
const IS_DATABASE = 2

/** `MDB_db`, as the value of an entry. */
const DATABASE_RECORD_BYTES = 48
/** `MDB_ovpage`. */
const OVERFLOW_REFERENCE_BYTES = 24

/** The root of an empty tree. */
const NO_PAGE = 0xffff_ffff_ffff_ffffn

/** LMDB's own limit. */
const MAX_TREE_DEPTH = 32

/** How often trees are read again after another process has changed them meanwhile. */
const MAX_TRIES = 10

interface Meta {
  readonly transaction: bigint
  readonly pageSize: number
  readonly pages: number
  /** Size of the mapping when this was written: at least all of its pages. */
  readonly mapSize: bigint
  readonly free: PageTree
  readonly main: PageTree
}

interface PageTree {
  readonly name: string
  readonly root: bigint
  readonly entries: bigint
}

function problemWithHeader(file: number): string | undefined {
  const first = readAt(file, 0, META_BYTES)
  if (!first) return 'it is shorter than the header of an LMDB database'
  const version = u32(first, 28)
  if (u32(first, 24) !== LMDB_MAGIC || (u16(first, 18) & IS_META) === 0) {
    return u32(first, 16) === LMDB_MAGIC
      ? `its LMDB data version is ${u32(first, 20)}, and only ${DATA_VERSION} can be read: export it with the program that made it`
      : 'it is not an LMDB database, or its header is damaged'
  }
  if ((version & 0xffff) !== DATA_VERSION) {
    return `its LMDB data version is ${version & 0xffff}, and only ${DATA_VERSION} can be read`
  }
  const pageSize = u32(first, 48)
  if (pageSize < 256 || pageSize > 65_536 || (pageSize & (pageSize - 1)) !== 0) {
    return `its header is damaged: a page size of ${pageSize} bytes`
  }
  if ((u16(first, 52) & ENCRYPTED) !== 0) return 'it is encrypted'
  const second = readAt(file, pageSize, META_BYTES)
  if (!second) return 'it is truncated: its second header is missing'
  const isWhole =
    u64(first, 0) === 0n &&
    u64(second, 0) === 1n &&
    (u16(second, 18) & IS_META) !== 0 &&
    u32(second, 24) === LMDB_MAGIC &&
    (u32(second, 28) & 0xffff) === DATA_VERSION &&
    u32(second, 48) === pageSize
  return isWhole ? undefined : 'its second header is damaged'
}

/** The state after the latest transaction. */
function readMeta(file: number): Meta {
  const first = readAt(file, 0, META_BYTES) ?? Buffer.alloc(META_BYTES)
  const pageSize = u32(first, 48)
  const second = readAt(file, pageSize, META_BYTES) ?? first
  const latest = u64(second, 152) > u64(first, 152) ? second : first
  return {
    transaction: u64(latest, 152),
    pageSize,
    pages: Number(u64(latest, 144)) + 1,
    mapSize: u64(latest, 40),
    free: { name: 'of free pages', root: u64(latest, 88), entries: u64(latest, 80) },
    main: { name: 'of databases', root: u64(latest, 136), entries: u64(latest, 128) },
  }
}

/** Pages are reused only after another transaction: a problem is real if there was none meanwhile. */
function problemWithTrees(file: number, mostPages: number, databases: readonly string[]): string | undefined {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const meta = readMeta(file)
    const problem = new TreeWalk(file, meta, databases).problem(mostPages)
    if (!problem || readMeta(file).transaction === meta.transaction) return problem
  }
  // Its writers have it mapped, and it did not crash them.
  return undefined
}

interface PageReference {
  readonly page: bigint
  readonly depth: number
  readonly tree: PageTree
}

/** Reads the trees breadth-first from their roots. */
class TreeWalk {
  readonly #file: number
  readonly #meta: Meta
  readonly #databases: readonly string[]
  readonly #size: number
  readonly #pagesInFile: number
  /** A bit for each page: a page may be used only once. */
  readonly #seen: Uint8Array
  #reads = 0
  /** Entries found, for trees that were read completely. */
  readonly #found = new Map<PageTree, bigint>()
  readonly #due: PageReference[] = []

  constructor(file: number, meta: Meta, databases: readonly string[]) {
    this.#file = file
    this.#meta = meta
    this.#databases = databases
    this.#size = fstatSync(file).size
    this.#pagesInFile = Math.floor(this.#size / meta.pageSize)
    this.#seen = new Uint8Array(Math.ceil(this.#pagesInFile / 8))
  }

  problem(mostPages: number): string | undefined {
    const { free, main, pages, pageSize, mapSize } = this.#meta
    if (BigInt(pages) * BigInt(pageSize) > mapSize) {
      return `its header is damaged: ${pages} pages are more than the ${mapSize} bytes that were mapped`
    }
    const most = pages > this.#pagesInFile ? Number.POSITIVE_INFINITY : mostPages
    let problem = this.#add(free, free.root, 1) ?? this.#add(main, main.root, 1)
    for (const place of this.#due) {
      if (problem) break
      if (this.#reads >= most) return undefined
      problem = this.#problemAt(place)
    }
    return problem ?? this.#problemWithCounts()
  }

  /** Checks that each tree has as many entries as it declares. */
  #problemWithCounts(): string | undefined {
    for (const [{ name, entries }, found] of this.#found) {
      if (entries !== found) return `it is damaged: the tree ${name} has ${found} of its ${entries} entries`
    }
    return undefined
  }

  #add(tree: PageTree, page: bigint, depth: number): string | undefined {
    if (depth === 1) this.#found.set(tree, 0n)
    if (depth === 1 && page === NO_PAGE) return undefined
    if (depth > MAX_TREE_DEPTH)
      return `it is damaged: the tree ${tree.name} is deeper than ${MAX_TREE_DEPTH} pages`
    const problem = this.#claim(page, 1n, tree)
    if (!problem) this.#due.push({ page, depth, tree })
    return problem
  }

  /** Consecutive pages, which no other value may use. */
  #claim(page: bigint, count: bigint, { name }: PageTree): string | undefined {
    const end = page + count
    if (page < 2n || count < 1n || end > BigInt(this.#meta.pages)) {
      return `it is damaged: the tree ${name} names page ${page}, of ${this.#meta.pages}`
    }
    if (end > BigInt(this.#pagesInFile)) {
      const needed = end * BigInt(this.#meta.pageSize)
      return `it is truncated: it has ${this.#size} bytes, and needs ${needed} at least`
    }
    for (let each = Number(page); each < end; each++) {
      const [byte, bit] = [each >>> 3, 1 << (each & 7)]
      if (((this.#seen[byte] ?? 0) & bit) !== 0) return `it is damaged: page ${each} is used twice`
      this.#seen[byte] = (this.#seen[byte] ?? 0) | bit
    }
    return undefined
  }

  #problemAt({ page: number, depth, tree }: PageReference): string | undefined {
    const { pageSize } = this.#meta
    const page = this.#read(number, pageSize)
    const damaged = `it is damaged: page ${number} of the tree ${tree.name}`
    if (!page || u64(page, 0) !== number) return `${damaged} has another number`
    const kind = u16(page, 18) & (IS_BRANCH | IS_LEAF | IS_OVERFLOW | IS_META)
    if (kind !== IS_BRANCH && kind !== IS_LEAF) return `${damaged} has an unexpected kind`
    const [lower, upper] = [u16(page, 20), u16(page, 22)]
    if (lower % 2 !== 0 || lower > upper || upper > pageSize - PAGE_HEADER_BYTES)
      return `${damaged} has invalid bounds`
    for (let slot = 0; slot < lower; slot += 2) {
      const offset = u16(page, PAGE_HEADER_BYTES + slot)
      const at = PAGE_HEADER_BYTES + offset
      if (offset < upper || at + 8 > pageSize || at + 8 + u16(page, at + 6) > pageSize) {
        return `${damaged} has entry ${slot / 2} beyond its end`
      }
      const problem =
        kind === IS_BRANCH
          ? this.#add(tree, BigInt(u32(page, at)) | (BigInt(u16(page, at + 4)) << 32n), depth + 1)
          : this.#problemWithEntry(page, at, tree, damaged)
      if (problem) return problem
    }
    if (kind === IS_LEAF) this.#found.set(tree, (this.#found.get(tree) ?? 0n) + BigInt(lower / 2))
    return undefined
  }

  #problemWithEntry(page: Buffer, at: number, tree: PageTree, damaged: string): string | undefined {
    const [size, flags, keySize] = [u32(page, at), u16(page, at + 4), u16(page, at + 6)]
    const value = at + 8 + keySize
    const sizeHere = (flags & IS_BIG_DATA) !== 0 ? OVERFLOW_REFERENCE_BYTES : size
    if (value + sizeHere > page.length) return `${damaged} has a value beyond its end`
    if (tree !== this.#meta.main) {
      if ((flags & ~IS_BIG_DATA) !== 0) return `${damaged} has an entry of an unexpected kind`
      return flags === IS_BIG_DATA ? this.#problemElsewhere(page, value, size, tree) : undefined
    }
    const name = page.toString('utf8', at + 8, value).replace(/\0$/, '')
    if (flags !== IS_DATABASE || size !== DATABASE_RECORD_BYTES || !this.#databases.includes(name)) {
      return 'it is the database of another program'
    }
    return this.#add(
      { name, root: u64(page, value + 40), entries: u64(page, value + 32) },
      u64(page, value + 40),
      1,
    )
  }

  /** A value stored in overflow pages. */
  #problemElsewhere(page: Buffer, at: number, size: number, tree: PageTree): string | undefined {
    const { pageSize } = this.#meta
    const [number, count] = [u64(page, at), u64(page, at + 16)]
    const problem = this.#claim(number, count, tree)
    if (problem) return problem
    const header = this.#read(number, PAGE_HEADER_BYTES)
    const isRight =
      header !== undefined &&
      u64(header, 0) === number &&
      (u16(header, 18) & IS_OVERFLOW) !== 0 &&
      BigInt(u32(header, 20)) === count &&
      PAGE_HEADER_BYTES + size <= Number(count) * pageSize
    return isRight ? undefined : `it is damaged: page ${number} of the tree ${tree.name} has another number`
  }

  #read(page: bigint, length: number): Buffer | undefined {
    this.#reads++
    return readAt(this.#file, Number(page) * this.#meta.pageSize, length)
  }
}

/** @returns undefined if the file ends before. */
function readAt(file: number, at: number, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length)
  return readSync(file, bytes, 0, length, at) === length ? bytes : undefined
}

function u16(bytes: Buffer, at: number): number {
  return IS_LITTLE ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at)
}

function u32(bytes: Buffer, at: number): number {
  return IS_LITTLE ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at)
}

function u64(bytes: Buffer, at: number): bigint {
  return IS_LITTLE ? bytes.readBigUInt64LE(at) : bytes.readBigUInt64BE(at)
}
