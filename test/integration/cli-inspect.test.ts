import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { pluginFile } from '../support/pdk.ts'

async function inspect(...args: string[]) {
  const { code, stdout, stderr } = await run(['inspect', '--json', ...args])
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

test('it tells what can be called, and why the rest cannot', async () => {
  const { functions, notCallable } = await inspect(guest('several'))
  expect(functions).toEqual(['alpha', 'b:ta', 'several', 'long'])
  expect(notCallable).toEqual([
    { name: 'add', reason: 'it is (i32, i32) -> (i32)' },
    { name: '_initialize', reason: 'its toolchain added it for internal use' },
    { name: '__wasm_call_ctors', reason: 'its toolchain added it for internal use' },
    { name: 'malloc', reason: 'it is (i32) -> (i32)' },
  ])
})

test('it tells the size and the digest of the bytes', async () => {
  const bytes = guestBytes('echo')
  const { modules } = await inspect(guest('echo'))
  expect(modules).toMatchObject([
    { name: 'main', bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') },
  ])
})

test.each([
  ['on', true, 'deadlines: terminate only the guest'],
  ['off', false, 'deadlines: terminate the thread or process of the guest'],
])('it tells what a deadline ends, with interrupts %s', async (interrupts, isInterruptible, line) => {
  const args = [guest('echo'), '--interrupts', interrupts]
  const { modules, functions } = await inspect(...args)
  expect(modules).toMatchObject([{ isInterruptible }])
  expect(functions).toEqual(['echo'])
  expect((await run(['inspect', ...args])).stdout).toContain(line)
})

test('it tells who meets each import, and which flags meet the others', async () => {
  const { imports, needs, problems, command } = await inspect(guest('bad-import'))
  expect(imports).toEqual([
    { module: 'main', namespace: 'extism:host/env', name: 'input_length', kind: 'function', metBy: 'kernel' },
    { module: 'main', namespace: 'extism:host/env', name: 'teleport', kind: 'function', metBy: 'nobody' },
    { module: 'main', namespace: 'env', name: 'abort', kind: 'function', metBy: 'nobody' },
    { module: 'main', namespace: 'env', name: 'memory', kind: 'memory', metBy: 'nobody' },
  ])
  expect(needs).toEqual([{ flag: '--functions', why: 'no provider for env abort' }])
  expect(problems).toEqual([
    'extism:host/env teleport (function) cannot be provided',
    'env memory (memory) cannot be provided',
  ])
  expect(command).toMatch(/bad-import\.wasm --functions functions\.mjs$/)
})

test('a plug-in of a PDK before 1.0 is named as such, and no host functions are asked for', async () => {
  const old = '(module (import "env" "extism_alloc" (func (param i64) (result i64))) (func (export "go")))'
  const { needs, problems } = await inspect(file('old.wasm', guestBytes(old)))
  expect(needs).toEqual([])
  expect(problems).toEqual([expect.stringContaining('PDK before 1.0')])
})

test('host functions and linked modules that are given meet their imports', async () => {
  const functions = file(
    'relay.mjs',
    'export default { env: { relay: (context, at) => context.store(context.read(at).bytes()) } }',
  )
  const relay = await inspect(guest('relay'), '--functions', functions)
  expect(relay.imports).toContainEqual(expect.objectContaining({ name: 'relay', metBy: 'functions' }))
  expect(relay.needs).toEqual([])

  const main = file(
    'speaker.wasm',
    guestBytes('(module (import "speak" "speak" (func (param i32))) (func (export "go")))'),
  )
  const linked = await inspect(main, '--link', `speak=${guest('link-speak')}`)
  expect(linked.imports[0]).toEqual({
    module: 'main',
    namespace: 'speak',
    name: 'speak',
    kind: 'function',
    metBy: 'module',
    from: 'speak',
  })
  expect(linked.imports).toContainEqual(
    expect.objectContaining({ module: 'speak', name: 'alloc', metBy: 'kernel' }),
  )
  expect(linked.modules.map(({ name }: { name: string }) => name)).toEqual(['main', 'speak'])
})

test('it tells the memory that a module wants, and what it gets', async () => {
  const wants = file('wants.wasm', guestBytes('(module (memory 2 40) (func (export "go")))'))
  expect((await inspect(wants)).modules[0].memories).toEqual([{ initial: 2, max: 40, cap: 40 }])
  expect((await inspect(wants, '--memory-max', '16')).modules[0].memories).toEqual([
    { initial: 2, max: 40, cap: 16 },
  ])
  const all = file('all.wasm', guestBytes('(module (memory 1) (func (export "go")))'))
  expect((await inspect(all)).modules[0].memories).toEqual([{ initial: 1, cap: 2048 }])
})

test.each([
  ['_initialize', 'reactor'],
  ['_start', 'command'],
  ['hs_init', 'haskell'],
  ['__wasm_call_ctors', 'constructors'],
  ['other', 'none'],
])('a module that exports %s starts as: %s', async (name, kind) => {
  const path = file(`${name}.wasm`, guestBytes(`(module (func (export "${name}")))`))
  expect((await inspect(path)).kind).toBe(kind)
})

test('a command is called by its program, and all commands say so', async () => {
  const command = guest('command')
  const { functions, notCallable, problems, kind } = await inspect(command)
  expect([functions, notCallable, problems, kind]).toEqual([['_start'], [], [], 'command'])
  expect((await run(['inspect', command])).stdout).toMatch(/starts as: a command.*_start: the program/s)
  expect((await run(['check', command])).stdout).toContain('_start')
  expect(await run(['call', command, '--input', 'p'])).toMatchObject({ code: 0, stdout: 'printed\n' })
  expect(await run(['call', command, '--input', 'y'])).toMatchObject({ code: 1, stdout: '' })
})

test('a program beside other functions is called if it is named', async () => {
  const both = file(
    'both.wasm',
    guestBytes(`(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (func (export "_start") (call $exit (i32.const 7))) (func (export "go")))`),
  )
  const { functions, notCallable, kind } = await inspect(both)
  expect([functions, notCallable, kind]).toEqual([['go', '_start'], [], 'none'])
  expect(await run(['call', both])).toMatchObject({ code: 0, stdout: '' })
  expect(await run(['call', both, '_start'])).toMatchObject({ code: 1, stdout: '' })
})

test('WASI is told from what is imported', async () => {
  expect((await inspect(guest('wasi'))).wasi).toBe(true)
  expect((await inspect(guest('echo'))).wasi).toBe(false)
  expect((await inspect(guest('wasi'))).problems).toEqual([])
  expect((await inspect(guest('wasi'), '--no-wasi')).problems).toEqual(['it needs WASI, which is disabled'])
})

test('it guesses the toolchain, and says what gives it away', async () => {
  const tinygo = await inspect(pluginFile('hello-tinygo', 'hello.wasm'))
  expect(tinygo.toolchain).toEqual({ name: 'TinyGo', because: expect.stringContaining('TinyGo 0.') })
  const rust = await inspect(pluginFile('hello', 'hello.wasm')) // its producers section was stripped
  expect(rust.toolchain.name).toContain('Rust')
  expect((await inspect(guest('echo'))).toolchain).toBeNull()
})

const producers: readonly [name: string, tools: Record<string, [string, string][]>][] = [
  ['Go', { language: [['Go', 'go1.24.1']], 'processed-by': [['Go cmd/compile', 'go1.24.1']] }],
  ['Rust', { language: [['Rust', '']], 'processed-by': [['rustc', '1.90.0']] }],
  ['AssemblyScript', { 'processed-by': [['AssemblyScript', '0.28']] }],
  ['Zig', { language: [['Zig', '0.14']] }],
  ['C++', { language: [['C_plus_plus_14', '']], 'processed-by': [['clang', '19.1']] }],
  ['C', { language: [['C11', '']], 'processed-by': [['clang', '19.1']] }],
]

test.each(producers)('a producers section of %s is understood', async (name, tools) => {
  const path = file('produced.wasm', withCustomSection('producers', producersSection(tools)))
  expect((await inspect(path)).toolchain.name).toBe(name)
})

test.each([
  ['JavaScript (QuickJS)', '(memory 1) (data (i32.const 0) "src/quickjs.c")'],
  ['Haskell', '(func (export "hs_init"))'],
  ['Nim', '(func (export "NimMain"))'],
  ['AssemblyScript', '(import "env" "abort" (func))'],
])('without one %s is told by other things', async (name, content) => {
  const path = file('told.wasm', guestBytes(`(module ${content} (func (export "go")))`))
  expect((await inspect(path)).toolchain.name).toBe(name)
})

test('a producers section that is cut off ends no inspection', async () => {
  const section = producersSection({ language: [['Rust', '']] }).subarray(0, 8)
  const path = file('cut-producers.wasm', withCustomSection('producers', section))
  expect(await inspect(path)).toMatchObject({ functions: ['go'] })
})

test('a plug-in that sends HTTP requests is told what becomes of them', async () => {
  const text = `(module (import "extism:host/env" "http_request" (func (param i64 i64) (result i64)))
    (func (export "go")))`
  const { needs, problems, warnings } = await inspect(file('http.wasm', guestBytes(text)))
  expect(problems).toEqual([])
  expect(JSON.stringify([needs, warnings])).toMatch(/--allow-host|there is no outbound HTTP/)
})

test('a manifest and a URL are inspected as they are served', async () => {
  const manifest = file(
    'manifest.json',
    JSON.stringify({ wasm: [{ path: guest('echo') }], memory: { max_pages: 5 } }),
  )
  expect(await inspect('-m', manifest)).toMatchObject({ name: 'manifest', functions: ['echo'] })

  const server = createServer((_request, response) => response.end(guestBytes('echo'))).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
  })
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/far.wasm`
  expect(await inspect(url)).toMatchObject({ name: url, functions: ['echo'] })
})

test('it tells where instances run and why, and where HTTP requests may go', async () => {
  expect((await inspect(guest('echo'))).engine).toEqual({ name: 'inline' })
  const fetching = file(
    'fetching.wasm',
    guestBytes(`(module (import "extism:host/env" "http_request" (func (param i64 i64) (result i64)))
      (func (export "go")))`),
  )
  const refused = await inspect(fetching)
  expect(refused).toMatchObject({ engine: { name: 'inline' }, allowedHosts: [] })
  expect(refused.needs).toEqual([expect.objectContaining({ flag: '--allow-host' })])
  expect(refused.command).toMatch(/ --allow-host example\.com$/)

  const allowed = ['--allow-host', 'api.example.com', '--timeout', '250']
  expect(await inspect(fetching, ...allowed)).toMatchObject({
    engine: { name: 'workers', workers: 1, timeoutMs: 250, reason: 'outbound HTTP' },
    allowedHosts: ['api.example.com'],
    needs: [],
  })
  const { stdout } = await run(['inspect', fetching, ...allowed])
  expect(stdout).toContain('runs: in a thread, for up to 250 ms a call (outbound HTTP)')
  expect(stdout).toContain('HTTP requests: api.example.com')
})

test('the command that it prints serves the plug-in, also if its name needs quotes', async () => {
  const path = file("it's $HOME.wasm", guestBytes('echo'))
  const { stdout } = await run(['inspect', path, '--config', 'a=b c'])
  const [, command] = /^Run it: (.*)$/m.exec(stdout) ?? []
  expect(command).toBe(`wasm-serve '${path.replace("'", "'\\''")}' --config 'a=b c'`)
})

test('for a person it says the same in words', async () => {
  const { code, stdout } = await run(['inspect', guest('several')])
  expect(code).toBe(0)
  expect(stdout).toContain('\n  alpha\n')
  expect(stdout).toContain('not callable: add, it is (i32, i32) -> (i32)')
  expect(stdout).toContain('extism:host/env, from the kernel: alloc store_u8 output_set')
  expect(stdout).toContain('memory: 1 pages of 64 KiB, wants as many as it gets, may have 2048 (128 MiB)')
})

test('names with control characters reach no terminal as they are', async () => {
  const text = '(module (func (export "a\\1b[31mX")) (func (export "b\\0a  forged")))'
  const path = file('escape-names.wasm', guestBytes(text))
  for (const flags of [[], ['--names']]) {
    const { stdout } = await run(['inspect', path, ...flags])
    expect(stdout).not.toContain('\x1b')
    expect(stdout).not.toMatch(/^ +forged/m)
  }
})

test('nothing of the plug-in is run', async () => {
  expect(await inspect(guest('bad-start'))).toMatchObject({ name: 'bad-start' })
})

test.each([
  ['a file that is no module', 2, [file('plain-text.wasm', 'hällo')], 'plain-text', 'it is text'],
  ['a file that does not exist', 2, ['/no/such.wasm'], '/no/such.wasm', 'no such file'],
  ['no plug-in', 2, [], 'name a plug-in'],
  ['a function', 2, [guest('echo'), 'echo'], 'inspect shows all functions'],
  ['a port', 2, [guest('echo'), '8080'], 'inspect takes no port'],
  ['a flag of the server', 2, [guest('echo'), '--max-queue', '5'], '--max-queue'],
  ['a flag that does not exist', 2, [guest('echo'), '--jason'], 'did you mean "--json"'],
  ['a value for a switch', 2, [guest('echo'), '--json=yes'], '--json', 'no value'],
  ['an option that is wrong', 2, [guest('echo'), '--memory-max', '65537'], '--memory-max', '65536'],
])('%s ends with a message and exit %i', async (_, exit, args, ...said) => {
  const { code, stdout, stderr } = await run(['inspect', ...args])
  expect([code, stdout]).toEqual([exit, ''])
  for (const text of said) expect(stderr).toContain(text)
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('variables of the server are no business of it', async () => {
  const { code } = await run(['inspect', guest('echo')], {
    WASM_SERVE_PORT: '9000',
    WASM_SERVE_MAX_QUEUE: '5',
  })
  expect(code).toBe(0)
})

/** All are short: their lengths are one byte. */
function producersSection(fields: Record<string, [name: string, version: string][]>): Uint8Array {
  const text = (value: string) => [value.length, ...Buffer.from(value)]
  const entries = Object.entries(fields)
  const rendered = entries.map(([field, tools]) => [
    ...text(field),
    tools.length,
    ...tools.flat().flatMap(text),
  ])
  return Uint8Array.from([entries.length, ...rendered.flat()])
}

function withCustomSection(name: string, content: Uint8Array): Uint8Array {
  const section = [name.length, ...Buffer.from(name), ...content]
  return Uint8Array.from([...guestBytes('(module (func (export "go")))'), 0, section.length, ...section])
}

test('it tells that a store makes its guests wait, in threads, without opening the store', async () => {
  const reader = file('reader.wasm', kvGuest('get'))
  const writer = file('writer.wasm', kvGuest('set'))
  const reason = async (path: string, ...args: string[]) => (await inspect(path, ...args)).engine.reason
  expect(await reason(writer)).toBeUndefined()
  expect(await reason(reader, '--store', 'lmdb:/nowhere')).toBeUndefined()
  expect(await reason(writer, '--store', 'lmdb:/nowhere')).toBe('key-value store')
  expect(await reason(reader, '--store', 'redis://nowhere.invalid')).toBe('key-value store')
  expect(await reason(reader, '--store', 'redis://nowhere.invalid', '--kv-access', 'none')).toBeUndefined()
})

test('functions of the store are of the host, unless the route has no access', async () => {
  const reader = file('reader.wasm', kvGuest('get'))
  const isMet = async (...args: string[]) => {
    const { imports, needs } = await inspect(reader, ...args)
    const { metBy } = imports.find(({ namespace }: { namespace: string }) => namespace === 'wasm-serve:kv')
    return [metBy, needs.map(({ flag }: { flag: string }) => flag)]
  }
  expect(await isMet()).toEqual(['host', []])
  expect(await isMet('--kv-access', 'none')).toEqual(['nobody', ['--functions']])
})

test('an export that describes the tools is none itself', async () => {
  const text =
    '(module (func (export "add") (result i32) (i32.const 0)) (func (export "describe") (result i32) (i32.const 0)))'
  const described = file('described.wasm', guestBytes(text))
  const { tools } = await inspect(described)
  expect(tools.map(({ name }: { name: string }) => name)).toEqual(['add'])
  const { stdout } = await run(['inspect', described])
  expect(stdout).toContain('What the export describe says of them when it runs takes precedence.')
  const only = file('only.wasm', guestBytes('(module (func (export "describe") (result i32) (i32.const 0)))'))
  expect((await inspect(only)).tools).toHaveLength(1)
})
