import { expect, test } from 'vitest'
import type { Log } from '../../../src/observe/log/guest-log.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance, InstanceSettings } from '../../../src/runtime/runtime.ts'
import { guestBytes } from '../../support/guest.ts'
import { settingsOf } from '../../support/instance.ts'
import { capped } from '../../support/module-bytes.ts'

const TRAP = { code: 'WASM_SERVE_GUEST_TRAP' }
const ERROR = { code: 'WASM_SERVE_GUEST_ERROR' }
const TOO_LARGE = { code: 'WASM_SERVE_OUTPUT_TOO_LARGE' }

const lines: string[] = []
const write = (_fields: object, line: string) => void lines.push(line)
const log: Log = { trace: write, debug: write, info: write, warn: write, error: write }

async function open(nameOrText: string, settings: Partial<InstanceSettings> = {}): Promise<Instance> {
  const plugin = await loadPlugin(capped(guestBytes(nameOrText), 100).bytes)
  return kernel.open(plugin, { ...settingsOf({ wasi: false }, log), ...settings })
}

function call(instance: Instance, name: string, input = ''): string {
  const output = instance.call(name, Buffer.from(input), { log })
  if (output instanceof Promise) throw new Error(`${name} answers later`)
  return Buffer.from(output).toString()
}

function numberOf(output: string): number {
  return Number(Buffer.from(output, 'latin1').readBigInt64LE())
}

/** What a call threw. */
function failure(instance: Instance, name: string, input = ''): unknown {
  try {
    call(instance, name, input)
  } catch (error) {
    return error
  }
  throw new Error(`${name} did not fail`)
}

test.each([
  ...['load_null', 'load_last', 'load_wrapped', 'store_root', 'store_map', 'store_far', 'input_wrapped'].map(
    (name) => ['hostile-blocks', name] as const,
  ),
  ...['beyond', 'wrapped', 'high', 'wild_error'].map((name) => ['hostile-answers', name] as const),
  ...['config_wild', 'set_wild', 'log_wild', 'http_wild'].map((name) => ['hostile-host', name] as const),
  ...['recurse', 'divide', 'beyond'].map((name) => ['hostile-self', name] as const),
])('%s: %s traps, and a new instance is well', async (guest, name) => {
  const error = failure(await open(guest), name, 'abcdefghij')
  expect(error).toMatchObject({ ...TRAP, cause: { reason: expect.any(String) } })
  expect(JSON.stringify((error as Error).cause)).not.toMatch(/node:|\.ts/)
  expect(call(await open('hostile-self'), 'healthy', 'fine')).toBe('fine')
})

test.each([
  ['huge', 0],
  ['inner_free', 64],
  ['million', 2],
  ['million_freed', 0],
])('hostile-blocks: %s does no harm', async (name, answer) => {
  const instance = await open('hostile-blocks')
  const started = process.cpuUsage()
  const output = call(instance, name)
  expect(numberOf(output)).toBe(answer)
  const { user, system } = process.cpuUsage(started)
  expect((user + system) / 1_000).toBeLessThan(1_000) // 0.1 s; minutes if each allocation looked at all others
  expect(numberOf(call(instance, 'inner_free'))).toBe(64)
})

test('a block that was freed twice is given out once', async () => {
  expect(numberOf(call(await open('hostile-blocks'), 'double_free'))).not.toBe(0)
})

test('a guest that reads all it can finds nothing of earlier calls', async () => {
  const instance = await open('hostile-blocks')
  failure(instance, 'load_null', 'secret'.repeat(20_000))
  expect(numberOf(call(instance, 'scan'))).toBe(0)
})

test.each([
  ['nothing_nowhere', ''],
  ['unwritten', '\0'.repeat(64)],
  ['taken_back', 'A'],
])('hostile-answers: %s is an answer', async (name, answer) => {
  const instance = await open('hostile-answers')
  call(instance, 'taken_back', 'secret'.repeat(100))
  expect(call(instance, name)).toBe(answer)
})

test.each([
  ['both', 'E'],
  ['freed_error', 'E'],
  ['not_utf8', '\ufffd'],
  ['code', 'The guest function "code" returned 7'],
  ['negative', 'The guest function "negative" returned -1'],
])('hostile-answers: %s is the error of the guest, which goes on', async (name, message) => {
  const instance = await open('hostile-answers')
  expect(failure(instance, name)).toMatchObject({ ...ERROR, message })
  expect(call(instance, 'taken_back')).toBe('A')
})

test('an output or an error beyond the output limit is refused', async () => {
  expect(failure(await open('flood'), 'flood')).toMatchObject(TOO_LARGE)
  expect(failure(await open('hostile-answers'), 'huge_error')).toMatchObject(TOO_LARGE)
})

test('an input beyond the block limit is refused', async () => {
  const instance = await open('echo', { blockLimit: 1_024 })
  expect(failure(instance, 'echo', 'x'.repeat(1_025))).toMatchObject({ code: 'WASM_SERVE_BODY_TOO_LARGE' })
  expect(call(instance, 'echo', 'x'.repeat(1_024))).toHaveLength(1_024)
})

test('memory grows up to the cap and no further', async () => {
  const error = failure(await open('hostile-self'), 'grow')
  expect(error).toMatchObject({ ...ERROR, message: 'The guest function "grow" returned 100' })
})

test.each([
  '__proto__',
  'constructor',
  'toString',
  'no such name',
  '',
])('config_get("%s") finds nothing', async (name) => {
  expect(call(await open('hostile-host', { config: { name: 'Ada' } }), 'config', name)).toBe('')
})

test('config_get finds what the operator set', async () => {
  expect(call(await open('hostile-host', { config: { näme: 'Åda' } }), 'config', 'näme')).toBe('Åda')
})

test('a variable is a copy that lives from call to call, until it is deleted', async () => {
  const instance = await open('hostile-host')
  call(instance, 'set', 'name')
  expect(call(instance, 'var', 'name')).toBe('name')
  expect(call(instance, 'var', 'other')).toBe('')
  call(instance, 'unset', 'name')
  expect(call(instance, 'var', 'name')).toBe('')
})

test('variables have a limit together, and deleting makes room', async () => {
  const instance = await open('hostile-host')
  for (const name of ['a', 'b', 'c']) call(instance, 'set_big', name)
  call(instance, 'set_big', 'a')
  call(instance, 'unset', 'b')
  call(instance, 'set_big', 'd')
  expect(failure(instance, 'set_big', 'e')).toMatchObject({
    code: 'WASM_SERVE_VARIABLES_FULL',
    message: expect.stringContaining('exceed 1048576 bytes'),
    cause: { reason: expect.stringContaining('variable store is full') },
  })
})

test('a huge log line is cut', async () => {
  lines.length = 0
  call(await open('hostile-host'), 'log_big')
  expect(lines).toHaveLength(1)
  expect(lines[0]?.length).toBeLessThan(10_000)
})

test('without an allowed host an HTTP request ends the call, or the guest is told, and goes on', async () => {
  lines.length = 0
  const reason = expect.stringContaining('HTTP requests are not allowed')
  const request = '{"url":"https://example.com"}'
  expect(failure(await open('hostile-host'), 'http', request)).toMatchObject({ ...TRAP, cause: { reason } })
  const instance = await open('hostile-host', { httpErrors: 'status' })
  expect(call(instance, 'http', request)).toEqual(reason)
  expect(lines).toEqual([reason])
  expect(call(instance, 'level')).toBe('')
})

test.each([
  ['a reactor', '(func (export "_initialize") (global.set $g (i32.const 5)))', 5],
  ['a program without WASI', '(func (export "_start") (global.set $g (i32.const 6)))', 6],
  ['what has constructors', '(func (export "__wasm_call_ctors") (global.set $g (i32.const 8)))', 8],
  [
    'what has constructors and a program',
    `(func (export "__wasm_call_ctors") (global.set $g (i32.add (global.get $g) (i32.const 9))))
     (func (export "_start") (global.set $g (i32.const 1)))`,
    9,
  ],
  [
    'a reactor that calls its constructors itself',
    `(func $construct (export "__wasm_call_ctors") (global.set $g (i32.add (global.get $g) (i32.const 10))))
     (func (export "_initialize") (call $construct))`,
    10,
  ],
  [
    'Haskell',
    `(func (export "_initialize") (global.set $g (i32.const 7)))
     (func (export "hs_init") (param i32 i32) (global.set $g (i32.mul (global.get $g) (i32.const 2))))`,
    14,
  ],
])('%s is started once, before its first call', async (_kind, start, code) => {
  const instance = await open(
    `(module (global $g (mut i32) (i32.const 0)) ${start} (func (export "go") (result i32) (global.get $g)))`,
  )
  for (let i = 0; i < 2; i++) {
    expect(failure(instance, 'go')).toMatchObject({ message: `The guest function "go" returned ${code}` })
  }
})

test.each([
  'bad-start',
  '(module (import "extism:host/env" "alloc" (func (param i32))))',
])('what cannot be started is refused: %s', async (guest) => {
  await expect(open(guest)).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test.each([
  'memory',
  'reset',
  'block_new',
  'input_new',
  'block_length',
])('a guest cannot import the kernel\u2019s own "%s"', async (name) => {
  const wanted = `(module (import "extism:host/env" "${name}" ${name === 'memory' ? '(memory 1)' : '(func)'}))`
  await expect(open(wanted)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING' })
})

test('what a guest with WASI prints is logged, and the status with which it exits is its return code', async () => {
  const instance = await open('wasi', { wasi: {} })
  lines.length = 0
  call(instance, 'wasi')
  expect(lines).toEqual(['hello'])
  expect(failure(instance, 'wasi', 'exit')).toMatchObject({ code: 'WASM_SERVE_GUEST_ERROR' })
  expect(instance.hasExited).toBe(true)
  await instance.close()
  await expect(open('wasi', { wasi: undefined })).rejects.toMatchObject({ code: 'WASM_SERVE_WASI_DISABLED' })
})

test.each([0, 3])('what exits with %d while it starts', async (code) => {
  const opening = open(
    `(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (func (export "_initialize") (call $exit (i32.const ${code})))
      (func (export "go") (result i32) (i32.const 9)))`,
    { wasi: {} },
  )
  if (code === 0) expect(failure(await opening, 'go')).toMatchObject(ERROR)
  else await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test('the program of a WASI command is not run for its other functions, and constructors are no function with parameters', async () => {
  const instance = await open(
    `(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (func (export "_start") (call $exit (i32.const 3)))
      (func (export "__wasm_call_ctors") (param i32) (unreachable))
      (func (export "go") (result i32) (i32.const 9)))`,
    { wasi: {} },
  )
  expect(failure(instance, 'go')).toMatchObject(ERROR)
})

test('an output stays as it is when the next call begins', async () => {
  const instance = await open('echo')
  const first = await instance.call('echo', Buffer.from('first'), { log })
  call(instance, 'echo', 'other')
  expect(Buffer.from(first).toString()).toBe('first')
})
