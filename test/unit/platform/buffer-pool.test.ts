import { expect, test } from 'vitest'
import { giveBack, takeBuffer } from '../../../src/platform/buffer-pool.ts'

test('a buffer that was given back is used again, for any length of its size', () => {
  const first = takeBuffer(40_000)
  giveBack(first)
  const second = takeBuffer(60_000)
  expect([first.length, second.length]).toEqual([40_000, 60_000])
  expect(second.buffer).toBe(first.buffer)
})

test('a buffer that is in use is not given to another', () => {
  const taken = Array.from({ length: 20 }, () => takeBuffer(10_000))
  expect(new Set(taken.map(({ buffer }) => buffer)).size).toBe(20)
  for (const each of taken) giveBack(each)
})

test('small and very large buffers, and those of others, are not kept', () => {
  for (const bytes of [takeBuffer(100), takeBuffer(2_000_000), Buffer.from(new ArrayBuffer(16_384))]) {
    expect(giveBack(bytes)).toBe(false)
  }
})

test('the free buffers are bounded', () => {
  const taken = Array.from({ length: 20 }, () => takeBuffer(1_000_000))
  for (const each of taken) giveBack(each)
  const again = Array.from({ length: 20 }, () => takeBuffer(1_000_000))
  const known = new Set(taken.map(({ buffer }) => buffer))
  const reused = again.filter(({ buffer }) => known.has(buffer)).length
  expect([reused > 0, reused <= 8]).toEqual([true, true])
})
