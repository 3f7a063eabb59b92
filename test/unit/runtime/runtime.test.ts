import { describe, expect, onTestFinished, test } from 'vitest'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { guest, guestBytes } from '../../support/guest.ts'
import { keepLog, openInstance, settingsOf } from '../../support/instance.ts'
import { runs } from '../../support/runs.ts'

const runtimes: readonly Runtime[] = [kernel, sdk]

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
/** A call may throw at once or later: here always later. */
const call = async (run: () => Uint8Array | Promise<Uint8Array>) => run()
const text = async (output: Uint8Array | Promise<Uint8Array>) => Buffer.from(await output).toString()
const caller = { log: keepLog() }

/** As PDKs before 1.0 built it. */
const OLD_PDK = `(module (import "env" "extism_input_length" (func (result i64)))
  (import "env" "extism_alloc" (func (param i64) (result i64)))
  (func (export "go") (result i32) (i32.const 0)))`
const WASI_IMPORT = '(import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))'

/** What every runtime does; one in which the SDK is wrong is named where it is. */
describe.each(runtimes)('the $name runtime', (runtime) => {
  test('gives the guest its input and returns its output', async () => {
    const instance = await openInstance(runtime, guest('upper'))
    expect(await text(instance.call('upper', bytes('abc é 😄'), caller))).toBe('ABC é 😄')
    expect(await text(instance.call('upper', bytes(''), caller))).toBe('')
  })

  test('returns exactly the bytes that output_set names', async () => {
    const instance = await openInstance(runtime, guest('short'))
    expect(await text(instance.call('short', bytes(''), caller))).toBe('12345')
  })

  test('returns nothing when the guest produced nothing, also after a call that produced something', async () => {
    const both = guestBytes(`(module
      (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
      (import "extism:host/env" "input_length" (func $input_length (result i64)))
      (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
      (func (export "echo") (result i32) (call $output_set (call $input_offset) (call $input_length)) (i32.const 0))
      (func (export "silent")))`)
    const instance = await openInstance(runtime, both)
    expect(await text(instance.call('echo', bytes('something'), caller))).toBe('something')
    expect(await text(instance.call('silent', bytes('else'), caller))).toBe('')
  })

  test("keeps the caller's input as it was, whatever the guest writes into its own", async () => {
    const scribble = guestBytes(`(module
      (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
      (import "extism:host/env" "input_length" (func $input_length (result i64)))
      (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
      (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
      (func (export "scribble") (result i32)
        (call $store_u8 (call $input_offset) (i32.const 33))
        (call $output_set (call $input_offset) (call $input_length))
        (i32.const 0)))`)
    const instance = await openInstance(runtime, scribble)
    const input = bytes('abc')
    expect(await text(instance.call('scribble', input, caller))).toBe('!bc')
    expect(Buffer.from(input).toString()).toBe('abc')
  })

  test('shows the guest nothing of the pool that a small Buffer is a window on', async () => {
    const instance = await openInstance(runtime, guest('echo'))
    Buffer.from('a password of another request')
    expect(await text(instance.call('echo', Buffer.from('mine'), caller))).toBe('mine')
  })

  test('returns an output that the next call leaves as it is', async () => {
    const instance = await openInstance(runtime, guest('upper'))
    const first = await instance.call('upper', bytes('first'), caller)
    await instance.call('upper', bytes('other'), caller)
    expect(Buffer.from(first).toString()).toBe('FIRST')
  })

  test("says the guest's own words when it says no, and goes on", async () => {
    const instance = await openInstance(runtime, guest('refuse'))
    for (const words of ['no luck', 'ünlückÿ 😄', '100% %s %d']) {
      await expect(call(() => instance.call('refuse', bytes(words), caller))).rejects.toMatchObject({
        code: 'WASM_SERVE_GUEST_ERROR',
        message: words,
      })
    }
  })

  test('calls constructors once, where no other function of the toolchain calls them', async () => {
    const counts = (initialiser: string) =>
      guestBytes(`(module
        (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
        (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
        (global $n (mut i64) (i64.const 0))
        (func $more (global.set $n (i64.add (global.get $n) (i64.const 1))))
        (func (export "__wasm_call_ctors") (call $more))
        (func (export "${initialiser}") (call $more))
        (func (export "go") (call $output_set (call $alloc (i64.const 8)) (global.get $n))))`)
    for (const initialiser of ['_initialize', 'other']) {
      const instance = await openInstance(runtime, counts(initialiser))
      expect(await instance.call('go', bytes(''), caller)).toHaveLength(1)
      expect(await instance.call('go', bytes(''), caller)).toHaveLength(1)
    }
  })

  test('names the functions that were running when the guest trapped', async () => {
    const instance = await openInstance(runtime, guest('trap'))
    await expect(call(() => instance.call('trap', bytes('trap!'), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
      cause: { reason: 'unreachable', guestStack: ['inner', 'outer', 'trap'] },
    })
  })

  test('traps when the guest recurses without end', async () => {
    const instance = await openInstance(
      runtime,
      guestBytes('(module (func $down (export "down") (call $down)))'),
    )
    await expect(call(() => instance.call('down', bytes(''), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
    })
  })

  test('tells a guest that exits from a trap; the SDK does not tell its status', async () => {
    const instance = await openInstance(runtime, guest('wasi'))
    expect(await text(instance.call('wasi', bytes(''), caller))).toBe('')
    await expect(call(() => instance.call('wasi', bytes('exit'), caller))).rejects.toMatchObject({
      code: runtime === sdk ? 'WASM_SERVE_GUEST_EXIT' : 'WASM_SERVE_GUEST_ERROR',
    })
  })

  test.each([
    ['i64', '(i64.const 5)'],
    ['f32', '(f32.const 3)'],
    ['f64', '(f64.const 1.5)'],
    ['f64', '(f64.const nan)'],
    ['i32 i32', '(i32.const 1) (i32.const 2)'],
  ])('ignores what is no return code: results (%s)', async (results, values) => {
    const other = guestBytes(`(module
      (import "extism:host/env" "input_offset" (func $at (result i64)))
      (import "extism:host/env" "input_length" (func $length (result i64)))
      (import "extism:host/env" "output_set" (func $output (param i64 i64)))
      (func (export "run") (result ${results}) (call $output (call $at) (call $length)) ${values}))`)
    const instance = await openInstance(runtime, other)
    for (const input of ['one', 'two'])
      expect(await text(instance.call('run', bytes(input), caller))).toBe(input)
  })

  test('counts the values of variables, and says that a limit was met, not what traps', async () => {
    const keep = guestBytes(`(module
      (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
      (import "extism:host/env" "input_offset" (func $input (result i64)))
      (import "extism:host/env" "var_set" (func $set (param i64 i64)))
      (func $keep (param i64) (call $set (call $input) (call $alloc (local.get 0))))
      (func (export "fits") (call $keep (i64.const 1024)))
      (func (export "more") (call $keep (i64.const 1025))))`)
    const instance = await openInstance(runtime, keep, { varMax: 1_024 })
    for (const _time of [1, 2]) expect(await text(instance.call('fits', bytes('a name'), caller))).toBe('')
    await expect(call(() => instance.call('more', bytes('a name'), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_VARIABLES_FULL',
      message: expect.stringContaining('exceed 1024 bytes'),
    })
  })

  test('refuses an output beyond the limit, and allows one at it', async () => {
    const instance = await openInstance(runtime, guest('echo'), { outputLimit: 4 })
    expect(await text(instance.call('echo', bytes('1234'), caller))).toBe('1234')
    await expect(call(() => instance.call('echo', bytes('12345'), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_OUTPUT_TOO_LARGE',
    })
  })

  test('traps when output_set names what is outside the block', async () => {
    const beyond = guestBytes(`(module
      (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
      (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
      (func (export "negative") (call $output_set (call $alloc (i64.const 8)) (i64.const -1)))
      (func (export "nowhere") (call $output_set (i64.const -8) (i64.const 8))))`)
    for (const name of ['negative', 'nowhere']) {
      const instance = await openInstance(runtime, beyond)
      await expect(call(() => instance.call(name, bytes(''), caller))).rejects.toMatchObject({
        code: 'WASM_SERVE_GUEST_TRAP',
      })
    }
  })

  test('gives the guest its config, and nothing that was not configured', async () => {
    const instance = await openInstance(runtime, guest('config'), {
      config: { greeting: 'Grüezi', empty: '' },
    })
    expect(await text(instance.call('config', bytes('greeting'), caller))).toBe('Grüezi')
    for (const key of ['empty', 'absent', 'toString', '__proto__', 'constructor', '']) {
      expect([key, await text(instance.call('config', bytes(key), caller))]).toEqual([key, ''])
    }
  })

  test('takes log lines to the log of the call that wrote them', async () => {
    const instance = await openInstance(runtime, guest('log'))
    const [mine, other] = [keepLog(), keepLog()]
    await instance.call('log', bytes('mine'), { log: mine })
    await instance.call('log', bytes('other'), { log: other })
    expect(mine.lines.map(({ level, message }) => [level, message])).toEqual([
      ['info', 'mine'],
      ['warn', 'mine'],
      ['error', 'mine'],
    ])
    expect(other.lines.every(({ message }) => message === 'other')).toBe(true)
  })

  test('cuts long log lines, and drops what is too many and says how many', async () => {
    const instance = await openInstance(runtime, guest('log'))
    const kept = keepLog()
    await instance.call('log', bytes('x'.repeat(10_000)), { log: kept })
    expect(kept.lines[0]?.message).toHaveLength(8_192 + '...'.length)
    await instance.call('flood', bytes('x'), { log: kept })
    expect(kept.lines).toHaveLength(3 + 100 + 1)
    expect(kept.lines.at(-1)).toMatchObject({ level: 'warn', fields: { dropped: 400 } })
  })

  test('keeps globals and memory from call to call', async () => {
    const instance = await openInstance(runtime, guest('count'))
    expect(await text(instance.call('count', bytes(''), caller))).toBe('1')
    expect(await text(instance.call('count', bytes(''), caller))).toBe('2')
  })

  test('refuses to open a guest that traps while it starts', async () => {
    await expect(openInstance(runtime, guest('bad-start'))).rejects.toMatchObject({
      code: 'WASM_SERVE_INSTANCE_START_FAILED',
    })
  })

  test('refuses to open a guest whose imports nobody provides', async () => {
    await expect(openInstance(runtime, guest('bad-import'))).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
    })
  })

  test('refuses to open a guest of a PDK before 1.0, and says how to build it again', async () => {
    await expect(openInstance(runtime, guestBytes(OLD_PDK))).rejects.toMatchObject({
      code: 'WASM_SERVE_PDK_OUTDATED',
      message: expect.stringMatching(/extism_input_length, extism_alloc.*rebuild it/i),
    })
    const wasi = OLD_PDK.replace('(func (export', () => `${WASI_IMPORT} (func (export`)
    await expect(openInstance(runtime, guestBytes(wasi), { wasi: false })).rejects.toMatchObject({
      code: 'WASM_SERVE_PDK_OUTDATED',
    })
  })

  test('opens such a guest where host functions provide what it imports', async () => {
    const functions = { env: { extism_input_length: () => 0n, extism_alloc: () => 0n } }
    const plugin = await loadPlugin(guestBytes(OLD_PDK), { runtime: runtime.name })
    const instance = await runtime.open(plugin, { ...settingsOf(), functions })
    onTestFinished(() => instance.close())
    expect(await text(instance.call('go', bytes(''), caller))).toBe('')
  })

  test('refuses to open a guest that needs WASI without it', async () => {
    await expect(openInstance(runtime, guest('wasi'), { wasi: false })).rejects.toMatchObject({
      code: 'WASM_SERVE_WASI_DISABLED',
    })
  })

  test('answers many calls on one instance, each with its own output', async () => {
    const instance = await openInstance(runtime, guest('upper'))
    for (let i = 0; i < runs(5_000); i++) {
      const output = await instance.call('upper', bytes(`call ${i}`), caller)
      if (Buffer.from(output).toString() !== `CALL ${i}`) throw new Error(`call ${i}: ${Buffer.from(output)}`)
    }
  })
})

/** Where the SDK is known to be wrong: what is right, and what it does. */
describe('the kernel runtime, other than the sdk', () => {
  const returns = guestBytes('(module (func (export "seven") (result i32) (i32.const 7)))')

  test('takes a return code without an error message for an error; the sdk drops return codes', async () => {
    const right = await openInstance(kernel, returns)
    await expect(call(() => right.call('seven', bytes(''), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_ERROR',
      message: expect.stringContaining('7'),
    })
    const wrong = await openInstance(sdk, returns)
    expect(await text(wrong.call('seven', bytes(''), caller))).toBe('')
  })

  test('traps when an offset is outside the blocks; the sdk answers undefined', async () => {
    const wild = guestBytes(`(module
      (import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
      (func (export "wild") (drop (call $load_u8 (i64.const 0x0005000000000000)))))`)
    const right = await openInstance(kernel, wild)
    await expect(call(() => right.call('wild', bytes(''), caller))).rejects.toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
    })
    const wrong = await openInstance(sdk, wild)
    expect(await text(wrong.call('wild', bytes(''), caller))).toBe('')
  })

  test('calls do not wait, so they cannot overlap; the sdk answers every call later', async () => {
    const right = await openInstance(kernel, guest('echo'))
    expect(right.call('echo', bytes('now'), caller)).toBeInstanceOf(Uint8Array)
    const wrong = await openInstance(sdk, guest('echo'))
    expect(wrong.call('echo', bytes('later'), caller)).toBeInstanceOf(Promise)
  })
})
