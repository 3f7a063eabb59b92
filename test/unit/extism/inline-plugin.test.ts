import { expect, test } from 'vitest'
import { type CallContext, createPlugin, type Plugin } from '../../../src/extism.ts'
import { extismGuest } from '../../support/extism-guest.ts'
import { guestBytes } from '../../support/guest.ts'

const LENGTH = 10_000

const wasm = extismGuest(`
  (import "extism:host/user" "run" (func $run (param i64)))
  (func (export "echo") (call $output_set (call $input_offset) (call $input_length)))
  (func (export "run_echo")
    (call $run (call $input_offset))
    (call $output_set (call $input_offset) (call $input_length)))
  (func (export "run_copy")
    (call $run (call $input_offset))
    (call $answer (call $copy)))
  (func (export "copy_run_copy")
    (call $run (call $copy))
    (call $answer (call $copy)))
  (func (export "read_trap")
    (drop (call $input_load_u8 (i64.const 5000)))
    (unreachable))
  (func (export "fresh") (local $at i64)
    (local.set $at (call $alloc (i64.const ${LENGTH})))
    (call $output_set (local.get $at) (i64.const ${LENGTH})))`)

const text = async (called: ReturnType<Plugin['call']>) => (await called)?.text()
const letters = (letter: string) => new Uint8Array(LENGTH).fill(letter.charCodeAt(0))

async function open(run: (context: CallContext, at: bigint) => void = () => undefined): Promise<Plugin> {
  return createPlugin({ wasm: [{ data: wasm }] }, { functions: { 'extism:host/user': { run } } })
}

test('an input may be changed as soon as `call` has returned, if the guest copies it', async () => {
  const plugin = await open()
  const input = letters('a')
  const called = plugin.call('run_copy', input)
  input.fill(98)
  expect(await text(called)).toBe('a'.repeat(LENGTH))
})

test('a host function may give away the buffer of a block that it read', async () => {
  const seen: string[] = []
  const plugin = await open((context, at) => {
    const buffer = context.read(at)?.arrayBuffer()
    if (buffer) structuredClone(buffer, { transfer: [buffer] })
    seen.push(context.read(at)?.text() ?? '')
  })
  expect(await text(plugin.call('copy_run_copy', letters('a')))).toBe('a'.repeat(LENGTH))
  expect(seen).toEqual(['a'.repeat(LENGTH)])
})

test('a host function that detaches the input ends the call, and the next one succeeds', async () => {
  const given: Uint8Array<ArrayBuffer>[] = []
  const plugin = await open(() => {
    for (const { buffer } of given.splice(0)) structuredClone(buffer, { transfer: [buffer] })
  })
  for (const name of ['run_copy', 'run_echo']) {
    const input = letters('a')
    given.push(input)
    await expect(plugin.call(name, input)).rejects.toThrow(TypeError)
    expect(await text(plugin.call(name, letters('b')))).toBe('b'.repeat(LENGTH))
  }
})

test('a host function that changes what it read changes what the guest reads next', async () => {
  const plugin = await open((context, at) => void context.read(at)?.bytes().fill(98))
  expect(await text(plugin.call('run_copy', letters('a')))).toBe('b'.repeat(LENGTH))
  expect(await text(plugin.call('run_echo', letters('a')))).toBe('b'.repeat(LENGTH))
})

test('a call that fails leaves nothing of its input to the next one', async () => {
  const plugin = await open()
  await expect(plugin.call('read_trap', letters('a'))).rejects.toThrow(WebAssembly.RuntimeError)
  expect(await text(plugin.call('fresh'))).toBe('\0'.repeat(LENGTH))
  await expect(plugin.call('read_trap', letters('a'))).rejects.toThrow(WebAssembly.RuntimeError)
  expect(await plugin.reset()).toBe(true)
  expect(await text(plugin.call('fresh'))).toBe('\0'.repeat(LENGTH))
})

test.each([4_095, 4_096, 4_097])('%i bytes of each kind come back', async (length) => {
  const plugin = await open()
  const bytes = new Uint8Array(length).map((_, i) => (i * 7) % 251)
  const shared = new Uint8Array(new SharedArrayBuffer(length))
  shared.set(bytes)
  for (const input of [bytes, bytes.buffer, Buffer.from(bytes), shared, new DataView(bytes.buffer)])
    for (const name of ['echo', 'run_copy']) expect((await plugin.call(name, input))?.bytes()).toEqual(bytes)
  expect(await text(plugin.call('echo', 'é'.repeat(length)))).toBe('é'.repeat(length))
})

test('an input that exceeds the limit is refused before it is copied, and the next one is served', async () => {
  const plugin = await createPlugin(
    { wasm: [{ data: wasm }], memory: { maxPages: 1 } },
    { functions: { 'extism:host/user': { run: () => undefined } } },
  )
  const large = new Uint8Array(200_000)
  for (const input of [large, large.subarray(1), 'a'.repeat(200_000)])
    await expect(plugin.call('echo', input)).rejects.toMatchObject({
      code: 'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
    })
  // The input, and a copy of it.
  expect(await text(plugin.call('run_copy', letters('a')))).toBe('a'.repeat(LENGTH))
  expect((await plugin.call('echo', new Uint8Array(65_536)))?.byteLength).toBe(65_536)
})

test('modules in a circle share functions, and nothing else', async () => {
  const circle = (imported: string, exported: string) => {
    const side = (other: string) =>
      guestBytes(`(module (import "${other}" "shared" ${imported}) ${exported}
        (func (export "ready") (result i32) (i32.const 0)))`)
    const main = `(module (import "left" "ready" (func $ready (result i32)))
      (func (export "run") (result i32) (call $ready)))`
    return createPlugin({
      wasm: [
        { data: side('right'), name: 'left' },
        { data: side('left'), name: 'right' },
        { data: guestBytes(main), name: 'main' },
      ],
    })
  }
  const plugin = await circle('(func)', '(func (export "shared"))')
  expect(await plugin.call('run')).toBeNull()
  await expect(circle('(global i32)', '(global (export "shared") i32 (i32.const 1))')).rejects.toThrow(
    'circular imports of type="global" are not supported',
  )
})
