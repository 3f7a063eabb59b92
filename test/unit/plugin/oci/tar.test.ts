import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readTar, type TarEntry } from '../../../../src/plugin/oci/tar.ts'
import { UnpackBudget, UnpackError, unpack, unpackWhole } from '../../../../src/plugin/oci/unpack.ts'
import { runs } from '../../../support/runs.ts'
import { fixSums, paxOf, tarEntry, tarOf } from '../../../support/tar.ts'

const LIMIT = 1_000_000

/** The entries of an archive, with the content of all files as text. */
async function read(archive: Uint8Array, limit = LIMIT): Promise<string[]> {
  const entries = await readTar(unpack(archive, new UnpackBudget(limit)), () => true)
  return entries.map(({ path, kind, bytes }) => `${kind} ${path}${bytes ? `: ${Buffer.from(bytes)}` : ''}`)
}

const refused = (archive: Uint8Array, limit?: number) =>
  expect(read(archive, limit)).rejects.toThrow(UnpackError)

test('files, folders, links and devices are told apart, and a link is not followed', async () => {
  const archive = tarOf(
    { name: 'folder/', type: '5' },
    { name: './folder/file', content: 'content' },
    { name: '/absolute', content: '' },
    { name: 'old/', type: '\0' },
    { name: 'contiguous', type: '7', content: 'x' },
    { name: 'link', type: '2' },
    { name: 'hard', type: '1', size: '00000001000\0' }, // the size of its target
    { name: 'device', type: '3' },
    { name: 'global', type: 'g', content: 'anything' },
    { name: 'last', content: 'y'.repeat(512) },
  )
  expect(await read(archive)).toEqual([
    'folder folder',
    'file folder/file: content',
    'file absolute: ',
    'folder old',
    'file contiguous: x',
    'special link',
    'special hard',
    'special device',
    `file last: ${'y'.repeat(512)}`,
  ])
})

test('long names of ustar, GNU and pax are read, and pax has sizes too', async () => {
  const long = 'a'.repeat(99)
  const archive = tarOf(
    { name: long, prefix: 'b/c', content: '1' },
    { name: 'gnu', prefix: 'not a prefix', magic: 'ustar  \0', content: '2' },
    tarEntry({ name: '././@LongLink', type: 'L', content: `${long}/${long}\0` }),
    tarEntry({ name: '././@LongLink', type: 'K', content: 'target\0' }),
    { name: 'cut', content: '3' },
    paxOf({ path: `ä/${long}/${long}`, mtime: '1.5', size: '1' }),
    { name: 'cut', size: '00000000000\0', content: '4' },
    { name: 'binary', size: Uint8Array.from([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), content: '5' },
  )
  expect(await read(archive)).toEqual([
    `file b/c/${long}: 1`,
    'file gnu: 2',
    `file ${long}/${long}: 3`,
    `file ä/${long}/${long}: 4`,
    'file binary: 5',
  ])
})

test('what follows the end mark is not read, and an archive may end without it', async () => {
  const entry = tarEntry({ name: 'file', content: 'x' })
  expect(await read(Buffer.concat([tarOf(entry), Buffer.from('anything')]))).toEqual(['file file: x'])
  expect(await read(entry)).toEqual(['file file: x'])
  expect(await read(new Uint8Array())).toEqual([])
})

test('content that is not wanted is skipped', async () => {
  const archive = tarOf({ name: 'a', content: 'x'.repeat(5_000) }, { name: 'b', content: 'y' })
  const entries: TarEntry[] = await readTar(unpack(archive, new UnpackBudget(LIMIT)), (path) => path === 'b')
  expect(entries).toEqual([
    { path: 'a', kind: 'file' },
    { path: 'b', kind: 'file', bytes: Buffer.from('y') },
  ])
})

describe('an archive is refused', () => {
  const size = (...bytes: number[]) => Uint8Array.from(bytes)
  const flipped = tarOf({ name: 'file' })
  flipped[0] = 0x40

  test.each<[string, Uint8Array]>([
    ['whose path leads out of it', tarOf({ name: 'a/../../plugin.wasm' })],
    [
      'whose GNU path leads out of it',
      tarOf(tarEntry({ name: 'x', type: 'L', content: '../x\0' }), { name: 'x' }),
    ],
    ['whose pax path leads out of it', tarOf(paxOf({ path: '../x' }), { name: 'x' })],
    ['whose pax path has a zero byte', tarOf(paxOf({ path: 'plugin.wasm\0.txt' }), { name: 'x' })],
    ['whose path is too long', tarOf(paxOf({ path: 'x/'.repeat(3_000) }), { name: 'x' })],
    ['with a wrong checksum', flipped],
    ['that is no archive', Buffer.alloc(512, 'text')],
    ['with a negative size', tarOf({ name: 'x', size: Buffer.alloc(12, 0xff) })],
    ['with a huge size', tarOf({ name: 'x', size: size(0x80, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0) })],
    ['with a huge pax size', tarOf(paxOf({ size: '9'.repeat(30) }), { name: 'x' })],
    ['with a negative pax size', tarOf(paxOf({ size: '-1' }), { name: 'x' })],
    ['with letters as size', tarOf({ name: 'x', size: '0000000000z\0' })],
    ['that is cut off in a header', tarOf({ name: 'x' }).subarray(0, 100)],
    ['that is cut off in content', tarEntry({ name: 'x', content: 'x'.repeat(600) }).subarray(0, 1_100)],
    ['whose size is larger than it', tarOf({ name: 'x', size: '77777777777\0', content: 'x' })],
    ['that ends after a long name', tarEntry({ name: 'x', type: 'L', content: 'name\0' })],
    ['with a large extension', tarOf({ name: 'x', type: 'x', content: Buffer.alloc(1_048_577) })],
    [
      'with damaged pax records',
      tarOf(tarEntry({ name: 'x', type: 'x', content: '99 path=x\n' }), { name: 'x' }),
    ],
    [
      'with a pax record without a value',
      tarOf(tarEntry({ name: 'x', type: 'x', content: '7 path\n' }), { name: 'x' }),
    ],
    ['with a sparse file', tarOf({ name: 'x', type: 'S' })],
    ['with a sparse file of pax', tarOf(paxOf({ 'GNU.sparse.major': '1' }), { name: 'x' })],
    ['that is damaged gzip', Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(100)])],
    ['whose gzip is cut off', gzipSync(tarOf({ name: 'x', content: Buffer.alloc(5_000) })).subarray(0, -20)],
  ])('%s', (_name, archive) => refused(archive, 10_000_000))

  test('with too many entries', async () => {
    const entry = tarEntry({ name: 'x' })
    await refused(Buffer.concat(Array<Buffer>(32_769).fill(entry)), 100_000_000)
  })
})

test('a bomb is unpacked up to the limit only', async () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000))
  let pieces = 0
  const unpacking = async () => {
    for await (const piece of unpack(bomb, new UnpackBudget(LIMIT))) pieces += piece.length
  }
  await expect(unpacking()).rejects.toThrow(UnpackError)
  expect(pieces).toBeLessThanOrEqual(LIMIT)
  await refused(gzipSync(tarOf({ name: 'zeros', content: Buffer.alloc(2_000_000) })))
  await expect(unpackWhole(bomb, new UnpackBudget(LIMIT))).rejects.toThrow(UnpackError)
})

test('a budget is for all layers together', async () => {
  const budget = new UnpackBudget(5_000)
  const layer = gzipSync(Buffer.alloc(3_000))
  expect((await unpackWhole(layer, budget)).length).toBe(3_000)
  await expect(unpackWhole(layer, budget)).rejects.toThrow(UnpackError)
})

test('what was written is read, in pieces of any size', async () => {
  const name = fc.stringMatching(/^[a-zä]{1,8}(?:\/[a-z]{1,200}){0,3}$/)
  const files = fc.array(fc.record({ name, content: fc.uint8Array({ maxLength: 1_500 }) }), { maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(files, fc.integer({ min: 1, max: 700 }), async (written, step) => {
      const archive = tarOf(
        ...written.flatMap(({ name, content }) => [
          paxOf({ path: name }),
          tarEntry({ name: 'short', content }),
        ]),
      )
      async function* pieces() {
        for (let at = 0; at < archive.length; at += step) yield archive.subarray(at, at + step)
      }
      const entries = await readTar(pieces(), () => true)
      const expected = written.map(({ name, content }) => ({ path: name, kind: 'file', bytes: content }))
      expect(entries.map((entry) => ({ ...entry, bytes: Uint8Array.from(entry.bytes ?? []) }))).toEqual(
        expected,
      )
    }),
    { numRuns: runs(50) },
  )
})

test('mutants of archives fail with our error only, and never take more than the limit', async () => {
  const archive = tarOf(
    paxOf({ path: 'folder/plugin.wasm', size: '9' }),
    { name: 'x', content: 'some text' },
    tarEntry({ name: 'x', type: 'L', content: 'long\0' }),
    { name: 'y', content: 'z'.repeat(700) },
    { name: 'link', type: '2' },
  )
  const change = fc.tuple(fc.nat(archive.length - 1), fc.nat(255))
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 8 }), fc.boolean(), async (changes, fix) => {
      const mutant = Buffer.from(archive)
      for (const [at, byte] of changes) mutant[at] = byte
      if (fix) fixSums(mutant)
      const taken: number[] = []
      await readTar(unpack(mutant, new UnpackBudget(LIMIT)), () => true).then(
        (entries) => taken.push(...entries.map(({ bytes }) => bytes?.length ?? 0)),
        (error) => expect(error).toBeInstanceOf(UnpackError),
      )
      expect(taken.reduce((sum, length) => sum + length, 0)).toBeLessThanOrEqual(archive.length)
    }),
    { numRuns: runs(200) },
  )
})
