import { afterEach, expect, test } from 'vitest'
import { createPlugin, type ExtismPluginOptions, type ManifestLike, type Plugin } from '../../src/extism.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { extismGuest } from '../support/extism-guest.ts'
import { guestBytes } from '../support/guest.ts'

/* Time limits without a thread: the guest looks at the clock itself. */

const open: Plugin[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((plugin) => plugin.close()))
})

async function openPlugin(source: ManifestLike | Uint8Array<ArrayBuffer>, options?: ExtismPluginOptions) {
  const plugin = await createPlugin(source as ManifestLike, options)
  open.push(plugin)
  return plugin
}

const text = async (called: ReturnType<Plugin['call']>) => (await called)?.text()
const messageOf = (called: Promise<unknown>): Promise<string> =>
  called.then(
    () => 'no error',
    (error: Error) => error.message,
  )

const LATE = 'EXTISM: call canceled due to timeout'

const LOOPING = extismGuest(`(memory 1)
  (func (export "loop") (loop $again (br $again)))
  (func $deep (export "deep") (call $deep) (call $deep))
  (func (export "fill") (loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 60000)) (br $again)))
  (func (export "trap") unreachable)
  (func (export "copy") (call $answer (call $copy)))`)

test.each([
  'loop',
  'fill',
])('a call that does not return (%s) rejects at the limit, and the next one finds a new guest', async (name) => {
  const made = await openPlugin(LOOPING, { timeoutMs: 50 })
  for (let round = 0; round < 3; round++) {
    expect(await messageOf(made.call(name))).toBe(LATE)
    expect(await text(made.call('copy', `round ${round}`))).toBe(`round ${round}`)
  }
})

test('a guest that sleeps is woken at the limit', async () => {
  const sleeping =
    extismGuest(`(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "sleep")
      (i32.store offset=16 (i32.const 0) (i32.const 1))
      (i64.store offset=24 (i32.const 0) (i64.const 60000000000))
      (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128))))`)
  const made = await openPlugin(sleeping, { timeoutMs: 50, useWasi: true })
  for (let round = 0; round < 2; round++) expect(await messageOf(made.call('sleep'))).toBe(LATE)
})

test('other failures are what they are without a limit', async () => {
  const made = await openPlugin(LOOPING, { timeoutMs: 10_000 })
  await expect(made.call('trap')).rejects.toThrow(WebAssembly.RuntimeError)
  await expect(made.call('none')).rejects.toThrow('function "none" does not exist')
  await expect(made.call('deep')).rejects.toThrow(RangeError)
  expect(await text(made.call('copy', 'well'))).toBe('well')
})

test('a manifest has a limit, too, and two plug-ins have limits of their own', async () => {
  const short = await openPlugin({ wasm: [{ data: LOOPING }], timeoutMs: 50 })
  const long = await openPlugin({ wasm: [{ data: LOOPING }], timeout_ms: 300 })
  const begun = performance.now()
  expect(await messageOf(short.call('loop'))).toBe(LATE)
  expect(await messageOf(long.call('loop'))).toBe(LATE)
  expect(performance.now() - begun).toBeGreaterThan(340)
})

test('a start that does not return rejects', async () => {
  const endless = guestBytes('(module (func $f (loop $again (br $again))) (start $f))')
  expect(await messageOf(openPlugin(endless, { timeoutMs: 50 }))).toBe(
    'EXTISM: timed out while waiting for plugin to instantiate',
  )
})

test('a start function runs once, with its host functions', async () => {
  const calls: string[] = []
  const starting = guestBytes(
    '(module (import "env" "note" (func $note)) (func $f (call $note)) (start $f) (func (export "run")))',
  )
  const options = { timeoutMs: 10_000, functions: { env: { note: () => void calls.push('note') } } }
  await (await openPlugin(starting, options)).call('run')
  expect(calls).toEqual(['note'])
})

test('what the limit adds to a module is not among its exports', async () => {
  const [limited, plain] = [await openPlugin(LOOPING, { timeoutMs: 50 }), await openPlugin(LOOPING)]
  expect(await limited.getExports()).toEqual(await plain.getExports())
  expect(await limited.getImports()).toEqual(await plain.getImports())
})

test('a compiled module without a thread cannot have a limit', async () => {
  const module = await WebAssembly.compile(LOOPING as Uint8Array<ArrayBuffer>)
  await expect(openPlugin(module, { timeoutMs: 50 })).rejects.toThrow(TypeError)
  const made = await openPlugin({ wasm: [{ module }], timeoutMs: 50 }) // as before
  expect(await text(made.call('copy', 'well'))).toBe('well')
})

test.runIf(suspending)(
  'a guest that waits for a host function rejects at the limit, too, and does not go on',
  async () => {
    const guest = extismGuest(`
    (import "extism:host/user" "wait" (func $wait (param i64) (result i64))) (memory 1)
    (func (export "wait") (call $answer (call $wait (call $copy))))
    (func (export "copy") (call $answer (call $copy)))`)
    let goOn: (() => void) | undefined
    const functions = {
      'extism:host/user': {
        async wait(_context: unknown, at: bigint) {
          await new Promise<void>((resolve) => (goOn = resolve))
          return at
        },
      },
    }
    const made = await openPlugin(guest, { timeoutMs: 50, functions })
    expect(await messageOf(made.call('wait', 'x'))).toBe(LATE)
    const next = made.call('copy', 'next')
    goOn?.()
    expect(await text(next)).toBe('next')
    expect(await text(made.call('copy', 'last'))).toBe('last')
  },
)
