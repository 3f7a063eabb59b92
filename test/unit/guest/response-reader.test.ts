import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { joinHeaders } from '../../../src/guest/outbound/client.ts'
import { ResponseReader } from '../../../src/guest/outbound/response-reader.ts'

function openReader(limit: number, bufferBytes: number) {
  const response = new IncomingMessage(new Socket())
  const reader = new ResponseReader(response, 'a', limit, bufferBytes, {
    news: () => undefined,
    complete: () => undefined,
    failed: (error) => expect.unreachable(error.message),
  })
  return { response, reader }
}

test('of a response of many small pieces a bounded number is read in a turn of the event loop', async () => {
  const { response, reader } = openReader(100_000, 100_000)
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

test('a response that had to wait is read on when half of what is kept was taken', async () => {
  const { response, reader } = openReader(100, 10)
  response.push('0123456789')
  await turn()
  expect([reader.bytes, response.isPaused()]).toEqual([10, true])
  reader.take(4)
  expect(response.isPaused()).toBe(true)
  reader.take(1)
  expect(response.isPaused()).toBe(false)
})

test('headers that come several times are one, by their names in lower case', () => {
  expect(joinHeaders(['A', '1', 'b', '2', 'a', '3'])).toEqual({ a: '1, 3', b: '2' })
  expect(joinHeaders([])).toEqual({})
})
