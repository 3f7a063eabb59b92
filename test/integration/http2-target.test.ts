import { sensitiveHeaders } from 'node:http2'
import { expect, onTestFinished, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { guest } from '../support/guest.ts'
import { ask, openHttp2 } from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'

const { ca, tls } = localhostTls()

async function openSession(route: Partial<RouteOptions> = {}) {
  const running = await listenAll([{ plugin: guest('echo'), ...route }], { tls, http2: true })
  onTestFinished(() => running.drain())
  return openHttp2(running.port, ca)
}

/** @returns a function that asks a route over HTTP/2. */
async function open(route: Partial<RouteOptions> = {}) {
  const session = await openSession(route)
  return async (headers: Record<string, string>) => {
    const { status, body, headers: answered } = await ask(session, '', headers)
    return { status, code: /"code":"(\w+)"/.exec(body)?.[1], allow: answered.allow }
  }
}

test('the authority of HTTP/2 is checked as the Host header is', async () => {
  const askFor = await open()
  // Newer versions of Node.js reset the stream of some.
  const refusal = (headers: Record<string, string>) =>
    askFor(headers).then(
      ({ status, code }) => `${status} ${code}`,
      ({ message }: Error) => message,
    )
  const refused = /^400 WASM_SERVE_BAD_REQUEST$|NGHTTP2_PROTOCOL_ERROR$/
  for (const authority of ['u@h', 'h:x', 'h:99999', '[::g]', '%zz', ':80'])
    expect([authority, await refusal({ ':authority': authority })]).toEqual([
      authority,
      expect.stringMatching(refused),
    ])
  expect(await refusal({ ':authority': 'a', host: 'b' })).toMatch(refused)
  for (const authority of ['a', 'A_b.example.', '[::1]:443', 'h:65535'])
    expect([authority, (await askFor({ ':authority': authority })).status]).toEqual([authority, 200])
  expect(await askFor({ ':authority': 'a.example', host: 'A.Example' })).toMatchObject({ status: 200 })
})

test('methods that Node.js does not know are refused over HTTP/2, as over HTTP/1.1', async () => {
  const askFor = await open({ method: '*' })
  for (const method of ['FOO', 'get', 'BREW'])
    expect(await askFor({ ':method': method })).toMatchObject({ status: 400, code: 'WASM_SERVE_BAD_REQUEST' })
  expect((await askFor({ ':method': 'PROPFIND' })).status).toBe(200)
})

test('the authority of HTTP/2 chooses the route', async () => {
  const askFor = await open({ host: 'b.example' })
  for (const authority of ['b.example', 'B.Example:443', 'b.example.'])
    expect([authority, (await askFor({ ':authority': authority })).status]).toEqual([authority, 200])
  expect((await askFor({ ':authority': 'a.example' })).status).toBe(404)
})

test('over HTTP/2, too, only 100-continue can be expected, and OPTIONS * is answered', async () => {
  const askFor = await open()
  expect((await askFor({ expect: '100-continue' })).status).toBe(200)
  expect((await askFor({ expect: '100-Continue' })).status).toBe(200)
  expect(await askFor({ expect: 'tea' })).toMatchObject({
    status: 417,
    code: 'WASM_SERVE_EXPECTATION_FAILED',
  })
  expect(await askFor({ ':method': 'OPTIONS', ':path': '*' })).toEqual({
    status: 204,
    allow: 'OPTIONS, POST',
  })
})

test('over HTTP/2, too, a parameter of a URL is as long as the head may be', async () => {
  const askFor = await open({ url: '/users/:id' })
  expect((await askFor({ ':path': `/users/${'x'.repeat(15_000)}` })).status).toBe(200)
  expect(await askFor({ ':path': `/users/${'x'.repeat(16_400)}` })).toMatchObject({
    status: 431,
    code: 'WASM_SERVE_HEADERS_TOO_LARGE',
  })
})

test('the id of a request is indexed neither by the server nor by what is between, as it is another in each answer', async () => {
  const session = await openSession()
  const { headers } = await ask(session, 'hi')
  expect(headers['x-request-id']).toBeTypeOf('string')
  expect(Object.getOwnPropertyDescriptor(headers, sensitiveHeaders)?.value).toEqual(['x-request-id'])
})
