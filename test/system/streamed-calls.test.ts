import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type { CallLine } from '../../console/admin-api.ts'
import { listenAdmin } from '../support/admin.ts'
import { startWithAdmin, TOKEN, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli.ts'
import { file, guest } from '../support/guest.ts'
import { streamGuest } from '../support/stream-guest.ts'

const AUTHORIZED = { authorization: `Bearer ${TOKEN}` }

/** Calls a route by the admin API. `next` waits for the next line with news. */
async function call(adminUrl: string, request: object) {
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const answer = await fetch(`${adminUrl}/api/streams`, {
    method: 'POST',
    headers: { ...AUTHORIZED, 'content-type': 'application/json' },
    body: JSON.stringify(request),
    signal: ending.signal,
  })
  if (!answer.ok || !answer.body) return { status: answer.status, problem: await answer.json() }
  const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  const next = async (): Promise<CallLine> => {
    while (!rest.includes('\n')) rest += (await pieces.read()).value ?? '{"problem":"no line"}\n'
    const [line = '', ...more] = rest.split('\n')
    rest = more.join('\n')
    const { ms, uploaded, ...news }: CallLine = JSON.parse(line)
    return Object.keys(news).length === 0 ? next() : { ms, ...news }
  }
  return {
    status: answer.status,
    type: answer.headers.get('content-type'),
    next,
  }
}

const upload = (
  adminUrl: string,
  id: string | undefined,
  body: BodyInit,
  type = 'application/octet-stream',
) =>
  fetch(`${adminUrl}/api/streams/${id}`, {
    method: 'PUT',
    headers: { ...AUTHORIZED, 'content-type': type },
    body,
    duplex: 'half',
  } as RequestInit)

const text = ({ data = '' }: CallLine) => Buffer.from(data, 'base64').toString()

test('an operator gets each piece of an answer when it comes, while the body is still sent', async () => {
  const { adminUrl } = await startWithAdmin([guest('stream'), 'echo', '--workers', '1'])
  const { next, type } = await call(adminUrl, { url: '/', hasBody: true })
  expect(type).toBe('application/x-ndjson')
  const { call: id } = (await next?.()) ?? {}
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const sent = upload(adminUrl, id, readable)
  const writer = writable.getWriter()
  const send = (bytes: string) => void writer.write(Buffer.from(bytes))
  send('one')
  expect(await next?.()).toMatchObject({ status: 200, headers: { 'transfer-encoding': 'chunked' } })
  expect(text((await next?.()) ?? { ms: 0 })).toBe('one')
  send('two')
  expect(text((await next?.()) ?? { ms: 0 })).toBe('two')
  void writer.close()
  expect(await next?.()).toMatchObject({ trailers: {}, ms: expect.any(Number) })
  expect(await (await sent).json()).toEqual({ bytes: 6 })
})

test('trailers, broken answers and refusals of routes are lines too', async () => {
  const ending = [
    ['start', '{"trailers":["x-sum"]}'],
    ['write', 'a'],
    ['trailers', '{"x-sum":"1"}'],
  ] as const
  const breaking = [['start', '{"status":201}'], ['flush'], ['trap']] as const
  const { adminUrl } = await startWithAdmin([
    file('ending.wasm', streamGuest(...ending)),
    file('breaking.wasm', streamGuest(...breaking)),
  ])
  const linesOf = async (request: object) => {
    const { next } = await call(adminUrl, request)
    const lines: CallLine[] = []
    do lines.push((await next?.()) ?? { ms: 0, problem: 'none' })
    while (!lines.some(({ trailers, problem }) => trailers !== undefined || problem !== undefined))
    return lines.slice(1)
  }
  expect(await linesOf({ url: '/ending' })).toMatchObject([
    { status: 200 },
    { data: 'YQ==' },
    { trailers: { 'x-sum': '1' } },
  ])
  expect(await linesOf({ url: '/breaking', headers: { 'X-A': 'b' } })).toMatchObject([
    { status: 201 },
    { problem: expect.any(String) },
  ])
  expect((await linesOf({ url: '/nowhere' }))[0]).toMatchObject({ status: 404 })
})

test.each([
  ['TLS', () => ['--port', '0', '--tls-cert', pem('cert'), '--tls-key', pem('key')]],
  ['a Unix socket', () => ['--socket', join(temporaryFolder(), 'a.sock')]],
  ['all addresses', () => ['--port', '0', '--host', '0.0.0.0']],
])('calls reach a server with %s', async (_what, flags) => {
  const args = [guest('stream'), 'swallow', '--workers', '1', '--admin', '127.0.0.1:0', ...flags()]
  const server = start(args, { WASM_SERVE_ADMIN_TOKEN: TOKEN })
  await server.listening()
  const [, adminUrl = ''] = /admin listener is on (\S+)/.exec(server.stderr()) ?? []
  const { next } = await call(adminUrl, { url: '/', hasBody: true, headers: { 'Content-Length': '5' } })
  const { call: id } = (await next?.()) ?? {}
  expect((await upload(adminUrl, id, 'hello')).status).toBe(200)
  expect(await next?.()).toMatchObject({ status: 200, headers: { 'content-length': '1' } })
  expect(text((await next?.()) ?? { ms: 0 })).toBe('5')
})

const pem = (name: string) => fileURLToPath(new URL(`../support/tls/${name}.pem`, import.meta.url))

test('what cannot be sent is refused', async () => {
  const { adminUrl } = await startWithAdmin([guest('stream'), 'echo', '--workers', '1'])
  for (const request of [
    {},
    { url: 'x' },
    { url: '/', body: 'x' },
    { url: '/é\u0100' },
    { url: '/', headers: { 'a b': 'c' } },
  ])
    expect(await call(adminUrl, request)).toMatchObject({
      status: 400,
      problem: { code: 'WASM_SERVE_ADMIN_REQUEST_INVALID' },
    })
  expect((await upload(adminUrl, 'none', 'x')).status).toBe(404)
  const { next } = await call(adminUrl, { url: '/', hasBody: true })
  const { call: id } = (await next?.()) ?? {}
  expect((await upload(adminUrl, id, '{}', 'application/json')).status).toBe(400)
})

test('a server that does not listen, or that requires certificates, gets no calls', async () => {
  const silent = await listenAdmin({ server: { url: undefined, routes: [] } })
  const tls = { cert: 'cert.pem', key: 'key.pem', ca: 'ca.pem' }
  const strict = await listenAdmin({}, { tls })
  for (const { url } of [silent, strict]) {
    const answer = await fetch(`${url}/api/streams`, {
      method: 'POST',
      headers: { authorization: 'Bearer a-token-for-tests-0123456789', 'content-type': 'application/json' },
      body: '{"url":"/"}',
    })
    expect([answer.status, (await answer.json()).code]).toEqual([400, 'WASM_SERVE_ADMIN_REQUEST_INVALID'])
  }
})
