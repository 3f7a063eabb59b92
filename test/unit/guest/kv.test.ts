import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { KV_CODES, kvFunctions } from '../../../src/guest/services/kv.ts'
import { type KvClient, type KvPermission, serveKv } from '../../../src/guest/store/kv.ts'
import { openLmdbStore } from '../../../src/guest/store/lmdb.ts'
import { openMemoryStore } from '../../../src/guest/store/memory.ts'
import type { Store } from '../../../src/guest/store/store.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { keepLog } from '../../support/instance.ts'
import { linkedPlugin, openLinked } from '../../support/linked.ts'
import { runs } from '../../support/runs.ts'
import { newFolder } from '../../support/stores.ts'

const runtimes: readonly Runtime[] = [kernel, sdk]
const canWait = 'Suspending' in WebAssembly

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const text = (value: Uint8Array | undefined) => value && Buffer.from(value).toString()
const memory = () => openMemoryStore({ maxBytes: 100_000 })
const ours: KvPermission = { namespace: 'ours', access: 'readwrite' }

/** One part of what a guest is asked for: what it calls, and with what. */
type Argument = string | Uint8Array | bigint

/**
 * A guest that calls one function, and gives back what it got: 8 bytes of the number, and the block if it is one.
 * Its input is its arguments: a number, or bytes that it makes a block of.
 */
async function openCaller(
  runtime: Runtime,
  [namespace, name]: readonly [string, string],
  parameters: string,
  client: KvClient,
): Promise<Instance> {
  const kinds = [...parameters]
  const result = name === 'kv_write' ? '' : '(result i64)'
  const guest = `(module
    (import "${namespace}" "${name}" (func $f ${kinds.map(() => '(param i64)').join(' ')} ${result}))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "length" (func $length (param i64) (result i64)))
    (import "extism:host/env" "load_u8" (func $load (param i64) (result i32)))
    (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
    (import "extism:host/env" "input_load_u8" (func $in (param i64) (result i32)))
    (import "extism:host/env" "input_load_u64" (func $in64 (param i64) (result i64)))
    (import "extism:host/env" "output_set" (func $output (param i64 i64)))
    (global $at (mut i64) (i64.const 0))
    ;; An i64 of the input.
    (func $number (result i64)
      (global.set $at (i64.add (global.get $at) (i64.const 8)))
      (call $in64 (i64.sub (global.get $at) (i64.const 8))))
    ;; A block with as many bytes of the input as the i64 before them says; 0 if none.
    (func $block (result i64) (local $n i64) (local $i i64) (local $b i64)
      (local.set $n (call $number))
      (local.set $b (call $alloc (local.get $n)))
      (block $done (loop $next
        (br_if $done (i64.ge_u (local.get $i) (local.get $n)))
        (call $store (i64.add (local.get $b) (local.get $i))
                     (call $in (i64.add (global.get $at) (local.get $i))))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
      (global.set $at (i64.add (global.get $at) (local.get $n)))
      (local.get $b))
    (func (export "relay") (local $r i64) (local $n i64) (local $i i64) (local $o i64)
      (global.set $at (i64.const 0))
      ${result && '(local.set $r '}(call $f ${kinds.map((kind) => (kind === 'b' ? '(call $block)' : '(call $number)')).join(' ')})${result && ')'}
      (if (i64.gt_s (local.get $r) (i64.const 0)) (then (local.set $n (call $length (local.get $r)))))
      (local.set $o (call $alloc (i64.add (local.get $n) (i64.const 8))))
      (block $done (loop $next
        (br_if $done (i64.ge_u (local.get $i) (i64.const 8)))
        (call $store (i64.add (local.get $o) (local.get $i))
          (i32.wrap_i64 (i64.shr_u (local.get $r) (i64.mul (local.get $i) (i64.const 8)))))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
      (local.set $i (i64.const 0))
      (block $done (loop $next
        (br_if $done (i64.ge_u (local.get $i) (local.get $n)))
        (call $store (i64.add (i64.add (local.get $o) (i64.const 8)) (local.get $i))
                     (call $load (i64.add (local.get $r) (local.get $i))))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
      (call $output (local.get $o) (i64.add (local.get $n) (i64.const 8)))))`
  return openLinked(runtime, await linkedPlugin(guest), { functions: kvFunctions(client) })
}

interface Answer {
  readonly code: bigint
  readonly block: Uint8Array
}

async function ask(instance: Instance, ...given: Argument[]): Promise<Answer> {
  const parts = given.flatMap((argument) => {
    if (typeof argument === 'bigint') return [i64(argument)]
    const block = typeof argument === 'string' ? bytes(argument) : argument
    return [i64(BigInt(block.length)), block]
  })
  const output = await instance.call('relay', Buffer.concat(parts), { log: keepLog() })
  const code = Buffer.from(output).readBigInt64LE()
  return { code: code > 0n ? 1n : code, block: new Uint8Array(output.subarray(8)) }
}

function i64(number: bigint): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt.asIntN(64, number))
  return bytes
}

/** Every function of ours, ready to be called on this runtime. */
async function openAll(runtime: Runtime, client: KvClient) {
  const open = async (name: string, parameters: string) => {
    const instance = await openCaller(runtime, ['wasm-serve:kv', name], parameters, client)
    let last: Promise<unknown> = Promise.resolve()
    return (...given: Argument[]) => {
      const answer = last.then(() => ask(instance, ...given)) // an instance runs one call at a time
      last = answer
      return answer
    }
  }
  return {
    get: await open('get', 'b'),
    set: await open('set', 'bbn'),
    delete: await open('delete', 'b'),
    list: await open('list', 'bbn'),
    compareAndSwap: await open('compare_and_swap', 'bbbn'),
    setIfAbsent: await open('set_if_absent', 'bbn'),
  }
}

const DONE = { code: 0n }
const withCode = (name: keyof typeof KV_CODES) => ({ code: KV_CODES[name] })

describe.each(runtimes)('the store of a guest on the $name runtime', (runtime) => {
  test("is what the functions of Extism's example read and write; what is not there is four zero bytes", async () => {
    const store = memory()
    const client = serveKv(store, ours)
    const read = await openCaller(runtime, ['extism:host/user', 'kv_read'], 'b', client)
    const write = await openCaller(runtime, ['extism:host/user', 'kv_write'], 'bb', client)
    expect(await ask(read, 'count')).toMatchObject({ block: new Uint8Array(4) })
    expect(await ask(write, 'count', bytes('\x05\0\0\0'))).toMatchObject(DONE)
    expect(text((await ask(read, 'count')).block)).toBe('\x05\0\0\0')
    expect(text(await store.get('ours', 'count'))).toBe('\x05\0\0\0')
  })

  test('answers and keeps what it is asked to', async () => {
    const store = memory()
    const kv = await openAll(runtime, serveKv(store, ours))
    expect(await kv.get('a')).toMatchObject(withCode('notFound'))
    expect(await kv.set('a', 'value', 0n)).toMatchObject(DONE)
    expect(text((await kv.get('a')).block)).toBe('value')
    expect(await kv.set('empty', '', 0n)).toMatchObject(DONE)
    expect(await kv.get('empty')).toMatchObject({ code: 0n, block: new Uint8Array() })
    expect(await kv.setIfAbsent('a', 'other', 0n)).toMatchObject(withCode('conflict'))
    expect(await kv.setIfAbsent('b', 'first', 0n)).toMatchObject(DONE)
    expect(await kv.compareAndSwap('b', 'wrong', 'second', 0n)).toMatchObject(withCode('conflict'))
    expect(await kv.compareAndSwap('b', 'first', 'second', 0n)).toMatchObject(DONE)
    expect(await kv.compareAndSwap('none', '', 'x', 0n)).toMatchObject(withCode('conflict'))
    expect(text(await store.get('ours', 'b'))).toBe('second')
    expect(await kv.delete('a')).toMatchObject(DONE)
    expect(await kv.delete('a')).toMatchObject(withCode('notFound'))
  })

  test('is listed page by page, as JSON', async () => {
    const kv = await openAll(runtime, serveKv(memory(), ours))
    for (const key of ['b1', 'a', 'b3', 'b2']) await kv.set(key, 'x', 0n)
    const page = async (cursor: string) => JSON.parse(text((await kv.list('b', cursor, 2n)).block) ?? '')
    expect(await page('')).toEqual({ keys: ['b1', 'b2'], cursor: 'b2' })
    expect(await page('b2')).toEqual({ keys: ['b3'] })
  })

  test('forgets in time', async () => {
    let time = 0
    const store = openMemoryStore({ maxBytes: 100_000, now: () => time })
    const kv = await openAll(runtime, serveKv(store, ours))
    await kv.set('a', 'x', 100n)
    await kv.setIfAbsent('b', 'x', 200n)
    await kv.set('c', 'x', 0n)
    await kv.compareAndSwap('c', 'x', 'y', 300n)
    const there = async () => {
      const answers = await Promise.all([kv.get('a'), kv.get('b'), kv.get('c')])
      return answers.map(({ code }) => code > 0n)
    }
    expect(await there()).toEqual([true, true, true])
    time = 100
    expect(await there()).toEqual([false, true, true])
    time = 200
    expect(await there()).toEqual([false, false, true])
    time = 300
    expect(await there()).toEqual([false, false, false])
  })

  test('tells the guest what was wrong, and the guest goes on', async () => {
    const kv = await openAll(runtime, serveKv(memory(), ours))
    const invalid = [
      kv.get(''),
      kv.get(new Uint8Array([0xff])),
      kv.get('x'.repeat(513)),
      kv.set('k', 'v', -1n),
      kv.set('k', 'v', 2n ** 62n),
      kv.list('', '', 0n),
      kv.list('', '', 1_001n),
      kv.list(new Uint8Array([0xc0]), '', 1n),
    ]
    for (const answer of await Promise.all(invalid)) expect(answer).toMatchObject(withCode('invalid'))
    expect(await kv.set('k', new Uint8Array(1_048_577), 0n)).toMatchObject(withCode('too-large'))
    expect(await kv.set('k', new Uint8Array(200_000), 0n)).toMatchObject(withCode('full'))
    expect(await kv.get('k')).toMatchObject(withCode('notFound'))
  })

  test('says that it cannot be reached', async () => {
    const store = await openLmdbStore({ folder: newFolder() })
    await store.close()
    const client = { ...serveKv(store, ours), sync: 'all' as const } // what it throws, it throws at once
    const get = await openCaller(runtime, ['wasm-serve:kv', 'get'], 'b', client)
    expect(await ask(get, 'k')).toMatchObject(withCode('unavailable'))
  })

  test('cannot be written by who may only read', async () => {
    const store = memory()
    store.set('ours', 'k', bytes('v'))
    const client = serveKv(store, { namespace: 'ours', access: 'read' })
    const kv = await openAll(runtime, client)
    expect(text((await kv.get('k')).block)).toBe('v')
    expect((await kv.list('', '', 1n)).code).toBe(1n)
    const writes = [
      kv.set('k', 'x', 0n),
      kv.delete('k'),
      kv.setIfAbsent('n', 'x', 0n),
      kv.compareAndSwap('k', 'v', 'x', 0n),
    ]
    for (const answer of await Promise.all(writes)) expect(answer).toMatchObject(withCode('forbidden'))
    expect(text(await store.get('ours', 'k'))).toBe('v')
    const write = await openCaller(runtime, ['extism:host/user', 'kv_write'], 'bb', client)
    await expect(ask(write, 'k', 'x')).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
      cause: { reason: expect.stringContaining('WASM_SERVE_KV_READ_ONLY') },
    })
  })

  test('has a namespace, or is not opened', () => {
    const open = (namespace: string) => () => serveKv(memory(), { namespace, access: 'read' })
    for (const namespace of ['', 'x'.repeat(256)]) {
      expect(open(namespace)).toThrow(expect.objectContaining({ code: 'WASM_SERVE_KV_ARGUMENT_INVALID' }))
    }
  })

  test("shows nothing of another plug-in's namespace", async () => {
    const store = memory()
    const [one, two] = await Promise.all(
      ['one', 'one:two'].map((namespace) =>
        openAll(runtime, serveKv(store, { namespace, access: 'readwrite' })),
      ),
    )
    await one?.set('two:k', 'secret', 0n)
    expect(await two?.get('k')).toMatchObject(withCode('notFound'))
    expect(text((await two?.list('', '', 10n))?.block)).toBe('{"keys":[]}')
  })

  test('makes the guest wait where the store does, and is refused where guests cannot wait', async () => {
    const store = await openLmdbStore({ folder: newFolder() })
    onTestFinished(() => store.close())
    const client = serveKv(store, ours)
    const opening = openCaller(runtime, ['wasm-serve:kv', 'set'], 'bbn', client)
    if (!canWait) {
      await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_HOST_FUNCTION_ASYNC' })
      await store.set('ours', 'k', bytes('v'))
    } else {
      expect(await ask(await opening, 'k', 'v', 0n)).toMatchObject(DONE)
    }
    // What lmdb reads, it reads at once.
    const get = await openCaller(runtime, ['wasm-serve:kv', 'get'], 'b', client)
    expect(text((await ask(get, 'k')).block)).toBe('v')
  })
})

test('on the kernel runtime ends the call of a guest that names blocks which are none', async () => {
  const get = await openCaller(kernel, ['wasm-serve:kv', 'get'], 'n', serveKv(memory(), ours))
  for (const at of [1n, -1n, 2n ** 40n]) {
    await expect(ask(get, at)).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
  }
})

describe('what goes over the bridge to a store', () => {
  /** Arguments and answers as they are after a thread has posted them. */
  function posted(client: KvClient): KvClient {
    return {
      sync: client.sync,
      call: (operation, ...args) => structuredClone(client.call(operation, ...structuredClone(args))),
    }
  }

  test('is data that threads can post, whatever the guest asks', async () => {
    const store: Store = openMemoryStore({ maxBytes: 2_000 })
    const client = serveKv(store, ours)
    const bridged = posted(serveKv(openMemoryStore({ maxBytes: 2_000 }), ours))
    const key = fc.oneof(fc.constantFrom('a', 'b').map(bytes), fc.uint8Array({ maxLength: 4 }))
    const value = fc.uint8Array({ maxLength: 600 })
    const number = fc.oneof(fc.integer({ min: 1, max: 10 }), fc.constantFrom(0, -1, Number.NaN, 2 ** 60))
    const maybe = fc.option(value, { nil: undefined })
    const request = fc.oneof(
      fc.tuple(fc.constant('get' as const), key),
      fc.tuple(fc.constant('delete' as const), key),
      fc.tuple(fc.constant('set' as const), key, value, fc.constantFrom(0, -1)),
      fc.tuple(fc.constant('list' as const), key, fc.option(key, { nil: undefined }), number),
      fc.tuple(fc.constant('compareAndSwap' as const), key, maybe, value, fc.constantFrom(0, -1)),
    )
    fc.assert(
      fc.property(request, (request) => {
        const [operation, ...args] = request as Parameters<KvClient['call']>
        expect(bridged.call(operation, ...args)).toEqual(client.call(operation, ...args))
      }),
      { numRuns: runs(500) },
    )
  })
})
