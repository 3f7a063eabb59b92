import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import type { ServerOptions } from '../../src/options/options.ts'
import { LINGER_MS } from '../../src/server/http-server.ts'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'
import { exchange, open, post } from '../support/socket.ts'

const LIMIT_MS = 300
/** Node looks for slow clients each so often, and our answers are waited for a little. */
const TOLERANCE_MS = 5_000

const MIB = 1024 ** 2

/** A server whose log lines can be read, closed when the test ends. */
async function listenAndLog(options: Partial<ServerOptions>) {
  const lines: { level: number; msg: string; dropped?: number }[] = []
  const log = pino({ level: 'trace' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const route = { plugin: guest('echo'), bodyLimit: 16 * MIB, outputLimit: 16 * MIB }
  const app = await createServer({ ...options, routes: [route] }, log)
  onTestFinished(() => app.close())
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { app, lines, port: (app.server.address() as AddressInfo).port }
}

test.each([
  ['whose headers come slowly', 'POST / HTTP/1.1\r\nHost: a\r\nX-A', 'x'],
  ['whose body comes slowly', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n', 'x'],
  [
    'whose chunks come slowly',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n',
    '1\r\nx\r\n',
  ],
  ['that stops within its headers', 'POST / HT', ''],
  ['that says nothing', '', ''],
])('a client %s is told 408 and closed in time', async (_name, head, drip) => {
  const limits = { headersTimeoutMs: LIMIT_MS, requestTimeoutMs: LIMIT_MS }
  const { port } = await listen({ plugin: guest('echo') }, limits)
  const start = performance.now()
  const client = await open(port)
  client.send(head)
  const dripping = setInterval(() => drip && client.socket.writable && client.send(drip), 50)
  onTestFinished(() => clearInterval(dripping))
  const answer = await client.answer()
  expect(performance.now() - start).toBeLessThan(LIMIT_MS + TOLERANCE_MS)
  expect(await client.answer()).toBeUndefined()
  expect(performance.now() - start).toBeLessThan(LIMIT_MS + TOLERANCE_MS + LINGER_MS)
  expect(answer).toMatchObject({ status: 408, headers: { 'content-type': 'application/problem+json' } })
  expect(JSON.parse(String(answer?.body))).toMatchObject({ code: 'WASM_SERVE_REQUEST_TIMEOUT' })
})

test('a request that comes after its client was told 408 does not reach the guest', async () => {
  const { port } = await listen({ plugin: guest('count'), function: 'count' }, { headersTimeoutMs: LIMIT_MS })
  const late = await open(port)
  late.send('POST / HTTP/1.1\r\nHost: a\r\n')
  expect((await late.answer())?.status).toBe(408)
  late.send('Content-Length: 0\r\n\r\n')
  late.socket.end()
  expect(await late.answers()).toEqual([])
  const [answer] = await exchange(port, post('', 'Connection: close\r\n'))
  expect(String(answer?.body)).toBe('1')
})

test('an idle connection is closed when its time is up', async () => {
  const { port } = await listen({ plugin: guest('echo') }, { keepAliveTimeoutMs: LIMIT_MS })
  const client = await open(port)
  client.send(post('abc'))
  expect((await client.answer())?.status).toBe(200)
  const start = performance.now()
  expect(await client.answer()).toBeUndefined()
  expect(performance.now() - start).toBeLessThan(LIMIT_MS + TOLERANCE_MS)
})

test('a client that does not read its answer is cut off', async () => {
  const { app, port } = await listenAndLog({ unreadTimeoutMs: LIMIT_MS })
  const cut = new Promise<void>((resolve) => {
    app.server.on('connection', (socket) => socket.once('close', () => resolve()))
  })
  const client = await open(port)
  client.send(post('x'.repeat(8 * MIB)))
  client.socket.pause()
  await cut
  expect(client.socket.bytesRead).toBeLessThan(8 * MIB)
})

test('a client that reads slowly but steadily gets all of its answer', async () => {
  const limitMs = 1_500
  const stepBytes = MIB / 2 // sixteen steps of 150 ms: longer than the limit in all, each far below it
  const { port } = await listenAndLog({ unreadTimeoutMs: limitMs })
  const client = await open(port)
  const body = 'x'.repeat(8 * MIB)
  client.send(post(body))
  const start = performance.now()
  let received = 0
  client.socket.on('data', ({ length }) => {
    const before = Math.floor(received / stepBytes)
    received += length
    if (Math.floor(received / stepBytes) === before) return
    client.socket.pause()
    setTimeout(() => client.socket.resume(), limitMs / 10)
  })
  const answer = await client.answer()
  expect(answer?.body.equals(Buffer.from(body))).toBe(true)
  expect(performance.now() - start).toBeGreaterThan(limitMs)
})

test('connections beyond the limit are closed, and one line says so', async () => {
  const { lines, port } = await listenAndLog({ maxConnections: 2 })
  const first = await open(port)
  const second = await open(port)
  const beyond = await Promise.all(Array.from({ length: 5 }, () => open(port)))
  expect(await Promise.all(beyond.map((client) => client.answer()))).toEqual(beyond.map(() => undefined))
  for (const client of [first, second]) {
    client.send(post('abc'))
    expect((await client.answer())?.status).toBe(200)
  }
  await expect
    .poll(() => lines.filter(({ level }) => level >= 40), { timeout: 3_000 })
    .toMatchObject([{ level: 40, dropped: 5 }])
})

test('connections that are reset, whenever it may be, leave the server as it was', async () => {
  const { app, lines, port } = await listenAndLog({})
  const before = lines.length
  const whole = post('x'.repeat(64 * 1024))
  const requests = [
    ['', false],
    [whole.slice(0, 20), false],
    [whole.slice(0, 2_000), false],
    [whole, false],
    [whole.repeat(3), true],
    ['garbage\r\n\r\n', true],
  ] as const
  for (let i = 0; i < 1_000; i += 50) {
    const batch = Array.from({ length: 50 }, async (_, j) => {
      const [bytes, isAnswered] = requests[(i + j) % requests.length] ?? requests[0]
      const { socket } = await open(port)
      const closed = once(socket, 'close')
      await new Promise((resolve) => socket.write(bytes, resolve))
      if (isAnswered) await Promise.race([once(socket, 'data'), closed])
      socket.resetAndDestroy()
      await closed
    })
    await Promise.all(batch)
  }
  await expect
    .poll(() => new Promise((resolve) => app.server.getConnections((_error, n) => resolve(n))))
    .toBe(0)
  const [answer] = await exchange(port, post('abc', 'Connection: close\r\n'))
  expect(String(answer?.body)).toBe('abc')
  expect(lines.slice(before).filter(({ level }) => level > 20)).toEqual([])
})
