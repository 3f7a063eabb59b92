import { EventEmitter } from 'node:events'
import { describe, expect, test } from 'vitest'
import { mayStart, ThreadRegister } from '../../../src/platform/stuck-threads.ts'
import { keepLog } from '../../support/instance.ts'

/** A thread that ends when the test says so. */
class FakeThread extends EventEmitter<{ exit: [] }> {
  readonly threadId = 1
  terminate(): Promise<number> {
    return new Promise((resolve) => this.once('exit', () => resolve(1)))
  }
}

const OWNER = { route: '/a', plugin: 'a.wasm', digest: 'aa' }

/** A register with some threads of these owners that are stuck. */
async function withStuck(owners: readonly object[], register = new ThreadRegister(), log = keepLog()) {
  const threads = []
  for (const owner of owners) {
    const thread = new FakeThread()
    register.track(thread, owner)
    expect(await register.terminate(thread, log, 0)).toBe(false)
    threads.push(thread)
  }
  return { register, threads, log }
}

test('a gate shuts while threads end, refuses when they are stuck, and opens when one has ended', async () => {
  const register = new ThreadRegister()
  const seen: (readonly [boolean, boolean])[] = []
  const gate = register.gate(OWNER, () => seen.push([gate.isShut, gate.isStuck]))
  const threads = [new FakeThread(), new FakeThread()]
  const [first] = threads
  for (const thread of threads) register.track(thread, OWNER)
  const ends = threads.map((thread) => register.terminate(thread, keepLog(), 0))
  expect([gate.isShut, gate.isStuck]).toEqual([true, false])
  expect(gate.refusal).toBeUndefined()
  expect(await Promise.all(ends)).toEqual([false, false])
  expect(gate.refusal).toMatchObject({ code: 'WASM_SERVE_THREADS_STUCK', statusCode: 503 })
  first?.emit('exit')
  expect(seen).toEqual([
    [true, false],
    [true, true],
    [false, false],
  ])
  expect(register.countStuck(OWNER)).toBe(1)
})

test.each([
  ['the same plug-in at the same route', { route: '/a', digest: 'aa' }, true],
  ['the same plug-in at any route', { digest: 'aa' }, true],
  ['the route with any plug-in', { route: '/a' }, true],
  ['another plug-in at the same route', { route: '/a', digest: 'bb' }, false],
  ['the same plug-in at another route', { route: '/b', digest: 'aa' }, false],
  ['no owner', {}, false],
])('threads that are stuck count for %s: %j, %s', async (_, owner, isRefused) => {
  const { register } = await withStuck([OWNER, OWNER])
  expect(register.gate(owner, () => undefined).isStuck).toBe(isRefused)
  const start = mayStart(owner, register)
  if (isRefused) await expect(start).rejects.toMatchObject({ code: 'WASM_SERVE_THREADS_STUCK' })
  else await start
})

test('a thread counts for whom it worked last', async () => {
  const register = new ThreadRegister({ ofOwner: 1 })
  const thread = new FakeThread()
  register.track(thread, { digest: 'first' })
  register.label(thread, OWNER)
  const gate = register.gate({ digest: 'aa' }, () => undefined)
  expect(await register.terminate(thread, keepLog(), 0)).toBe(false)
  expect(register.countStuck({ digest: 'first' })).toBe(0)
  expect([register.countStuck(OWNER), gate.isStuck]).toEqual([1, true])
  thread.emit('exit')
  expect([register.countStuck(OWNER), register.countStuck(), gate.isStuck]).toEqual([0, 0, false])
})

test('who may start waits while threads end', async () => {
  const register = new ThreadRegister({ ofOwner: 1 })
  const thread = new FakeThread()
  register.track(thread, OWNER)
  const ended = register.terminate(thread, keepLog(), 10_000)
  let isOver = false
  const start = mayStart(OWNER, register).finally(() => {
    isOver = true
  })
  await new Promise(setImmediate)
  expect(isOver).toBe(false)
  thread.emit('exit')
  await start
  expect(await ended).toBe(true)
})

test('a thread that is stuck is logged once, and not waited for again', async () => {
  const { register, threads, log } = await withStuck([OWNER])
  const [thread] = threads
  expect(thread && (await register.terminate(thread, log, 10_000))).toBe(false)
  await register.terminateAll(log, 10_000)
  expect(log.lines).toMatchObject([{ level: 'error' }])
})

test('when too many threads of a process are stuck it is told once, and the log names them', async () => {
  const { register, log } = await withStuck([OWNER, {}], new ThreadRegister({ ofProcess: 3 }))
  let times = 0
  register.onProcessStuck(() => times++)
  expect(times).toBe(0)
  await withStuck([{ plugin: 'b.wasm' }, {}], register, log)
  expect(times).toBe(1)
  const lines = log.lines.filter((line) => JSON.stringify(line).includes('WASM_SERVE_PROCESS_STUCK'))
  expect(lines).toHaveLength(1)
  expect(JSON.stringify(lines)).toContain('"route":"/a"')
  expect(JSON.stringify(lines)).toContain('"plugin":"b.wasm"')
  register.onProcessStuck(() => times++) // who comes later
  expect(times).toBe(2)
})

describe('a thread on a busy machine', () => {
  /** A register whose threads have waited for a core so many milliseconds between readings; then the last again and again. */
  const waiting = (...waits: readonly number[]) => {
    let total = 0
    let reading = 0
    const read = () => {
      total += waits[Math.min(reading++, waits.length - 1)] ?? 0
      return new Map([
        ['1', 0],
        ['2', total],
      ])
    }
    return { register: new ThreadRegister({ waits: read }), readings: () => reading }
  }

  test('is not stuck while it gets no core', async () => {
    const { register, readings } = waiting(0, 20, 20, 0)
    const thread = new FakeThread()
    register.track(thread, OWNER)
    const end = register.terminate(thread, keepLog(), 20)
    while (readings() < 3) await new Promise(setImmediate)
    thread.emit('exit')
    expect([await end, register.countStuck()]).toEqual([true, 0])
  })

  test('is stuck if it does not end when it had one', async () => {
    const { register, readings } = waiting(0, 20, 0.5)
    const thread = new FakeThread()
    register.track(thread, OWNER)
    expect(await register.terminate(thread, keepLog(), 20)).toBe(false)
    expect([readings(), register.countStuck()]).toEqual([3, 1])
  })

  test('is stuck after five times the limit in any case', async () => {
    const { register, readings } = waiting(0, 5)
    register.track(new FakeThread(), OWNER)
    await register.terminateAll(keepLog(), 5)
    expect([readings(), register.countStuck()]).toEqual([6, 1])
  })
})
