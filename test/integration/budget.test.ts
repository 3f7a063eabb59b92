import { expect, onTestFinished, test } from 'vitest'
import { createServer, loadPlugin, type RouteOptions } from '../../src/index.ts'
import { run } from '../support/cli.ts'
import { file, guestBytes } from '../support/guest.ts'

/** Computes for as many thousand turns as the first byte of its input says, or never returns (`~`). */
const GUEST = `(module (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
  (memory (export "memory") 1)
  (func $down (param $n i32) (if (local.get $n) (then (call $down (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "run") (result i32) (local $n i32)
    (local.set $n (i32.mul (call $load (i64.const 0)) (i32.const 1000)))
    (if (i32.eq (local.get $n) (i32.const 126000)) (then (loop $ever (br $ever))))
    (call $down (i32.const 500))
    (loop $next
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $next (local.get $n)))
    (i32.const 0)))`

const SPENT = 'WASM_SERVE_BUDGET_EXCEEDED'

async function serve(route: Omit<RouteOptions, 'plugin'>) {
  const plugin = await loadPlugin(guestBytes(GUEST), { name: 'turns' })
  const app = await createServer({ logLevel: 'silent', routes: [{ timeoutMs: 20_000, ...route, plugin }] })
  onTestFinished(() => app.close())
  const ask = async (payload: string) => {
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/', payload })
    return statusCode === 200 ? 'ok' : [statusCode, JSON.parse(body).code]
  }
  return ask
}

const call = (path: string, input: string, ...args: string[]) =>
  run(['call', path, 'run', '-i', input, '--timing', ...args])

/** The checks of some calls. */
async function checksOf(path: string, input: string, calls: number): Promise<number[]> {
  const { stderr } = await call(path, input, '--loop', `${calls}`, '--budget', '1000000')
  return Array.from(stderr.matchAll(/ms, (\d+) checks/g), ([, checks]) => Number(checks))
}

test.each<[where: string, route: Omit<RouteOptions, 'plugin'>]>([
  ['on the event loop', {}],
  ['in a new instance for each call', { isolation: 'fresh' }],
  ['in a thread', { workers: 1 }],
])('%s a guest that does more work than its budget is ended, in each call at the same place', async (_where, route) => {
  const [budget = 0] = await checksOf(file('turns.wasm', guestBytes(GUEST)), '0', 1)
  const ask = await serve({ ...route, budget })
  for (let round = 0; round < 20; round++) {
    expect(await ask('1')).toEqual([504, SPENT])
    expect(await ask('0')).toBe('ok')
  }
  expect(await ask('~')).toEqual([504, SPENT])
})

test('what a call needs is as much each time, and is shown', async () => {
  const path = file('turns.wasm', guestBytes(GUEST))
  const [needed = 0, ...again] = await checksOf(path, '0', 3)
  expect([again, needed > 90]).toEqual([[needed, needed], true])
  expect((await call(path, '0', '--budget', `${needed}`)).code).toBe(0)
  const less = await call(path, '0', '--budget', `${needed - 1}`)
  expect([less.code === 0, less.stderr]).toEqual([false, expect.stringContaining(SPENT)])
  expect((await call(path, '0')).stderr).not.toContain('checks')
})

test('the start of an instance has no budget, and uses none of a call', async () => {
  // It asks the host when it starts, so that its state then cannot be kept for the next call.
  const starting = `(module (import "extism:host/env" "get_log_level" (func $level (result i32)))
    (memory (export "memory") 1) (global $starts (mut i32) (i32.const 0))
    (func (export "_initialize") (local $n i32)
      (drop (call $level))
      (global.set $starts (i32.add (global.get $starts) (i32.const 1)))
      (local.set $n (i32.const 100000))
      (loop $next (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
    (func (export "run") (result i32) (local $n i32)
      (local.set $n (i32.const 2000))
      (loop $next (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (i32.sub (global.get $starts) (i32.const 1))))`
  const plugin = await loadPlugin(guestBytes(starting), { isolation: 'fresh' })
  const app = await createServer({ logLevel: 'silent', routes: [{ plugin, isolation: 'fresh', budget: 5 }] })
  onTestFinished(() => app.close())
  for (let round = 0; round < 5; round++)
    expect((await app.inject({ method: 'POST', url: '/' })).statusCode).toBe(200)
})

test('a budget needs guests that count', async () => {
  const plugin = await loadPlugin(guestBytes(GUEST), { interrupts: 'off' })
  const app = createServer({ logLevel: 'silent', routes: [{ plugin, budget: 5 }] })
  await expect(app).rejects.toMatchObject({
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
    message: expect.stringContaining('its budget is not counted'),
  })
})

test.each([{}, { workers: 1 }])('a budget needs the runtime that counts: %j', async (options) => {
  const plugin = await loadPlugin(guestBytes(GUEST), { runtime: 'sdk' })
  const app = createServer({
    logLevel: 'silent',
    routes: [{ plugin, budget: 5, runtime: 'sdk', ...options }],
  })
  await expect(app).rejects.toMatchObject({ message: expect.stringContaining('budget of work') })
})
