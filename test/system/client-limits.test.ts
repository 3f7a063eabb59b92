import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { ask, openHttp2 } from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listen, listenAll } from '../support/serve.ts'
import { exchange, open, post } from '../support/socket.ts'
import { closingOf, frame, openRawSocket } from '../support/web-socket.ts'

/* Limits of the page on limits that no other test shows. */

const { ca, tls } = localhostTls()

const codeOf = (body: string | Buffer | undefined) => /"code":"(\w+)"/.exec(String(body))?.[1]

test('there may be as many headers as the head has room for', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const [answer] = await exchange(port, post('x', `${'a:\r\n'.repeat(4_000)}Connection: close\r\n`))
  expect(answer?.status).toBe(200)
})

test('and so there may over HTTP/2', async () => {
  const running = await listenAll([{ plugin: guest('echo') }], { tls, http2: true })
  onTestFinished(() => running.drain())
  const session = await openHttp2(running.port, ca)
  const headers = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${1_000 + at}`, 'a']))
  expect((await ask(session, 'x', headers(1_500))).status).toBe(200)
  const refused = await ask(session, 'x', headers(2_500))
  expect([refused.status, codeOf(refused.body)]).toEqual([431, 'WASM_SERVE_HEADERS_TOO_LARGE'])
})

test('trailers have the limit of a head', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const send = (bytes: number) =>
    exchange(
      port,
      'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n' +
        `1\r\nx\r\n0\r\nA: ${'a'.repeat(bytes)}\r\n\r\n`,
    )
  expect((await send(15_000)).map(({ status }) => status)).toEqual([200])
  const [refused] = await send(17_000)
  expect([refused?.status, codeOf(refused?.body)]).toEqual([431, 'WASM_SERVE_HEADERS_TOO_LARGE'])
})

test('a connection may carry any number of requests, also pipelined', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const client = await open(port)
  for (let count = 0; count < 3_000; count++) client.send(post(`${count}`))
  for (let count = 0; count < 3_000; count++) expect(String((await client.answer())?.body)).toBe(`${count}`)
})

test('pipelined requests of a route with threads run at the same time, and are answered in order', async () => {
  let isSecond = false
  let begin: () => void = () => undefined
  const both = new Promise<void>((resolve) => {
    begin = resolve
  })
  const onCall = () => {
    if (isSecond) begin()
    isSecond = true
    return both // the first call waits for the second
  }
  const { port } = await listen({ plugin: guest('echo'), workers: 2, onCall })
  const client = await open(port)
  client.send(post('first') + post('second'))
  expect([String((await client.answer())?.body), String((await client.answer())?.body)]).toEqual([
    'first',
    'second',
  ])
})

test('a message of a WebSocket has a limited number of fragments', async () => {
  const { port } = await listen({ plugin: guest('echo'), contract: 'websocket' })
  const socket = await openRawSocket(port)
  socket.client.send(Buffer.concat([frame(0x01), ...Array.from({ length: 16_385 }, () => frame(0x00))]))
  const closing = await socket.frame()
  expect(closing && closingOf(closing)[0]).toBe(1008)
})
