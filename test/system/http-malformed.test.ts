import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { runs } from '../support/runs.ts'
import { listen } from '../support/serve.ts'
import { type Answer, exchange, open, post } from '../support/socket.ts'

const HEAD = 'POST / HTTP/1.1\r\nHost: a\r\n'
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`
const KIB = 1024

/** What the guest has counted so far plus one: it answers each call with its number. */
const FIRST_CALL = '1'

function expectProblem(answer: Answer | undefined, status: number, code: string): void {
  if (!answer) throw new Error('closed without an answer')
  const problem = JSON.parse(answer.body.toString())
  expect({ ...answer.headers, status: answer.status, problem }).toMatchObject({
    status,
    'content-type': 'application/problem+json',
    'x-content-type-options': 'nosniff',
    'x-request-id': problem.requestId,
    problem: { type: 'about:blank', title: expect.any(String), status, detail: expect.any(String), code },
  })
}

describe('a malformed request is refused, its connection closed and the guest not called', () => {
  const BAD = [400, 'WASM_SERVE_BAD_REQUEST'] as const
  const TOO_LARGE = [413, 'WASM_SERVE_BODY_TOO_LARGE'] as const
  const HEADERS_TOO_LARGE = [431, 'WASM_SERVE_HEADERS_TOO_LARGE'] as const

  const CODING = [501, 'WASM_SERVE_TRANSFER_CODING_UNSUPPORTED'] as const
  const VERSION = [505, 'WASM_SERVE_HTTP_VERSION_UNSUPPORTED'] as const
  const coded = (coding: string) => `${HEAD}Transfer-Encoding: ${coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n`

  test.each([
    ['Transfer-Encoding: gzip, chunked', coded('gzip, chunked'), ...CODING],
    ['Transfer-Encoding: identity, chunked', coded('identity, chunked'), ...CODING],
    ['two Transfer-Encodings', coded('gzip\r\nTransfer-Encoding: chunked'), ...CODING],
    ['a coding before another request', coded('gzip, chunked') + post('abc'), ...CODING],
    ['Transfer-Encoding: chunked, chunked', coded('chunked, chunked'), ...BAD],
    ['Transfer-Encoding: gzip', coded('gzip'), ...BAD],
    ['chunked over HTTP/1.0', coded('chunked').replace('HTTP/1.1', 'HTTP/1.0'), ...BAD],
    [
      'Content-Length and Transfer-Encoding',
      `${HEAD}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      ...BAD,
    ],
    [
      'Transfer-Encoding and Content-Length',
      `${HEAD}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n`,
      ...BAD,
    ],
    ['two equal Content-Lengths', `${HEAD}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['two different Content-Lengths', `${HEAD}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`, ...BAD],
    ['Content-Length: +3', `${HEAD}Content-Length: +3\r\n\r\nabc`, ...BAD],
    ['Content-Length: -1', `${HEAD}Content-Length: -1\r\n\r\nabc`, ...BAD],
    ['Content-Length: 3, 3', `${HEAD}Content-Length: 3, 3\r\n\r\nabc`, ...BAD],
    ['Transfer-Encoding: xchunked', `${HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`, ...BAD],
    [
      'Transfer-Encoding: chunked, identity',
      `${HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      ...BAD,
    ],
    ['a space before the colon', `${HEAD}Content-Length : 3\r\n\r\nabc`, ...BAD],
    ['a folded header', `${HEAD}X-A: b\r\n c\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['a bare LF', `${HEAD}X-A: b\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['a bare CR', `${HEAD}X-A: b\rc\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['a NUL', `${HEAD}X-A: b\0c\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['a chunk size beyond 64 bits', `${CHUNKED}fffffffffffffffff\r\nabc\r\n0\r\n\r\n`, ...BAD],
    ['a chunk size that is no number', `${CHUNKED}zz\r\nabc\r\n0\r\n\r\n`, ...BAD],
    ['a chunk without CRLF', `${CHUNKED}3\r\nabc0\r\n\r\n`, ...BAD],
    ['LF in a chunk extension', `${CHUNKED}3;a\nb\r\nabc\r\n0\r\n\r\n`, ...BAD],
    ['32 KiB of chunk extension', `${CHUNKED}3;${'a'.repeat(32 * KIB)}\r\nabc\r\n0\r\n\r\n`, ...TOO_LARGE],
    ['no Host', 'POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc', ...BAD],
    ['two Hosts far apart', `${HEAD}${'a:\r\n'.repeat(3000)}Host: b\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['two Hosts', `${HEAD}hOST: b\r\nContent-Length: 3\r\n\r\nabc`, ...BAD],
    ['an unknown expectation', post('abc', 'Expect: tea\r\n'), 417, 'WASM_SERVE_EXPECTATION_FAILED'],
    ['a 20 KiB header', post('abc', `X-A: ${'a'.repeat(20 * KIB)}\r\n`), ...HEADERS_TOO_LARGE],
    ['3000 headers', post('abc', 'X-Many: value\r\n'.repeat(3000)), ...HEADERS_TOO_LARGE],
    ['a 17 KiB URL', post('abc', '', `/${'a'.repeat(17 * KIB)}`), ...HEADERS_TOO_LARGE],
    ['an unknown method', 'BREW / HTTP/1.1\r\nHost: a\r\n\r\n', ...BAD],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', ...BAD],
    ['HTTP/9.9', 'POST / HTTP/9.9\r\nHost: a\r\n\r\n', ...VERSION],
    ['HTTP/2.0', post('abc').replace('HTTP/1.1', 'HTTP/2.0'), ...VERSION],
    ['HTTP/2.0 with chunks', coded('chunked').replace('HTTP/1.1', 'HTTP/2.0'), ...VERSION],
    ['HTTP/2.0 that expects', post('abc', 'Expect: 100-continue\r\n').replace('1.1', '2.0'), ...VERSION],
    ['HTTP/0.9', post('abc').replace('HTTP/1.1', 'HTTP/0.9'), ...VERSION],
    ['HTTP/1.2', post('abc').replace('HTTP/1.1', 'HTTP/1.2'), ...VERSION],
    ['HTTP/1.13', post('abc').replace('HTTP/1.1', 'HTTP/1.13'), ...BAD],
    ['HTTP/x.y', post('abc').replace('HTTP/1.1', 'HTTP/x.y'), ...BAD],
    ['garbage after another version', 'GET / HTTP/2.0\r\nHost: a\r\n\r\ngarbage\r\n\r\n', ...VERSION],
    ['a TLS hello', Buffer.from('16030100a5010000a10303', 'hex'), ...BAD],
    ['garbage', 'how do you do?\r\n\r\n', ...BAD],
    ['a declared body over the limit', post('x'.repeat(9)), ...TOO_LARGE],
    ['a chunked body over the limit', `${CHUNKED}9\r\n${'x'.repeat(9)}\r\n0\r\n\r\n`, ...TOO_LARGE],
    ['a body that breaks off over the limit', `${CHUNKED}9\r\n${'x'.repeat(9)}`, ...TOO_LARGE],
  ])('%s', async (_name, bytes, status, code) => {
    const { port } = await listen({ plugin: guest('count'), function: 'count', bodyLimit: 8 })
    const answers = await exchange(port, bytes)
    expect(answers).toHaveLength(1)
    expectProblem(answers[0], status, code)
    expect(answers[0]?.headers.connection).toBe('close')

    const good = await open(port)
    good.send(post('abc'))
    expect(String((await good.answer())?.body)).toBe(FIRST_CALL)
  })
})

test('a client that asks before it sends a body over the limit is refused', async () => {
  const { port } = await listen({ plugin: guest('count'), function: 'count', bodyLimit: 8 })
  const answers = await exchange(port, `${HEAD}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n`)
  expect(answers.map(({ status }) => status)).toEqual([413])
  expectProblem(answers[0], 413, 'WASM_SERVE_BODY_TOO_LARGE')
})

test('HTTP/1.0 needs no Host', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const [answer] = await exchange(port, 'POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc')
  expect(answer).toMatchObject({ status: 200, body: Buffer.from('abc') })
})

test('Upgrade is ignored', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const client = await open(port)
  client.send(post('abc', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'))
  expect(await client.answer()).toMatchObject({ status: 200, body: Buffer.from('abc') })
})

test('CONNECT is refused like other methods, and closed', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const [answer] = await exchange(port, 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  expectProblem(answer, 405, 'WASM_SERVE_METHOD_NOT_ALLOWED')
})

test('a request within the body of another is no request', async () => {
  const { port } = await listen({ plugin: guest('count'), function: 'count' })
  const smuggled = post('abc')
  const client = await open(port)
  client.send(`GET / HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`)
  expectProblem(await client.answer(), 405, 'WASM_SERVE_METHOD_NOT_ALLOWED')
  client.send(post('abc', 'Connection: close\r\n'))
  expect((await client.answers()).map(({ body }) => String(body))).toEqual([FIRST_CALL])
})

describe('pipelined requests', () => {
  test('are answered in order, each with its own body', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const bodies = Array.from({ length: 50 }, (_, i) => `body ${i}`)
    const answers = await exchange(
      port,
      bodies.map((body) => post(body)).join('') + post('last', 'Connection: close\r\n'),
    )
    expect(answers.map(({ body }) => String(body))).toEqual([...bodies, 'last'])
  })

  test('are answered before the garbage that follows them', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const [first, second, ...others] = await exchange(
      port,
      `${post('a')}${post('b')}garbage\r\n\r\n`.repeat(2),
    )
    expect([first, second].map((answer) => String(answer?.body))).toEqual(['a', 'b'])
    expectProblem(others[0], 400, 'WASM_SERVE_BAD_REQUEST')
    expect(others).toHaveLength(1)
  })

  test('are answered before the garbage that follows them, also if they come late', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const client = await open(port)
    client.send(`${HEAD}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n`)
    expect((await client.answer())?.status).toBe(100) // the server waits for the body now
    client.send('late')
    client.send('garbage\r\n\r\n')
    const [good, bad, ...others] = await client.answers()
    expect(good).toMatchObject({ status: 200, body: Buffer.from('late') })
    expectProblem(bad, 400, 'WASM_SERVE_BAD_REQUEST')
    expect(others).toEqual([])
  })

  test('are answered before one whose body is malformed', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const [good, bad, ...others] = await exchange(port, `${post('a')}${CHUNKED}zz\r\n`)
    expect(String(good?.body)).toBe('a')
    expectProblem(bad, 400, 'WASM_SERVE_BAD_REQUEST')
    expect(others).toEqual([])
  })

  test('end with the answer to one that is refused without its malformed body', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const answers = await exchange(port, `${CHUNKED.replace('/', '/unknown')}zz\r\n`)
    expect(answers).toHaveLength(1)
    expectProblem(answers[0], 404, 'WASM_SERVE_ROUTE_NOT_FOUND')
  })
})

test.each([
  ['/%zz', 400, 'WASM_SERVE_BAD_REQUEST'],
  ['/%', 400, 'WASM_SERVE_BAD_REQUEST'],
  ['/..%2f', 404, 'WASM_SERVE_ROUTE_NOT_FOUND'],
  ['/p/..%2f', 404, 'WASM_SERVE_ROUTE_NOT_FOUND'],
  ['//p', 404, 'WASM_SERVE_ROUTE_NOT_FOUND'],
])('the path %s is answered with %i', async (url, status, code) => {
  const { port } = await listen({ plugin: guest('echo'), url: '/p' })
  const client = await open(port)
  client.send(post('abc', '', url))
  expectProblem(await client.answer(), status, code)
})

test.each([
  '',
  'Content-Type:\r\n',
  'Content-Type: ;;;\r\n',
  'Content-Type: nonsense\r\n',
  'Content-Type: a/b/c; d="\r\n',
  'Content-Type: application/json\r\n',
  'Content-Type: text/plain\r\nContent-Type: nonsense\r\n',
  'Content-Type: multipart/form-data\r\n',
  'Content-Type: application/x-www-form-urlencoded; charset=utf-16\r\n',
  'Content-Type: \xff\r\n',
  'Content-Encoding: gzip\r\n',
])('the guest gets the bytes as they came with %j', async (headers) => {
  const { port } = await listen({ plugin: guest('echo') })
  const bytes = gzipSync('{not json\0')
  const client = await open(port)
  client.send(Buffer.from(`${HEAD}${headers}Content-Length: ${bytes.length}\r\n\r\n`, 'latin1'))
  client.send(bytes)
  expect(await client.answer()).toMatchObject({ status: 200, body: bytes })
})

test('whatever bytes come, no answer is a 5xx and the next client is served', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const token = fc.constantFrom(
    HEAD,
    CHUNKED,
    post('abc'),
    'GET ',
    '/',
    ' HTTP/1.1',
    '\r\n',
    '\n',
    ':',
    '%',
    '3',
    'Host: a',
    'Content-Length: ',
  )
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    token.map((text) => Buffer.from(text)),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 12 }), fc.string(), async (parts, body) => {
      const hostile = await open(port)
      hostile.socket.end(Buffer.concat(parts))
      const answers = await hostile.answers()
      expect(answers.filter(({ status }) => status >= 500)).toEqual([])

      const [answer] = await exchange(port, post(body, 'Connection: close\r\n'))
      expect(answer).toMatchObject({ status: 200, body: Buffer.from(body) })
    }),
    { numRuns: runs(100), interruptAfterTimeLimit: 15_000 },
  )
})
