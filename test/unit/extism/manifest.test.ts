import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type ManifestLike, readManifest } from '../../../src/extism/manifest.ts'
import { guestBytes } from '../../support/guest.ts'

const BYTES = new Uint8Array(guestBytes('(module (func (export "run")))'))
const DIGEST = createHash('sha256').update(BYTES).digest('hex')
const BASE64 = Buffer.from(BYTES).toString('base64')

/** What is read of a manifest; the answers are those of a server, by path. */
async function read(input: unknown, answers: Readonly<Record<string, () => Response>> = {}) {
  const compiled: Uint8Array[] = []
  const fetched: [url: string, accept: string | null][] = []
  const fetch: typeof globalThis.fetch = async (url, init) => {
    fetched.push([String(url), new Headers(init?.headers).get('accept')])
    return answers[new URL(String(url)).pathname]?.() ?? new Response('', { status: 404 })
  }
  const { modules, options } = await readManifest(input as ManifestLike, fetch, async (bytes) => {
    compiled.push(bytes)
    return new WebAssembly.Module(bytes)
  })
  return { names: modules.map(({ name }) => name), modules, options, compiled, fetched }
}

function fileOf(name: string, content: string | Uint8Array): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-manifest-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

const answerOf = (body: string | Uint8Array<ArrayBuffer>, type?: string) => () =>
  new Response(body, type === undefined ? {} : { headers: { 'content-type': type } })
const JSON_MANIFEST = JSON.stringify({ wasm: [{ data: BASE64 }], timeoutMs: 5 })

describe('a module comes from', () => {
  test.each<readonly [string, () => unknown]>([
    ['its bytes', () => BYTES.buffer],
    ['a view of its bytes', () => BYTES],
    ['a part of a buffer', () => new Uint8Array([0, ...BYTES, 0]).subarray(1, -1)],
    ['its path', () => fileOf('a.wasm', BYTES)],
    ['the URL of its file', () => pathToFileURL(fileOf('a.wasm', BYTES))],
    ['that URL as a text', () => pathToFileURL(fileOf('a.wasm', BYTES)).href],
    ['a response', answerOf(BYTES, 'application/wasm')],
    ['a response without a type', answerOf(BYTES)],
    ['a manifest', () => ({ wasm: [{ data: BYTES }] })],
    ['a manifest with a buffer', () => ({ wasm: [{ data: BYTES.buffer }] })],
    ['a manifest with its path', () => ({ wasm: [{ path: fileOf('a', BYTES) }] })],
    ['a manifest with the URL of its file', () => ({ wasm: [{ url: pathToFileURL(fileOf('a', BYTES)) }] })],
    ['a manifest with a response', () => ({ wasm: [{ response: answerOf(BYTES)() }] })],
    ['the JSON of a manifest', () => ` ${JSON_MANIFEST}`],
    ['the file of a manifest', () => pathToFileURL(fileOf('a.json', JSON_MANIFEST))],
    ['a response with a manifest', answerOf(JSON_MANIFEST, 'application/json; charset=utf-8')],
    ['a response with a manifest as text', answerOf(JSON_MANIFEST, 'text/json')],
  ])('%s', async (_, input) => {
    const { compiled, names, fetched } = await read(input())
    expect(compiled.map((bytes) => Buffer.from(bytes).equals(BYTES))).toEqual([true])
    expect([names, fetched]).toEqual([['main'], []])
  })

  test.each([
    ['a URL', (url: URL) => url],
    ['a URL as a text', (url: URL) => url.href],
    ['a manifest', (url: URL) => ({ wasm: [{ url: url.href }] })],
  ])('a server, by %s', async (_, inputOf) => {
    for (const scheme of ['http', 'https']) {
      const url = new URL(`${scheme}://a.example/a.wasm`)
      const { compiled, fetched } = await read(inputOf(url), { '/a.wasm': answerOf(BYTES) })
      expect(compiled).toHaveLength(1)
      expect(fetched.map(([each]) => each)).toEqual([url.href])
    }
  })

  test('a module that is compiled', async () => {
    const module = new WebAssembly.Module(BYTES)
    for (const input of [module, { wasm: [{ module }] }]) {
      const { modules, compiled } = await read(input)
      expect([modules, compiled]).toEqual([[{ name: 'main', module }], []])
    }
  })

  test('a copy of the bytes, which the caller may change', async () => {
    const data = BYTES.slice()
    const { compiled } = await read({ wasm: [{ data }] })
    data.fill(0)
    expect(compiled.map((bytes) => Buffer.from(bytes).equals(BYTES))).toEqual([true])
  })
})

describe('is refused', () => {
  test.each<readonly [string, () => unknown, string | RegExp]>([
    ['a manifest without modules', () => ({}), 'Expected "wasm" key'],
    ['null', () => null, 'Expected "wasm" key'],
    ['a manifest with one that is no list', () => ({ wasm: {} }), 'to be array'],
    ['a module without a source', () => ({ wasm: [{ data: BYTES }, { name: 'a' }] }), 'index 1'],
    ['a module that is nothing', () => ({ wasm: [null] }), 'index 0'],
    ['a module whose source is empty', () => ({ wasm: [{ path: '' }] }), /index 0.*path/],
    ['data that are no bytes', () => ({ wasm: [{ data: 5 }] }), 'to be bytes'],
    ['a response of another type', answerOf(BYTES, 'text/html'), 'got "text/html"'],
    [
      'a response that is no success',
      () => ({ wasm: [{ response: new Response('', { status: 500 }) }] }),
      '500',
    ],
    [
      'a digest of a compiled module',
      () => ({ wasm: [{ module: new WebAssembly.Module(BYTES), hash: DIGEST }] }),
      'hash',
    ],
    ['another digest', () => ({ wasm: [{ data: BYTES, hash: DIGEST.replace(/./, 'x') }] }), 'hash mismatch'],
    [
      'modules without a main one',
      () => ({
        wasm: [
          { data: BYTES, name: 'a' },
          { data: BYTES, name: 'b' },
        ],
      }),
      '"main"',
    ],
  ])('%s', async (_, input, message) => {
    await expect(read(input())).rejects.toThrow(message)
  })
})

test('the last module is the main one, and others have their name, their digest or their number', async () => {
  const wasm = [
    { data: BYTES, name: 'named' },
    { data: BYTES, hash: DIGEST.toUpperCase() },
    { data: BYTES },
    { data: BYTES },
  ]
  expect((await read({ wasm })).names).toEqual(['named', DIGEST, '2', 'main'])
  const first = [
    { data: BYTES, name: 'main' },
    { data: BYTES, name: 'other' },
  ]
  expect((await read({ wasm: first })).names).toEqual(['main', 'other'])
})

test('options may be in snake case, as those of other SDKs', async () => {
  const wasm = [{ data: BYTES }]
  const memory = { maxPages: 1, maxHttpResponseBytes: 2, maxVarBytes: 3 }
  const camel = { allowedPaths: { a: 'b' }, allowedHosts: ['c'], timeoutMs: 4, config: { d: 'e' }, memory }
  expect((await read({ wasm, ...camel })).options).toEqual(camel)
  const snake = {
    ...{ allowed_paths: { a: 'b' }, allowed_hosts: ['c'], timeout_ms: 4, config: { d: 'e' } },
    memory: { max_pages: 1, max_http_response_bytes: 2, max_var_bytes: 3 },
  }
  expect((await read({ wasm, ...snake })).options).toEqual(camel)
  const none = (await read({ wasm })).options
  expect(Object.values(none).filter((value) => value !== undefined)).toEqual([])
})
