import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { ChunkList } from '../../../src/platform/chunks.ts'
import { EventRate } from '../../../src/platform/event-rate.ts'
import { PartialBytes } from '../../../src/platform/partial-bytes.ts'
import { runs } from '../../support/runs.ts'

/* What a client sends before it is a whole body or message. */

test('pieces are joined as they came, and small ones take little more memory than their bytes', () => {
  const anyPieces = fc.array(fc.integer({ min: 1, max: 9_000 }), { maxLength: 50 })
  fc.assert(
    fc.property(anyPieces, (sizes) => {
      const pieces = sizes.map((size, at) => Buffer.alloc(size, at))
      const list = new ChunkList()
      for (const piece of pieces) list.add(piece)
      expect(Buffer.from(list.join()).equals(Buffer.concat(pieces))).toBe(true)
      const total = sizes.reduce((sum, size) => sum + size, 0)
      expect(list.list.length).toBeLessThanOrEqual(1 + Math.ceil(total / 8_192))
    }),
    { numRuns: runs(50) },
  )
})

test('beyond the maximum the oldest parts are refused, each once, until the rest fits', () => {
  const partials = new PartialBytes()
  partials.limit(100)
  const refused: string[] = []
  const [first, second, third] = ['first', 'second', 'third'].map((name) =>
    partials.open(() => void refused.push(name)),
  )
  if (!first || !second || !third) throw new Error('they are three')
  partials.resize(first, 40)
  partials.resize(second, 40)
  partials.resize(third, 20)
  expect([partials.bytes, refused]).toEqual([100, []])
  partials.resize(third, 90)
  expect([partials.bytes, refused]).toEqual([90, ['first', 'second']])
  for (const part of [first, second]) partials.resize(part, 1_000)
  for (const part of [first, second, third, third]) partials.close(part)
  expect([partials.bytes, refused]).toEqual([0, ['first', 'second']])
})

test('a part that is larger than the maximum alone is refused', () => {
  const partials = new PartialBytes()
  partials.limit(100)
  const refuse = vi.fn()
  partials.resize(partials.open(refuse), 101)
  expect([partials.bytes, refuse.mock.calls.length]).toEqual([0, 1])
})

test('by default there is room for 16 of the largest bodies', () => {
  const partials = new PartialBytes()
  partials.expect(1_048_576)
  expect(partials.max).toBe(268_435_456)
  partials.expect(100_000_000)
  partials.expect(1)
  expect(partials.max).toBe(1_600_000_000)
  partials.limit(7)
  expect(partials.max).toBe(7)
})

test('a rate allows a burst, and afterwards as many events as time has passed', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0)
  const rate = new EventRate(3, 10)
  const count = (events: number) => Array.from({ length: events }, () => rate.count())
  const first = count(4)
  now.mockReturnValue(300) // three events
  const second = count(3)
  now.mockReturnValue(60_000)
  const third = count(4)
  now.mockRestore()
  expect([first, second, third]).toEqual([
    [true, true, true, false],
    [true, true, false],
    [true, true, true, false],
  ])
})
