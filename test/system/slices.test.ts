import { EventEmitter, once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions } from '../../src/index.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { guest, guestBytes } from '../support/guest.ts'

/* Slow guests on the event loop, which are suspended between slices: only newer versions of Node.js can do that. */

/**
 * Computes as many million turns as the first byte of its input says, and returns its input, whose bytes it has in a memory of
 * its own meanwhile. `t`: traps at the end; `l`: never returns.
 */
const SLOW = guestBytes(`(module
  (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_offset" (func $offset (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (func $turns (param $n i32) (result i32) (local $x i32)
    (local.set $x (i32.const 1))
    (loop $next
      (local.set $x (i32.xor (i32.mul (local.get $x) (i32.const 31)) (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $next (local.get $n)))
    (local.get $x))
  (func (export "run") (result i32) (local $at i32) (local $block i64) (local $first i32)
    (local.set $first (call $load (i64.const 0)))
    (loop $copy
      (i32.store8 (local.get $at) (call $load (i64.extend_i32_u (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $copy (i64.lt_u (i64.extend_i32_u (local.get $at)) (call $length))))
    (if (i32.eq (local.get $first) (i32.const 0x6c)) (then (loop $ever (br $ever))))
    (drop (call $turns (i32.mul (i32.and (local.get $first) (i32.const 0x3f)) (i32.const 1000000))))
    (if (i32.eq (local.get $first) (i32.const 0x74)) (then (unreachable)))
    (local.set $block (call $alloc (call $length)))
    (local.set $at (i32.const 0))
    (loop $write
      (call $store (i64.add (local.get $block) (i64.extend_i32_u (local.get $at))) (i32.load8_u (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $write (i64.lt_u (i64.extend_i32_u (local.get $at)) (call $length))))
    (call $output (local.get $block) (call $length))
    (i32.const 0)))`)

async function serve(...routes: RouteOptions[]) {
  const app = await createServer({ port: 0, logLevel: 'silent', routes })
  onTestFinished(() => app.close())
  const url = await app.listen()
  return async (path: string, body: string) => {
    const answer = await fetch(`${url}${path}`, { method: 'POST', body })
    const text = await answer.text()
    return answer.status === 200 ? text : JSON.parse(text).code
  }
}

describe.skipIf(!suspending)('slices', () => {
  test.each(['reuse', 'fresh'] as const)('a guest that was ended is still slow (%s)', async (isolation) => {
    const ask = await serve(
      { url: '/slow', plugin: SLOW, isolation, timeoutMs: 500 },
      { url: '/echo', plugin: guest('echo') },
    )
    await ask('/slow', '? first')
    for (let round = 0; round < 4; round++) {
      let isOver = false
      const ended = ask('/slow', 'l').finally(() => (isOver = true))
      for (let n = 0; n < 5; n++) expect(await ask('/echo', `${round}-${n}`)).toBe(`${round}-${n}`)
      expect(isOver).toBe(false)
      expect(await ended).toBe('WASM_SERVE_DEADLINE_EXCEEDED')
    }
  })

  test.each([
    'reuse',
    'fresh',
  ] as const)('while slow guests compute, others are answered (%s)', async (isolation) => {
    const ask = await serve(
      ...['/a', '/b', '/c'].map((url) => ({ url, plugin: SLOW, isolation, timeoutMs: 30_000 })),
      { url: '/echo', plugin: guest('echo') },
    )
    const paths = ['/a', '/b', '/c']
    await Promise.all(paths.map((path) => ask(path, '? first'))) // now they are known to be slow
    let left = 12
    const slow = Array.from({ length: left }, async (_, n) => {
      const body = `? ${n} of ${isolation}`
      expect(await ask(paths[n % 3] ?? '', body)).toBe(body)
      left--
    })
    const before = left
    let echoes = 0
    while (left > 0) expect(await ask('/echo', `${++echoes}`)).toBe(`${echoes}`)
    await Promise.all(slow)
    expect(echoes).toBeGreaterThan(4 * before) // without slices about as many as there are slow calls
  })

  test('a slow guest that does not return, or traps, is ended alone', async () => {
    const ask = await serve(
      { url: '/', plugin: SLOW, timeoutMs: 1_000 },
      { url: '/other', plugin: SLOW, timeoutMs: 30_000 },
      { url: '/echo', plugin: guest('echo') },
    )
    await Promise.all([ask('/', '0 slow'), ask('/other', '? first')])
    for (let round = 0; round < 3; round++) {
      const late = ask('/', 'l').then((code) => [code, isOver] as const)
      let isOver = false
      const other = ask('/other', `? ${round}`)
      for (let n = 0; n < 10; n++) expect(await ask('/echo', `${n}`)).toBe(`${n}`)
      isOver = true // ten answers come before the deadline
      expect(await late).toEqual(['WASM_SERVE_DEADLINE_EXCEEDED', true])
      expect(await other).toBe(`? ${round}`)
      expect(await ask('/', 't')).toBe('WASM_SERVE_GUEST_TRAP')
      expect(await ask('/', `0 after ${round}`)).toBe(`0 after ${round}`)
    }
  })

  test('a slow guest whose client leaves is ended, if the route says so', async () => {
    const codes = new EventEmitter()
    const write = (line: string) => void codes.emit(JSON.parse(line).code)
    const app = await createServer(
      { port: 0, routes: [{ plugin: SLOW, timeoutMs: 30_000, cancelOnDisconnect: true }] },
      pino({ base: null, level: 'debug' }, { write }),
    )
    onTestFinished(() => app.close())
    const url = await app.listen()
    await (await fetch(url, { method: 'POST', body: '? first' })).text()
    const gone = once(codes, 'WASM_SERVE_CLIENT_GONE')
    const leaving = request(url, { method: 'POST', agent: false }).end('l')
    leaving.on('error', () => undefined)
    await once(app.server, 'request') // the guest begins in this turn
    leaving.destroy()
    await gone
    expect(await (await fetch(url, { method: 'POST', body: '0 next' })).text()).toBe('0 next')
  })

  test('what a slow guest waits for does not count toward its deadline', async () => {
    const plugin = guestBytes(`(module (import "env" "wait" (func $wait)) (memory (export "memory") 1)
      (func $turns (local $n i32)
        (local.set $n (i32.const 20000000))
        (loop $next (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
      (func (export "run") (result i32) (call $turns) (call $wait) (call $turns) (i32.const 0)))`)
    const wait = () => new Promise<void>((resolve) => setTimeout(resolve, 1_500))
    const functions = { env: { wait: async () => wait() } }
    const ask = await serve({ url: '/', plugin, functions, timeoutMs: 1_000 })
    for (let round = 0; round < 2; round++) expect(await ask('/', '')).toBe('')
  })

  test('a slow guest has a budget, too', async () => {
    // Each 512 turns are a check: 48 million are less than the budget, and 63 million are more.
    const ask = await serve({ url: '/', plugin: SLOW, timeoutMs: 30_000, budget: 110_000 })
    for (let round = 0; round < 2; round++) {
      expect(await ask('/', `0 in round ${round}`)).toBe(`0 in round ${round}`)
      expect(await ask('/', '? more')).toBe('WASM_SERVE_BUDGET_EXCEEDED')
    }
  })

  test('a slow guest finishes when its server closes', async () => {
    const app = await createServer({
      port: 0,
      logLevel: 'silent',
      routes: [{ plugin: SLOW, timeoutMs: 30_000 }],
    })
    const url = await app.listen()
    await (await fetch(url, { method: 'POST', body: '? first' })).text()
    const sent = request(url, { method: 'POST', agent: false }).end('? last')
    const answered = once(sent, 'response').then(([answer]) => text(answer))
    await once(app.server, 'request') // the guest begins in this turn
    await app.close()
    expect(await answered).toBe('? last')
  })
})
