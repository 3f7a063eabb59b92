import { EventEmitter, once } from 'node:events'
import { readdirSync } from 'node:fs'
import { request } from 'node:http'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, loadPlugin, type RouteOptions } from '../../src/index.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

/** Loops, traps or answers, as its input says: `l`, `t`, and anything else. */
const GUEST = `(module (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (memory (export "memory") 1) (global $calls (mut i32) (i32.const 0))
  (func (export "run") (result i32)
    (if (i64.eqz (call $length)) (then (return (i32.const 0))))
    (if (i32.eq (call $input (i64.const 0)) (i32.const 0x6c)) (then (loop $l (br $l))))
    (if (i32.eq (call $input (i64.const 0)) (i32.const 0x74)) (then (unreachable)))
    (i32.const 0)))`

const LIMIT_MS = 50

async function serve(...routes: Omit<RouteOptions, 'plugin'>[]) {
  const plugin = await loadPlugin(guestBytes(GUEST), { name: 'moody' })
  const own = routes.map((route) => ({ timeoutMs: LIMIT_MS, ...route, plugin }))
  const app = await createServer({
    port: 0,
    logLevel: 'silent',
    routes: [...own, { url: '/echo', plugin: guest('echo') }],
  })
  onTestFinished(() => app.close())
  const url = await app.listen()
  const ask = async (path: string, body: string) => {
    const answer = await fetch(`${url}${path}`, { method: 'POST', body })
    const text = await answer.text()
    return answer.status === 200 ? text : [answer.status, JSON.parse(text).code]
  }
  return { ask, app }
}

const LATE = [504, 'WASM_SERVE_DEADLINE_EXCEEDED']
const TRAP = [500, 'WASM_SERVE_GUEST_TRAP']

test.each<[where: string, options: Omit<RouteOptions, 'plugin'>]>([
  ['on the event loop', { engine: 'inline' }],
  ['on the event loop, with an instance for each call', { engine: 'inline', isolation: 'fresh' }],
  ['in a thread', { workers: 1 }],
  ['in a thread, with an instance for each call', { workers: 1, isolation: 'fresh' }],
])('a guest that does not return %s is ended, and others are answered', async (_where, options) => {
  const { ask } = await serve({ url: '/', ...options })
  for (let round = 0; round < 2; round++) {
    const echoes = Array.from({ length: 20 }, (_, n) => `${round}-${n}`)
    const answers = await Promise.all([ask('/', 'l'), ...echoes.map((id) => ask('/echo', id)), ask('/', 'a')])
    expect(answers).toEqual([LATE, ...echoes, ''])
    // A trap is none of a deadline, however soon it follows.
    expect([await ask('/', 't'), await ask('/', 'l'), await ask('/', 't'), await ask('/', 'a')]).toEqual([
      TRAP,
      LATE,
      TRAP,
      '',
    ])
  }
})

test.each([
  [true, 60_000, 'WASM_SERVE_CLIENT_GONE'],
  [false, 300, 'WASM_SERVE_DEADLINE_EXCEEDED'],
])('a client that leaves ends its guest if the route says so: %s', async (cancelOnDisconnect, timeoutMs, expected) => {
  const codes: (string | undefined)[] = []
  const log = new EventEmitter()
  const write = (line: string) => {
    const { msg, code } = JSON.parse(line)
    if (msg === 'G begins') log.emit('begun')
    if (code?.startsWith('WASM_SERVE')) codes.push(code) // not that the answer finds nobody
  }
  const route = { plugin: guest('moody'), workers: 1, spareWorkers: 0, timeoutMs, cancelOnDisconnect }
  const app = await createServer(
    { port: 0, routes: [route] },
    pino({ base: null, level: 'debug' }, { write }),
  )
  onTestFinished(() => app.close())
  const url = await app.listen()
  const begun = once(log, 'begun')
  const leaving = request(url, { method: 'POST', agent: false }).end('G begins')
  leaving.on('error', () => undefined)
  await begun
  leaving.destroy()
  expect(await (await fetch(url, { method: 'POST', body: 'next' })).text()).toBe('next')
  expect(codes[0]).toBe(expected)
})

test.skipIf(process.platform !== 'linux')('a hundred deadlines in a row cost no thread', async () => {
  const { ask } = await serve({ url: '/', workers: 1, timeoutMs: 10 })
  expect(await ask('/', 'l')).toEqual(LATE)
  const before = readdirSync('/proc/self/task')
  for (let round = 0; round < 100; round++) expect(await ask('/', 'l')).toEqual(LATE)
  const started = readdirSync('/proc/self/task').filter((thread) => !before.includes(thread))
  expect(started.length).toBeLessThan(10) // a busy machine may take more than 100 ms to let a guest look
})

test('a plug-in that is loaded later and cannot be interrupted is named, for its deadline ends nothing', async () => {
  const lines: { msg: string; plugin?: string }[] = []
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) })
  const text =
    '(module (memory (export "memory") 1) (func (export "wasm-serve:check") (result i32) (i32.const 0)))'
  const route = { plugin: file('reserved.wasm', guestBytes(text)), load: 'lazy', timeoutMs: 500 } as const
  const app = await createServer({ routes: [route] }, log)
  onTestFinished(() => app.close())
  await app.inject({ method: 'POST', url: '/' })
  expect(lines.filter(({ msg }) => msg.includes('cannot be interrupted'))).toMatchObject([
    { plugin: 'reserved' },
  ])
})
