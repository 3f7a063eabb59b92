import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SLICE_MS, SlicedCall } from '../../../src/engine/slices.ts'
import { keepLog } from '../../support/instance.ts'

/** A watch that counts what it is told. */
function openWatch() {
  const [beginStart, beginCall, close] = [vi.fn(), vi.fn(), vi.fn()]
  const [end, takeInterruption] = [vi.fn(() => false), vi.fn(() => false)]
  return { beginStart, beginCall, close, end, takeInterruption, watchTurn: vi.fn(), interrupt: vi.fn() }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] }) // timers stay real: slices wait for turns of the event loop
})

afterEach(() => {
  vi.useRealTimers()
})

/** Uses up a slice. */
function compute(): void {
  vi.advanceTimersByTime(SLICE_MS + 1)
}

const CALLER = { log: keepLog() }

test('a guest goes on until its slice is over, and is watched when it continues', async () => {
  const watch = openWatch()
  const call = new SlicedCall('run', CALLER, 0, watch)
  expect([call.pause(), call.hasPaused]).toEqual([undefined, false])
  compute()
  const pause = call.pause()
  expect([pause, call.hasPaused, watch.watchTurn.mock.calls.length]).toEqual([expect.any(Promise), true, 0])
  await pause
  expect(watch.watchTurn).toHaveBeenCalledOnce()
  expect(call.pause()).toBeUndefined() // another slice
})

test('one slice runs in each turn of the event loop', async () => {
  const calls = Array.from({ length: 3 }, () => new SlicedCall('run', CALLER, 0, undefined))
  compute()
  const order: string[] = []
  const pauses = calls.map(async (call, n) => {
    await call.pause()
    order.push(`${n}`)
    setImmediate(() => order.push('turn'))
  })
  await Promise.all(pauses)
  expect(order.join(' ')).toBe('0 1 turn 2') // 'turn' of a slice comes right after the next slice
})

test.each([
  ['its time is over', 2 * SLICE_MS, CALLER, 'WASM_SERVE_DEADLINE_EXCEEDED'],
  [
    'its client has gone',
    0,
    { ...CALLER, isGone: true, isCancelledWhenGone: true },
    'WASM_SERVE_CLIENT_GONE',
  ],
])('a guest is interrupted at the end of a slice if %s', async (_why, timeoutMs, caller, code) => {
  const watch = openWatch()
  const call = new SlicedCall('run', caller, timeoutMs, watch)
  compute()
  if (timeoutMs > 0) {
    await call.pause()
    expect(watch.interrupt).not.toHaveBeenCalled()
    compute()
  }
  expect(call.pause()).toBeUndefined()
  expect(watch.interrupt).toHaveBeenCalledOnce()
  expect(call.endReason).toMatchObject({ code })
})

test('a guest that nothing can interrupt goes on in slices', () => {
  const caller = { ...CALLER, isGone: true, isCancelledWhenGone: true }
  const call = new SlicedCall('run', caller, 0, undefined)
  compute()
  expect(call.pause()).toBeInstanceOf(Promise)
})
