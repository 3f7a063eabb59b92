import { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { processPartials } from '../../../src/platform/partial-bytes.ts'
import { Arrivals } from '../../../src/route/websocket/arrivals.ts'
import { frame } from '../../support/web-socket.ts'

/** What a client sends on a connection, and the codes with which it is refused. */
function begin(messageMs = 60_000) {
  const raw = new Socket()
  const refused: string[] = []
  const arrivals = new Arrivals(raw, messageMs, {
    refuse: ({ code }) => void refused.push(code),
    rest: () => undefined,
  })
  onTestFinished(() => arrivals.close())
  return { raw, refused, arrivals }
}

test('a client is refused once, however much follows in the same read', () => {
  const { raw, refused, arrivals } = begin()
  for (let count = 0; count < 5_000; count++) arrivals.countControl()
  raw.emit('data', frame(0x01, 'a'))
  expect([refused, processPartials.bytes]).toEqual([['WASM_SERVE_CONTROL_FRAMES_EXCEEDED'], 0])
})

test('half a message counts until the rest arrives, or its connection closes', () => {
  const { raw } = begin()
  raw.emit('data', frame(0x01, 'a'))
  const half = processPartials.bytes
  raw.emit('data', frame(0x80, 'b'))
  expect([half > 0, processPartials.bytes]).toEqual([true, 0])
  raw.emit('data', Buffer.concat([frame(0x81, 'c'), frame(0x01, 'd')]))
  expect(processPartials.bytes).toBe(half)
  raw.emit('close')
  expect(processPartials.bytes).toBe(0)
})
