import { resolve } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ManifestInvalidError } from '../../../src/errors/errors.ts'
import { parseJson } from '../../../src/platform/json-text.ts'
import { type Manifest, parseManifest } from '../../../src/plugin/source/manifest.ts'
import { runs } from '../../support/runs.ts'

const digest = 'ab'.repeat(32)
const wasm = [{ path: 'a.wasm' }]
const remote = new URL('https://plugins.example/sub/manifest.json')

function parse(manifest: string | object, base: string | URL = '/srv'): Manifest {
  return parseManifest(manifest, { name: 'test.json', base })
}

/** The keys that have a problem, in order. */
function problemsIn(manifest: string | object, base?: string | URL): string[] {
  return linesOf(manifest, base).map((line) => line.slice(0, line.indexOf(': ')))
}

function linesOf(manifest: string | object, base?: string | URL): string[] {
  try {
    parse(manifest, base)
  } catch (error) {
    if (!(error instanceof ManifestInvalidError)) throw error
    expect(error.code).toBe('WASM_SERVE_MANIFEST_INVALID')
    return error.message.split('\n  ').slice(1)
  }
  return []
}

const namesOf = (manifest: object) => parse(manifest).modules.map(({ name }) => name)

test('a manifest with everything is read, as Extism spells it and as the JavaScript SDK does', () => {
  const expected = {
    modules: [
      {
        name: 'lib',
        digest,
        from: {
          kind: 'request',
          url: new URL('https://plugins.example/lib.wasm'),
          headers: { 'x-key': 'secret' },
          method: 'POST',
        },
      },
      { name: 'main', digest: undefined, from: { kind: 'file', path: '/srv/a.wasm' } },
    ],
    memory: { maxPages: 10, maxHttpResponseBytes: 1024, maxVarBytes: 0 },
    timeoutMs: 500,
    config: { greeting: 'hello' },
    isRemote: false,
    allowedHosts: ['*.example.com'],
    allowedPaths: [
      { host: '/srv/data', guest: '/data', readOnly: true },
      { host: '/tmp', guest: '/tmp', readOnly: false },
    ],
  }
  const modules = [
    {
      url: 'https://plugins.example/lib.wasm',
      headers: { 'x-key': 'secret' },
      method: 'POST',
      hash: digest.toUpperCase(),
      name: 'lib',
    },
    { path: 'a.wasm', name: 'main' },
  ]
  const shared = { wasm: modules, config: { greeting: 'hello' } }
  const snake = {
    ...shared,
    memory: { max_pages: 10, max_http_response_bytes: 1024, max_var_bytes: 0 },
    timeout_ms: 500,
    allowed_hosts: ['*.example.com'],
    allowed_paths: { 'ro:data': '/data', '/tmp': '/tmp' },
  }
  const camel = {
    ...shared,
    memory: { maxPages: 10, maxHttpResponseBytes: 1024, maxVarBytes: 0 },
    timeoutMs: 500,
    allowedHosts: ['*.example.com'],
    allowedPaths: { 'ro:data': '/data', '/tmp': '/tmp' },
  }
  expect(parse(JSON.stringify(snake))).toEqual(expected)
  expect(parse(JSON.stringify(camel))).toEqual(expected)
  expect(parse(snake)).toEqual(expected)
})

test('what is null or left out says nothing', () => {
  const quiet = {
    wasm: [{ path: 'a.wasm', hash: null, name: null }],
    memory: { max_pages: null },
    timeout_ms: null,
    allowed_hosts: null,
    allowed_paths: null,
  }
  expect(parse(JSON.stringify(quiet))).toEqual(parse({ wasm }))
  expect(parse({ wasm }).allowedHosts).toBeUndefined()
})

test('a deadline of 0 is one that was set: there is none', () => {
  expect(parse({ wasm, timeout_ms: 0 }).timeoutMs).toBe(0)
  expect(parse({ wasm }).timeoutMs).toBeUndefined()
  expect(problemsIn({ wasm, timeout_ms: -1 })).toEqual(['timeout_ms'])
})

test('data is base64 in text, and may be bytes in an object', () => {
  const bytes = Uint8Array.of(0, 97, 115, 109)
  const text = JSON.stringify({ wasm: [{ data: Buffer.from(bytes).toString('base64') }] })
  expect(parse(text).modules[0]?.from).toEqual({ kind: 'bytes', bytes })
  expect(parse({ wasm: [{ data: bytes }] }).modules[0]?.from).toEqual({ kind: 'bytes', bytes })
  for (const data of ['AGFzbQ', 'AGFz bQ==', 'AGFzbR==', '%%%', 1])
    expect(problemsIn(JSON.stringify({ wasm: [{ data }] }))).toEqual(['wasm[0].data'])
})

test('paths are relative to the folder of the manifest', () => {
  const [module] = parse({ wasm: [{ path: '../b/a.wasm' }] }, '/srv/plugins').modules
  expect(module?.from).toEqual({ kind: 'file', path: resolve('/srv/b/a.wasm') })
})

test.each([
  ['a lone module is main, whatever it is called', [{ name: 'other' }], ['main']],
  ['the one with the name main is main', [{ name: 'main' }, { name: 'lib' }], ['main', 'lib']],
  ['without one, the one without a name is main', [{}, { name: 'lib' }], ['main', 'lib']],
  ['without both, the last is main', [{ name: 'a' }, { name: 'b' }], ['a', 'main']],
])('%s', (_, modules, names) => {
  expect(namesOf({ wasm: modules.map((module) => ({ path: 'a.wasm', ...module })) })).toEqual(names)
})

test.each([
  ['two modules with one name', [{ name: 'a' }, { name: 'a' }, {}], ['wasm[1].name']],
  ['two modules with the name main', [{ name: 'main' }, { name: 'main' }], ['wasm[1].name']],
  ['a linked module without a name', [{}, {}], ['wasm[0].name']],
  ['a name of the host', [{ name: 'extism:host/env' }, {}], ['wasm[0].name']],
])('%s is refused', (_, modules, problems) => {
  expect(problemsIn({ wasm: modules.map((module) => ({ path: 'a.wasm', ...module })) })).toEqual(problems)
})

test('all problems are listed at once, with the path of the key', () => {
  const manifest = {
    wsm: [],
    wasm: [{ path: 'a.wasm', hsh: digest, name: 'a' }, { url: 1, name: 'b' }, 7],
    memory: { max_pages: '10', 'max pages': 1 },
    timeout_ms: 0.5,
    config: { a: 1 },
    allowed_hosts: ['a', null, 'ftp://a', '::1'],
    allowed_paths: [],
  }
  expect(problemsIn(manifest).sort()).toEqual([
    'allowed_hosts[1]',
    'allowed_hosts[2]',
    'allowed_hosts[3]',
    'allowed_paths',
    'config.a',
    'memory.max_pages',
    'memory["max pages"]',
    'timeout_ms',
    'wasm[0].hsh',
    'wasm[1].url',
    'wasm[2]',
    'wasm[2].path',
    'wsm',
  ])
  expect(linesOf(manifest)).toContain('wasm[0].hsh: unknown key; did you mean "hash"?')
})

test.each([
  [10_000, 51, 'and 9950 more'],
  [51, 51, 'and 1 more'],
  [50, 50, expect.stringMatching(/^key49: unknown key/)],
])('of %d problems, %d lines are shown', (count, shown, last) => {
  const manifest = Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, 1]))
  const lines = linesOf({ ...manifest, wasm })
  expect(lines).toHaveLength(shown)
  expect(lines.at(-1)).toEqual(last)
})

test.each([
  ['a key in both spellings', { wasm, timeout_ms: 1, timeoutMs: 1 }, ['timeoutMs']],
  ['no modules', {}, ['wasm']],
  ['an empty list of modules', { wasm: [] }, ['wasm']],
  ['a module that is nowhere', { wasm: [{ name: 'main' }] }, ['wasm[0].path']],
  ['a module in two places', { wasm: [{ path: 'a', url: 'https://a.example' }] }, ['wasm[0].url']],
  ['an empty path', { wasm: [{ path: '' }] }, ['wasm[0].path']],
  ['headers of a file', { wasm: [{ path: 'a', headers: {} }] }, ['wasm[0].headers']],
  [
    'a method without an answer',
    { wasm: [{ url: 'https://a.example', method: 'HEAD' }] },
    ['wasm[0].method'],
  ],
  [
    'a method that opens tunnels',
    { wasm: [{ url: 'https://a.example', method: 'connect' }] },
    ['wasm[0].method'],
  ],
  [
    'a method that cannot be sent',
    { wasm: [{ url: 'https://a.example', method: 'G T' }] },
    ['wasm[0].method'],
  ],
  ['a method of a file', { wasm: [{ path: 'a.wasm', method: 'GET' }] }, ['wasm[0].method']],
  [
    'a header with a line break',
    { wasm: [{ url: 'https://a.example', headers: { a: 'b\nc' } }] },
    ['wasm[0].headers'],
  ],
  [
    'a header for a registry',
    { wasm: [{ url: 'oci://a.example/b:1', headers: { a: 'b' } }] },
    ['wasm[0].headers'],
  ],
  ['a method for a registry', { wasm: [{ url: 'oci://a.example/b:1', method: 'POST' }] }, ['wasm[0].method']],
  ['http of another machine', { wasm: [{ url: 'http://a.example/a.wasm' }] }, ['wasm[0].url']],
  ['a relative URL in a file', { wasm: [{ url: 'a.wasm' }] }, ['wasm[0].url']],
  ['a hash that is too short', { wasm: [{ path: 'a', hash: 'ab' }] }, ['wasm[0].hash']],
  ['a pin that is no digest', { wasm: [{ path: 'a#sha256=xyz' }] }, ['wasm[0].path']],
  [
    'a pin that is another digest than the hash',
    { wasm: [{ path: `a#sha256=${'cd'.repeat(32)}`, hash: digest }] },
    ['wasm[0].hash'],
  ],
  ['more pages than there are', { wasm, memory: { max_pages: 65_537 } }, ['memory.max_pages']],
])('%s is refused', (_, manifest, problems) => {
  expect(problemsIn(manifest)).toEqual(problems)
  expect(problemsIn(JSON.stringify(manifest))).toEqual(problems)
})

test('a manifest from the network can name what is beside it, and nothing of this machine', () => {
  const [module] = parse({ wasm: [{ url: 'a.wasm' }] }, remote).modules
  expect(module?.from).toMatchObject({ url: new URL('https://plugins.example/sub/a.wasm') })
  expect(parse({ wasm: [{ url: 'a.wasm' }] }, remote).isRemote).toBe(true)
  expect(problemsIn({ wasm }, remote)).toEqual(['wasm[0].path'])
  expect(problemsIn({ wasm: [{ url: 'a.wasm' }], allowed_paths: { '/': '/' } }, remote)).toEqual([
    'allowed_paths',
  ])
  for (const url of ['http://127.0.0.1/a.wasm', 'https://localhost/', 'https://2130706433/', 'file:///etc/x'])
    expect(problemsIn({ wasm: [{ url }] }, remote)).toEqual(['wasm[0].url'])
})

test('secrets in headers are not part of a message', () => {
  const manifest = { wasm: [{ url: 'https://a.example', headers: { authorization: 'Bearer s3cret\n' } }] }
  expect(linesOf(manifest).join()).not.toContain('s3cret')
})

test.each([
  ['{\n  "wasm": [],\n}', 3, 1],
  ['{"wasm": [1 2]}', 1, 13],
  ['{"wasm": tru}', 1, 13],
  ['', 1, 1],
  ['{\n', 2, 1],
  ['{"a": "\\x"}', 1, 9],
  ['{"a": 01}', 1, 8],
  ['// no', 1, 1],
  ['\uFEFF{"a" 1}', 1, 6],
])('broken JSON is refused with line and column: %j', (text, line, column) => {
  expect(problemsIn(text)).toEqual([`line ${line}, column ${column}`])
})

test('a key of every object is a key like any other', () => {
  expect(problemsIn('{"__proto__": {"wasm": []}, "wasm": [{"path": "a"}]}')).toEqual(['__proto__'])
  expect(problemsIn('{"constructor": 1, "toString": 1, "wasm": [{"path": "a"}]}')).toHaveLength(2)
  const { config } = parse('{"wasm": [{"path": "a"}], "config": {"__proto__": "x"}}')
  expect(Object.getPrototypeOf(config)).toBe(Object.prototype)
  expect(Object.entries(config)).toEqual([['__proto__', 'x']])
})

test('of a key given twice the last counts', () => {
  expect(parse('{"wasm": [{"path": "a"}], "timeout_ms": 1, "timeout_ms": 2}').timeoutMs).toBe(2)
})

test('whatever the text is, it is read or refused, and Object.prototype stays clean', () => {
  const strange = fc.oneof(
    fc.string(),
    fc.json(),
    fc.anything().map((value) => String(JSON.stringify({ wasm: value, memory: value, config: value }))),
    fc.array(fc.anything()).map((value) => JSON.stringify({ wasm: value, allowed_paths: value })),
    fc.json().chain((text) => fc.nat(text.length).map((at) => `${text.slice(0, at)}}${text.slice(at)}`)),
  )
  fc.assert(
    fc.property(strange, (text) => {
      problemsIn(text)
      expect(Object.keys(Object.prototype)).toEqual([])
    }),
  )
})

test('whatever the object is, it is read or refused', () => {
  fc.assert(
    fc.property(
      fc.object({ key: fc.constantFrom('wasm', 'url', 'path', 'data') }),
      (value) => void linesOf(value),
    ),
  )
})

test('a mistake is found in every text that JSON.parse refuses, and where it begins', () => {
  const texts = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom(...'{}[]",:0123456789-+.eE\\u trfalsn\n') }),
    fc.json().chain((text) => fc.nat(text.length).map((at) => text.slice(0, at))),
  )
  fc.assert(
    fc.property(texts, (text) => {
      const parsed = parseJson(text)
      if ('value' in parsed) return
      const { line, column } = parsed.mistake
      const lines = text.split('\n')
      const before = [...lines.slice(0, line - 1), (lines[line - 1] ?? '').slice(0, column - 1)].join('\n')
      expect(canContinue(before)).toBe(true)
    }),
    { numRuns: runs(500) },
  )
})

/** What can be completed to JSON is refused only for its end. */
function canContinue(text: string): boolean {
  const parsed = parseJson(text)
  return 'value' in parsed || parsed.mistake.reason === 'the text ends too early'
}

/** What the reason adds, by the text before. */
const ADVICE: Readonly<Record<string, string>> = {
  '["\\u00e4\\n\\\\\\"", ': ': names are in double quotes',
  '{"a": 1, ': ': remove the comma before it',
  '[1,\n\n  ': ': remove the comma before it',
}

test.each([
  ['["\\u00e4\\n\\\\\\"", ', 'x]'],
  ['"\\u00E', 'g"'],
  ['"\\u', 'zero"'],
  ['"\\', 'x"'],
  ['"a', '\n"'],
  ['[-0.50e+12, ', '+1]'],
  ['[0', '1]'],
  ['[-', 'x]'],
  ['[1.', ']'],
  ['[1E-', ']'],
  ['[true, false, nul', 'L]'],
  ['{"a": 1', ']'],
  ['{"a"', ', 1}'],
  ['{"a": 1, ', '}'],
  ['{"a": {}, "b": []}\n ', '1'],
  ['[1,\n\n  ', ']'],
])('after %j the text %j is a mistake, and begins there', (before, after) => {
  const lines = before.split('\n')
  const advice = ADVICE[before] ?? ''
  expect(parseJson(before + after)).toEqual({
    mistake: {
      line: lines.length,
      column: (lines.at(-1) ?? '').length + 1,
      reason: `unexpected ${JSON.stringify(after.charAt(0))}${advice}`,
    },
  })
})

test('depth and length cost neither the stack nor much time', () => {
  expect(problemsIn('['.repeat(1_000_000))).toEqual(['line 1, column 257'])
  expect(problemsIn(`{"wasm": ${'['.repeat(255)}${']'.repeat(255)}}`)).toContain('wasm[0]')
  expect(problemsIn(`{"a": "\\\\", "${'['.repeat(300)}\\"{{": 1}`)).toContain('wasm')
  expect(problemsIn(`{"wasm": ${'[{"a":'.repeat(200)}`)).toEqual([expect.stringContaining('line 1, column ')])
  expect(problemsIn(`{"${'k'.repeat(5_000_000)}": 1, "wasm": [{"path": "a"}]}`)).toHaveLength(1)
  expect(problemsIn(JSON.stringify({ wasm: [{ data: '%'.repeat(10_000_000) }] }))).toEqual(['wasm[0].data'])
})
