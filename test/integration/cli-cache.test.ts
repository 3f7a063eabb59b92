import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openContentCache } from '../../src/plugin/source/content-cache.ts'
import { sha256 } from '../../src/plugin/source/digest.ts'
import { run } from '../support/cli.ts'

const BYTES = Buffer.from('some content')
const DIGEST = sha256(BYTES)

/** A cache with a module and a tag. */
async function newCache(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cache-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const cache = openContentCache(folder, [])
  await cache.write(DIGEST, BYTES)
  await cache.writeTag('registry.example/\u001b[2J:1', { digest: DIGEST, at: 0 })
  return folder
}

test('list shows each file and the sum, without control characters', async () => {
  const folder = await newCache()
  const { code, stdout } = await run(['cache', 'list'], { WASM_SERVE_CACHE_FOLDER: folder })
  expect(code).toBe(0)
  expect(stdout).toContain(folder)
  expect(stdout).toMatch(new RegExp(`content +${DIGEST} +12 +\\d{4}-`))
  expect(stdout).toContain(`registry.example/\\u001b[2J:1 (sha256:${DIGEST.slice(0, 12)})`)
  expect(stdout).toMatch(/all +2 files/)
})

test('list shows checked modules as one line', async () => {
  const folder = await newCache()
  mkdirSync(join(folder, 'modules', '1'), { recursive: true })
  for (const digit of ['a', 'b']) writeFileSync(join(folder, 'modules', '1', digit.repeat(64)), 'abc')
  const { stdout } = await run(['cache', 'list', '--cache-folder', folder])
  expect(stdout).toMatch(/^ *module +2 files +6 +\d{4}-/m)
  expect(stdout).toMatch(/^ *all +4 files/m)
})

test('list prints data', async () => {
  const folder = await newCache()
  const { stdout } = await run(['cache', 'list', '--json', '--cache-folder', folder])
  const { count, files } = JSON.parse(stdout)
  expect(count).toBe(2)
  expect(files).toContainEqual({
    kind: 'content',
    name: DIGEST,
    path: join(folder, 'sha256', DIGEST),
    bytes: 12,
    usedAt: expect.stringMatching(/^\d{4}-.*Z$/),
  })
})

test('a folder that does not exist is an empty cache, and is not made', async () => {
  const folder = join(tmpdir(), 'wasm-serve-no-such-cache')
  for (const action of ['list', 'verify', 'prune'])
    expect(await run(['cache', action, '--cache-folder', folder])).toMatchObject({ code: 0, stderr: '' })
  expect(existsSync(folder)).toBe(false)
})

test('the default folder is that of the server', async () => {
  const folder = await newCache()
  const variables = { XDG_CACHE_HOME: folder, WASM_SERVE_CACHE_FOLDER: '' }
  expect((await run(['cache', 'list'], variables)).stdout).toContain(join(folder, 'wasm-serve'))
})

test('verify removes damaged files, names them, and exits with 1', async () => {
  const folder = await newCache()
  expect(await run(['cache', 'verify', '--cache-folder', folder])).toMatchObject({ code: 0, stderr: '' })
  writeFileSync(join(folder, 'sha256', DIGEST), 'damaged')
  const { code, stdout, stderr } = await run(['cache', 'verify', '--cache-folder', folder, '--json'])
  expect(code).toBe(1)
  expect(JSON.parse(stdout).damaged).toMatchObject([{ kind: 'content', name: DIGEST }])
  expect(stderr).toContain('WASM_SERVE_CACHE_DAMAGED')
  expect(stderr).toContain(DIGEST)
  expect(await run(['cache', 'verify', '--cache-folder', folder])).toMatchObject({ code: 0 })
})

test('prune removes by age, by size, or everything', async () => {
  const folder = await newCache()
  const prune = async (...flags: string[]) => {
    const { code, stdout } = await run(['cache', 'prune', '--json', '--cache-folder', folder, ...flags])
    return { code, count: JSON.parse(stdout).count }
  }
  expect(await prune()).toEqual({ code: 0, count: 0 })
  expect(await prune('--older-than', '2d')).toEqual({ code: 0, count: 0 })
  const old = new Date(Date.now() - 3 * 86_400_000)
  utimesSync(join(folder, 'sha256', DIGEST), old, old)
  expect(await prune('--older-than', '2d', '--max-size', '1GiB')).toEqual({ code: 0, count: 1 })
  expect(await prune('--max-size', '10')).toEqual({ code: 0, count: 1 })
  await openContentCache(folder, []).write(DIGEST, BYTES)
  expect(await prune('--all')).toEqual({ code: 0, count: 1 })
  expect(readdirSync(join(folder, 'sha256'))).toEqual([])
})

test('nothing is removed from a folder that other users can change', async () => {
  const folder = await newCache()
  chmodSync(folder, 0o777)
  const { code, stderr } = await run(['cache', 'prune', '--all', '--cache-folder', folder])
  expect(code).toBe(1)
  expect(stderr).toContain('WASM_SERVE_CACHE_UNTRUSTED')
  expect(existsSync(join(folder, 'sha256', DIGEST))).toBe(true)
})

test.each([
  [[], 'list, verify, prune'],
  [['lsit'], 'did you mean "list"'],
  [['list', 'more'], '"more"'],
  [['list', '--all'], '--all'],
  [['verify', '--max-size', '1GiB'], '--max-size'],
  [['prune', '--all', '--older-than', '1d'], '--all'],
  [['prune', '--older-than', '5'], '--older-than'],
  [['prune', '--older-than', '1y'], '--older-than'],
  [['prune', '--max-size', 'much'], '--max-size'],
  [['prune', '--port', '80'], '--port'],
  [['prune', '--oder-than', '1d'], 'did you mean "--older-than"'],
])('a mistake is explained and exits with 2: cache %j', async (words, text) => {
  const folder = await newCache()
  const { code, stderr } = await run(['cache', ...words], { WASM_SERVE_CACHE_FOLDER: folder })
  expect(code).toBe(2)
  expect(stderr).toContain(text)
  expect(readdirSync(join(folder, 'sha256'))).toEqual([DIGEST])
})
