import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Engine, PendingCall } from '../../src/engine/engine.ts'
import { threadKind, type WorkersOptions } from '../../src/engine/workers/thread.ts'
import { prestartThread, takePrestartedThread } from '../../src/engine/workers/thread-start.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { threadOptions } from '../support/trial.ts'

const open = (guest: string, options: Partial<WorkersOptions> = {}) =>
  openEngine({ name: 'workers', runtime: kernel }, guest, options)

test('of 50 calls one never returns: it alone is lost', async () => {
  const engine = await open('moody', { timeoutMs: 100 })
  await engine.ready
  const calls = Array.from({ length: 50 }, (_, i) => callText(engine, 'answer', i === 30 ? 'L' : `call ${i}`))
  const settled = await Promise.allSettled(calls)
  expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(1)
  expect(settled[30]).toMatchObject({ reason: { code: 'WASM_SERVE_DEADLINE_EXCEEDED', statusCode: 504 } })
  for (const [i, result] of settled.entries()) {
    if (i !== 30) expect(result).toMatchObject({ value: `call ${i}` })
  }
})

test('a large call is answered before and after one that never returns', async () => {
  const engine = await open('moody', { timeoutMs: 50 })
  const large = 'x'.repeat(500_000)
  const calls = [large, 'L', large, `L${large}`, large].map((text) => callText(engine, 'answer', text))
  expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'fulfilled',
    'rejected',
    'fulfilled',
  ])
})

test('what a guest logged before it was ended is in the log of its call', async () => {
  const engine = await open('moody', { timeoutMs: 50 })
  const log = keepLog()
  await expect(callText(engine, 'answer', 'G: hear me', { log })).rejects.toMatchObject({
    code: 'WASM_SERVE_DEADLINE_EXCEEDED',
  })
  expect(log.lines).toMatchObject([{ level: 'info', message: 'G: hear me' }])
})

test('a guest whose client has left is ended if the caller says so, and the next call is answered', async () => {
  const engine = await open('moody', { timeoutMs: 20_000 })
  const leave = () => {
    client.isGone = true
  }
  const client = { isCancelledWhenGone: true, isGone: false, log: { ...keepLog(), info: leave } } // it logs when it runs
  const begun = performance.now()
  const calls = [callText(engine, 'answer', 'G', client), callText(engine, 'answer', 'next')]
  const [left, next] = await Promise.allSettled(calls)
  expect(left).toMatchObject({ reason: { code: 'WASM_SERVE_CLIENT_GONE' } })
  expect(next).toMatchObject({ value: 'next' })
  expect(performance.now() - begun).toBeLessThan(10_000)
})

test('two threads run two guests at a time', async () => {
  const engine = await open('moody', { timeoutMs: 300, workers: 2, spareWorkers: 0 })
  await engine.ready
  let hasEnded = false
  const looping = callText(engine, 'answer', 'L').finally(() => (hasEnded = true))
  expect(await callText(engine, 'answer', 'beside')).toBe('beside')
  expect(hasEnded).toBe(false)
  await expect(looping).rejects.toMatchObject({ statusCode: 504 })
})

test('a call is refused at once when as many calls or bytes wait as may', async () => {
  const engine = await open('moody', { timeoutMs: 300, maxQueue: 2, maxQueueBytes: 100 })
  await engine.ready
  const running = await hang(engine)
  const waiting = [callText(engine, 'answer', 'a')]
  await expect(callText(engine, 'answer', 'x'.repeat(100))).rejects.toMatchObject({
    code: 'WASM_SERVE_QUEUE_FULL',
  })
  waiting.push(callText(engine, 'answer', 'b'))
  await expect(callText(engine, 'answer', 'c')).rejects.toMatchObject({
    code: 'WASM_SERVE_QUEUE_FULL',
    statusCode: 503,
  })
  expect(await Promise.all(waiting)).toEqual(['a', 'b'])
  await running.ended
})

test('the call of a client that went away while it waited is not run', async () => {
  const engine = await open('moody', { timeoutMs: 200 })
  await engine.ready
  const running = await hang(engine)
  const log = keepLog()
  const client = { log, isGone: false }
  const abandoned = callText(engine, 'answer', 'G', client)
  client.isGone = true
  await expect(abandoned).rejects.toMatchObject({ code: 'WASM_SERVE_CLIENT_GONE' })
  await running.ended
  expect(log.lines).toEqual([])
})

test('those that went away make room for others', async () => {
  const engine = await open('moody', { timeoutMs: 200, maxQueue: 1 })
  await engine.ready
  const running = await hang(engine)
  const abandoned = callText(engine, 'answer', 'a', { log: keepLog(), isGone: true })
  const other = callText(engine, 'answer', 'b')
  await expect(abandoned).rejects.toMatchObject({ code: 'WASM_SERVE_CLIENT_GONE' })
  expect(await other).toBe('b')
  await running.ended
})

/** The path of a module with the host function of the guest `relay`. */
const relay = (body: string) =>
  file(
    `relay-${serial++}.mjs`,
    `import fs from 'node:fs'; export default { env: { relay(context, input) { ${body} } } }`,
  )
let serial = 0

test('a host function runs in the thread, and its guest gets what it returns', async () => {
  const path = relay('return context.store(context.read(input).text() + "!")')
  const engine = await open('relay', { functions: path, workers: 2 })
  expect(await Promise.all(['a', 'b', 'c'].map((text) => callText(engine, 'relay', text)))).toEqual([
    'a!',
    'b!',
    'c!',
  ])
})

test('a thread that ends in the middle of a call costs that call, and is replaced', async () => {
  const path = relay('if (context.read(input).text() === "die") process.exit(3); return input')
  const engine = await open('relay', { functions: path })
  const calls = ['a', 'die', 'b', 'die', 'c'].map((text) => callText(engine, 'relay', text))
  expect(await Promise.allSettled(calls)).toMatchObject([
    { value: 'a' },
    { reason: { code: 'WASM_SERVE_WORKER_LOST', statusCode: 500 } },
    { value: 'b' },
    { reason: { code: 'WASM_SERVE_WORKER_LOST' } },
    { value: 'c' },
  ])
})

test('a call is run twice only where the route says that it may be', async () => {
  const runs = file('runs', '')
  const path = relay(`fs.appendFileSync(${JSON.stringify(runs)}, 'x'); process.exit(1)`)
  const once = await open('relay', { functions: path })
  await expect(callText(once, 'relay', 'a')).rejects.toMatchObject({ code: 'WASM_SERVE_WORKER_LOST' })
  expect(readFileSync(runs, 'utf8')).toBe('x')
  const again = await open('relay', { functions: path, idempotent: true })
  await expect(callText(again, 'relay', 'b')).rejects.toMatchObject({ code: 'WASM_SERVE_WORKER_LOST' })
  expect(readFileSync(runs, 'utf8')).toBe('xxx')
})

test('a plug-in whose start does not return is refused in time', async () => {
  const engine = await open('start-loop', { startTimeoutMs: 200 })
  await expect(engine.ready).rejects.toMatchObject({
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
    message: expect.stringContaining('200 ms'),
  })
})

/** A guest that runs until its deadline; it has begun. */
async function hang(engine: Engine): Promise<{ readonly ended: Promise<void> }> {
  let begun: () => void = () => undefined
  const hasBegun = new Promise<void>((resolve) => (begun = resolve))
  const call = callText(engine, 'answer', 'G', { log: { ...keepLog(), info: begun } })
  const ended = expect(call).rejects.toMatchObject({ statusCode: 504 })
  await hasBegun
  return { ended }
}

test('threads that end in their first call are replaced at once', async () => {
  const engine = await open('relay', {
    functions: relay('process.exit(1)'),
    spareWorkers: 0,
    backoffMs: 60_000,
  })
  for (let i = 0; i < 3; i++) {
    await expect(callText(engine, 'relay', '')).rejects.toMatchObject({ code: 'WASM_SERVE_WORKER_LOST' })
  }
})

test('calls do not wait for a thread that something else holds', async () => {
  const state = file('state', '')
  const path = file(
    'holds.mjs',
    `import fs from 'node:fs'
    const state = ${JSON.stringify(state)}
    if (fs.readFileSync(state, 'utf8') === '') {
      fs.writeFileSync(state, 'first')
      setTimeout(() => { fs.writeFileSync(state, 'held'); for (;;); }, 50)
    }
    export default { env: { relay: (context, input) => input } }`,
  )
  const engine = await open('relay', { functions: path, timeoutMs: 300 })
  await engine.ready
  await expect.poll(() => readFileSync(state, 'utf8'), { timeout: 10_000 }).toBe('held')
  for (let i = 0; i < 5; i++) expect(await callText(engine, 'relay', `${i}`)).toBe(`${i}`)
})

test('the call of a client that goes away is not run, though it was handed over ahead', async () => {
  const engine = await open('moody', { timeoutMs: 300 })
  await Promise.all(Array.from({ length: 300 }, (_, i) => callText(engine, 'answer', `${i}`)))
  const log = keepLog()
  const client = { log, isGone: false }
  const looping = callText(engine, 'answer', 'L')
  const abandoned = callText(engine, 'answer', 'G', client)
  client.isGone = true
  await expect(abandoned).rejects.toMatchObject({ code: 'WASM_SERVE_CLIENT_GONE' })
  await expect(looping).rejects.toMatchObject({ statusCode: 504 })
  expect(log.lines).toEqual([])
})

test('the first engine takes the thread that was started before its work was known', async () => {
  prestartThread('kernel')
  expect(takePrestartedThread('sdk')).toBeUndefined()
  const [first, second] = [await open('echo'), await open('echo')]
  expect(takePrestartedThread('kernel')).toBeUndefined()
  expect(await Promise.all([callText(first, 'echo', 'one'), callText(second, 'echo', 'two')])).toEqual([
    'one',
    'two',
  ])
})

test('a thread that no engine takes ends', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const ended = vi.spyOn(Worker.prototype, 'terminate')
  prestartThread('kernel')
  vi.advanceTimersByTime(60_000)
  expect(takePrestartedThread('kernel')).toBeUndefined()
  expect(await ended.mock.results[0]?.value).toBeTypeOf('number')
})

/** A thread that has not begun to run anything. */
async function startThread(concurrent: number) {
  const kind = threadKind(await threadOptions('echo', { concurrent }))
  const nothing = () => undefined
  const owner = { ready: nothing, free: nothing, asking: nothing, answered: nothing, late: nothing }
  const thread = kind.start({ ...owner, broken: nothing, ended: nothing })
  onTestFinished(async () => void (await thread.end()))
  return thread
}

/** A time in which the event loop was blocked. */
const blocked = (ms: number) => ({ from: 1_000_000, to: 1_000_000 + ms, cpuMs: 0 })

/** Blocks the event loop. */
const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)

test('a thread is excused for as long as the event loop was blocked, up to a limit', async () => {
  const thread = await startThread(1)
  thread.wake()
  const woken = performance.now()
  block()
  thread.creditBlockedTime(blocked(0), 1_000_000)
  let now = performance.now()
  expect(thread.silentMs()).toBeGreaterThanOrEqual(now - woken)
  thread.creditBlockedTime(blocked(1_000_000), 1_000_000)
  expect(thread.silentMs()).toBeLessThanOrEqual(performance.now() - now)
  const excused = performance.now()
  block()
  now = performance.now()
  thread.creditBlockedTime(blocked(1_000_000), Number.MIN_VALUE)
  expect(thread.silentMs()).toBeGreaterThanOrEqual(now - excused)
})

test('a thread with several guests is silent only while a call waits for it', async () => {
  const thread = await startThread(2)
  expect(thread.silentMs()).toBe(0)
  await turn()
  expect(thread.silentMs()).toBe(0)
  thread.give(new PendingCall('echo', new Uint8Array(), { log: keepLog() }))
  thread.silentMs()
  const since = performance.now()
  let now = since
  while (now === since) now = performance.now()
  expect(thread.silentMs()).toBeGreaterThan(0)
})
