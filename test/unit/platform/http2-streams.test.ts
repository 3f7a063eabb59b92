import type { Http2Stream } from 'node:http2'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OpenStreams } from '../../../src/platform/http2-streams.ts'

test('the table of open streams behaves as a map does', () => {
  const id = fc.nat({ max: 400 }).map((n) => 2 * n + 1)
  fc.assert(
    fc.property(fc.array(fc.tuple(id, fc.boolean()), { maxLength: 1_000 }), (steps) => {
      const streams = new OpenStreams()
      const model = new Map<number, Http2Stream>()
      for (const [id, isOpened] of steps) {
        const stream = { id } as Http2Stream
        if (!isOpened) expect(streams.delete(id)).toBe(model.delete(id))
        else if (!model.has(id)) for (const table of [streams, model]) table.set(id, stream)
        expect(streams.get(id)).toBe(model.get(id))
        expect(streams.size).toBe(model.size)
      }
      const seen: [number, Http2Stream][] = []
      streams.forEach((stream, id) => void seen.push([id, stream]))
      expect(new Map(seen)).toEqual(model)
      expect(seen.length).toBe(model.size)
    }),
  )
})
