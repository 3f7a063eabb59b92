import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { SLOTS, ThreadState } from '../../../src/engine/workers/thread-state.ts'

/** Both sides of the memory that threads share. */
function openSides() {
  const worker = new ThreadState()
  return { worker, main: new ThreadState(worker.memory) }
}

describe('a pause of a call', () => {
  test('is seen while it lasts', () => {
    const { worker, main } = openSides()
    worker.begin(257, 1_000)
    const seen = [main.isPaused]
    worker.beginPause(1_010)
    seen.push(main.isPaused)
    worker.endPause(1_050)
    seen.push(main.isPaused)
    expect(seen).toEqual([false, true, false])
  })

  test('does not count, but for the time that an answer takes at least', () => {
    const { worker, main } = openSides()
    worker.begin(257, 1_000)
    worker.beginPause(1_010)
    expect(main.ranMs(1_040)).toBe(10)
    worker.endPause(1_050)
    const ran = main.ranMs(1_060)
    expect(ran).toBeGreaterThan(20)
    expect(ran).toBeLessThan(21)
    expect(1_060 - (main.running()?.since ?? 0)).toBe(ran)
  })

  test('may let the time of the call begin anew', () => {
    const { worker, main } = openSides()
    worker.begin(257, 1_000)
    worker.beginPause(1_010)
    worker.endPause(1_050, true)
    expect(main.ranMs(1_060)).toBe(10)
  })

  test('is no turn: a call that is suspended later is not paused', () => {
    const { worker, main } = openSides()
    worker.beginTurn(257, 1_000, 0)
    worker.end()
    worker.beginTurn(257, 1_100, 7)
    expect([main.isPaused, main.running()]).toEqual([false, { call: 257, since: 1_100, beforeMs: 7 }])
  })
})

test('a call is claimed by one of the threads, once', () => {
  const { worker, main } = openSides()
  const [call, next] = [SLOTS + 3, 2 * SLOTS + 3]
  main.offer(call)
  expect([main.isOffered(call), worker.claim(next), worker.claim(call), main.claim(call)]).toEqual([
    true,
    false,
    true,
    false,
  ])
  main.offer(next)
  expect([main.isOffered(call), main.claim(next), worker.claim(next)]).toEqual([false, true, false])
})

test('stats are read as they were written', () => {
  const { worker, main } = openSides()
  const stats = { guestBytes: 1, kernelBytes: 2, recycled: 3, restarted: 4, droppedLines: 5, checks: 2 ** 40 }
  worker.writeStats(stats)
  expect(main.readStats()).toEqual(stats)
})

test('only the running call is interrupted, once', () => {
  const { worker, main } = openSides()
  expect(main.interrupt(257)).toBe(false)
  worker.begin(257, 0)
  expect([main.interrupt(258), main.interrupt(257), main.interrupt(257)]).toEqual([false, true, false])
  expect(main.running()?.call).toBe(257) // until its guest has trapped
  worker.end()
  expect(main.running()).toBeUndefined()
})

test('since when a thread waits for the host is known while it waits', () => {
  const { worker, main } = openSides()
  expect(main.waitsSince()).toBeUndefined()
  worker.beginAsking(1_000)
  main.hostAnswered()
  worker.waitForHost()
  expect(main.waitsSince()).toBe(1_000)
  worker.endAsking()
  expect(main.waitsSince()).toBeUndefined()
})

test('a thread that naps is notified of a reply, and one that is awake or sleeps is not', () => {
  const { worker, main } = openSides()
  const notify = vi.spyOn(Atomics, 'notify')
  onTestFinished(() => notify.mockRestore())
  worker.stayAwake()
  main.replied()
  worker.beginNap()
  worker.nap(0)
  main.replied()
  expect(notify).not.toHaveBeenCalled()
  worker.beginNap()
  main.replied()
  expect(notify).toHaveBeenCalledTimes(1)
})

test('a thread that naps is woken without a message, and one that sleeps needs one', () => {
  const { worker, main } = openSides()
  worker.stayAwake()
  expect(main.wake()).toBe(false)
  worker.beginNap()
  expect([main.wake(), worker.nap(10_000)]).toEqual([false, true])
  worker.beginNap()
  expect([worker.nap(0), main.wake(), main.wake()]).toEqual([false, true, false])
})

test('the main thread is rung once until it listens no more', () => {
  const { worker, main } = openSides()
  expect([worker.ring(), worker.ring()]).toEqual([true, false])
  main.heard()
  expect(worker.ring()).toBe(true)
  main.heard()
  main.listen()
  expect(worker.ring()).toBe(false)
})

describe('a running call, and the stats of its thread, stay as they are', () => {
  const stats = { guestBytes: 1, kernelBytes: 2, recycled: 3, restarted: 4, droppedLines: 5, checks: 6 }

  type Step = (worker: ThreadState, main: ThreadState) => unknown

  test.each<[string, ...Step[]]>([
    ['the worker is awake', (worker) => worker.stayAwake()],
    ['the worker naps', (worker) => worker.beginNap()],
    ['the worker is woken', (_, main) => main.wake()],
    ['the main thread is rung', (worker) => worker.ring()],
    ['the main thread listens', (_, main) => main.listen()],
    ['the main thread has heard', (_, main) => main.heard()],
    ['the worker asks the host', (worker) => worker.beginAsking(9)],
    ['the host answers', (_, main) => main.hostAnswered(), (worker) => worker.waitForHost()],
    ['the worker has the answer', (worker) => worker.endAsking()],
    ['a reply comes', (_, main) => main.replied()],
    ['a reply is taken', (_, main) => main.replied(), (worker) => worker.tookReply()],
    ['blocks are known', (_, main) => main.knowBlocks(7)],
    ['blocks are free', (worker) => worker.freeBlocks(7)],
    ['blocks are received', (worker) => worker.receiveBlocks()],
    ['blocks are left', (_, main) => main.knowBlocks(7), (worker) => worker.leaveBlocks(7)],
    ['blocks are borrowed', (worker) => worker.freeBlocks(7), (_, main) => main.borrowBlocks(7)],
    ['a call is offered', (_, main) => main.offer(2 * SLOTS)],
    ['a call is claimed', (_, main) => main.offer(2 * SLOTS), (worker) => worker.claim(2 * SLOTS)],
    ['the call is paused', (worker) => worker.beginPause(1_001)],
  ])('when %s', (_what, ...steps) => {
    const { worker, main } = openSides()
    worker.beginTurn(257, 1_000, 8)
    worker.writeStats(stats)
    for (const step of steps) step(worker, main)
    expect([main.running(), main.readStats()]).toEqual([{ call: 257, since: 1_000, beforeMs: 8 }, stats])
  })
})
