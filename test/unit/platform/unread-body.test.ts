import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { discardRest } from '../../../src/platform/unread-body.ts'

const PIECE = Buffer.alloc(100)

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

const turn = () => new Promise(setImmediate)

/** Discards what a client sends. */
function discard(limits?: Parameters<typeof discardRest>[1]) {
  const body = new Readable({ read: () => undefined })
  let isOver = false
  const over = discardRest(body, limits).then(() => (isOver = true))
  return {
    body,
    over,
    /** The client sends a piece after a time. @returns whether the rest was given up before. */
    async after(ms: number) {
      vi.advanceTimersByTime(ms)
      await turn()
      if (isOver) return true
      body.push(PIECE)
      await turn()
      return false
    },
  }
}

test('the rest of a body is discarded until it ends', async () => {
  const { body, over, after } = discard()
  expect([await after(0), await after(0)]).toEqual([false, false])
  body.push(null)
  await over
  expect([body.readableEnded, vi.getTimerCount()]).toEqual([true, 0])
})

test('a client that sends slowly may go on, for half a minute', async () => {
  const { after } = discard()
  let seconds = 0
  while (!(await after(900))) seconds += 0.9
  expect(seconds).toBeGreaterThan(28)
  expect(seconds).toBeLessThan(31)
})

test('a client that pauses for a second is given up', async () => {
  const { after } = discard()
  expect([await after(900), await after(900), await after(1_001)]).toEqual([false, false, true])
})

test('a client that has had its time has one more second', async () => {
  const { after } = discard({ isSlow: true })
  expect([await after(600), await after(600)]).toEqual([false, true])
})

test('a client that sends more than it may is given up, and not for the last byte that it may', async () => {
  const { after } = discard({ bytes: 200 })
  expect([await after(0), await after(0), await after(0), await after(0)]).toEqual([
    false,
    false,
    false,
    true,
  ])
})

test('a body whose client is gone is over, and one is discarded once', async () => {
  const { body, over } = discard()
  expect(discardRest(body)).toBe(discardRest(body))
  body.destroy()
  await over
  expect(vi.getTimerCount()).toBe(0)
})
