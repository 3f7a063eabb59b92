import { once } from 'node:events'
import { connect, createServer, type Http2Session, type Http2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { keepOpenStreamsOnly, OpenStreams } from '../../../src/platform/http2-streams.ts'

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

test('a new connection keeps its open streams, and no others', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const accepted = once(server, 'session')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => client.destroy())
  const [session]: Http2Session[] = await accepted
  if (!session) throw new Error('no session')
  keepOpenStreamsOnly(session)
  const parts = Object.getOwnPropertySymbols(session).map((key) => Reflect.get(session, key))
  expect(parts.filter((part) => part?.streams instanceof OpenStreams)).toHaveLength(1)
})
