import { once } from 'node:events'
import { type ClientHttp2Session, constants } from 'node:http2'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { openHttp } from '../../src/contract/http.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { run, start } from '../support/cli.ts'
import { inputOf } from '../support/contract.ts'
import { guest } from '../support/guest.ts'
import {
  answerTo,
  ask,
  BROKEN_OFF,
  begin,
  goawayCode,
  openHttp2,
  PONG,
  rapidResets,
  repeatedResets,
} from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'

const { ca, tls } = localhostTls()

async function listen(route: Partial<RouteOptions> = {}, options: Partial<ServerOptions> = {}) {
  const running = await listenAll([{ plugin: guest('echo'), ...route }], { tls, http2: true, ...options })
  onTestFinished(() => running.drain())
  return { ...running, session: () => openHttp2(running.port, ca) }
}

async function overHttp1(port: number, body: string) {
  const sending = request({
    port,
    host: '127.0.0.1',
    servername: 'localhost',
    ca,
    agent: false,
    method: 'POST',
  })
  const [answer] = await once(sending.end(body), 'response')
  return [answer.httpVersion, await text(answer)]
}

const hasPong = (received: Buffer) => received.includes(PONG)
const isEnded = (received: Buffer) => goawayCode(received) !== undefined

/** Sends bytes as they are, until the server has sent enough. */
async function sendFrames(port: number, bytes: Uint8Array, isEnough: (received: Buffer) => boolean) {
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca, ALPNProtocols: ['h2'] })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined) // a reset is a way of closing
  socket.write(bytes)
  let received = Buffer.alloc(0)
  await new Promise<void>((resolve, reject) => {
    socket.on('close', () => reject(new Error('the connection was closed before')))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (isEnough(received)) resolve()
    })
  })
  return { socket, received }
}

test('the command speaks HTTP/2 and HTTP/1.1 on one port, and ends in good order', async () => {
  const running = start([guest('echo'), '0', '--tls-cert', tls.cert, '--tls-key', tls.key, '--http2'])
  const port = Number(new URL(await running.listening()).port)
  const session = await openHttp2(port, ca)
  expect(await ask(session, 'hi')).toMatchObject({ status: 200, body: 'hi' })
  expect(await overHttp1(port, 'hi')).toEqual(['1.1', 'hi'])
  running.kill('SIGTERM')
  expect(await running.ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Warning') })
})

test('the access log knows the address of a client of either', async () => {
  const flags = ['--tls-cert', tls.cert, '--tls-key', tls.key, '--http2', '--access-log']
  const running = start([guest('echo'), '0', ...flags])
  const port = Number(new URL(await running.listening()).port)
  await ask(await openHttp2(port, ca), 'hi')
  await overHttp1(port, 'hi')
  running.kill('SIGTERM')
  const lines = (await running.ended).stderr.split('\n').filter((line) => line.includes('"request"'))
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ ip: '127.0.0.1' }, { ip: '127.0.0.1' }])
})

test('without TLS it is refused, with what is served instead', async () => {
  const { code, stderr } = await run([guest('echo'), '0', '--http2'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/--http2: needs tls.*h2c/)
})

test('bytes of any size come back as they were, many requests at a time', async () => {
  const { session } = await listen()
  const client = await session()
  const bodies = Array.from({ length: 50 }, (_, id) => `${id} `.repeat(id * 500))
  const answers = await Promise.all(bodies.map((body) => ask(client, body)))
  expect(answers.map(({ body }) => body)).toEqual(bodies)
})

test('a guest sees the request as it would over HTTP/1.1', async () => {
  const { session } = await listen({ ...inputOf(openHttp({})), method: '*' })
  const client = await session()
  const headers = { 'x-a': ['1', '2'], cookie: ['a=1', 'b=2'], ':path': '/?a=1', ':authority': 'a.example' }
  expect(JSON.parse((await ask(client, 'hi', headers)).body)).toMatchObject({
    method: 'POST',
    url: '/?a=1',
    body: 'hi',
    remoteAddress: '127.0.0.1',
    headers: { host: 'a.example', cookie: 'a=1; b=2', 'x-a': ['1', '2'] },
  })
  const got = JSON.parse((await ask(client, '', { ':method': 'GET' })).body)
  expect(got.body).toBe('')
  expect(Object.keys(got.headers)).toEqual(['host'])
})

test('a route of a host is chosen by the authority, and one that says two hosts is refused', async () => {
  const { session } = await listen({ host: 'a.example' })
  const client = await session()
  expect((await ask(client, 'hi', { ':authority': 'a.example' })).body).toBe('hi')
  expect((await ask(client, 'hi', { ':authority': 'b.example' })).status).toBe(404)
  const two = await ask(client, 'hi', { ':authority': 'a.example', host: 'b.example' })
  expect([two.status, JSON.parse(two.body).code]).toEqual([400, 'WASM_SERVE_BAD_REQUEST'])
})

test('a body beyond the limit is told 413 while it is sent, and the connection goes on', async () => {
  const { session } = await listen({ bodyLimit: 1_000 })
  const client = await session()
  for (const headers of [{}, { 'content-length': '2000' }] as const) {
    const stream = begin(client, headers)
    stream.write(Buffer.alloc(1_500))
    const answer = await answerTo(stream)
    expect([answer.status, JSON.parse(answer.body).code]).toEqual([413, 'WASM_SERVE_BODY_TOO_LARGE'])
    expect(answer.headers).not.toHaveProperty('connection')
    if (!stream.closed) await once(stream, 'close') // nobody has to send the rest
  }
  expect((await ask(client, 'hi')).body).toBe('hi')
})

test('a body that breaks off does not reach the guest', async () => {
  let calls = 0
  const { port, session } = await listen({ onCall: () => void calls++ })
  await sendFrames(port, BROKEN_OFF, hasPong)
  expect((await ask(await session(), 'hi')).body).toBe('hi')
  expect(calls).toBe(1)
})

test('a connection whose requests are reset too often is ended, and another has its place', async () => {
  const { port, session } = await listen({}, { maxConnections: 1 })
  const { socket, received } = await sendFrames(port, rapidResets(1_300), isEnded)
  expect(goawayCode(received)).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM)
  if (!socket.closed) await once(socket.resume(), 'close')
  expect((await ask(await session(), 'hi')).body).toBe('hi')
})

test('a connection may reset many of its requests', async () => {
  const { port } = await listen()
  const { received } = await sendFrames(port, rapidResets(900), hasPong)
  expect(isEnded(received)).toBe(false)
})

test('a connection that Node has ended by itself has its place until the client leaves, and no longer', async () => {
  const { port } = await listen({}, { maxConnections: 1, unreadTimeoutMs: 100 })
  const { socket } = await sendFrames(port, repeatedResets(1_500), isEnded)
  await once(socket.destroy(), 'close')
  let client: ClientHttp2Session | undefined
  while (!client) client = await openHttp2(port, ca).catch(() => undefined) // refused for as long as the place is taken
  expect((await ask(client, 'hi')).body).toBe('hi')
})

test('a body that does not come is told 408', async () => {
  const { session } = await listen({}, { requestTimeoutMs: 100 })
  const client = await session()
  const stream = begin(client, { expect: '100-continue' })
  await once(stream, 'continue')
  stream.write('half of')
  const answer = await answerTo(stream)
  expect([answer.status, JSON.parse(answer.body).code]).toEqual([408, 'WASM_SERVE_REQUEST_TIMEOUT'])
  expect((await ask(client, 'hi')).body).toBe('hi')
})

test('headers beyond 16 KiB are told 431, and the connection goes on', async () => {
  const { session } = await listen()
  const client = await session()
  const answer = await ask(client, 'hi', { 'x-large': 'x'.repeat(20_000) })
  expect([answer.status, JSON.parse(answer.body).code]).toEqual([431, 'WASM_SERVE_HEADERS_TOO_LARGE'])
  expect((await ask(client, 'hi')).body).toBe('hi')
})

test('a connection on which nothing is asked is closed, before its first request and after', async () => {
  const { port, session } = await listen({}, { headersTimeoutMs: 100, keepAliveTimeoutMs: 100 })
  const silent = await session()
  await once(silent, 'close')
  const idle = await session()
  expect((await ask(idle, 'hi')).body).toBe('hi')
  await once(idle, 'close')
  const mute = connect({ port, host: '127.0.0.1', servername: 'localhost', ca, ALPNProtocols: ['h2'] })
  mute.on('error', () => undefined).resume()
  await once(mute, 'close')
})

test('a client that does not read its answer loses it, and no other', async () => {
  const { session } = await listen({ bodyLimit: 8_000_000 }, { unreadTimeoutMs: 100 })
  const client = await session()
  const stream = begin(client)
  stream.end(Buffer.alloc(2_000_000)) // more than its window
  await once(stream, 'response')
  await once(stream.pause(), 'close')
  expect((await ask(client, 'hi')).body).toBe('hi')
})

test('at the end clients are told first, what has begun is answered, and connections end', async () => {
  const { port, session, drain } = await listen({}, { drainMs: 50, graceMs: 60_000 })
  const [client, idle] = [await session(), await session()]
  const stream = begin(client, { expect: '100-continue' })
  await once(stream, 'continue')
  const told = Promise.all([once(client, 'goaway'), once(idle, 'goaway')])
  const ended = drain()
  await told
  stream.end('hi')
  expect(await answerTo(stream)).toMatchObject({ status: 200, body: 'hi' })
  await ended
  await expect(openHttp2(port, ca)).rejects.toThrow('ECONNREFUSED')
})

test('under load no request is lost at the end: each is answered, or was refused and not begun', async () => {
  let calls = 0
  const { session, drain } = await listen({ onCall: () => void calls++ }, { drainMs: 50, graceMs: 60_000 })
  const client = await session()
  let answered = 0
  const failures = new Set<unknown>()
  const load = async (id: number) => {
    for (let n = 0; !client.closed; n++) {
      const { body } = await ask(client, `${id} ${n}`)
      if (body === `${id} ${n}`) answered++
    }
  }
  const loads = Array.from({ length: 20 }, (_, id) => load(id).catch((error) => failures.add(error.message)))
  await ask(client, 'so it runs')
  await Promise.all([drain(), ...loads])
  expect(answered + 1).toBe(calls)
  // What Node had not sent yet when it was told, it refuses itself.
  expect([...failures].filter((message) => !/REFUSED_STREAM/.test(String(message)))).toEqual([])
})

test('what does not end within graceMs is cut off', async () => {
  const { session, drain } = await listen({}, { graceMs: 50 })
  const client = await session()
  const stream = begin(client, { expect: '100-continue' })
  await once(stream, 'continue')
  await Promise.all([once(client, 'close'), drain()])
})

test('a request whose body is still arriving at a swap is answered by the old app', async () => {
  const { session, replace } = await listen({ plugin: guest('upper') })
  const client = await session()
  const stream = begin(client, { expect: '100-continue' })
  await once(stream, 'continue')
  const options = checkServerOptions({ logLevel: 'silent', routes: [{ plugin: guest('echo') }] })
  const { app } = await createApp(options, openLog('silent'))
  const replaced = replace(app)
  expect((await ask(client, 'abc')).body).toBe('abc')
  stream.end('abc')
  expect((await answerTo(stream)).body).toBe('ABC')
  await replaced
})
