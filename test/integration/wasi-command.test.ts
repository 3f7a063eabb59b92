import { describe, expect, test } from 'vitest'
import { callableExports, chooseExport } from '../../src/module/entry-points.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import type { Instance } from '../../src/runtime/runtime.ts'
import { testPlugin } from '../../src/testing.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'
import { serve } from '../support/serve.ts'

const WRITE =
  '(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'

/** A command with another function, whose program exits with 5. */
const BOTH = `(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (global $runs (mut i32) (i32.const 0))
  (func (export "_start") (global.set $runs (i32.const 7)) (call $exit (i32.const 5)))
  (func (export "go") (result i32) (global.get $runs)))`

async function post(route: RouteOptions, ...bodies: string[]) {
  const app = await serve({ url: '/', ...route })
  const answers: { status: number; body: string }[] = []
  for (const payload of bodies) {
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/', payload })
    answers.push({ status: statusCode, body })
  }
  return answers
}

async function openCommand(
  source: string | Uint8Array,
  route: Partial<RouteOptions> = {},
  log = keepLog(),
): Promise<Instance> {
  return kernel.open(await loadPlugin(source), { ...settingsOf(route, log), command: true })
}

describe.each([
  { engine: 'inline', isolation: 'reuse' },
  { engine: 'inline', isolation: 'reuse', recycle: 2 },
  { engine: 'inline', isolation: 'fresh' },
  { engine: 'workers', isolation: 'reuse' },
  { engine: 'workers', isolation: 'fresh' },
] as const)('a command on $engine, isolation $isolation, recycle $recycle', (options) => {
  const route = { plugin: guest('command'), ...options }

  test('runs once for each call, in a new instance, and answers with what it printed', async () => {
    const answers = await post(route, '', '', '')
    expect(answers).toEqual(Array(3).fill({ status: 200, body: '11' }))
  })

  test('answers with the output that it set, whatever it printed', async () => {
    expect(await post(route, 'o', 'p', 'x')).toEqual([
      { status: 200, body: 'set' },
      { status: 200, body: 'printed\n' },
      { status: 200, body: 'printed\n' },
    ])
  })

  test('says no by another status than 0, or with an error, and goes on', async () => {
    const app = await serve({ url: '/', ...route })
    const answer = async (payload: string) => app.inject({ method: 'POST', url: '/', payload })
    const [exited, refused] = [await answer('y'), await answer('e')]
    expect([exited.statusCode, exited.body]).toEqual([409, expect.stringContaining(' 3')])
    expect([refused.statusCode, refused.body]).toEqual([409, 'set'])
    expect((await answer('t')).json()).toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
    expect((await answer('')).body).toBe('11')
  })

  test('reads the input from its standard input too, each call its own', async () => {
    const long = `r${'0123456789'.repeat(50)}`
    expect(await post(route, long, 'r', 'rest')).toEqual([
      { status: 200, body: long },
      { status: 200, body: 'r' },
      { status: 200, body: 'rest' },
    ])
  })
})

test('what a command prints is its answer and no log, or else is logged', async () => {
  const log = keepLog()
  const said = async (input: string) => {
    const instance = await openCommand(guest('command'))
    log.lines.length = 0
    const output = await (async () => instance.call('_start', Buffer.from(input), { log }))().catch(
      () => null,
    )
    await instance.close()
    return [output && Buffer.from(output).toString(), log.lines.map(({ level, message }) => [level, message])]
  }
  expect(await said('p')).toEqual(['printed\n', [['warn', 'printed']]]) // and to standard error
  expect(await said('o')).toEqual(['set', [['info', 'printed']]])
  expect(await said('y')).toEqual([null, [['info', 'printed']]])
  expect(await said('t')).toEqual([null, [['info', 'printed']]])
})

test('a command may print as much as an output may have', async () => {
  const [fits, tooMuch] = await Promise.all([
    post({ plugin: guest('command'), outputLimit: 8 }, 'p'),
    post({ plugin: guest('command'), outputLimit: 7 }, 'p', 'o'),
  ])
  expect(fits).toEqual([{ status: 200, body: 'printed\n' }])
  expect(tooMuch[0]?.status).toBe(502)
  expect(JSON.parse(tooMuch[0]?.body ?? '')).toMatchObject({ code: 'WASM_SERVE_OUTPUT_TOO_LARGE' })
  expect(tooMuch[1]).toEqual({ status: 200, body: 'set' })
})

test('a command that prints for ever takes no more memory than an output may have, and ends at its deadline', async () => {
  const answers = await post({ plugin: guest('command'), timeoutMs: 200, outputLimit: 65_536 }, 'l')
  expect(JSON.parse(answers[0]?.body ?? '')).toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
})

test('a module that has nothing else to call is called by _start; else only by its name', async () => {
  const only = await loadPlugin(guest('command'))
  expect([callableExports(only), chooseExport(only, undefined)]).toEqual([['_start'], '_start'])
  const both = await loadPlugin(guestBytes(BOTH))
  expect([callableExports(both), chooseExport(both, undefined)]).toEqual([['go'], 'go'])
  expect(chooseExport(both, '_start')).toBe('_start')
})

test('the program of a command is not run when another function is called', async () => {
  const plugin = guestBytes(BOTH)
  expect(await post({ plugin, function: 'go' }, '')).toEqual([{ status: 200, body: '' }])
  const named = await post({ plugin, function: '_start' }, '')
  expect(named).toEqual([{ status: 409, body: expect.stringContaining(' 5') }])
})

test('a command is not made ready before it runs: its program does that itself', async () => {
  const app = await serve({
    url: '/',
    function: '_start',
    plugin: guestBytes(`(module ${WRITE}
      (memory (export "memory") 1)
      (data (i32.const 0) "\\08\\00\\00\\00\\01\\00\\00\\00a")
      (func $more (i32.store8 (i32.const 8) (i32.add (i32.load8_u (i32.const 8)) (i32.const 1))))
      (func (export "_initialize") (call $more))
      (func (export "__wasm_call_ctors") (call $more))
      (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100))))
      (func (export "go")))`),
  })
  expect((await app.inject({ method: 'POST', url: '/' })).body).toBe('a')
})

test('a command whose program is not there for other functions is no instance for them', async () => {
  const instance = await openCommand(guestBytes(BOTH))
  await expect((async () => instance.call('go', Buffer.of(), { log: keepLog() }))()).rejects.toMatchObject({
    code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  })
  await instance.close()
})

test('the SDK cannot tell how a program ended: a command is refused there', async () => {
  await expect(serve({ url: '/', plugin: guest('command'), runtime: 'sdk' })).rejects.toMatchObject({
    code: 'WASM_SERVE_RUNTIME_UNFIT',
  })
})

test('a test of a plug-in calls a command as a route does', async () => {
  await using tested = await testPlugin(guest('command'))
  expect((await tested.call('_start', 'o')).text()).toBe('set')
  expect((await tested.call('_start')).text()).toBe('11')
})

test('a command that imports an async host function waits for it', async () => {
  if (!('Suspending' in WebAssembly)) return
  const plugin = guestBytes(`(module ${WRITE}
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "host" "next" (func $next (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\\08\\00\\00\\00\\01\\00\\00\\00")
    (func (export "_start")
      (i32.store8 (i32.const 8) (call $next))
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))
      (call $exit (i32.const 0))))`)
  const functions = { host: { next: async () => 65 } }
  expect(await post({ plugin, functions }, '', '')).toEqual(Array(2).fill({ status: 200, body: 'A' }))
})
