import { describe, expect, onTestFinished, test } from 'vitest'
import { openInline } from '../../../src/engine/inline.ts'
import type { CallContext } from '../../../src/guest/call-context.ts'
import type { HostFunction, HostFunctions } from '../../../src/guest/host-functions.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'
import { linkedPlugin, openLinked } from '../../support/linked.ts'

const runtimes: readonly Runtime[] = [kernel, sdk]

const TRAP = { code: 'WASM_SERVE_GUEST_TRAP' }
const INVALID = { code: 'WASM_SERVE_HOST_FUNCTION_INVALID' }
const ASYNC = { code: 'WASM_SERVE_HOST_FUNCTION_ASYNC' }

const caller = { log: keepLog() }
const reuse = { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY, maxQueue: 1_000 } as const
const bytes = (text: string) => new Uint8Array(Buffer.from(text))

/** An instance of a guest that gives its input to this function, and answers with what it gets back. */
async function openRelay(runtime: Runtime, relay: HostFunction): Promise<Instance> {
  return openLinked(runtime, await linkedPlugin('relay'), { functions: { env: { relay } } })
}

/** A call may throw at once or later: here always later. */
async function call(instance: Instance, input: string, by: object = {}): Promise<string> {
  return Buffer.from(await instance.call('relay', bytes(input), { ...caller, ...by })).toString()
}

/** A guest that calls `f` with these arguments. */
function calling(signature: string, args: string): string {
  return `(module (import "env" "f" (func $f ${signature})) (func (export "relay") (result i32) (call $f ${args})))`
}

/** Sets an error for some inputs, and throws for all but `fine`. */
function sayNo(context: CallContext, at: bigint): bigint {
  const text = context.read(at)?.text()
  if (text === 'fine') return at
  if (text !== 'trap') context.setError('no luck')
  try {
    if (text === 'taken back') context.setError()
  } catch {
    // The SDK throws, and so is the call to fail.
  }
  throw new Error('the database is gone')
}

describe.each(runtimes)('a host function on the $name runtime', (runtime) => {
  test('reads what the guest passes, and stores what it answers', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const block = context.read(at)
      const { who } = block?.json() as { who: string }
      expect(block?.text()).toBe(block?.string())
      expect(Buffer.from(block?.bytes() ?? []).toString()).toBe(block?.text())
      expect(block?.arrayBuffer().byteLength).toBe(Number(context.length(at)))
      expect(block?.byteLength).toBe(Number(context.length(at)))
      expect(block?.getUint8(0)).toBe('{'.charCodeAt(0))
      return context.store(`Grüezi ${who} 😄`)
    })
    expect(await call(instance, '{"who":"Åda"}')).toBe('Grüezi Åda 😄')
  })

  test('gets integers of 64 bits as BigInts, other numbers as numbers, and returns them likewise', async () => {
    const seen: unknown[] = []
    const functions = {
      env: {
        f: (_context: CallContext, ...args: [number, bigint, number]) => {
          seen.push(...args)
          return args[0]
        },
      },
    }
    const guest = calling('(param i32 i64 f64) (result i32)', '(i32.const 0) (i64.const -2) (f64.const 1.5)')
    const instance = await openLinked(runtime, await linkedPlugin(guest), { functions })
    expect(await call(instance, '')).toBe('')
    expect(seen).toEqual([0, -2n, 1.5])
  })

  test('reads an empty text, as a guest passes it', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) =>
      context.store(`text: ${JSON.stringify(context.read(at)?.text())}, length ${context.length(at)}`),
    )
    expect(await call(instance, '')).toBe('text: "", length 0')
  })

  test('finds null where no block is, and length 0', async () => {
    const instance = await openRelay(runtime, (context) => {
      const nowhere = 0x7000_0000_0000_0000n
      return context.store(`${context.read(nowhere)} ${context.length(nowhere)}`)
    })
    expect(await call(instance, 'x')).toBe('null 0')
  })

  test('fills a block that it allocated, and changes one that it was given', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const made = context.alloc(5)
      context.read(made)?.bytes().set(bytes('made:'))
      const given = context.read(at)?.bytes() ?? new Uint8Array()
      given.fill('!'.charCodeAt(0), 0, 1)
      return context.store(`${context.read(made)?.text()}${context.read(at)?.text()}`)
    })
    expect(await call(instance, 'abc')).toBe('made:!bc')
    const writes = await openRelay(runtime, (context, at: bigint) => {
      context.read(at)?.bytes().set(bytes('new'))
      return at
    })
    expect(await call(writes, 'old')).toBe('new')
    const fills = await openRelay(runtime, (context) => {
      const made = context.alloc(4n)
      new Uint8Array(context.read(made)?.arrayBuffer() ?? new ArrayBuffer()).set(bytes('full'))
      return made
    })
    expect(await call(fills, 'x')).toBe('full')
  })

  test('keeps what it has read while it stores so much that memory grows', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const before = context.read(at)?.bytes() ?? new Uint8Array()
      context.store(new Uint8Array(4_000_000).fill(1))
      return context.store(before)
    })
    expect(await call(instance, 'kept')).toBe('kept')
  })

  test('cannot write numbers into what it has read', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const block = context.read(at) as unknown as DataView
      expect(() => block.setUint8(0, 1)).toThrow()
      return at
    })
    expect(await call(instance, 'same')).toBe('same')
  })

  test('keeps variables from call to call', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const last = context.getVariable('last')?.text() ?? 'none'
      if (last === 'forget') context.deleteVariable('last')
      else context.setVariable('last', context.read(at)?.text() ?? '')
      return context.store(last)
    })
    expect(await call(instance, 'first')).toBe('none')
    expect(await call(instance, 'forget')).toBe('first')
    expect(await call(instance, 'x')).toBe('forget')
    expect(await call(instance, 'y')).toBe('none')
  })

  test('makes an error of the call, after which the instance goes on', async () => {
    const instance = await openRelay(runtime, (context, at: bigint) => {
      const text = context.read(at)?.text()
      if (text === 'error') context.setError(new Error('ünlucky'))
      if (text === 'text') context.setError('no luck')
      return at
    })
    await expect(call(instance, 'error')).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_ERROR',
      message: 'ünlucky',
    })
    await expect(call(instance, 'text')).rejects.toMatchObject({ message: 'no luck' })
    expect(await call(instance, 'fine')).toBe('fine')
  })

  test('knows who made the call that it is part of', async () => {
    const instance = await openRelay(runtime, (context) =>
      context.store(context.hostContext<{ id: string }>()?.id ?? 'nobody'),
    )
    expect(await call(instance, 'x', { id: 'request 1' })).toBe('request 1')
    expect(await call(instance, 'x', { id: 'request 2' })).toBe('request 2')
  })

  test('has a log level, which it can set', async () => {
    const instance = await openRelay(runtime, (context) => {
      const before = context.logLevel
      context.logLevel = 'trace'
      return context.store(before)
    })
    expect(await call(instance, 'x')).toBe('trace')
  })

  test('ends the call with what it throws, and is named; its stack is for the log', async () => {
    const instance = await openRelay(runtime, () => {
      throw new Error('the database is gone')
    })
    await expect(call(instance, 'x')).rejects.toMatchObject({
      ...TRAP,
      message: expect.not.stringMatching(/database|\.ts/),
      cause: {
        reason: 'host function "env" "relay": the database is gone',
        guestStack: ['relay'],
        hostStack: expect.stringContaining('host-functions.test.ts'),
      },
    })
  })

  test('that sets an error and throws answers with that error, and the instance is replaced', async () => {
    let opened = 0
    const counted: Runtime = {
      name: runtime.name,
      open(plugin, settings) {
        opened++
        return runtime.open(plugin, settings)
      },
    }
    const functions = { env: { relay: sayNo } }
    const plugin = await linkedPlugin('relay')
    const engine = openInline({
      plugin,
      runtime: counted,
      settings: { ...settingsOf(), functions },
      ...reuse,
    })
    onTestFinished(() => engine.close())
    const call = async (text: string) =>
      Buffer.from(await engine.call('relay', bytes(text), caller)).toString()
    await engine.ready
    await expect(call('no')).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_ERROR',
      message: 'no luck',
      cause: {
        reason: 'host function "env" "relay": the database is gone',
        hostStack: expect.stringContaining('host-functions.test.ts'),
      },
    })
    await expect(call('taken back')).rejects.toMatchObject(TRAP)
    await expect(call('trap')).rejects.toMatchObject(TRAP)
    expect(await call('fine')).toBe('fine')
    expect([opened, engine.stats.restarted]).toEqual([4, 3])
  })

  test('ends the call if it throws what is no error', async () => {
    const instance = await openRelay(runtime, () => {
      throw 'just a text'
    })
    await expect(call(instance, 'x')).rejects.toMatchObject({
      ...TRAP,
      cause: { reason: 'host function "env" "relay": just a text' },
    })
  })

  test.each([undefined, 1, 'x', {}])('ends the call if it returns %s for a BigInt', async (returned) => {
    const instance = await openRelay(runtime, () => returned)
    await expect(call(instance, 'x')).rejects.toMatchObject(TRAP)
  })

  test('ends the call if it returns a promise without being declared async, and says so', async () => {
    const instance = await openRelay(runtime, () => Promise.reject(new Error('unheard')))
    await expect(call(instance, 'x')).rejects.toMatchObject({
      ...TRAP,
      cause: { reason: expect.stringMatching(/"env" "relay".* declare it as an async function/) },
    })
  })

  test('cannot call the instance that it is called by, and if it tries the call goes on as it was', async () => {
    const codes: unknown[] = []
    const instance: Instance = await openRelay(runtime, (_context, at: bigint) => {
      const inner = async () => instance.call('relay', bytes('inner'), caller)
      inner().catch(({ code }) => codes.push(code))
      return at
    })
    expect(await call(instance, 'outer')).toBe('outer')
    expect(await call(instance, 'again')).toBe('again')
    expect(codes).toEqual(['WASM_SERVE_INSTANCE_BUSY', 'WASM_SERVE_INSTANCE_BUSY'])
  })

  test('can be imported by a linked module', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "pass" (func $pass (param i32) (result i32)))
        (func (export "relay") (result i32) (call $pass (i32.const -7))))`,
      {
        lib: `(module (import "env" "f" (func $f (param i32) (result i32)))
          (func (export "pass") (param i32) (result i32) (i32.add (i32.const 7) (call $f (local.get 0)))))`,
      },
    )
    const functions: HostFunctions = { env: { f: (_context, number: number) => number } }
    expect(await call(await openLinked(runtime, plugin, { functions }), '')).toBe('')
  })

  test.each([
    ['a name of the host', 'extism:host/env'],
    ['a name of the host', 'wasi_snapshot_preview1'],
    ['what the main module defines', 'main'],
    ['what a linked module defines', 'lib'],
  ])('cannot be %s (%s)', async (_, name) => {
    const alloc = '(func (export "alloc"))'
    const plugin = await linkedPlugin(`(module ${alloc})`, { lib: `(module ${alloc})` })
    const functions = { [name]: { alloc: () => 0n } }
    await expect(openLinked(runtime, plugin, { functions })).rejects.toMatchObject({
      ...INVALID,
      message: expect.stringContaining(name),
    })
  })

  test('is a function: all that are none are listed', async () => {
    const functions = { env: { one: 1, two: undefined, three: () => 3 } } as unknown as HostFunctions
    await expect(openLinked(runtime, await linkedPlugin('(module)'), { functions })).rejects.toMatchObject({
      ...INVALID,
      message: expect.stringMatching(/env one: .*\n.*env two: /),
    })
  })

  test.each([
    ['env', 'toString'],
    ['env', 'other'],
    ['constructor', 'keys'],
  ])('is its own property: "%s" "%s" is none', async (namespace, name) => {
    const plugin = await linkedPlugin(`(module (import "${namespace}" "${name}" (func)))`)
    await expect(openLinked(runtime, plugin, { functions: { env: {} } })).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
    })
  })

  test('sees no caller while the guest starts', async () => {
    const callers: unknown[] = []
    const plugin = await linkedPlugin(
      '(module (import "env" "f" (func $f)) (func (export "_initialize") (call $f)) (func (export "relay") (call $f)))',
    )
    const functions: HostFunctions = {
      env: {
        f: (context) => {
          callers.push(context.hostContext() ?? null)
        },
      },
    }
    const instance = await openLinked(runtime, plugin, { functions })
    await call(instance, '', { id: 1 })
    expect(callers).toEqual([null, expect.objectContaining({ id: 1 })])
  })
})

describe('a host function on the kernel runtime', () => {
  test('has a context that ends with its call; the one of the sdk would reach the data of the next', async () => {
    const contexts: CallContext[] = []
    const instance = await openRelay(kernel, (context, at: bigint) => {
      contexts.push(context)
      return at
    })
    await call(instance, 'secret')
    const [context] = contexts
    if (!context) throw new Error('it was not called')
    expect(context.hostContext()).toBe(null)
    const uses = [
      () => context.read(1_024n),
      () => context.store('x'),
      () => context.alloc(1),
      () => context.length(1_024n),
      () => context.setError('x'),
      () => context.getVariable('x'),
      () => context.setVariable('x', 'y'),
      () => context.deleteVariable('x'),
    ]
    for (const use of uses) expect(use).toThrow('over')
    expect(await call(instance, 'next')).toBe('next')
  })

  test('reads nothing from hostile offsets, and gets no more than the call may have', async () => {
    const instance = await openRelay(kernel, (context, at: bigint) => {
      const offsets = [1n, -1n, 2n ** 32n, 2n ** 32n + at, 2n ** 64n + at + 1n, at + 1n, 16, -1]
      expect(offsets.map((offset) => context.read(offset))).toEqual(offsets.map(() => null))
      expect(context.read(Number(at))?.text()).toBe('mine')
      expect([0, 0n, -1, 2n ** 40n].map((size) => context.alloc(size))).toEqual([0n, 0n, 0n, 0n])
      expect(context.store('')).toBe(0n)
      expect(() => context.store(new Uint8Array(65 * 2 ** 20))).toThrow('no room')
      expect(() => context.store(5 as unknown as string)).toThrow(TypeError)
      expect(() => context.setVariable('big', new Uint8Array(2 ** 20 + 1))).toThrow('full')
      return at
    })
    expect(await call(instance, 'mine')).toBe('mine')
  })

  test('takes an error back; one without a message is still an error', async () => {
    const instance = await openRelay(kernel, (context, at: bigint) => {
      context.setError(new Error())
      if (context.read(at)?.text() === 'fine') context.setError()
      return at
    })
    expect(await call(instance, 'fine')).toBe('fine')
    await expect(call(instance, 'x')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_ERROR' })
  })

  test('does not make calls answer later', async () => {
    const instance = await openRelay(kernel, (_context, at: bigint) => at)
    expect(instance.call('relay', bytes('now'), caller)).toBeInstanceOf(Uint8Array)
  })

  test('keeps nothing of what it read in the next call of it', async () => {
    const seen: (string | undefined)[] = []
    const plugin = await linkedPlugin(
      `(module (import "env" "f" (func $f (param i64)))
        (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
        (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
        (func (export "relay") (local $at i64)
          (local.set $at (call $alloc (i64.const 1)))
          (call $store_u8 (local.get $at) (i32.const 65)) (call $f (local.get $at))
          (call $store_u8 (local.get $at) (i32.const 66)) (call $f (local.get $at))))`,
    )
    const functions: HostFunctions = {
      env: {
        f: (context, at: bigint) => {
          seen.push(context.read(at)?.text())
        },
      },
    }
    await call(await openLinked(kernel, plugin, { functions }), '')
    expect(seen).toEqual(['A', 'B'])
  })
})

/** Only where V8 can suspend a guest can these run; elsewhere each says what is answered instead. */
const canWait = 'Suspending' in WebAssembly

/** @returns undefined where V8 cannot wait, after having checked that it is refused. */
async function openWaiting(runtime: Runtime, relay: HostFunction): Promise<Instance | undefined> {
  if (canWait) return openRelay(runtime, relay)
  await expect(openRelay(runtime, relay)).rejects.toMatchObject({
    ...ASYNC,
    message: expect.stringMatching(/"env" "relay".*Node 24/),
  })
  return undefined
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

describe.each(runtimes)('an async host function on the $name runtime', (runtime) => {
  test('is waited for', async () => {
    const instance = await openWaiting(runtime, async (context, at: bigint) => {
      const text = context.read(at)?.text()
      await turn()
      return context.store(`${text}, later`)
    })
    if (!instance) return
    expect(await call(instance, 'one')).toBe('one, later')
    expect(await call(instance, 'two')).toBe('two, later')
  })

  test('ends the call with what it rejects with, and is named', async () => {
    const instance = await openWaiting(runtime, async () => {
      await turn()
      throw new Error('the database is gone')
    })
    if (!instance) return
    await expect(call(instance, 'x')).rejects.toMatchObject({
      ...TRAP,
      cause: { reason: 'host function "env" "relay": the database is gone' },
    })
  })

  test('that sets an error and rejects answers with that error', async () => {
    const instance = await openWaiting(runtime, async (context, at: bigint) => {
      await turn()
      return sayNo(context, at)
    })
    if (!instance) return
    await expect(call(instance, 'no')).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_ERROR',
      message: 'no luck',
      cause: { reason: 'host function "env" "relay": the database is gone' },
    })
  })

  test('lets the instance refuse a second call while the first one waits, and the first one goes on', async () => {
    const instance = await openWaiting(runtime, async (_context, at: bigint) => {
      await turn()
      return at
    })
    if (!instance) return
    const first = call(instance, 'first')
    await expect(call(instance, 'second')).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_BUSY' })
    expect(await first).toBe('first')
    expect(await call(instance, 'third')).toBe('third')
  })

  test('that nobody imports is no hindrance', async () => {
    const functions: HostFunctions = { env: { other: async () => 0n } }
    const plugin = await linkedPlugin('(module (func (export "relay")))')
    expect(await call(await openLinked(runtime, plugin, { functions }), '')).toBe('')
  })

  test('can be one that was bound', async () => {
    const relay = async (_context: CallContext, at: bigint) => at
    const instance = await openWaiting(runtime, relay.bind(undefined))
    if (!instance) return
    expect(await call(instance, 'bound')).toBe('bound')
  })

  test('is refused where modules import from each other in a circle', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "f" (func $f)) (func (export "back")) (func (export "relay") (call $f)))`,
      { lib: '(module (import "env" "f" (func)) (import "main" "back" (func)) (export "f" (func 0)))' },
    )
    const opening = openLinked(runtime, plugin, { functions: { env: { f: async () => undefined } } })
    await expect(opening).rejects.toMatchObject({
      ...ASYNC,
      message: expect.stringMatching(canWait ? /"lib", "main"/ : /Node 24/),
    })
  })

  test('is waited for through a linked module', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "f" (func $f (result i32))) (func (export "relay") (result i32) (call $f)))`,
      { lib: '(module (import "env" "f" (func (result i32))) (export "f" (func 0)))' },
    )
    const f = async () => {
      await turn()
      return 0
    }
    const opening = openLinked(runtime, plugin, { functions: { env: { f } } })
    if (!canWait) await expect(opening).rejects.toMatchObject(ASYNC)
    else expect(await call(await opening, '')).toBe('')
  })

  test('cannot be called while the guest starts', async () => {
    const plugin = await linkedPlugin(
      '(module (import "env" "f" (func $f)) (func (export "_initialize") (call $f)) (func (export "relay")))',
    )
    const opening = openLinked(runtime, plugin, { functions: { env: { f: async () => undefined } } })
    await expect(opening).rejects.toMatchObject(
      canWait ? { code: 'WASM_SERVE_INSTANCE_START_FAILED' } : ASYNC,
    )
  })

  test('answers each of many overlapping calls of an engine with its own', async () => {
    const relay = async (context: CallContext, at: bigint) => {
      const { id } = context.hostContext<{ id: string }>() ?? { id: 'nobody' }
      const text = context.read(at)?.text()
      context.setVariable('id', id)
      await turn()
      return context.store(`${text} of ${context.getVariable('id')?.text()}`)
    }
    const settings = { ...settingsOf(), functions: { env: { relay } } }
    const plugin = await linkedPlugin('relay')
    const engine = openInline({ ...reuse, plugin, runtime, settings })
    onTestFinished(() => engine.close())
    if (!canWait) {
      await expect(engine.ready).rejects.toMatchObject(ASYNC)
      return
    }
    const calls = Array.from({ length: 500 }, async (_, i) => {
      const output = await engine.call('relay', bytes(`call ${i}`), {
        ...caller,
        id: `request ${i}`,
      } as object as typeof caller)
      expect(Buffer.from(output).toString()).toBe(`call ${i} of request ${i}`)
    })
    await Promise.all(calls)
  })

  test('leaves nothing of a call that it failed to the calls after it', async () => {
    const relay = async (context: CallContext, at: bigint) => {
      const text = context.read(at)?.text() ?? ''
      await turn()
      if (text.startsWith('bad')) throw new Error(text)
      return context.store(text)
    }
    const settings = { ...settingsOf(), functions: { env: { relay } } }
    const engine = openInline({ ...reuse, plugin: await linkedPlugin('relay'), runtime, settings })
    onTestFinished(() => engine.close())
    if (!canWait) {
      await expect(engine.ready).rejects.toMatchObject(ASYNC)
      return
    }
    const answers = Array.from({ length: 60 }, async (_, i) => {
      const text = `${i % 3 === 0 ? 'bad' : 'good'} ${i}`
      const output = await Promise.resolve(engine.call('relay', bytes(text), caller)).catch((error) => error)
      if (i % 3 === 0) expect(output).toMatchObject({ cause: { reason: expect.stringContaining(text) } })
      else expect(Buffer.from(output).toString()).toBe(text)
    })
    await Promise.all(answers)
  })
})

describe('an async host function on the kernel runtime', () => {
  test('can be called 10,000 times, and memory stays as it is', async () => {
    const instance = await openWaiting(kernel, async (_context, at: bigint) => at)
    if (!instance) return
    await call(instance, 'warm')
    const before = instance.memoryBytes
    for (let i = 0; i < 10_000; i++) {
      const text = await call(instance, `call ${i}`)
      if (text !== `call ${i}`) throw new Error(`call ${i}: ${text}`)
    }
    expect(instance.memoryBytes).toBe(before)
  })

  test('does not change that a guest which recurses without end traps', async () => {
    const plugin = await linkedPlugin(
      '(module (import "env" "f" (func $f)) (func $down (export "relay") (call $f) (call $down)))',
    )
    let waits = 3
    const f = async () => {
      if (--waits > 0) await turn()
      else throw new Error('deep enough')
    }
    const deep = await linkedPlugin(
      '(module (import "env" "f" (func $f)) (func $down (export "relay") (call $down)) (func (export "wait") (call $f)))',
    )
    const opening = Promise.all(
      [plugin, deep].map((each) => openLinked(kernel, each, { functions: { env: { f } } })),
    )
    if (!canWait) {
      await expect(opening).rejects.toMatchObject(ASYNC)
      return
    }
    for (const instance of await opening) await expect(call(instance, '')).rejects.toMatchObject(TRAP)
  })

  test('leaves the log of a call open until it has settled', async () => {
    const plugin = await linkedPlugin(
      `(module (import "env" "f" (func $f)) (import "extism:host/env" "log_warn" (func $log (param i64)))
        (import "extism:host/env" "input_offset" (func $input (result i64)))
        (func (export "relay") (call $f) (call $log (call $input))))`,
    )
    const opening = openLinked(kernel, plugin, { functions: { env: { f: async () => turn() } } })
    if (!canWait) {
      await expect(opening).rejects.toMatchObject(ASYNC)
      return
    }
    const log = keepLog()
    await call(await opening, 'a line', { log })
    expect(log.lines.map(({ message }) => message)).toEqual(['a line'])
  })
})
