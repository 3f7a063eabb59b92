import { describe, expect, test } from 'vitest'
import { openSimplism } from '../../../src/contract/simplism.ts'
import { answerOf, inputOf } from '../../support/contract.ts'
import { guest } from '../../support/guest.ts'
import { listen, serve } from '../../support/serve.ts'
import { exchange } from '../../support/socket.ts'

const simplism = openSimplism({})
const TEXT = 'text/plain; charset=utf-8'

/** What the guest gets of these bytes. */
async function inputFor(request: string | Uint8Array): Promise<string> {
  const { port } = await listen({ ...inputOf(simplism), method: '*', url: '/*' })
  const [answer] = await exchange(port, request)
  return String(answer?.body)
}

describe('a Simplism plug-in gets', () => {
  test('all four fields in their order, and names of headers as Go writes them', async () => {
    const lines = [
      'POST /?name=Bob%20M HTTP/1.1',
      'Host: localhost:8080',
      'content-type: text/plain; charset=utf-8',
      'X-REQUEST-ID: mine',
      'x_odd-nAME: 1',
      'Accept: a',
      'accept: b',
      'connection: close',
      'content-length: 3',
    ]
    expect(await inputFor(`${lines.join('\r\n')}\r\n\r\n<a>`)).toBe(
      JSON.stringify({
        body: '<a>',
        header: {
          'Content-Type': ['text/plain; charset=utf-8'],
          'X-Request-Id': ['mine'],
          'X_odd-Name': ['1'],
          Accept: ['a', 'b'],
          Connection: ['close'],
          'Content-Length': ['3'],
        },
        method: 'POST',
        uri: '/?name=Bob%20M',
      }),
    )
  })

  test('an empty body where there is none, and no header that frames it', async () => {
    const request =
      'DELETE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
    expect(JSON.parse(await inputFor(request))).toEqual({
      body: '',
      header: { Connection: ['close'] },
      method: 'DELETE',
      uri: '/a',
    })
  })

  test('what is no UTF-8 replaced, in the body and in headers, and what is as text', async () => {
    const odd = Buffer.concat([
      Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: h\u00e9 '),
      Buffer.of(0xff),
      Buffer.from('\r\nContent-Length: 6\r\n\r\n\ufeffa'),
      Buffer.of(0xff, 0x62),
    ])
    const input = JSON.parse(await inputFor(odd))
    expect(input.header['X-A']).toEqual(['h\u00e9 \ufffd'])
    expect(input.body).toBe('\ufeffa\ufffdb')
  })
})

describe('a Simplism plug-in answers', () => {
  test.each([
    ['all fields', { body: 'a', header: { 'X-A': ['1'] }, code: 201 }, 201, 'a'],
    ['no code', { body: 'a' }, 200, 'a'],
    ['names in another case, and others', { Body: 'a', CODE: 202, Header: {}, other: 1 }, 202, 'a'],
    ['no header at all, as Go writes it', { body: 'a', header: null, code: 200 }, 200, 'a'],
    ['no body', { code: 404 }, 404, ''],
  ])('%s', async (_what, answer, status, body) => {
    const app = await serve(answerOf(simplism))
    const reply = await app.inject({ method: 'POST', url: '/', payload: JSON.stringify(answer) })
    expect([reply.statusCode, reply.body, reply.headers['content-type']]).toEqual([status, body, TEXT])
  })

  test('headers in arrays or strings, all of them', async () => {
    const { url } = await listen(answerOf(simplism))
    const header = {
      'Set-Cookie': ['a=1', 'b=2'],
      'Content-Type': 'text/html',
      'X-None': null,
      'X-Odd': ['\u00e9'],
    }
    const reply = await fetch(url, { method: 'POST', body: JSON.stringify({ body: 'x', header }) })
    expect(reply.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(reply.headers.get('content-type')).toBe('text/html')
    expect(reply.headers.get('x-odd')).toBe(Buffer.from('\u00e9').toString('latin1'))
    expect(reply.headers.has('x-none')).toBe(false)
  })

  test("headers that an answer cannot have, which are left out or mended as Go's would be", async () => {
    const app = await serve(answerOf(simplism))
    const header = {
      Connection: ['close'],
      'Content-Length': ['99'],
      'bad name': ['1'],
      'X-Split': ['a\r\nX-New: b'],
      'Content-Type': ['text/a', 'text/b'],
    }
    const reply = await app.inject({
      method: 'POST',
      url: '/',
      payload: JSON.stringify({ body: 'x', header }),
    })
    expect(reply.statusCode).toBe(200)
    expect(reply.headers).toMatchObject({
      'content-length': '1',
      'content-type': 'text/a',
      'x-split': 'a  X-New: b',
    })
    expect(reply.headers).not.toHaveProperty('bad name')
    expect(reply.headers).not.toHaveProperty('x-new')
  })

  test.each([
    ['text', 'hello', TEXT],
    ['JSON', '{"a":1}', TEXT],
    ['a page', '\n <!doctype html>', 'text/html; charset=utf-8'],
    ['a heading', '<h1>a</h1>', 'text/html; charset=utf-8'],
    ['what only begins like a tag', '<h1x', TEXT],
    ['XML', ' <?xml version="1.0"?>', 'text/xml; charset=utf-8'],
    ['control characters', 'a\u0001', 'application/octet-stream'],
  ])('%s without a type, which is guessed as Go does', async (_what, body, type) => {
    const app = await serve(answerOf(simplism))
    const reply = await app.inject({ method: 'POST', url: '/', payload: JSON.stringify({ body }) })
    expect(reply.headers['content-type']).toBe(type)
  })
})

describe('a failure is 500 and text: ', () => {
  test.each([
    ['nothing', ''],
    ['text', 'secret'],
    ['a list', '["secret"]'],
    ['null', 'null'],
    ['a body that is no text', '{"body":{"secret":1}}'],
    ['a code of zero', '{"code":0}'],
    ['an interim code', '{"code":100}'],
    ['a code of text', '{"code":"200"}'],
    ['a header that is a list', '{"header":["secret"]}'],
    ['a header that is a number', '{"header":{"a":1}}'],
  ])('%s', async (_what, output) => {
    const app = await serve(answerOf(simplism))
    const reply = await app.inject({ method: 'POST', url: '/', payload: output })
    expect([reply.statusCode, reply.headers['content-type']]).toEqual([500, TEXT])
    expect(reply.body).toMatch(/^The guest violated the simplism contract: /)
    expect(reply.body).not.toContain('secret')
  })

  test('a guest that says no', async () => {
    const app = await serve({ plugin: guest('answer'), contract: 'simplism' })
    const reply = await app.inject({ url: '/' })
    expect([reply.statusCode, reply.headers['content-type']]).toEqual([500, TEXT])
    expect(JSON.parse(reply.body)).toMatchObject({ method: 'GET', uri: '/' })
  })
})

test.each([
  'GET',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'HEAD',
] as const)('a Simplism plug-in answers %s at its URL without being told to', async (method) => {
  const config = { answer: '{"body":"hi","code":203}' }
  const app = await serve({ plugin: guest('answer'), contract: 'simplism', config })
  const reply = await app.inject({ method, url: '/?a=b' })
  expect([reply.statusCode, reply.headers['content-length']]).toEqual([203, '2'])
  expect((await app.inject({ method, url: '/below' })).statusCode).toBe(404)
})
