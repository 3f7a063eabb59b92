import { describe, expect, onTestFinished, test } from 'vitest'
import { openInline } from '../../../src/engine/inline.ts'
import { hasArrays } from '../../../src/module/writes.ts'
import { type CompiledPlugin, loadPlugin } from '../../../src/plugin/plugin.ts'
import { MemoryReusePolicy } from '../../../src/runtime/instance-reset.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { InstanceSettings, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { guestBytes } from '../../support/guest.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'

const caller = { log: keepLog() }
const input = Buffer.from('some input')
const hello = (toolchain = '') =>
  new URL(`../../../plugins/hello${toolchain}/hello.wasm`, import.meta.url).pathname

/** Calls exports of a plug-in in turn, each on an instance of its own; the numbers that each call answered. */
async function callFresh(
  runtime: Runtime,
  plugin: CompiledPlugin,
  exportNames: readonly string[],
  settings: Partial<InstanceSettings> = {},
): Promise<string[]> {
  const engine = openInline({
    plugin,
    runtime,
    settings: { ...settingsOf(), ...settings },
    maxQueue: 1_000,
    isolation: 'fresh',
    recycleMemory: Number.POSITIVE_INFINITY,
  })
  onTestFinished(() => engine.close())
  const answers: string[] = []
  for (const name of exportNames) {
    const answer = await Promise.resolve()
      .then(() => engine.call(name, input, caller))
      .then(numbers, (error: { code: string }) => error.code)
    answers.push(answer)
  }
  return answers
}

function numbers(bytes: Uint8Array): string {
  const view = Buffer.from(bytes)
  return Array.from({ length: bytes.length / 8 }, (_, i) => view.readBigInt64LE(i * 8)).join(' ')
}

const loaded = [
  { runtime: kernel, isolation: 'fresh' },
  { runtime: kernel, isolation: 'reuse' },
  { runtime: sdk, isolation: 'fresh' },
] as const

describe.each(loaded)('$runtime.name, loaded for $isolation', ({ runtime, isolation }) => {
  const load = () => loadPlugin(guestBytes('stain'), { isolation, runtime: runtime.name })

  test('no call finds anything of an earlier one', async () => {
    const [first, ...others] = await callFresh(runtime, await load(), Array(20).fill('stain'))
    expect(first).toMatch(/^-?\d+( -?\d+){9}$/)
    expect(new Set(others)).toEqual(new Set([first]))
  })

  test('no call finds anything of one that grew its memory, said no, or trapped', async () => {
    const names = [
      'stain',
      'grow',
      'stain',
      'trap',
      'stain',
      'refuse',
      'stain',
      'grow',
      'grow',
      'trap',
      'trap',
    ]
    const answers = await callFresh(runtime, await load(), [...names, 'stain'])
    const [first] = answers
    const expected = {
      stain: first,
      grow: first,
      refuse: 'WASM_SERVE_GUEST_ERROR',
      trap: 'WASM_SERVE_GUEST_TRAP',
    }
    expect(answers).toEqual([...names, 'stain'].map((name) => expected[name as keyof typeof expected]))
  })

  test('under reuse the same guest does find it: it can tell', async () => {
    const instance = await runtime.open(await load(), settingsOf())
    onTestFinished(() => instance.close())
    const first = numbers(await instance.call('grow', input, caller)).split(' ')
    const second = numbers(await instance.call('stain', input, caller)).split(' ')
    const [sum, atStart, calls, pages, rate] = [0, 1, 2, 3, 4]
    expect(first[sum]).toBe(first[atStart])
    expect(second[sum]).not.toBe(first[sum])
    expect([calls, pages].map((place) => [first[place], second[place]])).toEqual([
      ['0', '1'],
      ['2', '5'],
    ])
    expect(second[rate]).not.toBe(first[rate])
  })

  test('no call finds a table or dropped data of an earlier one', async () => {
    const plugin = await loadPlugin(guestBytes('lasting'), { isolation, runtime: runtime.name })
    expect(await callFresh(runtime, plugin, Array(5).fill('change'))).toEqual(Array(5).fill(''))
  })
})

const MODULE = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]
const NUMBER_TYPE = [1, 5, 1, 0x60, 0, 1, 0x7f]
const RUN = [7, 7, 1, 3, ...Buffer.from('run'), 0, 0]

/** Calls the function that its table has from the start. */
const WITH_TABLE_VALUE = Uint8Array.of(
  ...[...MODULE, ...NUMBER_TYPE, 3, 3, 2, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd2, 1, 0x0b, ...RUN],
  ...[10, 14, 2, 7, 0, 0x41, 0, 0x11, 0, 0, 0x0b, 4, 0, 0x41, 0, 0x0b],
)
const knowsTableValues = WebAssembly.validate(WITH_TABLE_VALUE)

test.runIf(knowsTableValues)('a module with a table that has an initial value is served', async () => {
  for (const isolation of ['reuse', 'fresh'] as const) {
    const plugin = await loadPlugin(WITH_TABLE_VALUE, { isolation })
    expect(plugin.resettable !== undefined).toBe(isolation === 'fresh')
    for (const runtime of [kernel, sdk])
      expect(await callFresh(runtime, plugin, ['run', 'run'])).toEqual(['', ''])
  }
})

test.skipIf(knowsTableValues)('a Node.js that has no initial values of tables is named', async () => {
  await expect(loadPlugin(WITH_TABLE_VALUE)).rejects.toMatchObject({
    code: 'WASM_SERVE_PLUGIN_INVALID',
    message: expect.stringContaining('Node.js 22'),
  })
})

test.runIf(knowsTableValues)('one that is not valid does not need another Node.js', async () => {
  const otherType = WITH_TABLE_VALUE.map((byte, at) => (at === WITH_TABLE_VALUE.length - 3 ? 0x42 : byte))
  await expect(loadPlugin(otherType)).rejects.toMatchObject({
    code: 'WASM_SERVE_PLUGIN_INVALID',
    message: expect.not.stringContaining('Node.js 22'),
  })
})

test('a module with an empty memory section is served, and made as new', async () => {
  const bytes = Uint8Array.of(
    ...[...MODULE, ...NUMBER_TYPE, 3, 2, 1, 0, 5, 1, 0, ...RUN],
    ...[10, 6, 1, 4, 0, 0x41, 0, 0x0b],
  )
  const plugin = await loadPlugin(bytes, { isolation: 'fresh' })
  expect(plugin.resettable).toBeDefined()
  for (const runtime of [kernel, sdk])
    expect(await callFresh(runtime, plugin, ['run', 'run'])).toEqual(['', ''])
})

test('a call that made the kernel grow leaves nothing: blocks begin where they began, and are zero', async () => {
  const plugin = await loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  const settings = settingsOf()
  const first = kernel.open(plugin, settings)
  const before = numbers((await first.call('stain', input, caller)) as Uint8Array)
  await first.close()
  const large = kernel.open(plugin, settings)
  large.call('stain', new Uint8Array(1_000_000).fill(0xaa), caller)
  expect(large.memoryBytes).toBeGreaterThan(1_000_000)
  await large.close()
  const second = kernel.open(plugin, settings)
  expect(second.memoryBytes).toBeGreaterThan(1_000_000)
  expect(numbers((await second.call('stain', input, caller)) as Uint8Array)).toBe(before)
  await second.close()
})

test('one instance is made as new for each call, also if its memory has grown, unless a call was stopped half-way', async () => {
  const made = countInstances()
  const plugin = await loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  await callFresh(kernel, plugin, Array(50).fill('stain'))
  expect(made()).toBe(1)
  await callFresh(kernel, plugin, ['grow', 'stain', 'refuse', 'grow', 'stain'])
  expect(made()).toBe(2)
  await callFresh(kernel, plugin, ['trap', 'stain', 'stain'])
  expect(made()).toBe(4)
})

/** How many instances of plug-ins were made: those of the kernel are not counted. */
function countInstances(): () => number {
  const { Instance } = WebAssembly
  let made = 0
  WebAssembly.Instance = class extends Instance {
    constructor(module: WebAssembly.Module, imports?: WebAssembly.Imports) {
      super(module, imports)
      if (!('input_new' in this.exports)) made++
    }
  }
  onTestFinished(() => {
    WebAssembly.Instance = Instance
  })
  return () => made
}

test('a guest that grows finds the sizes that it would have alone, and zeros, in an instance that was made once', async () => {
  const made = countInstances()
  const plugin = await loadPlugin(guestBytes('sizes'), { isolation: 'fresh', memoryMax: 12 })
  const answers = await callFresh(kernel, plugin, ['large', 'sizes', 'sizes', 'large', 'sizes'])
  // Size, growth by 3, size, growth beyond the maximum, size, what it found behind the first pages.
  const large = '2 2 12 -1 12 0'
  const small = '2 2 5 -1 5 0'
  expect(answers).toEqual([large, small, small, large, small])
  expect(made()).toBe(1)
})

test('a guest finds nothing of an earlier one behind the end of its memory', async () => {
  const plugin = await loadPlugin(guestBytes('sizes'), { isolation: 'fresh', memoryMax: 12 })
  expect(await callFresh(kernel, plugin, ['behind'])).toEqual(['WASM_SERVE_GUEST_TRAP'])
  const answers = await callFresh(kernel, plugin, ['large', 'behind', 'behind'])
  expect(answers.slice(1)).toEqual(['2 2 5 -1 5 0', '2 2 5 -1 5 0'])
})

test('what is reported as the memory of a guest is what it takes, though the guest has less', async () => {
  const plugin = await loadPlugin(guestBytes('sizes'), { isolation: 'fresh', memoryMax: 12 })
  const settings = settingsOf()
  const first = kernel.open(plugin, settings)
  first.call('large', input, caller)
  await first.close()
  const second = kernel.open(plugin, settings)
  expect(second.memoryBytes - second.kernelBytes).toBe(12 * 65_536)
  await second.close()
})

test('a memory that has grown is not kept for ever: the larger it is, the sooner there is a new one', () => {
  const uses = (initial: number, bytes: number) => {
    const worth = new MemoryReusePolicy(initial)
    let count = 0
    while (count < 100_000 && worth.isKept(bytes)) count++
    return count
  }
  const MiB = 2 ** 20
  expect(uses(MiB, MiB)).toBe(100_000)
  expect([2, 17, 32, 33].map((size) => uses(MiB, size * MiB))).toEqual([1024, 64, 33, 0])
})

test('two instances that are open at a time share nothing, though their settings are the same', async () => {
  const plugin = await loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  const settings = settingsOf()
  const first = kernel.open(plugin, settings)
  const expected = numbers(first.call('stain', input, caller) as Uint8Array)
  await first.close()
  const [a, b] = [kernel.open(plugin, settings), kernel.open(plugin, settings)]
  const answers = [a, b].map((instance) => numbers(instance.call('stain', input, caller) as Uint8Array))
  expect(answers).toEqual([expected, expected])
  await Promise.all([a.close(), b.close()])
})

test('a route that may use fewer blocks than the one before it gets no more', async () => {
  const plugin = await loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  await callFresh(kernel, plugin, ['stain'])
  const [answer] = await callFresh(kernel, plugin, ['stain'], { blockLimit: 1_000 })
  expect(answer).toBe('WASM_SERVE_GUEST_TRAP')
})

test('an instance that was closed twice leaves its parts once, and takes no call', async () => {
  const plugin = await loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  const settings = settingsOf()
  const closed = kernel.open(plugin, settings)
  await closed.close()
  const next = kernel.open(plugin, settings)
  await closed.close()
  const other = kernel.open(plugin, settings)
  const answers = [next, other].map((instance) =>
    numbers(instance.call('stain', input, caller) as Uint8Array),
  )
  expect(answers[0]).toBe(answers[1])
  expect(() => closed.call('stain', input, caller)).toThrow(
    expect.objectContaining({ code: 'WASM_SERVE_INSTANCE_BUSY' }),
  )
  await Promise.all([next.close(), other.close()])
})

/** Traps if it was not started once, and nobody has called it. */
const starting = (start: string, kind: string) =>
  guestBytes(`(module
    (import "env" "started" (func $started (result i32)))
    (memory 1)
    (global $starts (mut i32) (i32.const 0))
    (func $start ${kind}
      (i32.store8 (i32.const 8) (i32.add (i32.load8_u (i32.const 8)) (i32.const 1)))
      (global.set $starts (i32.add (global.get $starts) (i32.const 1)))
      ${start})
    (func (export "run") (result i32)
      (if (i32.ne (i32.load8_u (i32.const 8)) (i32.const 1)) (then (unreachable)))
      (if (i32.ne (global.get $starts) (i32.const 1)) (then (unreachable)))
      (i32.store8 (i32.const 8) (i32.const 7))
      (global.set $starts (i32.const 9))
      (i32.const 0))
    ${kind ? '' : '(start $start)'})`)
const ASKS = '(if (call $started) (then (unreachable)))'
const INITIALIZE = '(export "_initialize")'

test.each([
  { what: 'asks nobody', start: '', kind: INITIALIZE, instances: 1, starts: 0 },
  { what: 'asks the host', start: ASKS, kind: INITIALIZE, instances: 1, starts: 5 },
  { what: 'asks nobody, as the module is linked', start: '', kind: '', instances: 1, starts: 0 },
  { what: 'asks the host, as the module is linked', start: ASKS, kind: '', instances: 5, starts: 5 },
])('a guest whose start $what is called five times, as if it had been started for each', async (one) => {
  const made = countInstances()
  let starts = 0
  const functions = {
    env: {
      started: () => {
        starts++
        return 0
      },
    },
  }
  const plugin = await loadPlugin(starting(one.start, one.kind), { isolation: 'fresh' })
  expect(await callFresh(kernel, plugin, Array(5).fill('run'), { functions })).toEqual(Array(5).fill(''))
  expect({ instances: made(), starts }).toEqual({ instances: one.instances, starts: one.starts })
})

test('a guest that fails as it is started again fails that call, and no other', async () => {
  let starts = 0
  const functions = { env: { started: () => Number(++starts === 3) } }
  const plugin = await loadPlugin(starting(ASKS, INITIALIZE), { isolation: 'fresh' })
  const answers = await callFresh(kernel, plugin, Array(5).fill('run'), { functions })
  expect(answers).toEqual(['', '', 'WASM_SERVE_INSTANCE_START_FAILED', '', ''])
})

test('a guest whose module start makes a block finds it as it starts again', async () => {
  const plugin = await loadPlugin(
    guestBytes(`(module
      (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
      (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
      (import "extism:host/env" "log_info" (func $log (param i64)))
      (global $line (mut i64) (i64.const 0))
      (func $start (global.set $line (call $alloc (i64.const 1))) (call $store_u8 (global.get $line) (i32.const 97)))
      (start $start)
      (func (export "_initialize") (call $log (global.get $line)))
      (func (export "run")))`),
    { isolation: 'fresh' },
  )
  const log = keepLog()
  expect(await callFresh(kernel, plugin, ['run', 'run', 'run'], { log })).toEqual(['', '', ''])
  expect(log.lines.map(({ message }) => message)).toEqual(['a', 'a', 'a'])
})

test('a global that is no number is for each call the same one', async () => {
  const plugin = await loadPlugin(
    guestBytes(`(module
      (global $single (mut f32) (f32.const nan:0x200001))
      (global $double (mut f64) (f64.const nan:0x4000000000001))
      (func (export "run")
        (if (i32.ne (i32.reinterpret_f32 (global.get $single)) (i32.const 0x7fa00001)) (then (unreachable)))
        (if (i64.ne (i64.reinterpret_f64 (global.get $double)) (i64.const 0x7ff4000000000001)) (then (unreachable)))))`),
    { isolation: 'fresh' },
  )
  expect(await callFresh(kernel, plugin, ['run', 'run', 'run'])).toEqual(['', '', ''])
})

test('what the host has written for a guest is gone, wherever that was', async () => {
  // A large room below the data: what the guest itself writes there would be known.
  const plugin = await loadPlugin(
    guestBytes(`(module
      (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
      (memory (export "memory") 20)
      (data (i32.const 1048576) "data")
      (func (export "run") (result i32)
        (if (i64.ne (i64.load (i32.const 16)) (i64.const 0)) (then (unreachable)))
        (call $random (i32.const 16) (i32.const 8))))`),
    { isolation: 'fresh' },
  )
  expect(plugin.resettable?.records).toBe(hasArrays ? 'blocks' : 'lowest')
  expect(await callFresh(kernel, plugin, Array(5).fill('run'))).toEqual(Array(5).fill(''))
})

test('a guest finds its standard output open, though the one before it has closed it', async () => {
  const plugin = await loadPlugin(
    guestBytes(`(module
      (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "run") (result i32) (call $close (i32.const 1))))`),
    { isolation: 'fresh' },
  )
  expect(await callFresh(kernel, plugin, ['run', 'run', 'run'])).toEqual(['', '', ''])
})

test('a function of the guest that a host function has kept cannot reach a later instance', async () => {
  const kept: (() => void)[] = []
  const functions = { env: { keep: (_context: unknown, run: () => void) => void kept.push(run) } }
  const source = guestBytes(`(module
    (import "env" "keep" (func $keep (param funcref)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (memory (export "memory") 1)
    (elem declare func $stain)
    (func $stain (i32.store (i32.const 0) (i32.const 7)) (drop (call $alloc (i64.const 100))))
    (func (export "keep") (call $keep (ref.func $stain)))
    (func (export "look") (result i32) (i32.load (i32.const 0))))`)
  const settings = { ...settingsOf(), functions }
  const plugin = await loadPlugin(source, { isolation: 'fresh' })
  const first = kernel.open(plugin, settings)
  first.call('keep', input, caller)
  await first.close()
  const second = kernel.open(plugin, settings)
  for (const run of kept) run()
  expect(second.call('look', input, caller)).toHaveLength(0)
  expect(kept).toHaveLength(1)
  await second.close()
})

test('linked modules have memories of their own, which are as new', async () => {
  const counts = `(memory 1)
    (func $next (export "next") (result i32)
      (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
      (i32.load (i32.const 0)))`
  const main = `(module (import "other" "next" (func $other (result i32))) ${counts}
    (func (export "count") (result i32) (i32.sub (i32.add (call $other) (call $next)) (i32.const 2))))`
  const load = (text: string) => loadPlugin(guestBytes(text), { isolation: 'fresh' })
  const linked = [{ ...(await load(`(module ${counts})`)), name: 'other' }]
  const plugin = { ...(await load(main)), linked }
  expect(await callFresh(kernel, plugin, ['count', 'count', 'count'])).toEqual(['', '', ''])
})

test('modules that share a memory see each other make it grow', async () => {
  const other = `(module (memory (export "memory") 2 9)
    (func (export "size") (result i32) (memory.size))
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))`
  const main = `(module (import "other" "memory" (memory 2 9))
    (import "other" "size" (func $size (result i32)))
    (import "other" "grow" (func $grow (param i32) (result i32)))
    (func (export "grow") (result i32)
      (if (i32.ne (memory.grow (i32.const 3)) (i32.const 2)) (then (return (i32.const 1))))
      (if (i32.ne (call $size) (i32.const 5)) (then (return (i32.const 2))))
      (if (i32.ne (call $grow (i32.const 1)) (i32.const 5)) (then (return (i32.const 3))))
      (i32.sub (memory.size) (i32.const 6))))`
  const load = (text: string) => loadPlugin(guestBytes(text), { isolation: 'fresh' })
  const plugin = { ...(await load(main)), linked: [{ ...(await load(other)), name: 'other' }] }
  expect(await callFresh(kernel, plugin, ['grow', 'grow', 'grow'])).toEqual(['', '', ''])
})

test.each([
  '',
  '-c',
  '-zig',
  '-tinygo',
  '-assemblyscript',
])('hello%s greets each of 100 calls on an instance that has not greeted before', async (toolchain) => {
  const plugin = await loadPlugin(hello(toolchain), { isolation: 'fresh' })
  const settings = settingsOf()
  for (let i = 0; i < 100; i++) {
    const instance = kernel.open(plugin, settings)
    const output = instance.call('hello', Buffer.from(`number ${i}`), caller)
    expect(Buffer.from(output as Uint8Array).toString()).toBe(`{"message":"🦀 Hello number ${i}"}`)
    await instance.close()
  }
})
