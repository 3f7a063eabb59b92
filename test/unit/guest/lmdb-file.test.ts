import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { open } from 'lmdb'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openLmdbStore } from '../../../src/guest/store/lmdb.ts'
import { problemWithLmdbFile } from '../../../src/guest/store/lmdb-file.ts'
import { assertReaching } from '../../support/runs.ts'
import { newFolder } from '../../support/stores.ts'

const DATABASES = ['values', 'expiries']
const PAGE = 4_096
const problemWith = (file: string, pages = Number.POSITIVE_INFINITY) =>
  problemWithLmdbFile(file, pages, DATABASES)

/** The file of a store with values of all sizes, of which some were deleted. */
let original: Buffer
beforeAll(async () => {
  const folder = join(mkdtempSync(join(tmpdir(), 'wasm-serve-file.')), 'store')
  const store = await openLmdbStore({ folder })
  const writes = Array.from({ length: 150 }, (_, i) =>
    store.set('n', `key ${i}`, new Uint8Array((i % 15) ** 3).fill(i), i % 3 === 0 ? { ttlMs: 60_000 } : {}),
  )
  await Promise.all(writes)
  for (let i = 0; i < 5; i++) await store.delete('n', `key ${i * 3}`)
  await store.close()
  original = readFileSync(join(folder, 'data.mdb'))
  rmSync(dirname(folder), { recursive: true })
})

/** A folder whose `data.mdb` has these bytes. */
function folderOf(bytes: Uint8Array): string {
  const folder = newFolder()
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'data.mdb'), bytes)
  return folder
}

/** What of the two headers counts. */
function latestHeader(bytes: Buffer): number {
  return bytes.readBigUInt64LE(PAGE + 152) > bytes.readBigUInt64LE(152) ? PAGE : 0
}

const DAMAGES: readonly (readonly [what: string, damage: (bytes: Buffer) => Buffer])[] = [
  ['text', () => Buffer.from('hello\n')],
  ['random bytes', () => Buffer.alloc(20_000, 0xa7)],
  ['zeros', ({ length }) => Buffer.alloc(length)],
  ['half a header', (bytes) => bytes.subarray(0, 100)],
  ['no second header', (bytes) => bytes.subarray(0, PAGE + 50)],
  ['no pages', (bytes) => bytes.subarray(0, 2 * PAGE)],
  ['its first half only', (bytes) => bytes.subarray(0, bytes.length / 2)],
  ['the last byte of a page missing', (bytes) => bytes.subarray(0, (mainRoot(bytes) + 1) * PAGE - 1)],
  ['no magic number', (bytes) => patched(bytes, 24, 1)],
  ['no magic number in its second header', (bytes) => patched(bytes, PAGE + 24, 1)],
  ['a data version to come', (bytes) => patched(bytes, 28, 3)],
  ['the layout of data version 1', (bytes) => bytes.copyWithin(16, 24, 168)],
  ['a page size that is none', (bytes) => patched(bytes, 48, 4_095)],
  ['another page size', (bytes) => patched(bytes, 48, 8_192)],
  ['encryption', (bytes) => patched(bytes, 52, bytes.readUInt16LE(52) | 0x2000)],
  ['more pages than could be', (bytes) => patched(bytes, latestHeader(bytes) + 148, 7)],
  ['a root that is no page', (bytes) => patched(bytes, latestHeader(bytes) + 136, 1_000_000)],
  ['a root that is a header', (bytes) => patched(bytes, latestHeader(bytes) + 136, 1)],
  ['entries that are missing', (bytes) => patched(bytes, latestHeader(bytes) + 128, 3)],
  [
    'another page where a root was',
    (bytes) => {
      const root = mainRoot(bytes)
      return bytes.fill(0, root * PAGE, (root + 1) * PAGE)
    },
  ],
  ...(
    [
      ['a branch', 0x01],
      ['an overflow page', 0x04],
      ['a header', 0x08],
    ] as const
  ).map(
    ([what, flag]) =>
      [`a leaf that is ${what}, too`, (bytes: Buffer) => flagged(bytes, mainRoot(bytes), flag)] as const,
  ),
  ['bounds that are odd', (bytes) => written(bytes, mainRoot(bytes) * PAGE + 20, 3)],
  ['bounds that overlap', (bytes) => written(bytes, mainRoot(bytes) * PAGE + 22, 2)],
  ['bounds beyond its page', (bytes) => written(bytes, mainRoot(bytes) * PAGE + 22, PAGE)],
  [
    'a value in pages of another number',
    (bytes) => onOverflow(bytes, (page) => bytes.writeUInt32LE(1, page)),
  ],
  [
    'a value in pages of another kind',
    (bytes) => onOverflow(bytes, (page) => bytes.writeUInt16LE(0x02, page + 18)),
  ],
  [
    'a value in more pages than it names',
    (bytes) => onOverflow(bytes, (page) => bytes.writeUInt32LE(bytes.readUInt32LE(page + 20) + 1, page + 20)),
  ],
  [
    'an entry beyond its page',
    (bytes) => {
      bytes.writeUInt16LE(4_090, mainRoot(bytes) * PAGE + 24)
      return bytes
    },
  ],
  [
    'the key of a branch beyond its page',
    (bytes) => written(bytes, entryOf(bytes, valuesRoot(bytes)) + 6, 4_090),
  ],
]

function written(bytes: Buffer, at: number, value: number): Buffer {
  bytes.writeUInt16LE(value, at)
  return bytes
}

function flagged(bytes: Buffer, page: number, flag: number): Buffer {
  const at = page * PAGE + 18
  return written(bytes, at, bytes.readUInt16LE(at) | flag)
}

/** Damages all pages of values that are too large for a leaf. */
function onOverflow(bytes: Buffer, damage: (page: number) => void): Buffer {
  for (let page = 2 * PAGE; page < bytes.length; page += PAGE)
    if ((bytes.readUInt16LE(page + 18) & 0x04) !== 0 && bytes.readUInt32LE(page) === page / PAGE) damage(page)
  return bytes
}

/** The page of the names of databases. */
function mainRoot(bytes: Buffer): number {
  return bytes.readUInt32LE(latestHeader(bytes) + 136)
}

function valuesRoot(bytes: Buffer): number {
  const name = bytes.indexOf('values\0', mainRoot(bytes) * PAGE)
  return bytes.readUInt32LE(name + 'values\0'.length + 40)
}

/** Where the first entry of a page is. */
function entryOf(bytes: Buffer, page: number): number {
  return page * PAGE + 24 + bytes.readUInt16LE(page * PAGE + 24)
}

/** The page below the first entry of a page. */
function childOf(bytes: Buffer, page: number): number {
  return bytes.readUInt32LE(entryOf(bytes, page))
}

function patched(bytes: Buffer, at: number, value: number): Buffer {
  bytes.writeUInt32LE(value >>> 0, at)
  return bytes
}

describe('the file of an lmdb store', () => {
  test.each(DAMAGES)('with %s has a problem', (_what, damage) => {
    const file = join(folderOf(damage(Buffer.from(original))), 'data.mdb')
    expect(problemWith(file, 1_000)).toEqual(expect.any(String))
  })

  test('with a problem is refused before it is mapped', async () => {
    const folder = folderOf(original.subarray(0, 3 * PAGE))
    await expect(openLmdbStore({ folder })).rejects.toMatchObject({
      code: 'WASM_SERVE_STORE_INVALID',
      message: expect.stringContaining(join(folder, 'data.mdb')),
    })
  })

  test('of another program is refused, and stays as it is', async () => {
    const path = newFolder()
    const other = open({ path, noSubdir: false, overlappingSync: false })
    await other.openDB({ name: 'songs' }).put('a', 'b')
    await other.close()
    const before = readFileSync(join(path, 'data.mdb'))
    await expect(openLmdbStore({ folder: path })).rejects.toMatchObject({ code: 'WASM_SERVE_STORE_INVALID' })
    expect(readFileSync(join(path, 'data.mdb')).equals(before)).toBe(true)
  })

  test('that is no file is refused', async () => {
    for (const name of ['data.mdb', 'lock.mdb']) {
      const folder = newFolder()
      mkdirSync(join(folder, name), { recursive: true })
      await expect(openLmdbStore({ folder })).rejects.toMatchObject({ code: 'WASM_SERVE_STORE_INVALID' })
    }
  })

  test('that is empty becomes a store', async () => {
    const store = await openLmdbStore({ folder: folderOf(new Uint8Array()) })
    onTestFinished(() => store.close())
    await store.set('n', 'k', Uint8Array.of(1))
    expect(await store.get('n', 'k')).toEqual(Uint8Array.of(1))
  })

  test('has expiries of what expires, and of nothing else', async () => {
    const path = newFolder()
    const store = await openLmdbStore({ folder: path })
    await store.set('n', 'expires', Uint8Array.of(1), { ttlMs: 60_000 })
    await store.set('n', 'stays', Uint8Array.of(1))
    await store.close()
    const file = open({ path, noSubdir: false, overlappingSync: false })
    onTestFinished(() => file.close())
    expect(
      DATABASES.map((name) => file.openDB({ name, encoding: 'binary', keyEncoding: 'binary' }).getCount()),
    ).toEqual([2, 1])
  })

  test('may end before pages that are free', async () => {
    const bytes = Buffer.from(original)
    for (const header of [0, PAGE]) {
      bytes.writeBigUInt64LE(bytes.readBigUInt64LE(header + 144) + 3n, header + 144)
      bytes.writeBigUInt64LE(bytes.readBigUInt64LE(header + 40) * 2n, header + 40)
    }
    const store = await openLmdbStore({ folder: folderOf(bytes) })
    onTestFinished(() => store.close())
    expect(await store.get('n', 'key 31')).toEqual(new Uint8Array(1).fill(31))
  })

  test('may have as many pages as were mapped', () => {
    const bytes = Buffer.from(original)
    const header = latestHeader(bytes)
    const pages = bytes.readBigUInt64LE(header + 144) + 1n
    bytes.writeBigUInt64LE(pages * BigInt(PAGE), header + 40)
    expect(problemWith(join(folderOf(bytes), 'data.mdb'))).toBe(undefined)
  })

  test('is right whatever was written, also while it is written', async () => {
    const folder = newFolder()
    const store = await openLmdbStore({ folder })
    const write = fc.record({
      key: fc.integer({ min: 0, max: 60 }),
      size: fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 0, max: 60_000 })),
      ttlMs: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
      isDelete: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(write, { maxLength: 60 }), async (writes) => {
        const writing = writes.map(({ key, size, ttlMs, isDelete }) =>
          isDelete
            ? store.delete('n', `key ${key}`)
            : store.set('n', `key ${key}`, new Uint8Array(size), { ttlMs }),
        )
        expect(problemWith(join(folder, 'data.mdb'))).toBe(undefined)
        await Promise.all<unknown>(writing)
        expect(problemWith(join(folder, 'data.mdb'))).toBe(undefined)
      }),
      { numRuns: 10 },
    )
    await store.close()
    expect(problemWith(join(folder, 'data.mdb'))).toBe(undefined)
  })

  test('may be damaged in any way: that is a text, and no failure', () => {
    const file = join(folderOf(original), 'data.mdb')
    const damage = fc.array(fc.tuple(fc.nat({ max: original.length - 1 }), fc.nat({ max: 255 })), {
      minLength: 1,
    })
    let found = 0
    assertReaching(
      fc.property(damage, fc.option(fc.nat({ max: original.length })), (bits, length) => {
        const damaged = Buffer.from(original)
        for (const [at, value] of bits) damaged[at] = value
        writeFileSync(file, damaged)
        if (length !== null) truncateSync(file, length)
        const problem = problemWith(file)
        if (problem !== undefined) found++
        expect(problem === undefined || problem.length > 0).toBe(true)
      }),
      60,
      () => expect(found).toBeGreaterThan(0),
    )
  })

  test('is looked at in part only if it is large, and wholly if that is asked', () => {
    const bytes = Buffer.from(original)
    const leaf = childOf(bytes, valuesRoot(bytes))
    const file = join(folderOf(bytes.fill(0, leaf * PAGE, leaf * PAGE + 24)), 'data.mdb')
    expect([problemWith(file, 2), problemWith(file)]).toEqual([undefined, expect.any(String)])
  })
})
