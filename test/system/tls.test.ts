import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { type AddressInfo, connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import Fastify from 'fastify'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { wasmServe } from '../../src/index.ts'
import type { ServerOptions } from '../../src/options/options.ts'
import { selfSigned } from '../support/certificate.ts'
import { run, start } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { listenAll } from '../support/serve.ts'

const server = selfSigned('localhost')
const other = selfSigned('localhost')
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-tls-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}
const cert = file('cert.pem', server.cert)
const key = file('key.pem', server.key)
const otherKey = file('other-key.pem', other.key)
const otherCert = file('other-cert.pem', other.cert)
const noPem = file('no.pem', 'hello')

async function listen(options: Partial<ServerOptions> = {}) {
  const running = await listenAll([{ plugin: guest('echo') }], { tls: { cert, key }, ...options })
  onTestFinished(() => running.drain())
  return running
}

async function open(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: server.cert, ...options })
  onTestFinished(() => void socket.destroy())
  await once(socket, 'secureConnect')
  return socket
}

async function post(port: number, body: string): Promise<string> {
  const target = { port, host: '127.0.0.1', servername: 'localhost', ca: server.cert, agent: false }
  const sending = request({ ...target, method: 'POST' }).end(body)
  const [answer] = await once(sending, 'response')
  return text(answer)
}

test('the command serves HTTPS with a certificate, and says so', async () => {
  const running = start([guest('echo'), '0', '--tls-cert', cert, '--tls-key', key])
  const url = await running.listening()
  expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
  expect(await post(Number(new URL(url).port), 'hi')).toBe('hi')
  running.kill('SIGTERM')
  expect((await running.ended).code).toBe(0)
})

test('flags, variables and their parts are those of the option', async () => {
  const env = { WASM_SERVE_TLS_KEY: key }
  const { code, stdout } = await run([guest('echo'), '--tls-cert', cert, '--print-config'], env)
  expect(code).toBe(0)
  const { options, from } = JSON.parse(stdout)
  expect(options.tls).toEqual({ cert, key: `\${WASM_SERVE_TLS_KEY}` })
  expect(from).toMatchObject({ 'tls.cert': '--tls-cert', 'tls.key': 'WASM_SERVE_TLS_KEY' })
  expect((await run([guest('echo'), '--tls-cert', cert])).code).toBe(2)
})

test.each([
  ['a key of another certificate', { cert, key: otherKey }, 'other-key.pem'],
  ['a certificate that does not exist', { cert: join(folder, 'none.pem'), key }, 'none.pem'],
  ['a certificate that is none', { cert: noPem, key }, 'no.pem'],
  ['a key that is none', { cert, key: noPem }, 'no.pem'],
  ['an authority that is none', { cert, key, ca: noPem }, 'no.pem'],
])('%s is refused at the start, by its name', async (_, tls, name) => {
  const starting = listen({ tls })
  await expect(starting).rejects.toMatchObject({ code: 'WASM_SERVE_TLS_INVALID' })
  await expect(starting).rejects.toThrow(name)
})

test('several Host headers are refused as over HTTP', async () => {
  const { port } = await listen()
  const socket = await open(port)
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n')
  expect(await text(socket)).toContain('WASM_SERVE_BAD_REQUEST')
})

test('headers that do not come are told 408', async () => {
  const { port } = await listen({ headersTimeoutMs: 50 })
  const socket = await open(port)
  socket.write('POST / HTTP/1.1\r\nHost: a\r\n')
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 408 /)
})

test('who does not speak TLS, or nothing at all, is cut off, and others are served', async () => {
  const { port } = await listen({ headersTimeoutMs: 50 })
  const plain = connectTcp(port, '127.0.0.1').on('error', () => undefined)
  plain.end('POST / HTTP/1.1\r\nHost: a\r\n\r\n').resume()
  const silent = connectTcp(port, '127.0.0.1')
    .on('error', () => undefined)
    .resume()
  await Promise.all([once(plain, 'close'), once(silent, 'close')])
  expect(await post(port, 'hi')).toBe('hi')
})

test('only clients of the authority are answered, if there is one', async () => {
  const { port } = await listen({ tls: { cert, key, ca: otherCert } })
  const stranger = await open(port, { minVersion: 'TLSv1.3' })
  await expect(text(stranger)).rejects.toThrow(/certificate required|ECONNRESET/)
  const known = await open(port, { cert: other.cert, key: other.key })
  known.write('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi')
  expect(await text(known)).toMatch(/^HTTP\/1\.1 200 /)
})

test('a version below the least is refused', async () => {
  const { port } = await listen({ tls: { cert, key, minVersion: 'TLSv1.3' } })
  await expect(open(port, { maxVersion: 'TLSv1.2' })).rejects.toThrow(/protocol version|ECONNRESET/)
  expect((await open(port)).getProtocol()).toBe('TLSv1.3')
})

test('a server ends with the request that has begun, whatever silent connections there are', async () => {
  const { port, drain } = await listen({ graceMs: 60_000 })
  const begun = await open(port)
  const idle = await open(port)
  const raw = connectTcp(port, '127.0.0.1')
  await once(raw, 'connect')
  begun.write('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n')
  await once(begun, 'readable')
  const ended = drain()
  begun.write('hi')
  const answer = await text(begun)
  expect(answer).toMatch(/HTTP\/1\.1 200 OK[\s\S]*connection: close[\s\S]*hi$/i)
  await ended
  idle.destroy()
  raw.destroy()
})

test('a handshake that does not end is cut off after graceMs', async () => {
  const { port, drain } = await listen({ graceMs: 50 })
  const raw = connectTcp(port, '127.0.0.1').on('error', () => undefined)
  const closed = new Promise((resolve) => raw.once('close', resolve))
  raw.write(Buffer.of(0x16, 0x03, 0x01))
  await post(port, 'so that it has arrived')
  await drain()
  await closed
  expect(raw.bytesRead).toBe(0)
})

test('a Unix socket needs no TLS, and gets none', async () => {
  await expect(listen({ socket: join(folder, 'a.sock') })).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
  })
})

describe('a request that arrives before an earlier answer is read', () => {
  const routes = [
    { url: '/flood', plugin: guest('flood'), outputLimit: 2 ** 24 },
    { url: '/echo', plugin: guest('echo') },
  ]
  const short = 'in one TLS record'
  const long = 'in several TLS records '.repeat(2_500)

  test.each([
    ['short', short, long],
    ['long', long, short],
  ])('is answered, and so is the next one (%s)', async (_, early, next) => {
    const { port, drain } = await listenAll(routes, { tls: { cert, key } })
    onTestFinished(drain)
    expect(await answersUnread(port, [early, next])).toBe(2)
  })

  test('is answered in an app with the Fastify plugin', async () => {
    const app = Fastify({ https: { cert: server.cert, key: server.key } })
    onTestFinished(() => app.close())
    await app.register(wasmServe, { routes })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as AddressInfo
    expect(await answersUnread(port, [long, short])).toBe(2)
  })
})

/**
 * Sends the first body while an answer is unread that is larger than what the system keeps, and each other one after the
 * answer before it. Returns the number of bodies that came back.
 */
async function answersUnread(port: number, bodies: readonly string[]): Promise<number> {
  const client = await open(port)
  const send = (url: string, body = '') =>
    client.write(`POST ${url} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  send('/flood')
  await once(client, 'readable')
  let answered = 0
  let received = ''
  send('/echo', bodies[answered])
  for await (const bytes of client) {
    received = (received + bytes.toString('latin1')).slice(-100_000)
    if (!received.endsWith(`\r\n\r\n${bodies[answered]}`)) continue
    if (++answered === bodies.length) break
    send('/echo', bodies[answered])
  }
  return answered
}
