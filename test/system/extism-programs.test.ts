import { createHash } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import * as sdk from '@extism/extism'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import * as ours from '../../src/extism.ts'
import { extismGuest } from '../support/extism-guest.ts'

/*
 * Programs as users of `@extism/extism` write them. Each runs with the SDK and with `wasm-serve/extism`; only `create`
 * differs. `isOurs` marks what the SDK does in another way.
 */

type Options = ours.ExtismPluginOptions
type Plugin = ours.Plugin
type Context = ours.CallContext
type Create = (manifest: unknown, options?: Options) => Promise<Plugin>

/** Whether host functions may be async without a worker. */
const { supportsJSPromiseInterface: canSuspend } = sdk.CAPABILITIES

const open: Plugin[] = []
const ended: (() => void)[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((plugin) => plugin.close()))
})

afterAll(() => {
  for (const end of ended) end()
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ended.push(() => server.close())
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

const echo = extismGuest(`
  (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))
  (func (export "copy") (call $answer (call $copy)))
  (func (export "change")
    (call $store_u8 (call $input_offset) (i32.const 88))
    (call $output_set (call $input_offset) (call $input_length)))
  (func (export "last") (local $at i64)
    (local.set $at (call $alloc (i64.const 1)))
    (call $store_u8 (local.get $at) (call $input_load_u8 (i64.sub (call $input_length) (i64.const 1))))
    (call $answer (local.get $at)))`)

/** Counts calls in a store of the host's, as the guest of the SDK's README does. */
const counting = extismGuest(`
  (import "extism:host/user" "kv_read" (func $kv_read (param i64) (result i64)))
  (import "extism:host/user" "kv_write" (func $kv_write (param i64 i64)))
  (data (i32.const 0) "count")
  (func (export "count") (local $value i64) (local $next i64)
    (local.set $value (call $kv_read (call $text (i32.const 0) (i32.const 5))))
    (local.set $next (call $alloc (i64.const 4)))
    (call $store_u8 (local.get $next) (i32.add (call $load_u8 (local.get $value)) (i32.const 1)))
    (call $kv_write (call $text (i32.const 0) (i32.const 5)) (local.get $next))
    (call $answer (local.get $next)))`)

const relay = extismGuest(`
  (import "extism:host/user" "relay" (func $relay (param i64) (result i64)))
  (func (export "run") (call $answer (call $relay (call $copy))))`)

const twoNamespaces = extismGuest(`
  (import "extism:host/user" "first" (func $first (param i64) (result i64)))
  (import "env" "second" (func $second (param i64) (result i64)))
  (func (export "run") (call $answer (call $second (call $first (call $copy)))))`)

const numbers = extismGuest(`
  (import "math" "mix" (func $mix (param i32 i64 f32 f64) (result f64)))
  (import "math" "int" (func $int (param i32) (result i32)))
  (import "math" "void" (func $void (param i32)))
  (func (export "run") (local $at i64)
    (call $void (i32.const -1))
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (i64.reinterpret_f64 (f64.add
      (call $mix (i32.const -2) (i64.const -3) (f32.const 0.5) (f64.const 1.25))
      (f64.convert_i32_s (call $int (i32.const 20))))))
    (call $answer (local.get $at)))`)

const vars = extismGuest(`
  (import "extism:host/user" "touch" (func $touch))
  (data (i32.const 0) "v")
  (func (export "set") (call $var_set (call $text (i32.const 0) (i32.const 1)) (call $copy)))
  (func (export "touched") (call $touch) (call $answer (call $var_get (call $text (i32.const 0) (i32.const 1)))))`)

const logs = extismGuest(`
  (func (export "log") (call $log_trace (call $copy)) (call $log_info (call $copy)) (call $answer (call $copy)))`)

const http = extismGuest(`
  (func (export "get") (call $answer (call $http_request (call $copy) (i64.const 0))))
  (func (export "headers") (local $at i64)
    (drop (call $http_request (call $copy) (i64.const 0)))
    (local.set $at (call $http_headers))
    (if (i64.eqz (local.get $at)) (then (return)))
    (call $answer (local.get $at)))
  (func (export "status") (local $at i64) (local $status i32)
    (drop (call $http_request (call $copy) (i64.const 0)))
    (local.set $status (call $http_status_code))
    (local.set $at (call $alloc (i64.const 8)))
    (call $store_u64 (local.get $at) (i64.extend_i32_u (local.get $status)))
    (call $answer (local.get $at)))`)

const bytes = (length: number) => new Uint8Array(length).map((_, i) => (i * 7 + 1) % 256)

describe.each<[string, Create]>([
  ['@extism/extism', sdk.createPlugin as Create],
  ['wasm-serve/extism', ours.createPlugin as Create],
])('%s', (name, create) => {
  const isOurs = name === 'wasm-serve/extism'

  async function plugin(wasm: Uint8Array, options: Options = {}, more: object = {}): Promise<Plugin> {
    const opened = await create({ wasm: [{ data: wasm }], ...more }, options)
    open.push(opened)
    return opened
  }

  const text = async (called: Promise<ours.PluginOutput | null>) => (await called)?.text()
  const messageOf = (promise: Promise<unknown>): Promise<string> =>
    promise.then(
      () => 'no error',
      (error: Error) => error.message,
    )

  describe('an output', () => {
    test('reads numbers as a DataView does, and refuses to write them', async () => {
      const input = bytes(16)
      const output = await (await plugin(echo)).call('copy', input)
      if (!output) throw new Error('no output')
      const view = new DataView(input.buffer)
      expect([output.byteLength, output.byteOffset]).toEqual([16, 0])
      expect([output.getInt8(9), output.getUint8(9)]).toEqual([view.getInt8(9), view.getUint8(9)])
      for (const isLittle of [true, false]) {
        expect(output.getInt16(1, isLittle)).toBe(view.getInt16(1, isLittle))
        expect(output.getUint16(1, isLittle)).toBe(view.getUint16(1, isLittle))
        expect(output.getInt32(2, isLittle)).toBe(view.getInt32(2, isLittle))
        expect(output.getUint32(2, isLittle)).toBe(view.getUint32(2, isLittle))
        expect(output.getFloat32(3, isLittle)).toBe(view.getFloat32(3, isLittle))
        expect(output.getFloat64(3, isLittle)).toBe(view.getFloat64(3, isLittle))
        expect(output.getBigInt64(4, isLittle)).toBe(view.getBigInt64(4, isLittle))
        expect(output.getBigUint64(4, isLittle)).toBe(view.getBigUint64(4, isLittle))
      }
      expect(() => output.getUint8(16)).toThrow(RangeError)
      const refused = 'Cannot set values on output'
      expect(() => output.setInt8(0, 1)).toThrow(refused)
      expect(() => output.setUint8(0, 1)).toThrow(refused)
      expect(() => output.setInt16(0, 1)).toThrow(refused)
      expect(() => output.setUint16(0, 1)).toThrow(refused)
      expect(() => output.setInt32(0, 1)).toThrow(refused)
      expect(() => output.setUint32(0, 1)).toThrow(refused)
      expect(() => output.setFloat32(0, 1)).toThrow(refused)
      expect(() => output.setFloat64(0, 1)).toThrow(refused)
      expect(() => output.setBigInt64(0, 1n)).toThrow(refused)
      expect(() => output.setBigUint64(0, 1n)).toThrow(refused)
      expect(output.bytes()).toEqual(input)
    })

    test('may have no bytes, or be no JSON', async () => {
      const made = await plugin(echo)
      const empty = await made.call('copy', '')
      expect([empty?.byteLength, empty?.text(), empty?.bytes().length]).toEqual([0, '', 0])
      const broken = await made.call('copy', '{')
      expect(() => broken?.json()).toThrow(SyntaxError)
    })
  })

  describe.each([
    ['inline', {}],
    ['in a worker', { runInWorker: true }],
  ])('%s', (_, mode: Options) => {
    const isWorker = mode.runInWorker === true

    test.each([0, 1, 4_095, 4_096, 65_536, 1 << 20])('an echo of %i bytes', async (length) => {
      const made = await plugin(echo, mode)
      for (const input of [
        bytes(length),
        Buffer.from(bytes(length)),
        bytes(length + 9).subarray(5, length + 5),
      ]) {
        const output = await made.call('echo', input)
        if (isOurs || length > 0) expect(Buffer.compare(output?.bytes() ?? bytes(1), input)).toBe(0)
      }
      expect(await text(made.call('echo', 'é'.repeat(length)))).toBe('é'.repeat(length))
    })

    test('an output stays when the input that it came from changes, if it was a part of a buffer', async () => {
      const made = await plugin(echo, mode)
      const input = new Uint8Array(10_010).fill(97).subarray(5, 10_005)
      const output = await made.call('echo', input)
      input.fill(98)
      expect(output?.text()).toBe('a'.repeat(10_000))
    })

    test('an output stays when calls follow', async () => {
      const made = await plugin(echo, mode)
      const first = await made.call('echo', new Uint8Array(10_000).fill(97))
      await made.call('change', new Uint8Array(10_000).fill(98))
      expect(first?.text()).toBe('a'.repeat(10_000))
    })

    test('a guest that changes a large input names it as output', async () => {
      const made = await plugin(echo, mode)
      expect(await text(made.call('change', 'a'.repeat(10_000)))).toBe(`X${'a'.repeat(9_999)}`)
      expect(await text(made.call('last', `${'a'.repeat(10_000)}Z`))).toBe('Z')
    })

    test('a store of the host is read and written', async () => {
      const store = new Map<string, Uint8Array>()
      const lines: string[] = []
      const made = await plugin(counting, {
        ...mode,
        functions: {
          'extism:host/user': {
            kv_read(current: Context, key: bigint) {
              const value = store.get(current.read(key)?.text() ?? '') ?? new Uint8Array(4)
              lines.push(`read ${new DataView(value.buffer).getUint32(0, true)}`)
              return current.store(value)
            },
            kv_write(current: Context, key: bigint, at: bigint) {
              const value = current.read(at)
              lines.push(`write ${value?.getUint32(0, true)}`)
              store.set(current.read(key)?.text() ?? '', value?.bytes() ?? new Uint8Array())
            },
          },
        },
      })
      expect((await made.call('count'))?.getUint32(0, true)).toBe(1)
      expect((await made.call('count'))?.getUint32(0, true)).toBe(2)
      expect(lines).toEqual(['read 0', 'write 1', 'read 1', 'write 2'])
      expect([...store.keys()]).toEqual(['count'])
    })

    test('host functions may be in several namespaces', async () => {
      const answer = (word: string) => (current: Context, at: bigint) =>
        current.store(`${current.read(at)?.text()} ${word}`)
      const made = await plugin(twoNamespaces, {
        ...mode,
        functions: { 'extism:host/user': { first: answer('one') }, env: { second: answer('two') } },
      })
      expect(await text(made.call('run', 'zero'))).toBe('zero one two')
    })

    test('host functions take and return numbers', async () => {
      const seen: unknown[] = []
      const made = await plugin(numbers, {
        ...mode,
        functions: {
          math: {
            mix: (_context: Context, ...args: unknown[]) => {
              seen.push(...args)
              return 1.5
            },
            int: (_context: Context, n: number) => n * 2,
            void: (_context: Context, n: number) => void seen.push(n),
          },
        },
      })
      const output = await made.call('run')
      // In a worker, the SDK passes no floats back.
      if (!isWorker || isOurs) expect(output?.getFloat64(0, true)).toBe(41.5)
      expect(seen).toEqual([-1, -2, -3n, 0.5, 1.25])
    })

    test('variables are one set for guest and host functions', async () => {
      const seen: unknown[] = []
      const made = await plugin(vars, {
        ...mode,
        functions: {
          'extism:host/user': {
            touch(current: Context) {
              seen.push(current.getVariable('v')?.text(), current.getVariable('none'))
              current.setVariable('v', 'by the host')
            },
          },
        },
      })
      await made.call('set', 'by the guest')
      expect(await text(made.call('touched'))).toBe('by the host')
      expect(seen).toEqual(['by the guest', null])
    })

    test('the limit of variables counts what host functions set', async () => {
      const made = await plugin(
        vars,
        {
          ...mode,
          functions: {
            'extism:host/user': { touch: (current: Context) => current.setVariable('w', bytes(11)) },
          },
        },
        { memory: { maxVarBytes: 10 } },
      )
      expect(await messageOf(made.call('touched'))).toBe(
        'var memory limit exceeded: 11 bytes requested, 10 allowed',
      )
    })

    test('the log level of a context is read and set', async () => {
      const seen: unknown[] = []
      const made = await plugin(relay, {
        ...mode,
        logLevel: 'warn',
        functions: {
          'extism:host/user': {
            relay(current: Context, at: bigint) {
              seen.push(current.logLevel)
              current.logLevel = 'debug'
              seen.push(current.logLevel)
              expect(() => {
                current.logLevel = 'loud' as 'info'
              }).toThrow(TypeError)
              return at
            },
          },
        },
      })
      expect(await text(made.call('run', 'x'))).toBe('x')
      expect(seen).toEqual(['warn', 'debug'])
    })

    test('an error that is no message is refused', async () => {
      const made = await plugin(relay, {
        ...mode,
        functions: { 'extism:host/user': { relay: (current: Context) => current.setError() } },
      })
      expect(await messageOf(made.call('run', 'x'))).toBe('could not store error value')
    })

    test('the runtime of a Haskell guest is started', async () => {
      const haskell = extismGuest(`(global $n (mut i64) (i64.const 0))
        (func (export "_initialize") (global.set $n (i64.const 40)))
        (func (export "hs_init") (param i32 i32) (global.set $n (i64.add (global.get $n) (i64.const 2))))
        (func (export "get") (local $at i64)
          (local.set $at (call $alloc (i64.const 8)))
          (call $store_u64 (local.get $at) (global.get $n))
          (call $answer (local.get $at)))
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))`)
      const made = await plugin(haskell, { ...mode, useWasi: true })
      expect((await made.call('get'))?.getBigUint64(0, true)).toBe(42n)
    })

    test('a logger without a level does not end the program', async () => {
      const error = vi.fn()
      const logger = { error, info: vi.fn() } as Partial<Console> as Console
      const made = await plugin(logs, { ...mode, logger, logLevel: 'trace' })
      if (isWorker) {
        expect(await text(made.call('log', 'hi'))).toBe('hi')
        await vi.waitFor(() => expect(logger.info).toHaveBeenCalledWith('hi'))
        expect(error).toHaveBeenCalledWith('failed to find loglevel="trace" on logger: message=hi')
      } else expect(await messageOf(made.call('log', 'hi'))).toContain('is not a function')
    })

    test('the digest of a response and of a URL is checked', async () => {
      const url = await serve((_request, response) => {
        response.setHeader('content-type', 'application/wasm').end(echo)
      })
      const hash = createHash('sha256').update(echo).digest('hex')
      const responses = async (digest: string) => [
        { url, hash: digest },
        { response: await fetch(url), hash: digest },
      ]
      for (const item of await responses(hash)) {
        const made = await create({ wasm: [item] }, mode)
        open.push(made)
        expect(await made.functionExists('echo')).toBe(true)
      }
      for (const item of await responses('not a good hash'))
        expect(await messageOf(create({ wasm: [item] }, mode))).toContain('hash mismatch')
    })
  })

  /* Where V8 cannot suspend a guest, these need a worker. */
  describe.each([
    ['inline', {}],
    ['in a worker', { runInWorker: true }],
  ])('async, %s', (_, mode: Options) => {
    const isPossible = canSuspend || mode.runInWorker === true

    /** Where it is not possible, `createPlugin` has to say so. */
    async function made(wasm: Uint8Array, options: Options): Promise<Plugin | undefined> {
      if (isPossible) return plugin(wasm, { ...mode, ...options })
      await expect(plugin(wasm, { ...mode, ...options })).rejects.toThrow(TypeError)
      return undefined
    }

    const withRelay = (run: (context: Context, at: bigint) => Promise<unknown>, more: Options = {}) =>
      made(relay, { ...more, functions: { 'extism:host/user': { relay: run } } })

    test('a host function waits, and keeps the context of the call', async () => {
      const seen: unknown[] = []
      const host = { hi: 'there' }
      const waiting = await withRelay(async (current, at) => {
        const before = current.read(at)?.text()
        await new Promise(setImmediate)
        seen.push(before, current.hostContext(), current.read(at)?.text())
        current.setVariable('a', 'kept')
        return current.store(`${before} and ${current.getVariable('a')?.text()}`)
      })
      if (!waiting) return
      for (const input of ['one', 'two']) {
        const called = waiting.call('run', input, host)
        expect(waiting.isActive()).toBe(true)
        expect(await waiting.reset()).toBe(false)
        expect(await text(called)).toBe(`${input} and kept`)
        expect(waiting.isActive()).toBe(false)
      }
      expect(seen).toEqual(['one', host, 'one', 'two', host, 'two'])
      expect(await waiting.reset()).toBe(true)
    })

    test('a host function that rejects rejects the call with the same error', async () => {
      const thrown = new TypeError('expected')
      let isFirst = true
      const rejecting = await withRelay(async (_current, at) => {
        await new Promise(setImmediate)
        if (!isFirst) return at
        isFirst = false
        throw thrown
      })
      if (!rejecting) return
      await expect(rejecting.call('run', 'x')).rejects.toBe(thrown)
      if (mode.runInWorker && !isOurs) return
      expect(await text(rejecting.call('run', 'again'))).toBe('again')
    })

    test('a large input is there after the wait', async () => {
      const large = 'x'.repeat(100_000)
      const waiting = await withRelay(async (current, at) => {
        await new Promise(setImmediate)
        return current.store(current.read(at)?.bytes().slice() ?? '')
      })
      if (waiting) expect((await text(waiting.call('run', large))) === large).toBe(true)
    })

    test('async functions and others may be mixed', async () => {
      const mixed = await made(twoNamespaces, {
        functions: {
          'extism:host/user': { first: (current: Context) => current.store('now') },
          env: {
            async second(current: Context, at: bigint) {
              await new Promise(setImmediate)
              return current.store(`${current.read(at)?.text()} and later`)
            },
          },
        },
      })
      if (mixed) expect(await text(mixed.call('run', 'x'))).toBe('now and later')
    })

    test('a second call in the meantime is refused', async () => {
      const errors: Promise<string>[] = []
      const busy: Plugin | undefined = await withRelay(async (_current, at) => {
        // Inline, the SDK runs it, which breaks the first call.
        if (busy && (isOurs || mode.runInWorker)) errors.push(messageOf(busy.call('run', 'y')))
        await new Promise(setImmediate)
        return at
      })
      if (!busy) return
      expect(await text(busy.call('run', 'x'))).toBe('x')
      if (isOurs || mode.runInWorker) expect(await Promise.all(errors)).toEqual(['plugin is not reentrant'])
    })

    test('requests reach the hosts that are allowed', async () => {
      const url = await serve((request, response) => {
        response.statusCode = request.url === '/missing' ? 404 : 200
        response.setHeader('x-two', '2').end('{"id":1}')
      })
      const options = { allowedHosts: ['127.0.0.*'], allowHttpResponseHeaders: true }
      const request = (path: string) => JSON.stringify({ url: `${url}${path}`, method: 'GET' })
      const fetching = await made(http, options)
      if (!fetching) return
      expect((await fetching.call('get', request('/todos/1')))?.json()).toEqual({ id: 1 })
      expect((await fetching.call('status', request('/missing')))?.getBigUint64(0, true)).toBe(404n)
      expect((await fetching.call('headers', request('/')))?.json()).toMatchObject({ 'x-two': '2' })
      const headless = await made(http, { ...options, allowHttpResponseHeaders: false })
      expect(await headless?.call('headers', request('/'))).toBe(null)
      expect(await messageOf(fetching.call('get', '{"url":"https://other.invalid/todos/1"}'))).toBe(
        'Call error: HTTP request to "https://other.invalid/todos/1" is not allowed (no allowedHosts match "other.invalid")',
      )
    })

    test('a request that fails rejects the call', async () => {
      const failure = new TypeError('fetch failed')
      const fetching = await made(http, {
        allowedHosts: ['a.test'],
        fetch: async () => {
          throw failure
        },
      })
      await expect(
        fetching?.call('get', '{"url":"https://a.test/"}') ?? Promise.reject(failure),
      ).rejects.toBe(failure)
    })
  })
})
