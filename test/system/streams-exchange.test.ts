import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { suspending } from '../../src/platform/missing-types.ts'
import { guest } from '../support/guest.ts'
import { listen, serve } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

test('pieces of a body come back while the client still sends', async () => {
  const { url } = await listen({ plugin: guest('stream'), function: 'echo', workers: 1 })
  const sent = request(url, { method: 'POST' })
  sent.write('one')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  expect(answer.headers).toMatchObject({
    'transfer-encoding': 'chunked',
    'content-type': 'application/octet-stream',
  })
  expect(String((await once(answer, 'data'))[0])).toBe('one')
  sent.write('two')
  expect(String((await once(answer, 'data'))[0])).toBe('two')
  sent.end()
  expect(await text(answer)).toBe('')
})

test.each([
  ['raw', {}],
  ['http', { contract: 'http' }],
  ['simplism', { contract: 'simplism' }],
] as const)('an output after the start is ignored (%s)', async (_contract, route) => {
  const steps = [
    ['start', '{"status":201,"headers":{"x-a":["1","2"]}}'],
    ['write', 'body'],
    ['output', 'more'],
  ] as const
  const { url, line } = await serveSteps(steps, route)
  const answer = await fetch(url)
  expect([answer.status, answer.headers.get('x-a'), await answer.text()]).toEqual([201, '1, 2', 'body'])
  await line(({ level, msg }) => level === 'warn' && msg.includes('ignored'))
})

test('a guest that starts no answer answers with its output, as any other guest', async () => {
  const { url } = await listen({ plugin: guest('stream'), function: 'swallow', workers: 1 })
  const answer = await fetch(url, { method: 'POST', body: 'x'.repeat(100_000) })
  expect([answer.status, answer.headers.get('content-length'), await answer.text()]).toEqual([
    200,
    '6',
    '100000',
  ])
})

test('order: a write needs a start, there is one start, and nothing follows the trailers', async () => {
  const { url, codes } = await serveSteps([
    ['write', 'early'],
    ['trailers', '{}'],
    ['start', ''],
    ['start', ''],
    ['write', 'a'],
    ['trailers', '{}'],
    ['write', 'late'],
    ['flush'],
    ['trailers', '{}'],
  ])
  expect(await (await fetch(url)).text()).toBe('a')
  expect(await codes(9)).toEqual([-2, -2, 0, -2, 0, 0, -2, 0, -2])
})

const INVALID_HEADS = [
  ['not JSON', 'x'],
  ['not an object', '[]'],
  ['an unknown field', '{"body":"x"}'],
  ['a status out of range', '{"status":100}'],
  ['a status that is no number', '{"status":"200"}'],
  ['a header that frames the answer', '{"headers":{"Content-Length":"1"}}'],
  ['a header of the connection', '{"headers":{"transfer-encoding":"chunked"}}'],
  ['a line end in a header', '{"headers":{"x":"a\\r\\nset-cookie: b"}}'],
  ['a line end in a name', '{"headers":{"x\\r\\ny":"a"}}'],
  ['two content types', '{"headers":{"content-type":["a/b","c/d"]}}'],
  ['a trailer that frames', '{"trailers":["content-length"]}'],
  ['trailers that are no names', '{"trailers":[1]}'],
  [
    'too many headers',
    JSON.stringify({ headers: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`x${i}`, 'a'])) }),
  ],
  ['headers that are too large', JSON.stringify({ headers: { x: 'a'.repeat(20_000) } })],
  ['deep nesting', `{"headers":${'['.repeat(5_000)}${']'.repeat(5_000)}}`],
] as const

test('a head that is not valid is refused as a whole', async () => {
  const { url } = await listen({ plugin: guest('stream'), function: 'head', workers: 1, spareWorkers: 0 })
  for (const [what, body] of INVALID_HEADS) {
    const answer = await fetch(url, { method: 'POST', body })
    const got = [
      answer.status,
      answer.headers.get('x'),
      answer.headers.get('set-cookie'),
      await answer.text(),
    ]
    expect([what, ...got]).toEqual([what, 202, null, null, '-4'])
  }
})

test.each(['GET', 'HEAD'])('a header of an answer has its characters as bytes (%s)', async (method) => {
  const { port } = await serveSteps([['start', '{"headers":{"x-odd":"caf\u00e9"}}'], ['flush']])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write(`${method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  expect((await buffer(socket)).toString('latin1')).toContain('x-odd: caf\u00e9\r\n')
})

test('a head of more than 128 KiB is too large, and so are an event and trailers', async () => {
  const { url, codes } = await serveSteps([
    ['start', ' '.repeat(131_073)],
    ['start', '{}'],
    ['trailers', ' '.repeat(131_073)],
  ])
  expect((await fetch(url)).status).toBe(200)
  expect(await codes(3)).toEqual([-5, 0, -5])
})

test.each(['start at', 'write at'] as const)('an offset without a block ends the call: %s', async (name) => {
  const { url } = await serveSteps([[name, 7]])
  const answer = await fetch(url)
  expect([answer.status, JSON.parse(await answer.text()).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
})

test('trailers follow the body if they were announced', async () => {
  const { port, codes } = await serveSteps([
    ['start', '{"trailers":["X-Sum","x-other"]}'],
    ['write', 'abc'],
    ['trailers', '{"x-sum":"1","y":"2"}'],
    ['trailers', '{"x-sum":"a\\r\\nb"}'],
    ['trailers', '{"X-Sum":"42"}'],
  ])
  const sent = request({ port, host: '127.0.0.1' }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  expect(answer.headers.trailer).toBe('x-sum, x-other')
  expect(await text(answer)).toBe('abc')
  expect(answer.trailers).toEqual({ 'x-sum': '42' })
  expect(await codes(5)).toEqual([0, 0, -4, -4, 0])
})

test.each([
  ['HEAD', '{}', '200 OK'],
  ['GET', '{"status":204}', '204 No Content'],
  ['GET', '{"status":304}', '304 Not Modified'],
])('%s %s has no body, and the connection serves the next request', async (method, head, status) => {
  const { port } = await serveSteps([['start', head], ['write', 'never seen'], ['flush']])
  const received = await raw(
    port,
    `${method} / HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(2),
    (all) => all.split('HTTP/1.1').length === 3 && all.endsWith('\r\n\r\n'),
  )
  expect(received.split(`HTTP/1.1 ${status}`)).toHaveLength(3)
  expect(received).not.toContain('never')
})

test('a client that expects 100 sends its body when the guest reads it', async () => {
  const { url } = await listen({ plugin: guest('stream'), function: 'swallow', workers: 1 })
  const sent = request(url, { method: 'POST', headers: { expect: '100-continue' } })
  sent.flushHeaders()
  await once(sent, 'continue')
  sent.end('hello')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  expect(await text(answer)).toBe('5')
})

test('a guest that refuses a request never asks for its body', async () => {
  const { port } = await serveSteps([['start', '{"status":403}']])
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n'
  expect(await raw(port, head, (all) => all.endsWith('0\r\n\r\n'))).toMatch(/^HTTP\/1\.1 403 /)
})

test('a guest that starts its answer before it reads gets the body of a client that expects 100', async () => {
  const { url } = await listen({ plugin: guest('stream'), function: 'echo', workers: 1 })
  const sent = request(url, { method: 'POST', headers: { expect: '100-continue' } })
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>
  sent.flushHeaders()
  await once(sent, 'continue')
  sent.end('hello')
  expect(await text((await answered)[0])).toBe('hello')
})

test('a client of HTTP/1.0 gets no 100, and its body is read', async () => {
  const { port } = await listen({ plugin: guest('stream'), function: 'swallow', workers: 1 })
  const sent = 'POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello'
  expect(await raw(port, sent, (all) => all.endsWith('\r\n\r\n5'))).toMatch(/^HTTP\/1\.1 200 /)
})

test('the limit of a body holds for a stream, declared or not', async () => {
  const steps: Step[] = [{ repeat: 5, steps: [['read', 65_536]] }]
  const { url, codes } = await serveSteps(steps, { bodyLimit: 100_000 })
  const declared = await fetch(url, { method: 'POST', body: 'x'.repeat(100_001) })
  expect([declared.status, await codes()]).toEqual([413, []])
  const sent = request(url, { method: 'POST' })
  for (let i = 0; i < 3; i++) sent.write('x'.repeat(50_000))
  const [answer] = (await once(sent.end(), 'response')) as [IncomingMessage]
  expect([answer.statusCode, JSON.parse(await text(answer)).code]).toEqual([413, 'WASM_SERVE_BODY_TOO_LARGE'])
  expect(await codes(1)).toContain(-5)
})

test('a body that is too large after the start of the answer is the reason that is logged', async () => {
  const steps: Step[] = [
    ['start', ''],
    ['flush'],
    { repeat: 5, steps: [['read', 65_536]] },
    ['error', 'no body'],
  ]
  const { url, codes, line } = await serveSteps(steps, { bodyLimit: 100_000 })
  const sent = request(url, { method: 'POST' })
  sent.on('error', () => undefined) // the connection is broken off
  const answered = once(sent, 'response')
  sent.write('x'.repeat(50_000))
  await answered
  sent.write('x'.repeat(100_000))
  await line(({ code }) => code === 'WASM_SERVE_BODY_TOO_LARGE')
  expect((await codes(7)).at(-1)).toBe(-5)
})

test('pieces of all sizes fit into a small limit of blocks, however long the stream is', async () => {
  const sizes = Array.from({ length: 11 * 8 + 1 }, (_, i) => Math.floor(16 * 2 ** (i / 8)))
  const bySize = sizes.flatMap((size): Step[] => [
    ['read', size],
    ['write zeros', size],
  ])
  const limits = { bodyLimit: 0, outputLimit: 0, blockLimit: 2 ** 20 }
  const { url } = await serveSteps([['start', ''], { repeat: 20, steps: bySize }], limits)
  const total = 20 * sizes.reduce((sum, size) => sum + size)
  const answer = await fetch(url, { method: 'POST', body: Buffer.alloc(total) })
  expect((await answer.arrayBuffer()).byteLength).toBe(total)
})

test('an answer beyond the limit of an output is broken off', async () => {
  const steps: Step[] = [['start', ''], { repeat: 3, steps: [['write zeros', 300_000]] }]
  const { url, codes, line } = await serveSteps(steps, { outputLimit: 700_000 })
  await expect(fetch(url).then((answer) => answer.arrayBuffer())).rejects.toThrow('terminated')
  expect(await codes(4)).toEqual([0, 0, 0, -5])
  await line(({ code }) => code === 'WASM_SERVE_OUTPUT_TOO_LARGE')
})

test('only a plug-in that streams can do without limits', async () => {
  for (const option of ['bodyLimit', 'outputLimit'])
    await expect(serve({ plugin: guest('echo'), [option]: 0 })).rejects.toMatchObject({
      code: 'WASM_SERVE_OPTIONS_INVALID',
    })
})

test("a guest that streams cannot run with Extism's SDK", async () => {
  const served = serve({ plugin: guest('stream'), function: 'echo', runtime: 'sdk' })
  await expect(served).rejects.toMatchObject({ code: 'WASM_SERVE_RUNTIME_UNFIT' })
})

test.skipIf(suspending)('only a newer Node.js runs a guest that streams on the event loop', async () => {
  const served = serve({ plugin: guest('stream'), function: 'echo', engine: 'inline' })
  await expect(served).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
    message: expect.stringContaining('24'),
  })
})

test('events have the form of SSE, and start the answer', async () => {
  const { url, codes } = await serveSteps([
    ['sse', '{"event":"tick","id":"1","retry":10,"data":"a\\nb\\r\\nc"}'],
    ['sse', '{"data":{"n":1}}'],
    ['sse', '{"event":"a\\nb"}'],
    ['sse', '{}'],
    ['sse', '[]'],
    ['sse', '{"retry":-1}'],
    ['sse', '{"other":1}'],
    ['sse', '{"comment":"hi"}'],
  ])
  const answer = await fetch(url)
  expect([answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
    'text/event-stream',
    'no-store',
  ])
  expect(await answer.text()).toBe(
    'event: tick\nid: 1\nretry: 10\ndata: a\ndata: b\ndata: c\n\ndata: {"n":1}\n\n: hi\n\n',
  )
  expect(await codes(8)).toEqual([0, 0, -4, -4, -4, -4, -4, 0])
})

test('an event has as many lines as its JSON has room for', async () => {
  const { url, codes } = await serveSteps([['sse', JSON.stringify({ data: '\n'.repeat(520_000) })]], {
    outputLimit: 0,
  })
  expect(await (await fetch(url)).text()).toBe(`${'data: \n'.repeat(520_001)}\n`)
  expect(await codes(1)).toEqual([0])
})

test('data of an event that is nested too deeply is refused', async () => {
  const { url, codes } = await serveSteps([
    ['sse', `{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['sse', '{"data":"a"}'],
  ])
  expect(await (await fetch(url)).text()).toBe('data: a\n\n')
  expect(await codes(2)).toEqual([-4, 0])
})

test('a guest without an exchange gets a code', async () => {
  const app = await serve({ plugin: guest('stream'), function: 'swallow', workers: 1 })
  expect((await app.inject({ method: 'POST', url: '/', payload: 'hello' })).body).toBe('5')
})

/** Sends bytes; returns what came back when it is enough, or the connection closed. */
async function raw(port: number, bytes: string, isEnough: (all: string) => boolean): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.write(bytes)
  let all = ''
  for await (const piece of socket) {
    all += piece
    if (isEnough(all)) break
  }
  return all
}
