import { expect, test } from 'vitest'
import { ChunkQueue } from '../../../src/guest/streams/chunk-queue.ts'

test('bytes come out in the order in which they came, whatever the sizes of the pieces', () => {
  const queue = new ChunkQueue()
  const bytes = Buffer.from(Array.from({ length: 400_000 }, (_, at) => (at * 7 + (at >> 8)) & 255))
  const taken: Uint8Array[] = []
  let added = 0
  for (let round = 0; added < bytes.length; round++) {
    const size = [1, 3, 500, 16_383, 1, 16_384, 20_000, 70_000][round % 8] ?? 1
    queue.add(Buffer.from(bytes.subarray(added, added + size)))
    added = Math.min(added + size, bytes.length)
    if (round % 3 === 2) taken.push(queue.take(round * 100) ?? Buffer.alloc(0))
  }
  expect(queue.bytes).toBe(bytes.length - taken.reduce((sum, { length }) => sum + length, 0))
  for (let piece = queue.take(1_000_000); piece; piece = queue.take(1_000_000)) taken.push(piece)
  expect(Buffer.concat(taken).equals(bytes)).toBe(true)
})

test('a piece that was taken keeps its bytes while others are joined', () => {
  const queue = new ChunkQueue()
  for (const text of ['a', 'b', 'c']) queue.add(Buffer.from(text))
  const taken = queue.take(2)
  for (const text of ['d', 'e']) queue.add(Buffer.from(text))
  expect([Buffer.from(taken ?? []).toString(), Buffer.from(queue.take(9) ?? []).toString()]).toEqual([
    'ab',
    'cde',
  ])
})

test('a client that sends single bytes does not block the event loop', () => {
  const queue = new ChunkQueue()
  for (let at = 0; at < 1_000_000; at++) queue.add(Buffer.of(at & 255)) // half a minute, if each were a piece
  let bytes = 0
  for (let piece = queue.take(245_760); piece; piece = queue.take(245_760)) bytes += piece.length
  expect(bytes).toBe(1_000_000)
})
