import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { pageScripts } from '../support/pages.ts'

/** A folder with these files. */
function folder(files: Readonly<Record<string, string>>): string {
  const at = mkdtempSync(join(tmpdir(), 'wasm-serve-scripts-'))
  onTestFinished(() => rmSync(at, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(at, name)), { recursive: true })
    writeFileSync(join(at, name), text)
  }
  return at
}

const file = (name: string, text: string) => join(folder({ [name]: text }), name)

const post = async (url: string, body = '') => {
  const response = await fetch(url, { method: 'POST', body })
  return response.ok ? response.text() : `${response.status}`
}

/** Serves a script. */
const serve = (text: string, flags: readonly string[] = [], name = 'plugin.js') =>
  start([file(name, text), '0', ...flags]).listening()

const called = async (text: string, input = '', flags: readonly string[] = []) => {
  const { stdout, stderr } = await run(['call', file('plugin.js', text), '--input', input, ...flags])
  return stdout || stderr
}

test('a module is a plug-in: its functions are routes', async () => {
  const url = await serve(`
    export function greet(name = 'World') { return \`Hello, \${name}!\` }
    export const shout = (name) => name.toUpperCase()
    export class Other {}
    export const limit = 5`)
  expect(await post(`${url}/greet`, 'Ada')).toBe('Hello, Ada!')
  expect(await post(`${url}/greet`)).toBe('Hello, World!')
  expect(await post(`${url}/shout`, 'Ada')).toBe('ADA')
  expect([await post(`${url}/Other`), await post(`${url}/limit`)]).toEqual(['404', '404'])
})

test('so is CommonJS, with the interface of the JavaScript PDK', async () => {
  const url = await serve(
    `const { prefix } = { prefix: Config.get('prefix') }
    function greet() {
      Var.set('count', String(Number(Var.getString('count') ?? 0) + 1))
      Host.outputString(Config.get('greeting') + ' ' + Host.inputString() + ' ' + Var.getString('count'))
      return 0
    }
    function fail() { Host.outputString('no'); return 7 }
    module.exports = { greet, fail }`,
    ['--config', 'greeting=Hi'],
  )
  expect(await post(`${url}/greet`, 'Ada')).toBe('Hi Ada 1')
  expect(await post(`${url}/greet`, 'Ada')).toBe('Hi Ada 2')
  expect(await post(`${url}/fail`)).toBe('409')
})

test.each([
  ['text', 'hello', '"hello"'],
  ['a JSON object', '{"a":1}', '{"a":1}'],
  ['a JSON array', ' [1]', '[1]'],
  ['what only looks like JSON', '{a', '"{a"'],
  ['a number, which is text', '42', '"42"'],
])('a function gets %s', async (_, input, expected) => {
  expect(await called('export const f = (input) => JSON.stringify(input)', input)).toBe(expected)
})

test.each([
  ['a text', "'x'", 'x'],
  ['an object', '{ a: [1, null] }', '{"a":[1,null]}'],
  ['null', 'null', 'null'],
  ['bytes', 'Uint8Array.of(104, 105)', 'hi'],
  ['a view of a part', 'new Uint8Array([1, 104, 105]).subarray(1)', 'hi'],
  ['nothing', 'undefined', ''],
  ['a promise', 'Promise.resolve({ a: 1 })', '{"a":1}'],
])('it returns %s', async (_, value, expected) => {
  const url = await serve(`export const f = () => (${value})`)
  expect(await post(url)).toBe(expected)
})

test('bytes that are not text come and go as they are', async () => {
  const url = await serve('export const f = (bytes) => bytes.map((byte) => 255 - byte)')
  const response = await fetch(url, { method: 'POST', body: Uint8Array.of(0, 255, 254) })
  expect([...new Uint8Array(await response.arrayBuffer())]).toEqual([255, 0, 1])
})

test('async functions wait for timers and promises; one that never ends says so', async () => {
  const url = await serve(`
    export async function later() {
      const order = []
      setTimeout(() => order.push('b'), 2)
      queueMicrotask(() => order.push('a'))
      await new Promise((resolve) => setTimeout(resolve, 5))
      return order
    }
    export const never = () => new Promise(() => {})`)
  expect(await post(`${url}/later`)).toBe('["a","b"]')
  expect(await post(`${url}/never`)).toBe('409')
})

test('timers end with their call', async () => {
  const url = await serve(`
    let count = 0
    export const add = () => { setTimeout(() => count++, 0) }
    export const get = async () => { await new Promise((resolve) => setTimeout(resolve, 1)); return count }`)
  await post(`${url}/add`)
  expect(await post(`${url}/get`)).toBe('0')
})

test('an error has the lines of the file', async () => {
  const text = 'export function f() {\n  const a = undefined\n  return a.b\n}\n'
  const { code, stderr } = await run(['call', file('plugin.js', text)])
  expect(code).toBe(1)
  expect(stderr).toContain(String.raw`of undefined\n    at f (plugin.js:3:10)`)
  expect(stderr).toContain("wasm-serve: TypeError: cannot read property 'b' of undefined (")
})

test.each([
  ['process.env', 'process is not defined: plug-ins have no Node.js API'],
  ['document.title', 'document is not defined: plug-ins have no browser'],
])('%s: what is missing says so', async (expression, message) => {
  expect(await called(`export const f = () => ${expression}`)).toContain(message)
})

test.each([
  ['a syntax error', 'export function f() {\n  return 1 +\n}', /plugin\.js:3:1 cannot be used: SyntaxError/],
  ['no exported function', 'function f() {}', /plugin\.js cannot be used: it exports no function/],
  ['a taken name', 'export function memory() {}', /it exports memory/],
  ['a script that throws', 'export const f = 1\nnull.x', /plugin\.js:2:\d+ cannot be used: TypeError/],
  ['a thrown text', 'throw "no"', /it threw no/],
  [
    'a module of Node.js',
    "import fs from 'node:fs'\nexport const f = () => fs",
    /plugin\.js:1:16 .+ plug-ins have no Node\.js API/,
  ],
  [
    'a required one',
    "const fs = require('fs')\nmodule.exports = { f() {} }",
    /plugin\.js:1:20 .+ plug-ins have no Node\.js API/,
  ],
  ['a promise that stays pending', 'export const f = 1\nawait new Promise(() => {})', /stays pending/],
  ['an empty file', '', /it exports no function/],
])('%s is one line with its place, and exit code 2', async (_, text, message) => {
  const { code, stderr } = await run([file('plugin.js', text), '0'])
  expect(stderr).toMatch(message)
  expect(stderr.trim().split('\n').length).toBe(1)
  expect(code).toBe(2)
})

test.each([
  [
    'endless recursion',
    'const f = () => f() + 1\nf()\nexport { f }',
    /plugin\.js:\d:\d+ cannot be used: RangeError/,
  ],
  ['what cannot be shown', 'throw new Proxy({}, { get() { throw 1 } })', /it threw/],
])('a script that loads with %s is refused in one line', async (_, text, message) => {
  const { code, stderr } = await run([file('plugin.js', text), '0'])
  expect(stderr).toMatch(message)
  expect([code, stderr.trim().split('\n').length]).toEqual([2, 1])
})

test('a script may wait while it loads', async () => {
  const text =
    'await new Promise((resolve) => setTimeout(resolve, 5))\nexport const f = () => performance.now() >= 0'
  expect(await called(text)).toBe('true')
})

test('an import that may fail is no mistake', async () => {
  const text = "let fs\ntry { fs = require('node:fs') } catch {}\nmodule.exports = { f: () => typeof fs }"
  expect(await called(text)).toBe('undefined')
})

test('a script that never ends loading is ended', async () => {
  const { code, stderr } = await run([file('plugin.js', 'while (true) {}'), '0'])
  expect(stderr).toContain('it still ran after 5000 ms')
  expect(code).toBe(1)
})

test('one that takes all memory is refused', async () => {
  const text = 'const all = []\nwhile (true) all.push(new Uint8Array(1e6))\nexport const f = () => 1'
  const { code, stderr } = await run([file('plugin.js', text), '0'])
  expect(stderr).toContain('out of memory')
  expect(code).toBe(2)
})

test('a folder of scripts has a route for each, but for those of others', async () => {
  const names = [
    'hello.js',
    'sub/bye.mjs',
    '_lib.js',
    '_lib/part.js',
    'hello.test.js',
    'types.d.ts',
    'vite.config.js',
  ]
  const all = Object.fromEntries(names.map((name) => [name, `export const f = () => '${name}'`]))
  const url = await start([folder(all), '0']).listening()
  expect([await post(`${url}/hello`), await post(`${url}/sub/bye`)]).toEqual(['hello.js', 'sub/bye.mjs'])
  expect([await post(`${url}/_lib`), await post(`${url}/hello.test`)]).toEqual(['404', '404'])
})

test('a config file names scripts, with names of their own and equal files', async () => {
  const at = folder({
    'a/plugin.js': "export const f = () => 'a'",
    'b/plugin.js': "export const f = () => 'b'",
    'wasm-serve.json': JSON.stringify({
      plugins: { one: { source: 'a/plugin.js' }, two: { source: 'b/plugin.js', isolation: 'fresh' } },
    }),
  })
  const url = await start(['-c', join(at, 'wasm-serve.json'), '--port', '0']).listening()
  expect([await post(`${url}/one`), await post(`${url}/two`)]).toEqual(['a', 'b'])
})

test('an edit shows; a mistake keeps what runs', async () => {
  const path = file('plugin.js', 'export const f = () => 1')
  const server = start([path, '0', '--watch'])
  const url = await server.listening()
  expect(await post(url)).toBe('1')
  writeFileSync(path, 'export const f = () => 22')
  await server.logged('"msg":"changed"')
  expect(await post(url)).toBe('22')
  writeFileSync(path, 'export const f = () => (')
  await server.logged('cannot be used: SyntaxError')
  expect(await post(url)).toBe('22')
})

test('TypeScript is served without a build, and errors have its lines', async () => {
  const text = `
    interface Person { name: string }
    export function greet({ name }: Person): { message: string } {
      return { message: \`Hello, \${name}!\` }
    }
    export const fail = (input: string): never => {
      throw new RangeError(input)
    }`
  const server = start([file('plugin.ts', text), '0'])
  const url = await server.listening()
  expect(await post(`${url}/greet`, '{"name":"Ada"}')).toBe('{"message":"Hello, Ada!"}')
  expect(await post(`${url}/fail`, 'no')).toBe('409')
  expect(await server.logged('RangeError: no')).toMatch(/at fail \(plugin\.ts:7:\d+\)/)
})

test('imports and enums are compiled by esbuild, with the lines of the files; an edit of an import shows', async () => {
  const at = folder({
    'plugin.ts': "import { word, Kind } from './lib/word'\nexport const f = () => word(Kind.B)",
    'lib/word.ts': "export enum Kind { A = 'a', B = 'b' }\nexport const word = (kind: Kind) => 'one ' + kind",
  })
  const server = start([join(at, 'plugin.ts'), '0', '--watch'])
  const url = await server.listening()
  expect(await post(url)).toBe('one b')
  writeFileSync(
    join(at, 'lib/word.ts'),
    "export enum Kind { A = 'a', B = 'b' }\n\nexport const word = (kind: Kind) => {\n  throw new Error(kind)\n}",
  )
  await server.logged('"msg":"changed"')
  expect(await post(url)).toBe('409')
  expect(await server.logged('Error: b')).toMatch(
    /at word \(lib\/word\.ts:4:\d+\)\\n {4}at f \(plugin\.ts:2:\d+\)/,
  )
})

test.each([
  [
    "import { a } from './nowhere'\nexport const f = () => a",
    /plugin\.ts:1:19 .+"\.\/nowhere": there is no such file or package/,
  ],
  [
    "import lodash from 'no-such-package'\nexport const f = () => lodash",
    /"no-such-package": there is no such file or package/,
  ],
  ['enum A { B }\nexport const f = (: A) => 1', /plugin\.ts:2:19 cannot be used: /],
  ['export const f = (a: string => a', /plugin\.ts:1:\d+ cannot be used: /],
])('TypeScript with a mistake is one line: %j', async (text, message) => {
  const { code, stderr } = await run([file('plugin.ts', text), '0'])
  expect(stderr).toMatch(message)
  expect([code, stderr.trim().split('\n').length]).toEqual([2, 1])
})

test('a digest covers one file: such a script imports none', async () => {
  const text = 'export const f = () => 1'
  const at = folder({ 'plugin.js': text, 'two.js': `import './plugin.js'\n${text}` })
  const pinned = (name: string) => {
    const digest = createHash('sha256')
      .update(readFileSync(join(at, name)))
      .digest('hex')
    return `${join(at, name)}#sha256=${digest}`
  }
  expect(await post(await start([pinned('plugin.js'), '0']).listening())).toBe('1')
  const { code, stderr } = await run([pinned('two.js'), '0'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('covers this file only')])
})

test('fresh instances keep nothing, and have random numbers of their own', async () => {
  const url = await serve(
    `let count = 0
    const start = Math.random
    export const f = () => [++count, Math.random(), crypto.randomUUID(), Date.now()]`,
    ['--isolation', 'fresh'],
  )
  const answers = await Promise.all(Array.from({ length: 20 }, async () => JSON.parse(await post(url))))
  expect(new Set(answers.map(([count]) => count))).toEqual(new Set([1]))
  expect(new Set(answers.map(([, random]) => random)).size).toBe(20)
  expect(new Set(answers.map(([, , id]) => id)).size).toBe(20)
  for (const [, , , now] of answers) expect(Math.abs(now - Date.now())).toBeLessThan(60_000)
})

test.each([
  ['workers', ['--workers', '2']],
  ['subprocess', ['--engine', 'subprocess']],
  ['the SDK', ['--runtime', 'sdk']],
  ['lazy', ['--load', 'lazy']],
  ['without checks', ['--interrupts', 'off', '--workers', '1']],
])('scripts run in each way: %s', async (_, flags) => {
  const text = `let count = 0
    export const f = async (id) => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      console.log('called')
      return { id, count: ++count }
    }
    export const fail = () => { throw new TypeError('no') }`
  const server = start([file('plugin.js', text), '0', ...flags])
  const url = await server.listening()
  const ids = Array.from({ length: 20 }, (_unused, id) => `id-${id}`)
  const answers = await Promise.all(ids.map(async (id) => JSON.parse(await post(`${url}/f`, id)).id))
  expect(answers).toEqual(ids)
  expect(await post(`${url}/fail`)).toBe('409')
  await server.logged('plugin.js:7:')
})

test.each([
  '--workers=1',
  '--engine=subprocess',
])('a deadline is the only thing that is logged: %s', async (flag) => {
  const text = "export const f = () => { while (true) {} }\nexport const ok = () => 'ok'"
  const server = start([file('plugin.js', text), '0', '--timeout', '200ms', flag])
  const url = await server.listening()
  for (let round = 0; round < 3; round++) {
    expect(await post(`${url}/f`)).toBe('504')
    expect(await post(`${url}/ok`)).toBe('ok')
  }
  expect(server.stderr()).not.toContain('WASM_SERVE_INSTANCE_START_FAILED')
})

test('a lazy script that has changed is not run in another version than was checked', async () => {
  const at = folder({ 'a.js': 'export const f = () => 1', 'b.js': 'export const f = () => 2' })
  const url = await start([at, '0', '--load', 'lazy']).listening()
  expect(await post(`${url}/a`)).toBe('1')
  writeFileSync(join(at, 'b.js'), 'export const f = () => 3')
  expect(await post(`${url}/b`)).toBe('503')
})

test('a function that is named like its file is one tool', async () => {
  const text = 'export const hi = () => 1\nexport const other = () => 2'
  const url = await start([file('hi.js', text), '0', '--mcp']).listening()
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
  const answer = await (await fetch(`${url}/mcp`, { method: 'POST', headers, body })).text()
  expect([...answer.matchAll(/"name":"(\w+)"/g)].map(([, name]) => name).sort()).toEqual(['hi', 'other'])
  expect([await post(url), await post(`${url}/hi`)]).toEqual(['1', '1'])
})

test('build does not replace what is no plug-in', async () => {
  const text = 'export const f = () => 1'
  const at = folder({ 'a.js': text })
  const { code, stderr } = await run(['build', 'a.js', '-o', 'a.js'], {}, { cwd: at })
  expect([code, stderr]).toEqual([2, expect.stringContaining('a.js is not a plug-in, and would be lost')])
  expect(readFileSync(join(at, 'a.js'), 'utf8')).toBe(text)
})

test('what nobody handles is logged, and what cannot be shown does no harm', async () => {
  const server = start([
    file(
      'plugin.js',
      `export function f() {
      Promise.reject(new TypeError('lost'))
      Promise.reject(1).catch(() => {})
      console.log({ get a() { throw new Error('x') } }, '%j', 5n)
      return 'ok'
    }`,
    ),
    '0',
  ])
  expect(await post(await server.listening())).toBe('ok')
  await server.logged('{ a: [Getter] } %j 5n')
  expect(await server.logged('Unhandled rejection: TypeError: lost')).not.toContain('Unhandled rejection: 1')
})

test('an import that is made when it runs is bundled, too', async () => {
  const at = folder({
    'a.js': "export const f = async () => (await import('./b.js')).b",
    'b.js': 'export const b = 2',
  })
  expect(await post(await start([join(at, 'a.js'), '0']).listening())).toBe('2')
})

test('a script imports no file beyond its project, also by a link, and runs no esbuild of its own', async () => {
  const at = folder({
    'secret.json': '{"key":"s3cret"}',
    'project/package.json': '{}',
    'project/lib/a.js': "export { b } from '../b.js'",
    'project/b.js': 'export const b = 2',
    'project/in.js': "import { b } from './lib/a.js'\nexport const f = () => b",
    'project/out.js': "import secret from '../secret.json'\nexport const f = () => secret",
    'project/others.js':
      "import secret from '../other/node_modules/secret.json'\nexport const f = () => secret",
    'project/linked.js': "import secret from './link.json'\nexport const f = () => secret",
    'project/node_modules/esbuild/index.js': 'throw new Error("it ran")',
    'project/node_modules/esbuild/package.json': '{"main":"index.js"}',
  })
  symlinkSync('../secret.json', join(at, 'project/link.json'))
  mkdirSync(join(at, 'other/node_modules'), { recursive: true })
  writeFileSync(join(at, 'other/node_modules/secret.json'), '{"key":"s3cret"}')
  expect((await run(['call', join(at, 'project/in.js')])).stdout).toBe('2')
  for (const name of ['out.js', 'linked.js', 'others.js']) {
    const { code, stderr } = await run(['check', join(at, 'project', name)])
    expect([code, stderr]).toEqual([2, expect.stringContaining('which is not in its project')])
  }
})

test('packages are those for browsers', async () => {
  const at = folder({
    'a.js': "import { kind } from 'both'\nexport const f = () => kind + process.env.NODE_ENV",
    'node_modules/both/package.json': JSON.stringify({
      exports: { browser: './browser.js', default: './node.js' },
      type: 'module',
    }),
    'node_modules/both/browser.js': "export const kind = 'browser '",
    'node_modules/both/node.js': "import 'node:fs'\nexport const kind = 'node '",
  })
  expect(await post(await start([join(at, 'a.js'), '0']).listening())).toBe('browser production')
})

test('build makes a plug-in of any Extism host, and says where', async () => {
  const at = folder({ 'hello.js': "export const hello = (name) => 'Hello, ' + name" })
  const { code, stdout } = await run(['build', 'hello.js'], {}, { cwd: at })
  expect([code, stdout]).toEqual([0, 'hello.wasm\n'])
  const module = new WebAssembly.Module(readFileSync(join(at, 'hello.wasm')))
  expect(WebAssembly.Module.exports(module).map(({ name }) => name)).toEqual([
    'memory',
    '_initialize',
    'hello',
  ])
  const modules = new Set(WebAssembly.Module.imports(module).map(({ module }) => module))
  expect([...modules].sort()).toEqual(['extism:host/env', 'wasi_snapshot_preview1'])
  expect(await called('export const x = () => 1')).toBe('1')
  const { stdout: answer } = await run(['call', join(at, 'hello.wasm'), '--input', 'Ada', '--runtime', 'sdk'])
  expect(answer).toBe('Hello, Ada')
})

test.each([
  ['endless', 'export const f = () => { while (true) {} }', '504'],
  ['recursive', 'export const f = (n) => f(n) + 1', '409'],
  [
    'all memory',
    'export const f = () => { const all = []; while (true) all.push(new Uint8Array(1e6)) }',
    '409',
  ],
  ['a pattern that backtracks', "export const f = () => /^(a+)+$/.test('a'.repeat(40) + 'b')", '504'],
  [
    'a changed prototype',
    'export const f = () => { Array.prototype.map = null; JSON.stringify = null; return { a: 1 } }',
    '409',
  ],
])('hostile: %s costs one call', async (_, text, expected) => {
  const url = await serve(`${text}\nexport const ok = () => 'ok'`, [
    '--timeout',
    '300ms',
    '--memory-max',
    '16MiB',
  ])
  expect(await post(`${url}/f`)).toBe(expected)
  expect(await post(`${url}/ok`)).toBe('ok')
})

test('the scripts of the pages are plug-ins', async () => {
  const pages = ['README.md', 'docs/write/scripts.md', 'docs/write/tools-for-agents.md']
  const scripts = pages.flatMap(pageScripts)
  expect(scripts.length).toBe(8)
  const functions = file(
    'functions.mjs',
    "export default { 'extism:host/user': { price_of: (context, name) => context.store(context.read(name).text()) } }",
  )
  for (const source of scripts) {
    const flags = source.includes('extism:host') ? ['--functions', functions] : []
    const { code, stderr } = await run(['check', file('hello.ts', source), ...flags])
    expect([source, code, stderr]).toEqual([source, 0, ''])
  }
  const first = pageScripts('docs/write/scripts.md')[0] ?? ''
  expect(await post(await start([file('hello.ts', first), '0']).listening(), 'Ada')).toBe(
    '{"message":"Hello, Ada!"}',
  )
  const [tools = ''] = pageScripts('docs/write/tools-for-agents.md')
  expect(await post(await start([file('tools.ts', tools), '0']).listening(), '{"fruit":"pear"}')).toBe(
    '{"euros":0.75}',
  )
})
