import { afterEach, describe, expect, test, vi } from 'vitest'
import { type CallContext, createPlugin, type ExtismPluginOptions, type Plugin } from '../../src/extism.ts'
import { extismGuest } from '../support/extism-guest.ts'

/* What guests do with the blocks that they gave to the host. PDKs differ in which ones they free, and when. */

const open: Plugin[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((plugin) => plugin.close()))
})

const text = async (called: ReturnType<Plugin['call']>) => (await called)?.text()

describe.each([
  ['inline', false],
  ['in a worker', true],
])('%s', (_, runInWorker) => {
  async function plugin(guest: string, options: ExtismPluginOptions = {}): Promise<Plugin> {
    const opened = await createPlugin({ wasm: [{ data: extismGuest(guest) }] }, { runInWorker, ...options })
    open.push(opened)
    return opened
  }

  /** `$key` makes a block of 8 bytes, `$other` another one of the same size. */
  const KEYS = `
    (data (i32.const 0) "key00000other000")
    (func $key (result i64) (call $text (i32.const 0) (i32.const 8)))
    (func $other (result i64) (call $text (i32.const 8) (i32.const 8)))`

  test.each([
    ['config_get', 'a value!'],
    ['var_get', 'key00000'],
  ])('a guest frees its key after %s, as the PDKs of Haskell and MoonBit do', async (get, value) => {
    const made = await plugin(
      `${KEYS}
      (func (export "set") (local $k i64) (local $v i64)
        (local.set $k (call $key)) (local.set $v (call $key))
        (call $var_set (local.get $k) (local.get $v))
        (call $free (local.get $k)) (call $free (local.get $v)))
      (func $get (result i64) (local $k i64) (local $v i64)
        (local.set $k (call $key))
        (local.set $v (call $${get} (local.get $k)))
        (call $free (local.get $k))
        (local.get $v))
      (func (export "get") (call $answer (call $get)))
      (func (export "twice") (local $first i64)
        (local.set $first (call $get))
        (drop (call $get))
        (drop (call $other))
        (call $answer (local.get $first)))
      (func (export "at_the_end") (local $k i64) (local $v i64)
        (local.set $k (call $key))
        (local.set $v (call $${get} (local.get $k)))
        (drop (call $other))
        (call $answer (local.get $v))
        (call $free (local.get $k))
        (drop (call $other)))
      (func (export "none") (local $k i64) (local $kept i64)
        (local.set $k (call $other))
        (if (i64.ne (call $${get} (local.get $k)) (i64.const 0)) (then (unreachable)))
        (local.set $kept (call $key))
        (call $free (local.get $k))
        (drop (call $other))
        (call $answer (local.get $kept)))`,
      { config: { key00000: 'a value!' } },
    )
    await made.call('set')
    for (const name of ['get', 'twice', 'at_the_end', 'get']) expect(await text(made.call(name))).toBe(value)
    expect(await text(made.call('none'))).toBe('key00000')
  })

  test('a guest frees its line after it was logged, even after its next blocks', async () => {
    const made = await plugin(`${KEYS}
      (func (export "run") (local $line i64) (local $kept i64) (local $i i32)
        (local.set $line (call $key))
        (call $log_info (local.get $line))
        (local.set $kept (call $other))
        (loop $again
          (call $log_info (call $key))
          (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000))))
        (call $free (local.get $line))
        (drop (call $key))
        (call $answer (local.get $kept)))`)
    expect(await text(made.call('run'))).toBe('other000')
    expect(await text(made.call('run'))).toBe('other000')
  })

  test('an output or error that was also logged stays what it was', async () => {
    const after = `(loop $again
      (call $log_info (call $key))
      (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10000))))`
    const made = await plugin(`${KEYS}
      (func (export "answers") (local $at i64) (local $i i32)
        (local.set $at (call $other)) (call $answer (local.get $at)) (call $log_info (local.get $at)) ${after})
      (func (export "fails") (local $at i64) (local $i i32)
        (local.set $at (call $other)) (call $error_set (local.get $at)) (call $log_info (local.get $at)) ${after})
      (func (export "echoes") (local $i i32)
        (call $log_info (call $input_offset)) ${after}
        (call $answer (call $copy)))`)
    expect(await text(made.call('answers'))).toBe('other000')
    await expect(made.call('fails')).rejects.toThrow('Plugin-originated error: other000')
    for (const input of ['an input', 'x'.repeat(10_000)])
      expect(await text(made.call('echoes', input))).toBe(input)
  })

  test('a guest may free its output or error, and make other blocks afterwards', async () => {
    const made = await plugin(`${KEYS}
      (func (export "answers") (local $at i64)
        (local.set $at (call $other)) (call $answer (local.get $at)) (call $free (local.get $at))
        (call $log_info (call $key)) (drop (call $key)))
      (func (export "fails") (local $at i64)
        (local.set $at (call $other)) (call $error_set (local.get $at)) (call $free (local.get $at))
        (call $log_info (call $key)) (drop (call $key)))`)
    expect(await text(made.call('answers'))).toBe('other000')
    await expect(made.call('fails')).rejects.toThrow('Plugin-originated error: other000')
  })

  test('a guest that frees nothing has room for any number of lines, keys and blocks between them', async () => {
    const made = await plugin(
      `${KEYS}
      (func (export "run") (local $i i32) (local $at i64)
        (loop $again
          (call $log_info (call $key))
          (drop (call $config_get (call $other)))
          (local.set $at (call $alloc (i64.const 60000)))
          (if (i64.eqz (local.get $at)) (then (unreachable)))
          (call $log_info (local.get $at))
          (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 20000))))
        (call $answer (call $key)))`,
      { memory: { maxPages: 1 }, logger: { ...console, error: vi.fn() } },
    )
    expect(await text(made.call('run'))).toBe('key00000')
  })

  test('an empty line is a line, and an empty key a key', async () => {
    const lines: unknown[] = []
    const made = await plugin(
      `(func $empty (result i64) (call $alloc (i64.const 0)))
      (func (export "log") (call $log_info (call $empty)) (call $log_error (call $empty)))
      (func (export "config") (call $answer (call $config_get (call $empty))))
      (func (export "var") (call $var_set (call $empty) (call $copy)) (call $answer (call $var_get (call $empty))))`,
      {
        config: { '': 'of no name' },
        logLevel: 'info',
        logger: {
          ...console,
          info: (line: unknown) => void lines.push(['info', line]),
          error: (line: unknown) => void lines.push(['error', line]),
        },
      },
    )
    await made.call('log')
    expect(await text(made.call('config'))).toBe('of no name')
    expect(await text(made.call('var', 'kept'))).toBe('kept')
    expect(lines).toEqual([
      ['info', ''],
      ['error', ''],
    ])
  })

  test('a host function reads no bytes where the guest passes an empty block', async () => {
    const read: unknown[] = []
    const made = await plugin(
      `(import "extism:host/user" "take" (func $take (param i64)))
      (func (export "run") (call $take (call $alloc (i64.const 0))))`,
      {
        functions: {
          'extism:host/user': {
            take: (context: CallContext, at: bigint) => {
              read.push(context.read(at)?.text(), context.length(at))
            },
          },
        },
      },
    )
    await made.call('run')
    expect(read).toEqual(['', 0n])
  })

  test('a status without a message rejects the call, and the next one goes on', async () => {
    const made = await plugin(`
      (func (export "status") (result i32) (call $answer (call $copy)) (i32.const 7))
      (func (export "empty") (result i32) (call $error_set (call $alloc (i64.const 0))) (i32.const -1))
      (func (export "taken_back") (result i32)
        (call $error_set (call $copy)) (call $error_set (i64.const 0)) (call $answer (call $copy)) (i32.const 0))
      (func (export "wide") (result i64) (call $answer (call $copy)) (i64.const 5))
      (func (export "fine") (result i32) (call $answer (call $copy)) (i32.const 0))`)
    await expect(made.call('status', 'x')).rejects.toThrow(
      'Plugin-originated error: function "status" returned 7',
    )
    await expect(made.call('empty', 'x')).rejects.toThrow(
      'Plugin-originated error: function "empty" returned -1',
    )
    for (const name of ['taken_back', 'wide', 'fine']) expect(await text(made.call(name, 'x'))).toBe('x')
  })

  test('a host function may set an error without words', async () => {
    const errors = ['', new Error('')]
    const made = await plugin(
      `(import "extism:host/user" "fail" (func $fail))
      (func (export "run") (call $answer (call $copy)) (call $fail))`,
      {
        functions: {
          'extism:host/user': {
            fail: (context: CallContext) => context.setError(errors.shift() ?? null),
          },
        },
      },
    )
    for (const _ of [1, 2]) await expect(made.call('run', 'x')).rejects.toThrow(/^Plugin-originated error: $/)
    await expect(made.call('run', 'x')).rejects.toThrow('could not store error value')
  })
})
