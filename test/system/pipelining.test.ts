import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listen } from '../support/serve.ts'

/* Clients of HTTP/1.1 that send requests without waiting for answers. */

const { ca, tls } = localhostTls()

const COUNT = 4_000

const requests = Array.from({ length: COUNT }, (_, at) => {
  const body = `${at};`
  return `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
})

/** Sends all requests at once. @returns the bodies of the answers, as one text. */
async function pipeline(port: number, isTls: boolean): Promise<string> {
  const place = { port, host: '127.0.0.1' }
  const socket = isTls ? connectTls({ ...place, servername: 'localhost', ca }) : connectTcp(place)
  onTestFinished(() => void socket.destroy())
  await once(socket, isTls ? 'secureConnect' : 'connect')
  socket.write(requests.join(''))
  let received = ''
  while (received.split('HTTP/1.1 200').length <= COUNT || !received.endsWith(`${COUNT - 1};`))
    received += (await once(socket, 'data'))[0]
  return [...received.matchAll(/\r\n\r\n(\d+;)/g)].map(([, body]) => body).join('')
}

const expected = Array.from({ length: COUNT }, (_, at) => `${at};`).join('')

test.each([
  ['HTTP', false],
  ['HTTPS', true],
])('over %s a bounded number of the requests of a client begins in a turn of the event loop', async (_what, isTls) => {
  let inTurn = 0
  let most = 0
  let isOver = false
  const turn = () => {
    most = Math.max(most, inTurn)
    inTurn = 0
    if (!isOver) setImmediate(turn)
  }
  const { port } = await listen({ plugin: guest('echo'), onCall: () => void inTurn++ }, isTls ? { tls } : {})
  setImmediate(turn)
  expect(await pipeline(port, isTls)).toBe(expected)
  isOver = true
  expect(most).toBeLessThanOrEqual(3 * 64)
})

test.each([
  ['HTTP', false],
  ['HTTPS', true],
])('over %s such requests are answered in order when their answers come later', async (_what, isTls) => {
  const { port } = await listen({ plugin: guest('echo'), workers: 1, maxQueue: COUNT }, isTls ? { tls } : {})
  expect(await pipeline(port, isTls)).toBe(expected)
})
