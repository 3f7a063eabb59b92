import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ResponseReader } from '../../../src/guest/outbound/response-reader.ts'

test('of a response of many small pieces a bounded number is read in a turn of the event loop', async () => {
  const response = new IncomingMessage(new Socket())
  const reader = new ResponseReader(response, 'a', 100_000, 100_000, {
    news: () => undefined,
    complete: () => undefined,
    failed: (error) => expect.unreachable(error.message),
  })
  for (let piece = 0; piece < 10_000; piece++) response.push('a')
  response.push(null)
  let before = 0
  for (let turns = 0; reader.bytes < 10_000; turns++) {
    await turn()
    expect(reader.bytes - before).toBeLessThanOrEqual(1_024)
    before = reader.bytes
    expect(turns).toBeLessThan(100)
  }
  while (!reader.isComplete) await turn()
})
