import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { openHttp } from '../../../src/contract/http.ts'
import { GUEST_LIMITS } from '../../../src/platform/guest-limits.ts'
import { answerOf, inputOf } from '../../support/contract.ts'
import { guest } from '../../support/guest.ts'
import { listen, serve } from '../../support/serve.ts'
import { exchange, open } from '../../support/socket.ts'

const http = openHttp({})

/** A request with these lines, as it is; what the guest gets of it. */
async function envelopeOf(lines: string, body: string | Uint8Array = '', url = '/*') {
  const { port } = await listen({ ...inputOf(http), method: '*', url })
  const head = Buffer.from(
    `${lines}Connection: close\r\n`.replaceAll('\n', '\r\n').replaceAll('\r\r', '\r'),
    'latin1',
  )
  const length = `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`
  const [answer] = await exchange(port, Buffer.concat([head, Buffer.from(length), Buffer.from(body)]))
  return JSON.parse(String(answer?.body))
}

describe('the guest gets', () => {
  test('all of a request', async () => {
    const envelope = await envelopeOf(
      'PUT /users/a%20b/x?tag=a&tag=b%26&n=1+2&__proto__=p HTTP/1.1\nHost: Example.com:80\nX-Request-Id: mine\nX-Odd: \xe9\n',
      'h\u00e9llo "\u{1f600}"',
      '/users/:id/*',
    )
    expect(envelope).toEqual({
      method: 'PUT',
      url: '/users/a%20b/x?tag=a&tag=b%26&n=1+2&__proto__=p',
      path: '/users/a%20b/x',
      params: { id: 'a b', '*': 'x' },
      query: JSON.parse('{"tag":["a","b&"],"n":"1 2","__proto__":"p"}'),
      headers: {
        host: 'Example.com:80',
        'x-request-id': 'mine',
        'x-odd': '\xe9',
        connection: 'close',
        'content-length': '13',
      },
      remoteAddress: '127.0.0.1',
      requestId: 'mine',
      body: 'h\u00e9llo "\u{1f600}"',
    })
  })

  test('each line of a header, in order, whatever its name', async () => {
    const { headers } = await envelopeOf(
      'GET / HTTP/1.1\nHost: a\nX-A: 1\nx-a: 2\nCookie: a=1\nCookie: b=2\nContent-Type: no type\nX-A: 3\n',
    )
    expect(headers).toMatchObject({
      'x-a': ['1', '2', '3'],
      cookie: ['a=1', 'b=2'],
      'content-type': 'no type',
    })
  })

  test('the path and the host of a URL that was sent in full', async () => {
    expect(await envelopeOf('GET http://b.example/b?c HTTP/1.1\nHost: a\n')).toMatchObject({
      url: '/b?c',
      path: '/b',
      query: { c: '' },
      headers: { host: 'b.example' },
    })
  })

  test('a body that is no UTF-8 in Base64', async () => {
    const bytes = Uint8Array.of(0xff, 0xd8, 0xff, 0xe0)
    const envelope = await envelopeOf('POST / HTTP/1.1\nHost: a\n', bytes)
    expect(envelope.bodyBase64).toBe('/9j/4A==')
    expect(envelope).not.toHaveProperty('body')
  })

  test('an empty text where there is no body', async () => {
    expect((await envelopeOf('GET / HTTP/1.1\nHost: a\n')).body).toBe('')
  })
})

const TEXT = 'text/plain; charset=utf-8'

describe('the guest answers', () => {
  test.each([
    ['nothing', {}, 200, undefined, ''],
    ['a status', { status: 418 }, 418, undefined, ''],
    ['an unknown status', { status: 599 }, 599, undefined, ''],
    ['text', { body: 'h\u00e9llo' }, 200, TEXT, 'h\u00e9llo'],
    ['an empty text', { body: '' }, 200, TEXT, ''],
    ['half a character', { body: '\ud83d' }, 200, TEXT, '\ufffd'],
    ['an object', { body: { a: [1] } }, 200, 'application/json', '{"a":[1]}'],
    ['null', { body: null }, 200, 'application/json', 'null'],
    ['false', { body: false }, 200, 'application/json', 'false'],
    ['bytes', { bodyBase64: 'aGk=' }, 200, 'application/octet-stream', 'hi'],
    ['no bytes', { bodyBase64: '' }, 200, 'application/octet-stream', ''],
    ['its own type', { body: '<p>', headers: { 'Content-Type': 'text/html' } }, 200, 'text/html', '<p>'],
    ['JSON of another type', { body: [1], headers: { 'content-type': 'text/x' } }, 200, 'text/x', '[1]'],
    ['a type and no body', { headers: { 'content-type': 'text/x' } }, 200, 'text/x', ''],
  ])('%s', async (_what, answer, status, type, body) => {
    const app = await serve(answerOf(http))
    const reply = await app.inject({ method: 'POST', url: '/', payload: JSON.stringify(answer) })
    expect([reply.statusCode, reply.headers['content-type'], reply.body]).toEqual([status, type, body])
    expect(reply.headers['content-length']).toBe(String(Buffer.byteLength(body)))
    expect(reply.headers).toMatchObject({ 'x-content-type-options': 'nosniff' })
  })

  test('numbers and spaces of JSON as it wrote them', async () => {
    const app = await serve(answerOf(http))
    const body = '{ "id": 12345678901234567890, "x": 1.10 }'
    const payload = ` { "status" : 201, "body": ${body} , "headers":{} }`
    expect((await app.inject({ method: 'POST', url: '/', payload })).body).toBe(body)
  })

  test('several cookies, and other headers as often as it likes', async () => {
    const { url } = await listen(answerOf(http))
    const headers = {
      'Set-Cookie': ['a=1; Path=/', 'b=2'],
      'set-cookie': 'c=3',
      vary: ['a', 'b'],
      'x-none': [],
    }
    const reply = await fetch(url, { method: 'POST', body: JSON.stringify({ headers }) })
    expect(reply.headers.getSetCookie()).toEqual(['a=1; Path=/', 'b=2', 'c=3'])
    expect(reply.headers.get('vary')).toBe('a, b')
    expect(reply.headers.has('x-none')).toBe(false)
  })

  test('bytes of a header, each as a character', async () => {
    const { port } = await listen(answerOf(http))
    const client = await open(port)
    const body = JSON.stringify({ headers: { 'x-odd': '\u00e9\t!' } })
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    expect((await client.answer())?.headers['x-odd']).toBe('\u00e9\t!')
  })

  test('with the type of the route, unless it says one', async () => {
    const app = await serve({
      plugin: guest('answer'),
      contract: 'http',
      contentType: 'text/markdown',
      config: { answer: '{"body":"# A"}' },
    })
    expect((await app.inject({ method: 'POST', url: '/' })).headers['content-type']).toBe('text/markdown')
  })

  test.each([
    204, 205, 304,
  ])('%i without the body that it gave, and the connection goes on', async (status) => {
    const { port } = await listen(answerOf(http))
    const client = await open(port)
    for (const _ of [1, 2]) {
      const body = JSON.stringify({ status, body: 'none' })
      client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      const answer = await client.answer()
      expect([answer?.status, String(answer?.body)]).toEqual([status, ''])
      expect(answer?.headers['content-length']).toBe(status === 205 ? '0' : undefined)
      expect(answer?.headers['transfer-encoding']).toBeUndefined()
    }
  })

  test('HEAD with the length of what is not sent', async () => {
    const { port } = await listen({
      plugin: guest('answer'),
      contract: 'http',
      method: 'GET',
      config: { answer: '{"status":404,"body":"12345"}' },
    })
    for (const [method, body] of [
      ['HEAD', ''],
      ['GET', '12345'],
    ]) {
      const outgoing = request({ host: '127.0.0.1', port, method, agent: false }).end()
      const answer = await new Promise<import('node:http').IncomingMessage>((resolve) =>
        outgoing.once('response', resolve),
      )
      expect([answer.statusCode, answer.headers['content-length'], await text(answer)]).toEqual([
        404,
        '5',
        body,
      ])
    }
  })
})

describe('a guest that breaks the contract is answered with 502 and told why, in no word of its own, for', () => {
  test.each([
    ['nothing', '', 'the output is not JSON'],
    ['text', 'secret', 'the output is not JSON'],
    ['a list', '["secret"]', 'the output is not a JSON object'],
    ['null', 'null', 'the output is not a JSON object'],
    ['half a character', Buffer.from([0x22, 0xff, 0x22]), 'the output is not UTF-8'],
    ['an unknown field', '{"secret":1}', 'the output has a field other than'],
    ['a prototype', '{"__proto__":{"status":204}}', 'the output has a field other than'],
    ['a status of text', '{"status":"200"}', 'status must'],
    ['a status of nothing', '{"status":null}', 'status must'],
    ['a fraction of a status', '{"status":200.5}', 'status must'],
    ['an interim status', '{"status":100}', 'status must'],
    ['an upgrade', '{"status":101}', 'status must'],
    ['a status beyond', '{"status":600}', 'status must'],
    ['headers in a list', '{"headers":["secret"]}', 'headers must be an object'],
    ['headers of nothing', '{"headers":null}', 'headers must be an object'],
    ['a header that is a number', '{"headers":{"secret":1}}', 'headers must be strings'],
    ['a header that holds a number', '{"headers":{"secret":["a",1]}}', 'headers must be strings'],
    ['a line break', '{"headers":{"a":"secret\\r\\nx: y"}}', 'headers: one has characters'],
    ['a zero', '{"headers":{"a":"\\u0000"}}', 'headers: one has characters'],
    ['what is no byte', '{"headers":{"a":"\\u20ac"}}', 'headers: one has characters'],
    ['a name with a space', '{"headers":{"secret secret":"b"}}', 'headers: one has characters'],
    ['no name', '{"headers":{"":"b"}}', 'headers: one has characters'],
    ['a name that is a prototype', '{"headers":{"__proto__":"b"}}', 'headers: one has characters'],
    ['no media type', '{"headers":{"Content-Type":"secret"}}', 'headers: content-type must be a media type'],
    ['a type without a subtype', '{"headers":{"content-type":"secret/"}}', 'headers: content-type must be'],
    ['two types at once', '{"headers":{"content-type":"secret/a, a/b"}}', 'headers: content-type must be'],
    ['an empty type', '{"headers":{"content-type":""}}', 'headers: content-type must be a media type'],
    ['a length', '{"headers":{"Content-Length":"1"}}', 'headers: content-length is set by the server'],
    ['a framing', '{"headers":{"transfer-encoding":"chunked"}}', 'headers: transfer-encoding is set'],
    ['a connection', '{"headers":{"connection":["close"]}}', 'headers: connection is set'],
    ['a keep-alive', '{"headers":{"keep-alive":"a"}}', 'headers: keep-alive is set'],
    ['a protocol', '{"headers":{"upgrade":"h2c"}}', 'headers: upgrade is set'],
    [
      'two types',
      '{"headers":{"content-type":["a/b","c/d"]}}',
      'headers: content-type must have a single value',
    ],
    [
      'two types of two cases',
      '{"headers":{"Etag":"a","etag":"b"}}',
      'headers: etag must have a single value',
    ],
    [
      'too many headers',
      JSON.stringify({ headers: { a: Array(9).fill('b'.repeat(2_000)) } }),
      'headers are larger',
    ],
    ['two bodies', '{"body":"a","bodyBase64":"YQ=="}', 'body and bodyBase64'],
    ['no Base64', '{"bodyBase64":"secret!"}', 'bodyBase64 must'],
    ['Base64 without padding', '{"bodyBase64":"YQ"}', 'bodyBase64 must'],
    ['bytes that are no text', '{"bodyBase64":["secret"]}', 'bodyBase64 must'],
  ])('%s', async (_what, output, problem) => {
    const app = await serve(answerOf(http))
    const reply = await app.inject({ method: 'POST', url: '/', payload: output })
    expect(reply.statusCode).toBe(502)
    const { code, detail } = reply.json()
    expect(code).toBe('WASM_SERVE_CONTRACT_BROKEN')
    expect(detail).toContain(`The guest violated the http contract: ${problem}`)
    expect(reply.body).not.toContain('secret')
    expect(reply.headers['set-cookie']).toBeUndefined()
  })
})

test('a body may be nested up to the limit, and its size is no matter', async () => {
  const app = await serve(answerOf(http))
  const answer = (depth: number) => {
    const body = `${'['.repeat(depth)}0${']'.repeat(depth)}`
    return app.inject({ method: 'POST', url: '/', payload: `{"body":${body}}` })
  }
  const { jsonDepth } = GUEST_LIMITS
  expect((await answer(jsonDepth - 1)).body.length).toBe(2 * (jsonDepth - 1) + 1)
  expect((await answer(jsonDepth)).json()).toMatchObject({ code: 'WASM_SERVE_CONTRACT_BROKEN' })
})

test('a guest that says no is answered as on any route', async () => {
  const app = await serve({ plugin: guest('refuse'), contract: 'http' })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'x' })
  expect(reply.statusCode).toBe(409)
  expect(JSON.parse(reply.body)).toMatchObject({ method: 'POST', body: 'x' })
})
