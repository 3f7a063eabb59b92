import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FrameReader } from '../../../src/route/websocket/frame-reader.ts'
import { runs } from '../../support/runs.ts'
import { frame, PING, TEXT } from '../../support/web-socket.ts'

/** Messages of some fragments, with control frames before, within and after them. */
const anyMessages = fc.array(
  fc.record({
    fragments: fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 4 }),
    pings: fc.array(fc.integer({ min: 0, max: 125 }), { maxLength: 3 }),
  }),
  { maxLength: 5 },
)

test('however frames are cut into pieces, messages are counted, and what is incomplete is found', () => {
  fc.assert(
    fc.property(
      anyMessages,
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (messages, cuts) => {
        const bytes: Buffer[] = []
        const complete: number[] = [] // where messages end
        const idle = new Set([0]) // where nothing of a message is missing
        let length = 0
        const add = (part: Buffer, isBetween: boolean) => {
          bytes.push(part)
          if (isBetween) for (let at = 1; at <= part.length; at++) idle.add(length + at)
          length += part.length
          if (isBetween) idle.add(length)
        }
        for (const { fragments, pings } of messages) {
          for (const size of pings) add(frame(PING, Buffer.alloc(size)), true)
          for (const [at, size] of fragments.entries()) {
            const isLast = at === fragments.length - 1
            add(frame((isLast ? 128 : 0) + (at === 0 ? 2 : 0), Buffer.alloc(size)), false)
            if (isLast) complete.push(length)
            else add(frame(PING, 'x'), false)
          }
          idle.add(length)
        }
        const all = Buffer.concat(bytes)
        const reader = new FrameReader()
        const wrong: number[] = [] // places
        for (let at = 0, cut = 0; at < all.length; cut++) {
          const end = at + (cuts[cut % cuts.length] ?? 1)
          reader.read(all.subarray(at, end))
          at = Math.min(end, all.length)
          const count = complete.filter((place) => place <= at).length
          if (reader.messages !== count || (reader.partialBytes === 0) !== idle.has(at)) wrong.push(at)
        }
        expect(wrong).toEqual([])
      },
    ),
    { numRuns: runs(50) },
  )
})

test('the memory of an incomplete message grows with its bytes, its fragments and its pieces', () => {
  const reader = new FrameReader()
  const bytesAfter = (bytes: Uint8Array) => {
    reader.read(bytes)
    return reader.partialBytes
  }
  const first = bytesAfter(frame(0x01, 'a'))
  expect(first).toBeGreaterThan(100)
  expect(bytesAfter(frame(0x00, ''))).toBeGreaterThan(first + 100)
  const large = Buffer.from([0x00, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
  const before = bytesAfter(large)
  expect(bytesAfter(Buffer.alloc(1_000))).toBeGreaterThan(before + 1_200)
  expect(bytesAfter(Buffer.alloc(64_536))).toBeGreaterThan(before + 65_536)
  expect(bytesAfter(frame(0x80, 'a'))).toBe(0)
  expect([bytesAfter(frame(TEXT, 'a')), reader.messages]).toEqual([0, 2])
})
