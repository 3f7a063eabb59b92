import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import * as sdk from '@extism/extism'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { hostMatcher } from '../../src/extism/guest-requests.ts'
import * as ours from '../../src/extism.ts'
import { extismGuest } from '../support/extism-guest.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

/*
 * What programs for `@extism/extism` count on. Each test runs with it and with what stands in for it: where it fails
 * with the first, it asserts something that the SDK does not do.
 */

type Options = ours.ExtismPluginOptions
type Plugin = ours.Plugin
type Context = ours.CallContext
type Create = (manifest: unknown, options?: Options) => Promise<Plugin>

const open: Plugin[] = []
const ended: (() => void)[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((plugin) => plugin.close()))
  vi.restoreAllMocks()
})

afterAll(() => {
  for (const end of ended) end()
})

const echo = extismGuest(`
  (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))
  (func (export "copy") (call $answer (call $copy)))
  (func (export "nothing"))
  (func (export "empty") (call $output_set (call $alloc (i64.const 0)) (i64.const 0)) (call $length (i64.const 0)) (drop))
  (func (export "status") (result i32) (call $output_set (call $input_offset) (call $input_length)) (i32.const 7))
  (func (export "fail") (result i32) (call $error_set (call $copy)) (i32.const 1))
  (func (export "trap") (unreachable))
  (func (export "length") (local $at i64)
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (call $length (call $input_offset)))
    (call $answer (local.get $at)))
  (global (export "number") i32 (i32.const 1))
`)

const vars = extismGuest(`
  (data (i32.const 0) "v")
  (func (export "set") (call $var_set (call $text (i32.const 0) (i32.const 1)) (call $copy)))
  (func (export "unset") (call $var_set (call $text (i32.const 0) (i32.const 1)) (i64.const 0)))
  (func (export "get") (call $answer (call $var_get (call $text (i32.const 0) (i32.const 1)))))
  (func (export "has") (local $at i64)
    (local.set $at (call $alloc (i64.const 1)))
    (if (i64.eqz (call $var_get (call $text (i32.const 0) (i32.const 1)))) (then (return)))
    (call $answer (local.get $at)))
`)

const config = extismGuest(`
  (func (export "config") (local $at i64)
    (local.set $at (call $config_get (call $copy)))
    (if (i64.eqz (local.get $at)) (then (return)))
    (call $answer (local.get $at)))
`)

const relay = extismGuest(`
  (import "extism:host/user" "relay" (func $relay (param i64) (result i64)))
  (func (export "run") (call $answer (call $relay (call $copy))))
  (func (export "keep") (local $at i64)
    (local.set $at (call $copy))
    (drop (call $relay (local.get $at)))
    (call $answer (local.get $at)))
`)

const logs = extismGuest(`
  (func (export "log")
    (call $log_trace (call $copy)) (call $log_debug (call $copy)) (call $log_info (call $copy))
    (call $log_warn (call $copy)) (call $log_error (call $copy)))
  (func (export "level") (local $at i64)
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (i64.extend_i32_u (call $get_log_level)))
    (call $answer (local.get $at)))
`)

const http = extismGuest(`
  (func (export "get") (call $answer (call $http_request (call $copy) (i64.const 0))))
  (func (export "body") (drop (call $http_request (call $copy) (i64.const 0))) (call $status))
  (func (export "post") (call $answer (call $http_request (call $copy) (call $copy))))
  (func (export "headers") (drop (call $http_request (call $copy) (i64.const 0))) (call $answer (call $http_headers)))
  (func (export "null") (if (i64.eqz (call $http_request (call $copy) (i64.const 0))) (then (return))) (call $status))
  (func $status (export "status") (local $at i64) (local $status i32)
    (local.set $status (call $http_status_code))
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (i64.extend_i32_u (local.get $status)))
    (call $answer (local.get $at)))
`)

const loop = extismGuest(`
  (func (export "loop") (loop $again (br $again)))
  (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))
`)

const counter = extismGuest(`
  (global $n (mut i64) (i64.const 0))
  (func (export "count") (local $at i64)
    (global.set $n (i64.add (global.get $n) (i64.const 1)))
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (global.get $n))
    (call $answer (local.get $at)))
`)

describe.each<[string, Create]>([
  ['@extism/extism', sdk.createPlugin as Create],
  ['wasm-serve/extism', ours.createPlugin as Create],
])('%s', (name, create) => {
  const isOurs = name === 'wasm-serve/extism'

  async function plugin(manifest: unknown, options?: Options): Promise<Plugin> {
    const opened = await create(manifest, options)
    open.push(opened)
    return opened
  }

  const of = (bytes: Uint8Array, more: object = {}) => ({ wasm: [{ data: bytes }], ...more })

  async function messageOf(promise: Promise<unknown>): Promise<string> {
    return promise.then(
      () => 'no error',
      (error: Error) => error.message,
    )
  }

  const text = async (called: Promise<ours.PluginOutput | null>) => (await called)?.text()
  const number = async (called: Promise<ours.PluginOutput | null>) => (await called)?.getBigUint64(0, true)

  /** A server, and its address. */
  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    ended.push(() => server.close())
    const address = server.address()
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  }

  describe('manifests', () => {
    const wasm = guest('echo')
    const bytes = new Uint8Array(readFileSync(wasm))
    const hash = createHash('sha256').update(bytes).digest('hex')

    test.each<[string, () => unknown]>([
      ['a path', () => wasm],
      ['the bytes', () => bytes.buffer],
      ['a module', () => new WebAssembly.Module(bytes)],
      ['a promise of a module', () => WebAssembly.compile(bytes)],
      ['a response', () => new Response(bytes, { headers: { 'content-type': 'application/wasm' } })],
      [
        'a response of bytes',
        () => new Response(bytes, { headers: { 'content-type': 'application/octet-stream' } }),
      ],
      ['JSON', () => JSON.stringify({ wasm: [{ path: wasm }] })],
      ['an item with bytes', () => ({ wasm: [{ data: bytes }] })],
      ['an item with a path', () => ({ wasm: [{ path: wasm }] })],
      ['an item with a module', () => ({ wasm: [{ module: new WebAssembly.Module(bytes) }] })],
      ['an item with a digest', () => ({ wasm: [{ path: wasm, hash }] })],
      ['a named item', () => ({ wasm: [{ path: wasm, name: 'main' }] })],
    ])('may be %s', async (_, manifest) => {
      const made = await plugin(manifest())
      expect(await made.functionExists('echo')).toBe(true)
      expect(await made.functionExists('bleat')).toBe(false)
      expect(await text(made.call('echo', 'hello'))).toBe('hello')
    })

    test('may be at a URL, as a module or as JSON', async () => {
      const url = await serve((request, response) => {
        const isModule = request.url === '/echo.wasm'
        response.setHeader('content-type', isModule ? 'application/wasm' : 'application/json; charset=utf-8')
        response.end(isModule ? bytes : JSON.stringify({ wasm: [{ url: `${url}/echo.wasm`, hash }] }))
      })
      for (const manifest of [`${url}/echo.wasm`, new URL(`${url}/plugin.json`), fetch(`${url}/echo.wasm`)])
        expect(await text((await plugin(manifest)).call('echo', 'hello'))).toBe('hello')
    })

    test('are fetched by the function of the options', async () => {
      const fetched: string[] = []
      const fetch = async (url: unknown) => {
        fetched.push(String(url))
        return new Response(bytes, { headers: { 'content-type': 'application/wasm' } })
      }
      await plugin('https://example.com/echo.wasm', { fetch: fetch as typeof globalThis.fetch })
      expect(fetched).toEqual(['https://example.com/echo.wasm'])
    })

    test.each<[string, unknown, string]>([
      [
        'another digest',
        { wasm: [{ path: wasm, hash: '0'.repeat(64) }] },
        `Plugin error: hash mismatch. Expected: ${'0'.repeat(64)}. Actual: ${hash}`,
      ],
      [
        'a digest that is none',
        { wasm: [{ path: wasm, hash: 'none' }] },
        `Plugin error: hash mismatch. Expected: none. Actual: ${hash}`,
      ],
      [
        'a digest of a module',
        { wasm: [{ module: new WebAssembly.Module(bytes), hash }] },
        'Item specified a hash but WebAssembly.Module source data is unavailable for hashing',
      ],
      ['no modules', {}, 'Expected "wasm" key in manifest'],
      ['modules that are no list', { wasm: {} }, 'Expected "manifest.wasm" to be array'],
      [
        'an item without a source',
        { wasm: [{ path: wasm }, { name: 'x' }] },
        'Expected every item in "manifest.wasm" to include either a "data", "url", or "path" key; got bad item at index 1',
      ],
      [
        'no main module',
        {
          wasm: [
            { path: wasm, name: 'a' },
            { path: wasm, name: 'b' },
          ],
        },
        'manifest with multiple modules must designate one "main" module',
      ],
    ])('with %s: %#', async (_, manifest, message) => {
      expect(await messageOf(plugin(manifest))).toBe(message)
    })

    test('of another type of content are refused', async () => {
      const html = new Response('<p>', { headers: { 'content-type': 'text/html' } })
      await expect(plugin(html)).rejects.toThrow(TypeError)
    })

    test('that name no file, or no module, are refused', async () => {
      await expect(plugin('/no/such/file.wasm')).rejects.toMatchObject({ code: 'ENOENT' })
      await expect(plugin(file('no.wasm', 'no module'))).rejects.toThrow(WebAssembly.CompileError)
    })

    test('have options, which those of the call override', async () => {
      const greeting = async (made: Plugin) => text(made.call('config', 'greeting'))
      const manifest = of(config, { config: { greeting: 'Howdy' } })
      expect(await greeting(await plugin(manifest))).toBe('Howdy')
      expect(await greeting(await plugin(manifest, { config: { greeting: 'Hi' } }))).toBe('Hi')
      expect(await greeting(await plugin(manifest, { config: {} }))).toBe(undefined)
      const json = JSON.stringify({
        wasm: [{ path: file('config.wasm', config) }],
        config: { greeting: 'Ho' },
      })
      expect(await greeting(await plugin(json))).toBe('Ho')
    })
  })

  describe.each([
    ['inline', {}],
    ['in a worker', { runInWorker: true }],
  ])('%s', (_, mode: Options) => {
    const isWorker = mode.runInWorker === true

    test.each<[string, string | Uint8Array, string]>([
      ['text', 'héllo 🦀', 'héllo 🦀'],
      ['bytes', new Uint8Array([104, 105]), 'hi'],
      ['a part of a buffer', Buffer.from('xxhixx').subarray(2, 4), 'hi'],
      ['text that is no Unicode', 'a\ud800b', 'a\ufffdb'],
      ['64 KiB', 'x'.repeat(65_536), 'x'.repeat(65_536)],
      ['3 MiB', 'x'.repeat(3 << 20), 'x'.repeat(3 << 20)],
    ])('a call takes %s', async (_what, input, answer) => {
      const made = await plugin(of(echo), mode)
      for (const name of ['echo', 'copy'].slice(0, input.length > 100_000 ? 1 : 2))
        expect(await text(made.call(name, input))).toBe(answer)
    })

    test('an input may be empty, or none', async () => {
      const made = await plugin(of(echo), mode)
      expect(await number(made.call('length', 'four'))).toBe(4n)
      expect((await made.call('copy', ''))?.byteLength).toBe(0)
      expect((await made.call('copy'))?.byteLength).toBe(0)
    })

    test('an output has its own bytes, all of them and no more', async () => {
      const made = await plugin(of(echo), mode)
      const output = await made.call('echo', '{"a":[1]}')
      expect(output?.json()).toEqual({ a: [1] })
      expect(output?.text()).toBe('{"a":[1]}')
      expect(output?.string()).toBe('{"a":[1]}')
      expect(output?.bytes()).toEqual(new Uint8Array(Buffer.from('{"a":[1]}')))
      expect(output?.bytes()).toBe(output?.bytes())
      expect(output?.arrayBuffer()).toBe(output?.buffer)
      expect(output?.buffer.byteLength).toBe(9)
      expect(output?.getUint8(0)).toBe(123)
      expect(output).toBeInstanceOf(DataView)
      expect(new TextDecoder().decode(output?.buffer)).toBe('{"a":[1]}')
      expect(() => output?.setUint8(0, 1)).toThrow('Cannot set values on output')
      expect(() => output?.setBigInt64(0, 1n)).toThrow('Cannot set values on output')
      await made.call('echo', 'something else')
      expect(output?.text()).toBe('{"a":[1]}')
    })

    test('a function that names no output answers null', async () => {
      const made = await plugin(of(echo), mode)
      expect(await made.call('nothing', 'x')).toBe(null)
      if (isOurs) await expect(made.call('status', 'x')).rejects.toThrow('Plugin-originated error')
      else expect(await text(made.call('status', 'x'))).toBe('x')
      expect(await text(made.call('echo', 'x'))).toBe('x')
    })

    test('an error of the guest, a trap, and no such function reject the call only', async () => {
      const made = await plugin(of(echo), mode)
      expect(await messageOf(made.call('fail', 'Some error message'))).toBe(
        'Plugin-originated error: Some error message',
      )
      expect(await messageOf(made.call('trap', ''))).toBe('unreachable')
      expect(await messageOf(made.call('reticulate_splines', 'x'))).toBe(
        'Plugin error: function "reticulate_splines" does not exist',
      )
      expect(await messageOf(made.call('number'))).toBe('Plugin error: export "number" is not a function')
      expect(await text(made.call('echo', 'still here'))).toBe('still here')
    })

    test('exports and imports are those of the main module', async () => {
      const made = await plugin(of(relay), {
        ...mode,
        functions: { 'extism:host/user': { relay: () => 0n } },
      })
      expect((await made.getExports()).map(({ name }) => name).sort()).toEqual(['keep', 'memory', 'run'])
      const imports = await made.getImports()
      expect(imports).toContainEqual({ module: 'extism:host/user', name: 'relay', kind: 'function' })
      expect(await made.functionExists('run')).toBe(true)
      expect(await made.functionExists('memory')).toBe(false)
      expect(made.isActive()).toBe(false)
    })

    test('the guest stays from call to call, also after a reset', async () => {
      const made = await plugin(of(counter), mode)
      expect([await number(made.call('count')), await number(made.call('count'))]).toEqual([1n, 2n])
      expect(await made.reset()).toBe(true)
      expect(await number(made.call('count'))).toBe(3n)
    })

    test('variables stay from call to call', async () => {
      const made = await plugin(of(vars), mode)
      expect(await made.call('has')).toBe(null)
      await made.call('set', 'one')
      await made.call('set', 'three')
      expect(await text(made.call('get'))).toBe('three')
      await made.reset()
      expect(await text(made.call('get'))).toBe('three')
      await made.call('unset')
      expect(await made.call('has')).toBe(null)
    })

    test('variables have a limit of bytes', async () => {
      const logger: Console = { ...console, error: vi.fn() }
      const made = await plugin(of(vars, { memory: { maxVarBytes: 10 } }), { ...mode, logger })
      await made.call('set', '0123456789')
      // In a worker, the SDK refuses the variable, but not the call.
      if (isWorker && !isOurs) return
      expect(await messageOf(made.call('set', '0123456789A'))).toContain(
        'var memory limit exceeded: 11 bytes requested, 10 allowed',
      )
      expect(await text(made.call('get'))).toBe('0123456789')
      if (!isOurs) return // to the SDK, 0 is no limit
      const none = await plugin(of(vars, { memory: { maxVarBytes: 0 } }), mode)
      expect(await messageOf(none.call('set', 'a'))).toContain('1 bytes requested, 0 allowed')
    })

    test('configuration may be empty, and is nothing that objects inherit', async () => {
      const made = await plugin(of(config), { ...mode, config: { a: 'b', none: '' } })
      expect(await text(made.call('config', 'a'))).toBe('b')
      expect(await text(made.call('config', 'none'))).toBe('')
      expect(await made.call('config', 'c')).toBe(null)
    })

    describe('host functions', () => {
      const withRelay = (run: (context: Context, at: bigint) => unknown, more: Options = {}) =>
        plugin(of(relay), { ...mode, ...more, functions: { 'extism:host/user': { relay: run } } })

      test('read what the guest wrote, and return what they store', async () => {
        const seen: unknown[] = []
        const made = await withRelay((context, at) => {
          const read = context.read(at)
          seen.push(read?.text(), read?.json(), read?.getUint8(0), context.length(at))
          return context.store(`${read?.string()} back`)
        })
        expect(await text(made.call('run', '{"a":1}'))).toBe('{"a":1} back')
        expect(seen).toEqual(['{"a":1}', { a: 1 }, 123, 7n])
      })

      test('write into what they read, and into what they make', async () => {
        const made = await withRelay((context, at) => {
          context.read(at)?.bytes().set(Buffer.from('HE'))
          const own = context.alloc(2)
          new Uint8Array(context.read(own)?.arrayBuffer() ?? []).set(Buffer.from('ok'))
          return own
        })
        // In a worker, the SDK takes nothing of this to the guest.
        if (isWorker && !isOurs) return
        expect(await text(made.call('keep', 'hello'))).toBe('HEllo')
        expect(await text(made.call('run', 'hello'))).toBe('ok')
      })

      test('find the context of the host', async () => {
        const seen: unknown[] = []
        const host = { hi: 'there' }
        const made = await withRelay((context, at) => {
          seen.push(context.hostContext())
          return at
        })
        await made.call('run', 'x', host)
        await made.call('run', 'x')
        expect(seen).toEqual([host, undefined])
        expect(seen[0]).toBe(host)
      })

      test('share the variables of the guest', async () => {
        const seen: unknown[] = []
        const made = await withRelay((context, at) => {
          seen.push(context.getVariable('a')?.text())
          context.setVariable('a', 'one')
          seen.push(context.getVariable('a')?.text())
          context.setVariable('b', new Uint8Array([1]))
          context.deleteVariable('b')
          context.deleteVariable('c')
          seen.push(context.getVariable('b'))
          return at
        })
        await made.call('run', 'x')
        await made.call('run', 'x')
        expect(seen).toEqual([undefined, 'one', null, 'one', 'one', null])
      })

      test('reject the call with what they throw', async () => {
        const thrown = new TypeError('expected')
        const made = await withRelay(() => {
          throw thrown
        })
        await expect(made.call('run', 'x')).rejects.toBe(thrown)
        if (!isWorker || isOurs) await expect(made.call('run', 'x')).rejects.toBe(thrown)
      })

      test('may set the error of the call', async () => {
        const made = await withRelay((context, at) => {
          context.setError(new Error('no such thing'))
          return at
        })
        if (!isWorker || isOurs)
          expect(await messageOf(made.call('run', 'x'))).toBe('Plugin-originated error: no such thing')
      })

      test('find no block where none is', async () => {
        const seen: unknown[] = []
        const made = await withRelay((context, at) => {
          const wild = (1n << 48n) * 999n
          seen.push(context.read(wild), context.length(wild))
          return at
        })
        await made.call('run', 'x')
        expect(seen).toEqual([null, 0n])
      })

      test('may keep the context: what it read is gone after a reset', async () => {
        let kept: Context | undefined
        let at = 0n
        const made = await withRelay((context, from) => {
          kept = context
          at = context.store('reply')
          return from
        })
        await made.call('run', 'x')
        expect(await made.reset()).toBe(true)
        expect(at).not.toBe(0n)
        expect(kept?.read(at)).toBe(null)
      })

      test('may return a large block', async () => {
        const large = 'x'.repeat(1 << 20)
        const made = await withRelay((context) => context.store(large), { sharedArrayBufferSize: 1 << 6 })
        const times = isOurs ? 3 : 1
        for (let i = 0; i < times; i++) expect(await text(made.call('run', 'x'))).toBe(large)
      }, 60_000)

      test('cannot call the plug-in that called them', async () => {
        const nested: Promise<unknown>[] = []
        const made = await withRelay((_context, at) => {
          nested.push(messageOf(made.call('run', 'x')))
          return at
        })
        // Inline, the SDK runs the nested call, which breaks the outer one.
        if (!isWorker && !isOurs) return
        expect(await text(made.call('run', 'x'))).toBe('x')
        expect(await nested[0]).toBe('plugin is not reentrant')
      })

      test('may replace those of Extism', async () => {
        const made = await plugin(of(config), {
          ...mode,
          functions: { 'extism:host/env': { config_get: (context: Context) => context.store('mine') } },
        })
        expect(await text(made.call('config', 'a'))).toBe('mine')
      })
    })

    test('imports that nothing provides are named', async () => {
      const missing = (name: string) => extismGuest(`(import "${name}" "f" (func))`)
      const expected: [string, string][] = [
        [
          'nowhere',
          'from module "main": cannot resolve import "nowhere" "f": not provided by host imports nor linked manifest items',
        ],
        [
          'env',
          'from module "main": cannot resolve import "env" "f" ("env" is a host module, but does not contain "f")',
        ],
        ['wasi_snapshot_preview1', 'WASI is not enabled; see the "useWasi" plugin option'],
      ]
      // In a worker, the SDK leaves the promise pending, and an error that nobody can catch.
      if (isWorker && !isOurs) return
      for (const [namespace, message] of expected)
        expect(await messageOf(plugin(of(missing(namespace)), mode))).toBe(message)
    })

    test('logs at its level and above', async () => {
      const lines: [string, unknown][] = []
      const at = (level: string) => (line: unknown) => void lines.push([level, line])
      const levels = ['trace', 'debug', 'info', 'warn', 'error']
      const logger: Console = {
        ...console,
        ...Object.fromEntries(levels.map((level) => [level, at(level)])),
      }
      await (await plugin(of(logs), { ...mode, logger })).call('log', 'silent')
      await (await plugin(of(logs), { ...mode, logger, logLevel: 'warn' })).call('log', 'some')
      await (await plugin(of(logs), { ...mode, logger, logLevel: 'trace' })).call('log', 'all')
      expect(lines).toEqual([['warn', 'some'], ['error', 'some'], ...levels.map((level) => [level, 'all'])])
      expect(await number((await plugin(of(logs), { ...mode, logLevel: 'info' })).call('level'))).toBe(2n)
      expect(await number((await plugin(of(logs), mode)).call('level'))).toBe(0x7fff_ffffn)
    })

    test('a level of no logger is refused', async () => {
      await expect(plugin(of(logs), { ...mode, logLevel: 'loud' as 'info' })).rejects.toThrow(TypeError)
    })

    test('modules link by their names, also in a circle', async () => {
      const upper = extismGuest(`
        (func (export "relay") (param $at i64) (result i64)
          (call $store_u8 (local.get $at) (i32.const 88)) (local.get $at))`)
      const linked = await plugin(
        { wasm: [{ data: upper, name: 'extism:host/user' }, { data: relay }] },
        mode,
      )
      expect(await text(linked.call('run', 'hello'))).toBe('Xello')

      const side = (other: string) =>
        guestBytes(`(module (import "${other}" "step" (func $step (param i64) (result i64)))
          (func (export "step") (param $n i64) (result i64)
            (if (result i64) (i64.gt_u (local.get $n) (i64.const 100))
              (then (local.get $n))
              (else (call $step (i64.add (i64.mul (local.get $n) (i64.const 2)) (i64.const 1)))))))`)
      const main = extismGuest(`
        (import "lhs" "step" (func $step (param i64) (result i64)))
        (func (export "run") (local $at i64)
          (local.set $at (call $alloc (i64.const 8)))
          (call $store_u64 (local.get $at) (call $step (i64.const 1)))
          (call $answer (local.get $at)))`)
      const lhs = { data: side('rhs'), name: 'lhs' }
      const circle = await plugin(
        { wasm: [lhs, { data: side('lhs'), name: 'rhs' }, { data: main, name: 'main' }] },
        mode,
      )
      expect(await number(circle.call('run'))).toBe(127n)
      if (isWorker && !isOurs) return
      expect(await messageOf(plugin({ wasm: [lhs, { data: main, name: 'main' }] }, mode))).toBe(
        'from module "main"/"lhs": cannot resolve import "rhs" "step": not provided by host imports nor linked manifest items',
      )
    })

    test('an export that another module does not have is named', async () => {
      if (isWorker && !isOurs) return
      const manifest = {
        wasm: [
          { data: counter, name: 'extism:host/user' },
          { data: relay, name: 'main' },
        ],
      }
      expect(await messageOf(plugin(manifest, mode))).toBe(
        'from module "main": cannot import "extism:host/user" "relay"; no export matched request',
      )
    })

    test.each([
      ['_initialize', ''],
      ['_start', ''],
    ])('%s runs before the first call', async (start) => {
      const made = await plugin(
        of(
          extismGuest(`(global $n (mut i64) (i64.const 0))
          (func (export "${start}") (global.set $n (i64.add (global.get $n) (i64.const 1))))
          (func (export "get") (local $at i64)
            (local.set $at (call $alloc (i64.const 8)))
            (call $store_u64 (local.get $at) (global.get $n))
            (call $answer (local.get $at)))`),
        ),
        mode,
      )
      expect([await number(made.call('get')), await number(made.call('get'))]).toEqual([1n, 1n])
    })

    test('WASI has the folders of the options, and others of the manifest', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-extism-'))
      writeFileSync(join(folder, 'hello.txt'), 'hello world!')
      const read = extismGuest(`
        (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (data (i32.const 64) "hello.txt")
        (func (export "_start") (unreachable))
        (func (export "run")
          (if (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))
            (then (unreachable)))
          (i32.store (i32.const 8) (i32.const 256)) (i32.store (i32.const 12) (i32.const 100))
          (drop (call $read (i32.load (i32.const 0)) (i32.const 8) (i32.const 1) (i32.const 16)))
          (call $answer (call $text (i32.const 256) (i32.load (i32.const 16)))))`)
      const wasi = { ...mode, useWasi: true }
      const allowedPaths = { '/mnt': folder }
      expect(await text((await plugin(of(read), { ...wasi, allowedPaths })).call('run'))).toBe('hello world!')
      expect(await text((await plugin(of(read, { allowedPaths }), wasi)).call('run'))).toBe('hello world!')
      const side = { data: read, name: 'side' }
      const main = extismGuest(`(import "side" "run" (func $side)) (func (export "main") (call $side))`)
      const linked = await plugin({ wasm: [side, { data: main, name: 'main' }] }, { ...wasi, allowedPaths })
      expect(await text(linked.call('main'))).toBe('hello world!')
      expect(await messageOf(plugin(of(read), { ...wasi, allowedPaths: { '/mnt': `ro:${folder}` } }))).toBe(
        `Readonly dirs are not supported: ro:${folder}`,
      )
    })

    test('blocks have a limit of pages', async () => {
      const logger: Console = { ...console, error: vi.fn() }
      const hungry = extismGuest(`(func (export "take")
        (if (i64.eqz (call $alloc (i64.mul (i64.load (i32.const 0)) (i64.const 65536)))) (then (unreachable))))
        (func (export "five") (i64.store (i32.const 0) (i64.const 5))
          (if (i64.eqz (call $alloc (i64.mul (i64.load (i32.const 0)) (i64.const 65536)))) (then (unreachable))))`)
      const few = await plugin(of(hungry, { memory: { maxPages: 2 } }), { ...mode, logger })
      await expect(few.call('five')).rejects.toThrow('unreachable')
      const enough = await plugin(of(hungry, { memory: { maxPages: 6 } }), { ...mode, logger })
      expect(await enough.call('five')).toBe(null)
      if (!isWorker) expect(logger.error).toHaveBeenCalledOnce()
    })

    test('close may be called twice', async () => {
      const made = await create(of(echo), mode)
      await made.call('echo', 'x')
      await made.close()
      await made.close()
      if (isWorker) expect(await messageOf(made.call('echo', 'x'))).toBe('worker not initialized')
      else expect(await text(made.call('echo', 'x'))).toBe('x')
    })
  })

  describe('only in a worker', () => {
    test('host functions may be async', async () => {
      const made = await plugin(of(relay), {
        runInWorker: true,
        functions: {
          'extism:host/user': {
            relay: async (context: Context, _at: bigint) => {
              await new Promise(setImmediate)
              return context.store('it works')
            },
          },
        },
      })
      const called = made.call('run', 'x')
      expect(made.isActive()).toBe(true)
      expect(await made.reset()).toBe(false)
      expect(await text(called)).toBe('it works')
      expect(made.isActive()).toBe(false)
    })

    test('a call has a time limit, after which the next one finds a new guest', async () => {
      const compiled = await WebAssembly.compile(loop as Uint8Array<ArrayBuffer>)
      await expect(plugin(compiled, { timeoutMs: 100 })).rejects.toThrow(TypeError)
      // The SDK's limit is one for the thread's own start, too.
      const made = await plugin(of(loop), { runInWorker: true, timeoutMs: isOurs ? 300 : 1_000 })
      expect(await messageOf(made.call('loop'))).toBe('EXTISM: call canceled due to timeout')
      expect(await text(made.call('echo', 'again'))).toBe('again')
    })

    test('the start has the same limit', async () => {
      const endless = guestBytes('(module (func $f (loop $again (br $again))) (start $f))')
      expect(await messageOf(plugin(of(endless), { runInWorker: true, timeoutMs: 300 }))).toBe(
        'EXTISM: timed out while waiting for plugin to instantiate',
      )
    })

    describe('HTTP', () => {
      const options = { runInWorker: true, allowedHosts: ['127.0.0.*'] }
      const request = (url: string, more: object = {}) => JSON.stringify({ url, ...more })

      test('reaches the hosts that are allowed, and no other', async () => {
        const url = await serve((_request, response) => response.end('{"id":1}'))
        const allowed = await plugin(of(http), options)
        expect((await allowed.call('get', request(url)))?.json()).toEqual({ id: 1 })
        expect(await number(allowed.call('body', request(url)))).toBe(200n)
        const byManifest = await plugin(of(http, { allowedHosts: ['127.0.0.1'] }), { runInWorker: true })
        expect((await byManifest.call('get', request(url)))?.json()).toEqual({ id: 1 })
        const refused = await plugin(of(http), { runInWorker: true, allowedHosts: ['*.example.com'] })
        expect(await messageOf(refused.call('get', request('https://other.invalid/todos/1')))).toBe(
          'Call error: HTTP request to "https://other.invalid/todos/1" is not allowed (no allowedHosts match "other.invalid")',
        )
      })

      test('sends method, headers and body', async () => {
        const url = await serve((received, response) => {
          const chunks: Buffer[] = []
          received.on('data', (chunk) => chunks.push(chunk))
          received.on('end', () => {
            response.end(`${received.method} ${received.headers['x-one']} ${Buffer.concat(chunks)}`)
          })
        })
        const made = await plugin(of(http), options)
        const post = request(url, { method: 'post', headers: { 'x-one': '1' } })
        expect(await text(made.call('post', post))).toBe(`POST 1 ${post}`)
        expect(await text(made.call('post', request(url, { header: { 'x-one': '2' } })))).toBe('GET 2 ')
      })

      test('gives the headers of a response if that is allowed', async () => {
        const url = await serve((_request, response) => response.setHeader('x-two', '2').end('x'))
        const made = await plugin(of(http), { ...options, allowHttpResponseHeaders: true })
        expect((await made.call('headers', request(url)))?.json()).toMatchObject({ 'x-two': '2' })
      })

      test('has a limit of bytes', async () => {
        const logger: Console = { ...console, error: vi.fn() }
        const url = await serve((_request, response) => response.end('12345'))
        const memory = { maxHttpResponseBytes: 5 }
        const made = await plugin(of(http, { memory }), { ...options, logger, logLevel: 'error' })
        // The SDK lets the guest continue, without a body.
        if (isOurs) expect(await text(made.call('get', request(url)))).toBe('12345')
        else expect(await made.call('null', request(url))).toBe(null)
        const longer = await serve((_request, response) => response.end('123456'))
        const called = made.call('null', request(longer))
        if (isOurs) await expect(called).rejects.toThrow('Response body exceeded 5 bytes')
        else expect(await called).toBe(null)
        if (!isOurs) expect(logger.error).toHaveBeenCalledWith('Response body exceeded 5 bytes')
        const more = await plugin(of(http, { memory: { maxHttpResponseBytes: 6 } }), options)
        expect(await text(more.call('get', request(url)))).toBe('12345')
      })

      test('uses the function of the options', async () => {
        const fetch = async () => new Response('mine')
        const made = await plugin(of(http), {
          ...options,
          allowedHosts: ['a.b'],
          fetch: fetch as typeof globalThis.fetch,
        })
        expect(await text(made.call('get', request('https://a.b/')))).toBe('mine')
      })
    })
  })
})

test('both have the same names', () => {
  const names = Object.keys(ours).filter((name) => name !== 'module.exports')
  expect(names.sort()).toEqual(Object.keys(sdk).sort())
  expect(Object.keys(ours.CAPABILITIES).sort()).toEqual(Object.keys(sdk.CAPABILITIES).sort())
  expect(ours.CAPABILITIES).toEqual(sdk.CAPABILITIES)
  expect(ours.default).toBe(ours.createPlugin)
})

/* What the SDK does otherwise, or not at all. */
describe('differences', () => {
  const { createPlugin } = ours

  async function plugin(manifest: unknown, options?: Options): Promise<Plugin> {
    const opened = await (createPlugin as Create)(manifest, options)
    open.push(opened)
    return opened
  }

  const of = (bytes: Uint8Array, more: object = {}) => ({ wasm: [{ data: bytes }], ...more })
  const text = async (called: Promise<ours.PluginOutput | null>) => (await called)?.text()

  test.each<[string, unknown, string]>([
    ['an object', { a: [1] }, '{"a":[1]}'],
    ['an array', [1, 2], '[1,2]'],
    ['a number', 42, '42'],
    ['an ArrayBuffer', new Uint8Array([104, 105]).buffer, 'hi'],
    ['a view', new DataView(new Uint8Array([0, 104, 105]).buffer, 1), 'hi'],
    ['null', null, ''],
  ])('an input may be %s', async (_, input, answer) => {
    const made = await plugin(of(echo))
    expect(await text(made.call('echo', input as object))).toBe(answer)
  })

  test('an output is the bytes that were named, and a part of the input is copied', async () => {
    const part = extismGuest(
      '(func (export "part") (call $output_set (i64.add (call $input_offset) (i64.const 1)) (i64.const 2)))',
    )
    const made = await plugin(of(part))
    const input = new Uint8Array(Buffer.from('abcd'))
    const output = await made.call('part', input)
    expect(output?.text()).toBe('bc')
    input.fill(0)
    expect(output?.text()).toBe('bc')
  })

  test('a guest that stores into its input leaves the array of the caller as it was', async () => {
    const made = await plugin(
      of(
        extismGuest(`(func (export "change")
          (call $store_u8 (call $input_offset) (i32.const 88))
          (call $output_set (call $input_offset) (call $input_length)))`),
      ),
    )
    for (const length of [10, 10_000]) {
      const input = new Uint8Array(length).fill(97)
      expect(await text(made.call('change', input))).toBe(`X${'a'.repeat(length - 1)}`)
      expect(input[0]).toBe(97)
    }
  })

  test('an input may be changed or given away while an async host function waits', async () => {
    const twice = extismGuest(`
      (import "extism:host/user" "wait" (func $wait (param i64) (result i64)))
      (func (export "reads") (drop (call $wait (i64.const 0))) (call $answer (call $copy)))
      (func (export "reads_twice") (drop (call $input_load_u8 (i64.const 0)))
        (drop (call $wait (i64.const 0))) (call $answer (call $copy)))
      (func (export "names") (drop (call $wait (i64.const 0)))
        (call $output_set (call $input_offset) (call $input_length)))
      (func (export "asks") (call $answer (call $wait (call $input_offset))))`)
    const other = await plugin(of(echo))
    const changes: ((input: Uint8Array<ArrayBuffer>) => void)[] = [
      (input) => void input.fill(98),
      (input) => void structuredClone(input, { transfer: [input.buffer] }),
    ]
    const modes = [...(ours.CAPABILITIES.supportsJSPromiseInterface ? [{}] : []), { runInWorker: true }]
    for (const mode of modes)
      for (const change of changes)
        for (const name of ['reads', 'reads_twice', 'names', 'asks']) {
          const input = new Uint8Array(10_000).fill(97)
          const wait = async (current: Context, at: bigint) => {
            const before = current.read(at)
            await other.call('echo', input)
            change(input)
            await nextTurn()
            return before ? current.store(before.bytes()) : at
          }
          const made = await plugin(of(twice), { ...mode, functions: { 'extism:host/user': { wait } } })
          expect(await text(made.call(name, input)), name).toBe('a'.repeat(10_000))
          expect(input[0]).not.toBe(97)
        }
  })

  test('no method of an output writes', async () => {
    const output = await (await plugin(of(echo))).call('echo', 'eight by')
    const writers = Object.getOwnPropertyNames(DataView.prototype).filter((name) => name.startsWith('set'))
    expect(writers.length).toBeGreaterThanOrEqual(10)
    for (const name of writers) {
      const write: unknown = Reflect.get(output ?? {}, name)
      expect(
        () => typeof write === 'function' && write.call(output, 0, name.includes('Big') ? 1n : 1),
      ).toThrow('Cannot set values on output')
    }
    expect(output?.text()).toBe('eight by')
  })

  test('a thread answers what exports there are while a call runs', async () => {
    const waiting = await plugin(of(relay), {
      runInWorker: true,
      functions: { 'extism:host/user': { relay: async (_current: Context, at: bigint) => at } },
    })
    const called = waiting.call('run', 'x')
    expect(await waiting.functionExists('run')).toBe(true)
    expect((await waiting.getExports()).length).toBeGreaterThan(0)
    expect((await waiting.getImports()).length).toBeGreaterThan(0)
    expect(await text(called)).toBe('x')
    await waiting.close()
    expect(await waiting.functionExists('run')).toBe(true)
  })

  test('calls that are made at the same time do not mix', async () => {
    const made = await plugin(of(echo))
    const inputs = ['one', 'two', 'three', 'four']
    const outputs = await Promise.all(inputs.map((input) => text(made.call('copy', input))))
    expect(outputs).toEqual(inputs)
  })

  test('a program may end itself in a call', async () => {
    const exits = (code: number) =>
      extismGuest(`
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func (export "run") (call $answer (call $copy)) (call $exit (i32.const ${code})))
        (func (export "_initialize"))`)
    for (const runInWorker of [false, true]) {
      const well = await plugin(of(exits(0)), { useWasi: true, runInWorker })
      expect(await text(well.call('run', 'done'))).toBe('done')
      const ill = await plugin(of(exits(3)), { useWasi: true, runInWorker })
      await expect(ill.call('run', 'done')).rejects.toThrow(
        'Plugin-originated error: function "run" returned 3',
      )
    }
  })

  test('only an i32 is a return code', async () => {
    const guest = extismGuest(`
      (func (export "code") (result i32) (i32.const 3))
      (func (export "long") (result i64) (i64.const 3))
      (func (export "single") (result f32) (f32.const 3))
      (func (export "double") (result f64) (call $answer (call $copy)) (f64.const nan))
      (func (export "pair") (result i32 i32) (i32.const 1) (i32.const 2))`)
    for (const runInWorker of [false, true]) {
      const made = await plugin(of(guest), { runInWorker })
      await expect(made.call('code', '')).rejects.toThrow('returned 3')
      for (const name of ['long', 'single', 'pair']) expect(await made.call(name, '')).toBe(null)
      expect(await text(made.call('double', 'x'))).toBe('x')
    }
  })

  test('a manifest may be written in snake case, as an object or as JSON', async () => {
    const manifest = {
      wasm: [{ data: Buffer.from(loop).toString('base64') }],
      timeout_ms: 300,
      memory: { max_pages: 1 },
    }
    for (const each of [manifest, JSON.stringify(manifest)]) {
      expect(await text((await plugin(each)).call('echo', 'x'))).toBe('x') // nothing is stopped here
      const worker = await plugin(each, { runInWorker: true })
      await expect(worker.call('loop')).rejects.toThrow('EXTISM: call canceled due to timeout')
      await expect(worker.call('echo', 'x'.repeat(100_000))).rejects.toMatchObject({
        code: 'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
      })
      expect(await text(worker.call('echo', 'x'))).toBe('x')
    }
    const hosts = { wasm: [{ data: http }], allowed_hosts: ['*'] }
    if (!('Suspending' in WebAssembly)) await expect(plugin(hosts)).rejects.toThrow(TypeError)
  })

  test('the digest is that of the bytes, also of a part of a buffer', async () => {
    const hash = createHash('sha256').update(echo).digest('hex')
    const data = Buffer.concat([Buffer.alloc(8), echo, Buffer.alloc(8)]).subarray(8, 8 + echo.length)
    expect(await text((await plugin({ wasm: [{ data, hash: hash.toUpperCase() }] })).call('echo', 'x'))).toBe(
      'x',
    )
  })

  test('file URLs are read', async () => {
    const url = pathToFileURL(file('url-echo.wasm', echo))
    const json = pathToFileURL(file('url-echo.json', JSON.stringify({ wasm: [{ url }] })))
    for (const each of [url, url.href, json])
      expect(await text((await plugin(each)).call('echo', 'x'))).toBe('x')
  })

  test('the instance is there, unless it is in a thread', async () => {
    const instance = await (await plugin(of(counter))).getInstance()
    expect(instance.exports.count).toBeTypeOf('function')
    const worker = await plugin(of(counter), { runInWorker: true })
    await expect(worker.getInstance()).rejects.toMatchObject({ code: 'WASM_SERVE_EXTISM_INSTANCE_REMOTE' })
  })

  test('close ends a call that runs', async () => {
    const made = await plugin(of(loop), { runInWorker: true })
    const called = made.call('loop')
    const settled = expect(called).rejects.toMatchObject({ code: 'WASM_SERVE_EXTISM_PLUGIN_CLOSED' })
    await made.close()
    await settled
    expect(made.isActive()).toBe(false)
  })

  test('a thread that ends by itself is replaced', async () => {
    const preload = file(
      'end-thread.cjs',
      `require('node:worker_threads').parentPort.on('message', ({ call }) => { if (call === 'fail') process.exit(7) })`,
    )
    const nodeWorkerArgs = { execArgv: ['--require', preload] }
    const made = await plugin(of(echo), { runInWorker: true, nodeWorkerArgs })
    expect(await text(made.call('echo', 'x'))).toBe('x')
    await expect(made.call('fail', 'x')).rejects.toMatchObject({ code: 'WASM_SERVE_EXTISM_THREAD_LOST' })
    expect(await text(made.call('echo', 'y'))).toBe('y')
  })

  test('the functions that were passed are left alone', async () => {
    const functions = {}
    await plugin(of(vars), { runInWorker: true, functions })
    expect(functions).toEqual({})
  })

  test('a function that is async and bound is found out', async () => {
    const functions = {
      'extism:host/user': { relay: (async (_current: Context, at: bigint) => at).bind(null) },
    }
    const made = plugin(of(relay), { functions })
    if (ours.CAPABILITIES.supportsJSPromiseInterface)
      expect(await text((await made).call('run', 'x'))).toBe('x')
    else await expect(made).rejects.toThrow(TypeError)
  })

  test('variables outlive a thread that was ended', async () => {
    const both = extismGuest(`
      (data (i32.const 0) "v")
      (func (export "loop") (loop $again (br $again)))
      (func (export "set") (call $var_set (call $text (i32.const 0) (i32.const 1)) (call $copy)))
      (func (export "get") (call $answer (call $var_get (call $text (i32.const 0) (i32.const 1)))))`)
    const made = await plugin(of(both), { runInWorker: true, timeoutMs: 300 })
    await made.call('set', 'kept')
    await expect(made.call('loop')).rejects.toThrow('timeout')
    expect(await text(made.call('get'))).toBe('kept')
  })

  test('a start that fails rejects, also in a worker', async () => {
    const traps = guestBytes('(module (func $f (unreachable)) (start $f))')
    for (const runInWorker of [false, true])
      await expect(plugin(of(traps), { runInWorker })).rejects.toThrow(WebAssembly.RuntimeError)
  })

  test('a redirect leads only to hosts that are allowed', async () => {
    const seen: unknown[] = []
    const fetch = async (url: unknown, init?: RequestInit) => {
      const headers = new Headers(init?.headers)
      seen.push([String(url), init?.method, headers.get('authorization'), init?.body ? 'body' : null])
      const location = {
        'https://a.test/': 'https://b.test/x',
        'https://b.test/x': 'http://169.254.169.254/',
      }[String(url)]
      return location ? new Response(null, { status: 302, headers: { location } }) : new Response('secret')
    }
    const made = await plugin(of(http), {
      runInWorker: true,
      allowedHosts: ['*.test'],
      fetch: fetch as typeof globalThis.fetch,
    })
    const request = JSON.stringify({
      url: 'https://a.test/',
      method: 'POST',
      headers: { authorization: 'key' },
    })
    await expect(made.call('post', request)).rejects.toThrow('no allowedHosts match "169.254.169.254"')
    expect(seen).toEqual([
      ['https://a.test/', 'POST', 'key', 'body'],
      ['https://b.test/x', 'GET', null, null],
    ])
  })

  test.each<[string, readonly string[], readonly string[]]>([
    ['*', ['a', 'a.b'], ['.a']],
    ['*.a.b', ['x.a.b', 'y.x.a.b'], ['a.b', 'xa.b', 'x.a.bc', '.a.b']],
    ['a?.b', ['ax.b'], ['a.b', 'axx.b']],
    ['{a,b}.c', ['a.c', 'b.c'], ['ab.c', '{a,b}.cc']],
    ['[a-c].d', ['a.d', 'c.d'], ['e.d']],
    ['[!a].d', ['b.d'], ['a.d']],
    ['!a.b', ['c'], ['a.b']],
    ['a.b', ['a.b'], ['axb', 'a.bc', '']],
    ['[::1]', ['[::1]'], ['[::2]']],
  ])('the pattern %s matches hosts', (pattern, hosts, others) => {
    const matches = hostMatcher([pattern])
    expect(hosts.filter((host) => !matches(host))).toEqual([])
    expect(others.filter(matches)).toEqual([])
  })

  test('an offset within a block, and one far away, name none', async () => {
    const seen: unknown[] = []
    const relayed = async (options: Options) => {
      const made = await plugin(of(relay), {
        ...options,
        functions: {
          'extism:host/user': {
            relay: (context: Context, at: bigint) => {
              for (const offset of [at + 1n, 1n, -1n, 1n << 32n, (1n << 64n) - 1n])
                seen.push(context.read(offset), context.length(offset))
              return at
            },
          },
        },
      })
      await made.call('run', 'abcdefgh')
    }
    await relayed({})
    await relayed({ runInWorker: true })
    expect(new Set(seen)).toEqual(new Set([null, 0n]))
  })

  test('a hundred thousand calls leave the blocks as they were', async () => {
    const grown: bigint[] = []
    const probe = extismGuest(`
      (func (export "run") (local $at i64)
        (local.set $at (call $alloc (i64.const 8)))
        (call $store_u64 (local.get $at) (local.get $at))
        (call $answer (local.get $at)))`)
    const made = await plugin(of(probe))
    for (let i = 0; i < 100_000; i++) {
      const output = await made.call('run', 'some input')
      if (i % 10_000 === 0) grown.push(output?.getBigUint64(0, true) ?? 0n)
    }
    expect(new Set(grown).size).toBe(1)
  })
})
