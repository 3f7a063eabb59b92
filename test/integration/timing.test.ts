import { expect, onTestFinished, test } from 'vitest'
import { openInline } from '../../src/engine/inline.ts'
import { ObservedCall, renderServerTiming } from '../../src/observe/observe.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { sdk } from '../../src/runtime/sdk.ts'
import { file, guestBytes } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'
import { listen, serve } from '../support/serve.ts'

/** Spins for as many rounds as its input is long: some milliseconds for 64 KiB. */
const SPIN = guestBytes(`(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (func (export "spin") (local $left i64)
    (local.set $left (i64.mul (call $input_length) (i64.const 200)))
    (loop $next
      (local.set $left (i64.sub (local.get $left) (i64.const 1)))
      (br_if $next (i64.gt_s (local.get $left) (i64.const 0))))))`)

/** What a `Server-Timing` header says, in milliseconds. */
function durations(header: unknown): Record<string, number> {
  const entries = String(header)
    .split(', ')
    .map((entry) => /^(\w+);dur=([\d.]+)$/.exec(entry))
  return Object.fromEntries(entries.map((match) => [match?.[1] ?? 'malformed', Number(match?.[2])]))
}

test.each([
  ['kernel', {}],
  ['sdk', { runtime: 'sdk' }],
  ['kernel in a thread', { workers: 1, timeoutMs: 60_000 }],
] as const)('each answer tells how long its call waited and ran (%s)', async (_, options) => {
  const app = await serve({ plugin: SPIN, timing: true, ...options })
  const begun = performance.now()
  const reply = await app.inject({ method: 'POST', url: '/', payload: Buffer.alloc(65_536) })
  const all = performance.now() - begun
  expect(reply.statusCode).toBe(200)
  const { queue, guest, ...others } = durations(reply.headers['server-timing'])
  expect(others).toEqual({})
  expect(guest).toBeGreaterThan(0)
  expect(queue).toBeGreaterThanOrEqual(0)
  expect((queue ?? 0) + (guest ?? 0)).toBeLessThanOrEqual(all)
})

/** Asks an engine on the SDK, whose calls can wait for each other, for some calls at once. */
async function askAtOnce(calls: number, maxQueue: number): Promise<Record<string, number>[]> {
  const engine = openInline({
    plugin: await loadPlugin(SPIN),
    runtime: sdk,
    settings: settingsOf(),
    maxQueue,
    isolation: 'reuse',
    recycleMemory: Number.POSITIVE_INFINITY,
  })
  onTestFinished(() => engine.close())
  await engine.ready
  const ask = async () => {
    const observer = new ObservedCall({})
    const call = async () => engine.call('spin', new Uint8Array(65_536), { log: keepLog(), observer })
    await call().catch(() => undefined) // a failure has a header too
    return durations(renderServerTiming(observer))
  }
  return Promise.all(Array.from({ length: calls }, ask))
}

test('a call that has to wait for others says so, and what it waits is what they run', async () => {
  // The first has run when the second is asked for: what the SDK does for a call, it begins at once.
  const [, second, third] = await askAtOnce(3, 1_000)
  expect(second?.guest).toBeGreaterThan(0)
  expect(third?.queue).toBeGreaterThanOrEqual(second?.guest ?? Number.NaN)
})

test('a call that finds the queue full only waits', async () => {
  const told = await askAtOnce(3, 1)
  expect(told.map((each) => Object.keys(each))).toEqual([['queue', 'guest'], ['queue', 'guest'], ['queue']])
})

test('calls that wait for one thread say so, and what they wait is what the others run', async () => {
  const app = await serve({ plugin: SPIN, timing: true, workers: 1, timeoutMs: 60_000 })
  const ask = () => app.inject({ method: 'POST', url: '/', payload: Buffer.alloc(65_536) })
  const replies = await Promise.all([ask(), ask(), ask()])
  const told = replies.map(({ headers }) => durations(headers['server-timing']))
  const queues = told.map(({ queue }) => queue ?? Number.NaN)
  const guests = told.map(({ guest }) => guest ?? Number.NaN)
  expect(Math.min(...guests)).toBeGreaterThan(0)
  expect(Math.max(...queues)).toBeGreaterThanOrEqual(Math.min(...guests))
})

test('a guest whose time is up says how long it ran', async () => {
  const app = await serve({ plugin: guestBytes('loop'), timing: true, timeoutMs: 50 })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'x' })
  expect(reply.statusCode).toBe(504)
  expect(durations(reply.headers['server-timing']).guest).toBeGreaterThan(25)
})

test('a call whose thread was lost says nothing of what nobody knows', async () => {
  const functions = file('exit.mjs', 'export default { env: { relay: () => process.exit(1) } }')
  const app = await serve({ plugin: guestBytes('relay'), timing: true, workers: 1, functions })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'x' })
  expect([reply.json().code, reply.headers['server-timing']]).toEqual(['WASM_SERVE_WORKER_LOST', undefined])
})

test('failures say it too, if they were calls', async () => {
  const refused = await serve({ plugin: guestBytes('refuse'), timing: true })
  const no = await refused.inject({ method: 'POST', url: '/', payload: 'no' })
  expect([no.statusCode, Object.keys(durations(no.headers['server-timing']))]).toEqual([
    409,
    ['queue', 'guest'],
  ])

  const trapped = await serve({ plugin: guestBytes('trap'), timing: true })
  const trap = await trapped.inject({ method: 'POST', url: '/', payload: 'x' })
  expect([trap.statusCode, Object.keys(durations(trap.headers['server-timing']))]).toEqual([
    500,
    ['queue', 'guest'],
  ])
})

test('a request that asks for no call is told nothing', async () => {
  const app = await serve({ plugin: guestBytes('echo'), timing: true, bodyLimit: 4 })
  const large = await app.inject({ method: 'POST', url: '/', payload: 'too large' })
  expect([large.statusCode, large.headers['server-timing']]).toEqual([413, undefined])
  const get = await app.inject({ method: 'GET', url: '/' })
  expect([get.statusCode, get.headers['server-timing']]).toEqual([405, undefined])
})

test('there is no such header unless it is asked for, and other routes are not touched', async () => {
  const app = await serve({ plugin: guestBytes('echo') })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'abc' })
  expect([reply.statusCode, reply.headers['server-timing']]).toEqual([200, undefined])
})

test('it is a header of the answer on the wire, beside an answer that is whole', async () => {
  const { url } = await listen({ plugin: guestBytes('echo'), timing: true, isolation: 'fresh' })
  for (const body of ['one', 'two']) {
    const answer = await fetch(url, { method: 'POST', body })
    expect(await answer.text()).toBe(body)
    expect(answer.headers.get('server-timing')).toMatch(/^queue;dur=[\d.]+, guest;dur=[\d.]+$/)
  }
})
