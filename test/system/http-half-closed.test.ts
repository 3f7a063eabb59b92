import { EventEmitter, once } from 'node:events'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import type { GuestCall } from '../../src/options/served-route.ts'
import { guest } from '../support/guest.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listen } from '../support/serve.ts'
import { open, post } from '../support/socket.ts'

const CHUNKS = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n'
const later = () => new Promise<void>((resolve) => setImmediate(resolve))

test.each<[string, Partial<RouteOptions>]>([
  ['inline', {}],
  ['inline, with fresh instances', { isolation: 'fresh' }],
  ['inline, after a hook', { onCall: later }],
  ['workers', { engine: 'workers', workers: 1 }],
  ['workers, with fresh instances', { engine: 'workers', workers: 1, isolation: 'fresh' }],
  ['workers, after a hook', { engine: 'workers', workers: 1, onCall: later }],
])('a client that ends its side after its request gets its answer: %s', async (_name, route) => {
  const { port } = await listen({ plugin: guest('echo'), ...route })
  for (const request of [post('hi'), CHUNKS, post('hi').replace('1.1', '1.0')]) {
    const client = await open(port)
    client.socket.end(request)
    const answers = (await client.answers()).filter(({ status }) => status >= 200)
    expect(answers.map(({ status, body }) => [status, String(body)])).toEqual([[200, 'hi']])
  }
})

test('so does one that sent several requests, to each of them', async () => {
  const { port } = await listen({ plugin: guest('echo'), engine: 'workers', workers: 1 })
  const client = await open(port)
  client.socket.end(post('a') + post('b') + post('c'))
  const answers = (await client.answers()).filter(({ status }) => status >= 200)
  expect(answers.map(({ body }) => String(body))).toEqual(['a', 'b', 'c'])
})

test('so does one that speaks TLS', async () => {
  const { ca: cert, tls } = localhostTls(onTestFinished)
  const { port } = await listen({ plugin: guest('echo'), engine: 'workers', workers: 1 }, { tls })
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: cert })
  onTestFinished(() => void socket.destroy())
  await once(socket, 'secureConnect')
  socket.end(post('hi'))
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 (102 .*)?200 .*\r\n\r\nhi$/s)
})

test('an interim answer comes before one that takes its time', async () => {
  const gate = new EventEmitter()
  const onCall = async () => void (await once(gate, 'open'))
  const { port } = await listen({ plugin: guest('echo'), onCall }, { unreadTimeoutMs: 10 })
  const client = await open(port)
  client.socket.end(post('hi'))
  expect((await client.answer())?.status).toBe(102)
  gate.emit('open')
  const answers = await client.answers()
  expect(answers.at(-1)).toMatchObject({ status: 200, body: Buffer.from('hi') })
})

test.each<[string, 'destroy' | 'resetAndDestroy']>([
  ['in good order', 'destroy'],
  ['with a reset', 'resetAndDestroy'],
])('a client that has left %s is noticed while its request waits', async (_name, leave) => {
  const waiting = new EventEmitter()
  const onCall = async ({ request }: GuestCall) => {
    const closed = new Promise((resolve) => request.raw.socket.once('close', resolve)) // after an error
    client.socket[leave]()
    await closed
    waiting.emit('gone')
  }
  const { port } = await listen({ plugin: guest('echo'), onCall }, { unreadTimeoutMs: 10 })
  const gone = once(waiting, 'gone')
  const client = await open(port)
  client.send(post('hi'))
  await gone
})

test('a client that ends its side within its request does not reach the guest', async () => {
  let calls = 0
  const { port } = await listen({ plugin: guest('echo'), onCall: () => void calls++ })
  const client = await open(port)
  client.socket.end(post('hi').slice(0, -1))
  expect((await client.answers()).map(({ status }) => status)).toEqual([400])
  expect(calls).toBe(0)
})
