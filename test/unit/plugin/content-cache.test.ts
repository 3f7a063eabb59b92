import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listCache, pruneCache, verifyCache } from '../../../src/plugin/cache-files.ts'
import { openContentCache } from '../../../src/plugin/source/content-cache.ts'
import { sha256 } from '../../../src/plugin/source/digest.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cache-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function open(folder = newFolder()) {
  const warnings: string[] = []
  return { folder, warnings, cache: openContentCache(folder, warnings) }
}

const BYTES = Buffer.from('some content')
const DIGEST = sha256(BYTES)
const REFERENCE = 'registry.example/team/hello:1.2'
const HOUR = 3_600_000
const DAY = 24 * HOUR

/** Sets the time of last use. */
function age(path: string, ms: number): void {
  const then = new Date(Date.now() - ms)
  utimesSync(path, then, then)
}

describe('the content cache', () => {
  test('leaves nothing of what it cannot write', async () => {
    const { folder, warnings, cache } = open()
    mkdirSync(join(folder, 'sha256', DIGEST), { recursive: true })
    await cache.write(DIGEST, BYTES)
    expect(warnings).toHaveLength(1)
    expect(readdirSync(join(folder, 'sha256'))).toEqual([DIGEST])
  })

  test('returns what was written, to other openers of the folder, too', async () => {
    const { folder, warnings, cache } = open()
    await cache.write(DIGEST, BYTES)
    await cache.writeRequest('secret', { digest: DIGEST, etag: '"1"' })
    await cache.writeTag(REFERENCE, { digest: DIGEST, at: 5 })
    await cache.writeEvidence(DIGEST, Buffer.from('bundle'))
    const again = openContentCache(folder, warnings)
    expect(await again.read(DIGEST)).toEqual(BYTES)
    expect(await again.request('secret')).toEqual({ digest: DIGEST, etag: '"1"' })
    expect(await again.tag(REFERENCE)).toEqual({ digest: DIGEST, at: 5 })
    expect(Buffer.from((await again.evidence(DIGEST)) ?? [])).toEqual(Buffer.from('bundle'))
    expect(warnings).toEqual([])
    const names = readdirSync(folder, { recursive: true }).map(String)
    expect(names.filter((name) => name.includes('secret') || name.endsWith('.tmp'))).toEqual([])
    expect(statSync(join(folder, 'sha256', DIGEST)).mode & 0o777).toBe(0o600)
  })

  test('has nothing that was not written', async () => {
    const { folder, cache } = open()
    expect(await cache.read(DIGEST)).toBeUndefined()
    expect(await cache.request('x')).toBeUndefined()
    expect(await cache.tag(REFERENCE)).toBeUndefined()
    expect(await cache.evidence(DIGEST)).toBeUndefined()
    expect(readdirSync(folder)).toEqual([])
  })

  test('removes what is damaged', async () => {
    const { folder, warnings, cache } = open()
    await cache.write(DIGEST, BYTES)
    await cache.writeRequest('x', { digest: DIGEST, etag: undefined })
    await cache.writeTag(REFERENCE, { digest: DIGEST, at: 5 })
    await cache.writeEvidence(DIGEST, BYTES)
    const files = await listCache(folder)
    for (const { path } of files) writeFileSync(path, readFileSync(path).subarray(0, -3))
    expect(await cache.read(DIGEST)).toBeUndefined()
    expect(await cache.request('x')).toBeUndefined()
    expect(await cache.tag(REFERENCE)).toBeUndefined()
    expect(await cache.evidence(DIGEST)).toBeUndefined()
    expect([files.length, await listCache(folder), warnings]).toEqual([4, [], []])
  })

  test('does not take the record of one tag for another', async () => {
    const { folder, cache } = open()
    await cache.writeTag(REFERENCE, { digest: DIGEST, at: 5 })
    const [{ path = '' } = {}] = await listCache(folder)
    writeFileSync(join(folder, 'tags', `${sha256('other')}.json`), readFileSync(path))
    expect(await cache.tag('other')).toBeUndefined()
  })

  test('that cannot be written adds one warning, and nothing fails', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'file'), '')
    const { warnings, cache } = open(join(folder, 'file'))
    await cache.write(DIGEST, BYTES)
    await cache.write(DIGEST, BYTES)
    expect(await cache.read(DIGEST)).toBeUndefined()
    expect(warnings.length).toBeGreaterThan(0)
    expect(new Set(warnings).size).toBe(warnings.length)
  })

  test('that others can write to is read by digest only, and not written', async () => {
    const { folder, warnings, cache } = open()
    await cache.write(DIGEST, BYTES)
    await cache.writeTag(REFERENCE, { digest: DIGEST, at: 5 })
    await cache.writeEvidence(DIGEST, BYTES)
    chmodSync(folder, 0o777)
    expect(await cache.read(DIGEST)).toEqual(BYTES)
    expect(await cache.tag(REFERENCE)).toBeUndefined()
    expect(await cache.evidence(DIGEST)).toBeUndefined()
    await cache.write(sha256('other'), Buffer.from('other'))
    expect(await cache.read(sha256('other'))).toBeUndefined()
    expect(warnings).toEqual([expect.stringContaining('chmod')])
  })

  test('notes a use at most once a day', async () => {
    const { folder, cache } = open()
    await cache.write(DIGEST, BYTES)
    const path = join(folder, 'sha256', DIGEST)
    age(path, HOUR)
    const before = statSync(path).mtimeMs
    await cache.read(DIGEST)
    expect(statSync(path).mtimeMs).toBe(before)
    age(path, 2 * DAY)
    await cache.read(DIGEST)
    expect(statSync(path).mtimeMs).toBeGreaterThan(before)
  })
})

/** A cache with a file of each kind, and files that are not of a cache. */
async function filledCache(): Promise<{ readonly folder: string; readonly strangers: readonly string[] }> {
  const { folder, cache } = open()
  await cache.write(DIGEST, BYTES)
  await cache.writeRequest('x', { digest: DIGEST, etag: undefined })
  await cache.writeTag(REFERENCE, { digest: DIGEST, at: 5 })
  await cache.writeEvidence(DIGEST, BYTES)
  const write = (content: Uint8Array | string, ...path: string[]): string => {
    mkdirSync(join(folder, ...path.slice(0, -1)), { recursive: true, mode: 0o700 })
    writeFileSync(join(folder, ...path), content)
    return join(...path)
  }
  write(readFileSync(join(folder, 'evidence', DIGEST)), 'modules', '7', DIGEST)
  write('code', 'v8', 'v24.1.0-x64-1234abcd-0', '0123abcd')
  write('half', 'sha256', `${DIGEST}.123e4567-e89b-12d3-a456-426614174000.tmp`)
  const strangers = [
    write('', 'notes.txt'),
    write('', 'sha256', 'readme'),
    write('', 'sha256', `${DIGEST}.tmp`),
    write('', 'modules', 'folder', DIGEST),
    write('', 'v8', 'src', 'main.cc'),
    write('', 'v8', 'v24.1.0-x64-1234abcd-0', 'notes.txt'),
    write('', 'tags', DIGEST, `${DIGEST}.json`),
  ]
  return { folder, strangers }
}

const kindsOf = (files: readonly { readonly kind: string }[]) => files.map(({ kind }) => kind).sort()
const ALL = ['bytecode', 'content', 'evidence', 'leftover', 'module', 'request', 'tag']

describe('upkeep of the cache folder', () => {
  test('lists all files of the cache, and no others', async () => {
    const { folder } = await filledCache()
    const files = await listCache(folder)
    expect(kindsOf(files)).toEqual(ALL)
    expect(files).toContainEqual(
      expect.objectContaining({
        kind: 'content',
        name: DIGEST,
        bytes: BYTES.length,
        path: join(folder, 'sha256', DIGEST),
      }),
    )
    expect(files).toContainEqual(expect.objectContaining({ kind: 'tag', name: REFERENCE, digest: DIGEST }))
    expect(await listCache(join(folder, 'missing'))).toEqual([])
  })

  test('follows no links', async () => {
    const { folder } = await filledCache()
    const other = newFolder()
    symlinkSync(join(folder, 'v8'), join(other, 'v8'))
    symlinkSync(join(folder, 'sha256'), join(other, 'sha256'))
    mkdirSync(join(other, 'tags'))
    symlinkSync(join(folder, 'notes.txt'), join(other, 'tags', `${DIGEST}.json`))
    expect(await listCache(other)).toEqual([])
  })

  test('finds damaged files, and removes them', async () => {
    const { folder } = await filledCache()
    const files = await listCache(folder)
    expect(await verifyCache(files)).toEqual([])
    for (const { path } of files) writeFileSync(path, 'damaged')
    const damaged = await verifyCache(files)
    expect(kindsOf(damaged)).toEqual(['content', 'evidence', 'module', 'request', 'tag'])
    expect(damaged.filter(({ path }) => existsSync(path))).toEqual([])
    expect(kindsOf(await listCache(folder))).toEqual(['bytecode', 'leftover'])
    expect(await verifyCache(files)).toEqual([]) // what is gone is not damaged
  })

  test('removes leftovers of crashes only, and no write that runs', async () => {
    const { folder } = await filledCache()
    expect(await pruneCache(await listCache(folder), {})).toEqual([])
    const files = await listCache(folder)
    for (const { path } of files) age(path, 2 * HOUR)
    expect(kindsOf(await pruneCache(await listCache(folder), {}))).toEqual(['leftover'])
    expect(kindsOf(await listCache(folder))).toEqual(ALL.filter((kind) => kind !== 'leftover'))
  })

  test('removes what was not used for a time', async () => {
    const { folder } = await filledCache()
    age(join(folder, 'sha256', DIGEST), 10 * DAY)
    age(join(folder, 'evidence', DIGEST), 2 * DAY)
    const removed = await pruneCache(await listCache(folder), { olderThanMs: 5 * DAY })
    expect(kindsOf(removed)).toEqual(['content'])
    expect(existsSync(join(folder, 'sha256', DIGEST))).toBe(false)
    expect(existsSync(join(folder, 'evidence', DIGEST))).toBe(true)
  })

  test('removes the least recently used beyond a size', async () => {
    const { folder, cache } = open()
    const contents = ['a', 'b', 'c', 'd'].map((letter) => Buffer.alloc(1_000, letter))
    for (const [index, bytes] of contents.entries()) {
      await cache.write(sha256(bytes), bytes)
      age(join(folder, 'sha256', sha256(bytes)), index * HOUR)
    }
    await pruneCache(await listCache(folder), { maxBytes: 2_500 })
    const left = contents.slice(0, 2).map(sha256).sort()
    expect(readdirSync(join(folder, 'sha256')).sort()).toEqual(left)
  })

  test('removes everything of the cache, and nothing else', async () => {
    const { folder, strangers } = await filledCache()
    await pruneCache(await listCache(folder), { olderThanMs: Number.NEGATIVE_INFINITY })
    expect(await listCache(folder)).toEqual([])
    expect(strangers.filter((path) => !existsSync(join(folder, path)))).toEqual([])
  })

  test('changes nothing where other users can', async () => {
    const { folder } = await filledCache()
    chmodSync(join(folder, 'sha256'), 0o777)
    const files = await listCache(folder)
    const refused = expect.objectContaining({ code: 'WASM_SERVE_CACHE_UNTRUSTED' })
    await expect(pruneCache(files, { olderThanMs: 0 })).rejects.toEqual(refused)
    writeFileSync(join(folder, 'sha256', DIGEST), 'damaged')
    await expect(verifyCache(files)).rejects.toEqual(refused)
    expect(kindsOf(await listCache(folder))).toEqual(ALL)
  })
})
