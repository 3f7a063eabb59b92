import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { selfSigned } from '../support/certificate.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { ask, begin, openHttp2 } from '../support/http2-client.ts'

/** Bytes of a large body that tell which one it is. */
function bodyOf(id: number): Buffer {
  return Buffer.alloc(20_000 + id * 613, `<${id}>`)
}

test('each client gets its own large output, also if others read slowly or go away', async () => {
  const app = await createServer({
    routes: [{ plugin: guest('echo'), bodyLimit: 1_048_576 }],
    logLevel: 'silent',
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const agent = new Agent({ keepAlive: true, maxSockets: 10 })
  onTestFinished(async () => {
    agent.destroy()
    await app.close()
  })
  const ask = async (id: number) => {
    const sent = request(url, { method: 'POST', agent: id % 7 === 0 ? false : agent })
    sent.on('error', () => undefined) // of those that go away
    sent.end(bodyOf(id))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    if (id % 7 === 0) {
      sent.destroy()
      return
    }
    if (id % 5 === 0) await setImmediate()
    const parts: Buffer[] = []
    for await (const part of answer) parts.push(part as Buffer)
    expect(Buffer.concat(parts).equals(bodyOf(id))).toBe(true)
  }
  for (let round = 0; round < 4; round++) await Promise.all(Array.from({ length: 100 }, (_, id) => ask(id)))
})

/** Bytes of an answer. */
const FILLED = 1_000_000

/** Answers with as many times the first byte of its input. */
const FILL = guestBytes(`(module
  (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (func (export "fill") (result i32) (local $block i64) (local $at i64) (local $word i64)
    (local.set $word (i64.mul (i64.extend_i32_u (call $input (i64.const 0))) (i64.const 0x0101010101010101)))
    (local.set $block (call $alloc (i64.const ${FILLED})))
    (loop $next
      (call $store (i64.add (local.get $block) (local.get $at)) (local.get $word))
      (local.set $at (i64.add (local.get $at) (i64.const 8)))
      (br_if $next (i64.lt_u (local.get $at) (i64.const ${FILLED}))))
    (call $output (local.get $block) (i64.const ${FILLED}))
    (i32.const 0)))`)

/** The letters of answers; `?` for one that is not of one letter. */
function lettersOf(bodies: readonly Buffer[]): string {
  const letterOf = (body: Buffer) => {
    const isWhole = body.equals(Buffer.alloc(FILLED, body[0]))
    return isWhole ? body.toString('latin1', 0, 1) : '?'
  }
  return bodies.map(letterOf).join('')
}

/** The bodies of the answers on a connection. */
async function bodiesOf(socket: Socket, count: number): Promise<Buffer[]> {
  const all = await buffer(socket)
  let at = 0
  return Array.from({ length: count }, () => {
    const start = all.indexOf('\r\n\r\n', at) + 4
    at = start + FILLED
    return all.subarray(start, at)
  })
}

/** More answers than the buffers of the system hold: the last ones wait in the server. */
const SLOW = 'abcdefghijkl'

const FAST = 'xyz'

test.each([
  ['inline', { engine: 'inline' }],
  ['workers', { engine: 'workers', workers: 1, timeoutMs: 60_000, startTimeoutMs: 60_000 }],
] as const)('an answer that its client has not read keeps its bytes, engine %s', async (_engine, route) => {
  const app = await createServer({ routes: [{ plugin: FILL, ...route }], logLevel: 'silent' })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const slow = connect({ port: Number(new URL(url).port), host: '127.0.0.1' })
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n'
  for (const letter of SLOW)
    slow.write(`${head}${letter === SLOW.at(-1) ? 'Connection: close\r\n' : ''}\r\n${letter}`)
  await once(slow, 'readable')
  for (const letter of FAST.repeat(4)) {
    const answer = await fetch(url, { method: 'POST', body: letter })
    expect(lettersOf([Buffer.from(await answer.arrayBuffer())])).toBe(letter)
  }
  expect(lettersOf(await bodiesOf(slow, SLOW.length))).toBe(SLOW)
})

test('an answer over HTTP/2 that its client has not read keeps its bytes', async () => {
  const certificate = selfSigned('localhost')
  const tls = {
    cert: file('large-outputs.cert', certificate.cert),
    key: file('large-outputs.key', certificate.key),
  }
  const app = await createServer({ routes: [{ plugin: FILL }], tls, http2: true, logLevel: 'silent' })
  const port = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
  onTestFinished(() => app.close())
  const session = await openHttp2(port, certificate.cert)
  const slow = [...SLOW].map((letter) => begin(session).end(letter))
  await Promise.all(slow.map((stream) => once(stream, 'response')))
  const other = await openHttp2(port, certificate.cert)
  for (const letter of FAST.repeat(4)) {
    const { body } = await ask(other, letter)
    expect(lettersOf([Buffer.from(body)])).toBe(letter)
  }
  expect(lettersOf(await Promise.all(slow.map((stream) => buffer(stream))))).toBe(SLOW)
})
