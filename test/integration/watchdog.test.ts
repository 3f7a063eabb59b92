import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test, vi } from 'vitest'
import { watchdogTrouble, watchGuest } from '../../src/engine/watchdog.ts'
import { callOf, startOf, Word, whatRuns } from '../../src/engine/watchdog-state.ts'
import { runWords } from '../../src/runtime/interrupts.ts'

const GUEST = {
  ...{ plugin: 'a.wasm', function: 'go', route: '/' },
  ...{ stallMs: 60_000, deadlineMs: 0, runsAtStart: false },
}

/** A thread that only receives messages. */
function startThread(): Worker {
  const worker = new Worker('require("node:worker_threads").parentPort.on("message", () => {})', {
    eval: true,
  })
  onTestFinished(async () => void (await worker.terminate()))
  return worker
}

/** The watches of some guests, which run in this thread. */
function openWatches(count: number) {
  const watches = Array.from({ length: count }, () =>
    watchGuest(GUEST, () => undefined, { start: startThread }),
  )
  onTestFinished(() => {
    for (const watch of watches) watch.close()
  })
  return watches
}

/** The number of the run, and what runs. */
const running = () => {
  const words = runWords()
  return { run: Math.abs(words[Word.run] ?? 0), what: words[Word.guest] ?? 0 }
}

test('a thread that cannot be started is missed until one runs', async () => {
  let starts = 0
  const reports: unknown[] = []
  await new Promise<void>((resolve) => {
    const start = () => {
      if (++starts < 3) throw new Error('no thread')
      return startThread()
    }
    const report = (failure: Error | undefined) => {
      reports.push([failure?.message, watchdogTrouble() === undefined])
      if (!failure) resolve()
    }
    const watch = watchGuest(GUEST, report, { start, backoffMs: 1 })
    onTestFinished(() => watch.close())
    watch.beginCall()
    watch.end()
    expect(watchdogTrouble()).toContain('no thread')
  })
  expect(reports).toEqual([
    ['no thread', true],
    [undefined, true],
  ])
  expect([starts, watchdogTrouble()]).toEqual([3, undefined])
})

test('a thread that cannot be started is tried again after a second, and then ever more seldom', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let starts = 0
  const start = () => {
    starts++
    throw new Error('no thread')
  }
  const watch = watchGuest(GUEST, () => undefined, { start })
  onTestFinished(() => watch.close())
  watch.beginCall()
  watch.end()
  for (const [round, seconds] of [1, 2, 4, 8, 16, 30, 30].entries()) {
    vi.advanceTimersByTime(seconds * 1_000 - 1)
    expect(starts).toBe(round + 1)
    vi.advanceTimersByTime(1)
    expect(starts).toBe(round + 2)
  }
})

test('a start and a call of a guest are told apart, and a host function may call another guest', () => {
  const [outer, inner] = openWatches(2)
  outer?.beginStart()
  const start = running()
  outer?.end()
  outer?.beginCall()
  const call = running()
  inner?.beginCall()
  const nested = running()
  inner?.end()
  expect(running()).toEqual(call)
  outer?.end()
  expect(running()).toEqual({ run: 0, what: 0 })
  expect(new Set([start.run, call.run, nested.run]).size).toBe(3)
  const { guest } = whatRuns(call.what)
  expect([start.what, call.what]).toEqual([startOf(guest), callOf(guest)])
  expect(whatRuns(nested.what)).toEqual({ guest: guest + 1, isStart: false })
})

test('an interruption counts once, for the guest that ran', () => {
  const [one, other] = openWatches(2)
  one?.beginCall()
  one?.interrupt()
  expect([one?.takeInterruption(), one?.takeInterruption(), one?.end()]).toEqual([true, false, false])
  one?.beginCall()
  one?.interrupt()
  expect(one?.end()).toBe(true)
  expect([other?.takeInterruption(), one?.takeInterruption(), one?.takeInterruption()]).toEqual([
    false,
    true,
    false,
  ])
  one?.interrupt() // nothing runs
  one?.beginCall()
  expect([one?.end(), one?.takeInterruption()]).toEqual([false, false])
})

test('code that continues is watched until the event loop turns, whatever else runs before', async () => {
  const [waiting, calling] = openWatches(2)
  waiting?.watchTurn()
  const turn = running()
  expect([turn.run > 0, whatRuns(turn.what).isStart]).toEqual([true, false])
  calling?.beginCall()
  calling?.end()
  expect(running()).toEqual(turn)
  await new Promise(setImmediate)
  expect(running()).toEqual({ run: 0, what: 0 })
})

test('the end of a watch does not end the next one, and an interruption counts for its guest', async () => {
  const [waiting] = openWatches(1)
  waiting?.watchTurn()
  const later = new Promise((resolve) => setImmediate(() => resolve(running())))
  waiting?.watchTurn()
  const second = running()
  waiting?.interrupt()
  expect(await later).toEqual(second)
  await new Promise(setImmediate)
  expect([running().run, waiting?.takeInterruption(), waiting?.takeInterruption()]).toEqual([0, true, false])
})
