import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { fireSockets, type SocketLoad, startSocketLoad } from '../../../bench/load/sockets.ts'

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const loadOf = (url: string, more: Partial<SocketLoad> = {}): SocketLoad => ({
  url,
  connections: 4,
  request: (id) => ({ path: '/', body: `😄 ${id}` }),
  isRight: (body, answer) => body === answer,
  ...more,
})

const echo: RequestListener = async (request, response) => void response.end(await text(request))

test('a closed loop gets the answers to its own requests', async () => {
  const { times } = await fireSockets(loadOf(await serve(echo)), { seconds: 0.1, rampMs: 10 })
  expect(times.length).toBeGreaterThan(4)
})

test('answers of others, and answers other than 200, are refused', async () => {
  const swapped = await serve((_request, response) => void response.end('😄 none'))
  await expect(fireSockets(loadOf(swapped), { seconds: 0.1 })).rejects.toThrow('wrongly')
  const broken = await serve(
    (_request, response) => void response.writeHead(500, { 'content-length': 2 }).end('oh'),
  )
  await expect(fireSockets(loadOf(broken), { seconds: 0.1 })).rejects.toThrow('failed')
})

test('at a rate, the time of an answer counts from when its request was due', async () => {
  let answered = 0
  const stalling = await serve(async (request, response) => {
    const body = await text(request)
    if (answered++ === 20) for (const until = performance.now() + 200; performance.now() < until; );
    response.end(body)
  })
  const load = await startSocketLoad(loadOf(stalling, { connections: 1, perSecond: 200, arrivals: 'even' }))
  onTestFinished(() => load.stop())
  load.begin()
  while (answered < 60) await new Promise((resolve) => setTimeout(resolve, 5))
  const { times } = await load.end()
  // Forty requests came due while the server stalled, though one was under way.
  expect(times.filter((ms) => ms > 50).length).toBeGreaterThan(20)
})

test('a request without an answer has failed, and its time is that of the wait', async () => {
  let send: () => void = () => undefined
  const sent = () => new Promise<void>((resolve) => (send = resolve))
  const silent = await serve(() => undefined)
  const request = (id: number) => {
    send()
    return { path: '/', body: `${id}` }
  }
  const load = await startSocketLoad(loadOf(silent, { connections: 1, perSecond: 100, request }))
  onTestFinished(() => load.stop())
  load.begin()
  await sent() // it may have been due before the beginning
  await sent()
  const { failed, times } = await load.end(20)
  expect(failed).toBe(times.length)
  expect(Math.max(...times)).toBeGreaterThanOrEqual(20)
})
