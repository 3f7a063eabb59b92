import { describe, expect, test } from 'vitest'
import { readModule } from '../../../src/module/module.ts'
import { exportedFunctions } from '../../../src/module/module-view.ts'
import { rankOfImport, ScriptBuilder } from '../../../src/script/engine.ts'
import { readHostFunctions } from '../../../src/script/host-functions.ts'

const builder = new ScriptBuilder()

const build = (source: string, { isModule }: { isModule: boolean | undefined } = { isModule: true }) =>
  builder.build({ file: 'script.js', source, isModule, hostFunctions: readHostFunctions(source) }, 1_000)

/** The namespaces and names that a plug-in imports besides those of each script. */
function importsOf(plugin: Uint8Array | undefined): string[] {
  const { imports } = readModule(plugin ?? Buffer.of(), { limits: 'none', readsCode: false }, 'test')
  return imports.map(({ module, name }) => `${module} ${name}`)
}

const USUAL = importsOf(build('export function run() {}').plugin)

describe('a script becomes a plug-in', () => {
  test('with an export for each function, and only what each script needs', () => {
    const { facts, plugin } = build(
      'export function run() {}\nexport const stop = () => 1\nexport const text = "no function"',
    )
    expect(facts).toMatchObject({ functions: ['run', 'stop'], missing: [] })
    const view = readModule(plugin ?? Buffer.of(), { limits: 'none', readsCode: false }, 'test')
    expect(view.exports.map(({ name, kind }) => [name, kind])).toEqual([
      ['memory', 'memory'],
      ['_initialize', 'function'],
      ['run', 'function'],
      ['stop', 'function'],
    ])
    expect(exportedFunctions(view).map(({ signature }) => signature)).toEqual([
      { params: [], results: [] },
      { params: [], results: ['i32'] },
      { params: [], results: ['i32'] },
    ])
    expect(WebAssembly.validate(new Uint8Array(plugin ?? []))).toBe(true)
    expect([...new Set(USUAL.map((each) => each.split(' ')[0]))].sort()).toEqual([
      'extism:host/env',
      'wasi_snapshot_preview1',
    ])
    expect(USUAL.filter((each) => each.includes('http'))).toEqual([])
  })

  test.each([
    ['fetch', 'export const run = () => fetch("http://a.example")', /^extism:host\/env http_/],
    ['Http', 'export const run = () => Http.request({})', /^extism:host\/env http_/],
  ])('that imports what %s needs', (_, source, pattern) => {
    const { facts, plugin } = build(source)
    expect(facts.message).toBeUndefined()
    const more = importsOf(plugin).filter((each) => !USUAL.includes(each))
    expect(more.length).toBeGreaterThan(0)
    for (const each of more) expect(each).toMatch(pattern)
    expect(WebAssembly.validate(new Uint8Array(plugin ?? []))).toBe(true)
  })

  test('that imports the store that it uses, and the functions of the host that it declares', () => {
    const source = `/* declare module 'extism:host' { interface user { add(a: I64, b: I32): F64; note(a: PTR): void } } */
      import { kv } from 'wasm-serve:kv'
      export function run() { kv.get('a') }`
    const { plugin } = build(source)
    const more = importsOf(plugin).filter((each) => !USUAL.includes(each))
    expect(more.slice(-2)).toEqual(['extism:host/user add', 'extism:host/user note'])
    expect(more.length).toBeGreaterThan(2)
    for (const each of more.slice(0, -2)) expect(each).toMatch(/^wasm-serve:kv /)
    expect(WebAssembly.validate(new Uint8Array(plugin ?? []))).toBe(true)
  })

  test('of CommonJS, too', () => {
    expect(build('module.exports = { run() {} }', { isModule: false }).facts.functions).toEqual(['run'])
    expect(build('module.exports = { run() {} }', { isModule: undefined }).facts.functions).toEqual(['run'])
  })
})

describe('a script is refused', () => {
  test.each([
    ['without functions', 'export const a = 1', /exports no function/],
    ['with the name of the memory', 'export function memory() {}', /exports memory/],
    ['with the name of an initializer', 'export function _initialize() {}', /exports _initialize/],
    ['with the name of a program', 'export function _start() {}', /exports _start/],
    ['that throws', 'export function run() {}\nthrow new Error("at once")', /at once/],
    ['that is no JavaScript', 'export function (', /SyntaxError/],
    [
      'that sends a request while it is loaded',
      'export function run() {}\nHttp.request({ url: "http://a.example" })',
      /no access to requests/,
    ],
  ])('%s', (_, source, message) => {
    const { facts, plugin } = build(source)
    expect(plugin).toBeUndefined()
    expect(facts.message).toMatch(message)
  })

  test('with the place of its mistake', () => {
    expect(build('export function run() {}\n\nthrow new Error("here")').facts).toMatchObject({ line: 3 })
  })

  test('with the modules that are missing', () => {
    expect(build('import a from "no-such"\nexport function run() {}').facts.missing).toEqual(['no-such'])
  })
})

test('while it is loaded, a script has a clock, random numbers and timers', () => {
  const source = `const before = Date.now()
    const bytes = new Uint8Array(64)
    crypto.getRandomValues(bytes)
    const isTimer = await new Promise((resolve) => setTimeout(() => resolve(Date.now() - before < 60_000), 5))
    if (Math.abs(before - ${Date.now()}) > 600_000) throw new Error('the clock is wrong')
    if (new Set(bytes).size < 10) throw new Error('the numbers are not random')
    if (!isTimer) throw new Error('the timer is late')
    export function run() {}`
  expect(build(source).facts).toMatchObject({ functions: ['run'] })
})

test('imports of the engine are ordered by how rare they are', () => {
  const rankOf = (module: string, name: string) => rankOfImport({ module, name, kind: 'function' })
  const ranks = [
    rankOf('extism:host/env', 'alloc'),
    rankOf('extism:host/env', 'http_request'),
    rankOf('wasm-serve:http', 'send'),
    rankOf('wasm-serve:http', 'ws_send'),
    rankOf('wasm-serve:kv', 'get'),
    rankOf('wasm-serve:script', 'host_0'),
  ]
  expect(ranks).toEqual(ranks.toSorted((a, b) => a - b))
  expect(new Set(ranks).size).toBe(6)
  expect(rankOf('wasi_snapshot_preview1', 'fd_write')).toBe(ranks[0])
})
