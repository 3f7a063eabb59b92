import { EventEmitter, once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { redirectedRequest } from '../../src/guest/outbound/redirect.ts'
import { ownAddresses, type Resolve } from '../../src/guest/outbound/target.ts'
import { selfSigned } from '../support/certificate.ts'
import {
  ask,
  failureOf,
  type Origin,
  open,
  sendInterim,
  serveHttp,
  serveHttps,
  serveRaw,
  textOf,
} from '../support/outbound.ts'

/** Answers with what came: method, URL, headers, body. */
async function serveEcho(): Promise<Origin> {
  return serveHttp(async (request, response) => {
    const body = await readAll(request)
    const { method, url, rawHeaders } = request
    response.end(JSON.stringify({ method, url, headers: request.headers, rawHeaders, body }))
  })
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

const json = (response: Parameters<typeof textOf>[0]) => JSON.parse(textOf(response))

// What is sent and what comes back.

test('method, path, query, headers and body arrive as the guest gave them', async () => {
  const { url } = await serveEcho()
  const headers = { 'X-Key': 'secret', 'content-type': 'text/x', __proto__: 'a' }
  const response = await ask(open(), `${url}/a%20b?c=d#e`, { method: 'post', headers, body: '😄' })
  expect(response.status).toBe(200)
  expect(json(response)).toMatchObject({
    method: 'POST',
    url: '/a%20b?c=d',
    headers: { 'x-key': 'secret', 'content-type': 'text/x', 'content-length': '4', host: new URL(url).host },
    body: '😄',
  })
})

test.each([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'PATCH',
  'OPTIONS',
])('%s without a body', async (method) => {
  const { url } = await serveHttp((request, response) => {
    response.setHeader('x-method', String(request.method))
    response.setHeader('x-framing', `${request.headers['transfer-encoding']}`).end()
  })
  const { headers } = await ask(open(), url, { method })
  expect(headers).toMatchObject({ 'x-method': method, 'x-framing': 'undefined' })
})

test('a status of 4xx or 5xx is an answer, with its headers and body', async () => {
  const { url } = await serveHttp((_, response) => {
    response.setHeader('X-Twice', ['a', 'b'])
    response.setHeader('Set-Cookie', ['a=1', 'b=2'])
    response.writeHead(503).end('sorry')
  })
  const response = await ask(open(), url)
  expect(response).toMatchObject({ status: 503, headers: { 'x-twice': 'a, b', 'set-cookie': 'a=1, b=2' } })
  expect(textOf(response)).toBe('sorry')
})

test('what describes the connection is not the guest’s to say', async () => {
  const { url } = await serveEcho()
  const headers = {
    Host: 'evil.test',
    Connection: 'close, X-Named',
    'X-Named': '1',
    'Content-Length': '1',
    'Transfer-Encoding': 'chunked',
    Expect: '100-continue',
    Upgrade: 'websocket',
    TE: 'trailers',
    Trailer: 'x',
    'Keep-Alive': 'timeout=1',
    'Proxy-Authorization': 'a',
    'proxy-connection': 'a',
    'x-kept': 'yes',
  }
  const seen = json(await ask(open(), url, { method: 'POST', headers, body: 'abc' }))
  expect(seen.headers).toEqual({
    accept: '*/*',
    'accept-encoding': 'identity',
    'user-agent': 'wasm-serve',
    'x-kept': 'yes',
    connection: 'keep-alive',
    'content-length': '3',
    host: new URL(url).host,
  })
  expect(seen.body).toBe('abc')
})

test('no cookie is kept', async () => {
  const { url } = await serveHttp((request, response) => {
    response.setHeader('set-cookie', 'a=1').end(String(request.headers.cookie))
  })
  const outbound = open()
  await ask(outbound, url)
  expect(textOf(await ask(outbound, url))).toBe('undefined')
})

test('compressed bytes come as they are, for a guest that asked for them', async () => {
  const { url } = await serveHttp((request, response) => {
    response.setHeader('content-encoding', 'gzip')
    response.end(gzipSync(String(request.headers['accept-encoding'])))
  })
  const response = await ask(open(), url, { headers: { 'Accept-Encoding': 'gzip' } })
  expect(response.headers['content-encoding']).toBe('gzip')
  expect(Buffer.from(response.body)).toEqual(gzipSync('gzip'))
})

test('the body of a response has memory of its own', async () => {
  const { url } = await serveHttp((_, response) => void response.end('small'))
  const { body } = await ask(open(), url)
  expect(body.buffer.byteLength).toBe(5)
})

test('a proxy of the environment is not used', async () => {
  const proxy = await serveRaw((socket) => socket.destroy())
  const { url } = await serveEcho()
  for (const name of ['http_proxy', 'HTTP_PROXY', 'NODE_USE_ENV_PROXY']) {
    process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : `http://127.0.0.1:${proxy.port}`
    onTestFinished(() => {
      delete process.env[name]
    })
  }
  expect((await ask(open(), url)).status).toBe(200)
  expect(proxy.accepted).toBe(0)
})

// Connections.

test('a connection is used again, and closed with the route', async () => {
  const origin = await serveEcho()
  const outbound = open()
  for (let call = 0; call < 5; call++) await ask(outbound, origin.url)
  expect(origin.accepted).toBe(1)
  const closing = performance.now()
  await outbound.close()
  await origin.allClosed()
  expect(performance.now() - closing).toBeLessThan(3_000) // an idle one is closed after 4 s in any case
})

test('closing ends what is in flight, and nothing is sent any more', async () => {
  const news = new EventEmitter()
  const origin = await serveHttp(() => void news.emit('request'))
  const outbound = open()
  const arrived = once(news, 'request')
  const failure = failureOf(ask(outbound, origin.url))
  await arrived
  await outbound.close()
  expect((await failure).code).toBe('WASM_SERVE_ENGINE_CLOSED')
  await origin.allClosed()
  expect((await failureOf(ask(outbound, origin.url))).code).toBe('WASM_SERVE_ENGINE_CLOSED')
  expect(origin.accepted).toBe(1)
})

test('64 connections lead to one server; who waits for one keeps the time limit', async () => {
  const news = new EventEmitter()
  let requests = 0
  const origin = await serveHttp(() => void (++requests === 64 && news.emit('all')))
  const outbound = open()
  const arrived = once(news, 'all')
  const failures = Array.from({ length: 64 }, () => failureOf(ask(outbound, origin.url)))
  await arrived
  const late = await failureOf(ask(outbound, origin.url, { timeoutMs: 50 }))
  expect(late.code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
  expect(origin.accepted).toBe(64)
  await outbound.close()
  expect(new Set((await Promise.all(failures)).map(({ code }) => code))).toEqual(
    new Set(['WASM_SERVE_ENGINE_CLOSED']),
  )
  await origin.allClosed()
})

/** Answers the first request of a connection, and closes it when the second comes. */
const answerOnce = (socket: Socket) => {
  socket.once('data', () => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    socket.once('data', () => socket.resetAndDestroy())
  })
}

test('a request that meets a connection which is being closed is sent again, if it may be', async () => {
  const origin = await serveRaw(answerOnce)
  const outbound = open()
  expect(textOf(await ask(outbound, origin.url))).toBe('ok')
  expect(textOf(await ask(outbound, origin.url))).toBe('ok')
  expect(origin.accepted).toBe(2)
  const failure = await failureOf(ask(outbound, origin.url, { method: 'POST', body: 'pay' }))
  expect(failure.code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(origin.accepted).toBe(2)
})

// Redirects.

/** Redirects each path to where it says: `/302/http://...`. */
async function serveRedirects(): Promise<Origin> {
  return serveHttp(async (request, response) => {
    const body = await readAll(request)
    const [, status, location] = /^\/(\d+)\/(.*)$/.exec(request.url ?? '') ?? []
    if (status) response.writeHead(Number(status), { location }).end('moved')
    else response.end(JSON.stringify({ method: request.method, headers: request.headers, body }))
  })
}

test.each([
  [301, 'POST', 'GET'],
  [302, 'POST', 'GET'],
  [303, 'POST', 'GET'],
  [303, 'PUT', 'GET'],
  [301, 'PUT', 'PUT'],
  [302, 'DELETE', 'DELETE'],
  [307, 'POST', 'POST'],
  [308, 'PUT', 'PUT'],
])('a redirect of %i makes of %s a %s', async (status, method, expected) => {
  const { url } = await serveRedirects()
  const headers = { 'content-type': 'text/x', authorization: 'a', cookie: 'b', 'x-own': 'c' }
  const seen = json(await ask(open(), `${url}/${status}//end`, { method, headers, body: 'abc' }))
  expect(seen.method).toBe(expected)
  expect(seen.body).toBe(expected === 'GET' ? '' : 'abc')
  expect(seen.headers['content-type']).toBe(expected === 'GET' ? undefined : 'text/x')
  expect(seen.headers).toMatchObject({ authorization: 'a', cookie: 'b', 'x-own': 'c' })
})

const SECRETS = {
  authorization: 'a',
  Cookie: 'b',
  'X-API-Key': 'c',
  'x-own': 'd',
  'x-amz-security-token': 'e',
  'private-token': 'f',
  'Proxy-Authorization': 'g',
  referer: 'http://origin.test/?key=h',
  origin: 'http://origin.test',
  'if-none-match': '"i"',
  forwarded: 'for=j',
}
const HARMLESS = { accept: 'text/x', 'accept-language': 'de', 'user-agent': 'guest', range: 'bytes=0-1' }

test.each([
  ['another host', 'http://other.test:PORT/end'],
  ['a subdomain', 'http://sub.origin.test:PORT/end'],
  ['its parent domain', 'http://test:PORT/end'],
  ['another port', 'http://origin.test:OTHER/end'],
  ['another host, without a scheme', '//other.test:PORT/end'],
  ['the address of the host', 'http://127.0.0.1:PORT/end'],
])('credentials do not follow to another origin: %s', async (_, location) => {
  const { url, port } = await serveRedirects()
  const other = await serveRedirects()
  const to = location.replace('PORT', String(port)).replace('OTHER', String(other.port))
  const outbound = open({
    allowedHosts: ['origin.test', 'other.test', 'sub.origin.test', 'test', '127.0.0.1'],
  })
  const headers = { ...SECRETS, ...HARMLESS }
  const seen = json(await ask(outbound, `${url}/307/${to}`, { headers }))
  expect(seen.headers).toMatchObject(HARMLESS)
  const own = ['accept-encoding', 'connection', 'host', ...Object.keys(HARMLESS)]
  expect(Object.keys(seen.headers).sort()).toEqual(own.sort())
})

test('what was dropped on the way does not come back with a redirect to the first origin', async () => {
  const { url, port } = await serveRedirects()
  const back = `http://other.test:${port}/302/${url}/end`
  const seen = json(await ask(open(), `${url}/302/${back}`, { headers: SECRETS }))
  expect(seen.headers.host).toBe(`origin.test:${port}`)
  for (const name of Object.keys(SECRETS)) expect(seen.headers).not.toHaveProperty(name.toLowerCase())
})

test('a redirect from https to http is one to another origin', () => {
  const request = {
    url: new URL('https://origin.test/'),
    method: 'GET',
    headers: new Map([
      ['x-api-key', 'a'],
      ['accept', 'b'],
    ]),
    body: undefined,
  }
  const to = (location: string) => redirectedRequest(request, { status: 302, headers: { location } })
  expect([...(to('http://origin.test/')?.headers ?? [])]).toEqual([['accept', 'b']])
  expect([...(to('https://origin.test:443/')?.headers ?? [])]).toHaveLength(2)
  expect([...(to('https://origin.test:80/')?.headers ?? [])]).toHaveLength(1)
})

test('with 307 and 308 a body goes to another origin, as with fetch and curl, and what describes it', async () => {
  const { url, port } = await serveRedirects()
  const headers = { 'content-type': 'text/x', 'content-encoding': 'identity', 'x-signature': 'a' }
  const asked = { method: 'POST', headers, body: 'abc' }
  const seen = json(await ask(open(), `${url}/308/http://other.test:${port}/end`, asked))
  expect(seen).toMatchObject({ method: 'POST', body: 'abc' })
  expect(seen.headers).toMatchObject({ 'content-type': 'text/x', 'content-encoding': 'identity' })
  expect(seen.headers).not.toHaveProperty('x-signature')
})

test('five redirects are followed, a sixth is not', async () => {
  const { url } = await serveHttp((request, response) => {
    const left = Number(request.url?.slice(1))
    if (left > 0) response.writeHead(302, { location: `/${left - 1}` })
    response.end()
  })
  expect((await ask(open(), `${url}/5`)).status).toBe(200)
  expect((await failureOf(ask(open(), `${url}/6`))).code).toBe('WASM_SERVE_OUTBOUND_FAILED')
})

test('a redirect without a place to go is an answer', async () => {
  const { url } = await serveHttp((_, response) => void response.writeHead(302).end('where?'))
  expect((await ask(open(), url)).status).toBe(302)
})

test.each([
  ['another host', 'http://forbidden.test/', 'REFUSED'],
  ['this machine', 'http://127.0.0.1/', 'REFUSED'],
  ['this machine, in decimal', 'http://2130706433/', 'REFUSED'],
  ['metadata', 'http://169.254.169.254/latest/', 'REFUSED'],
  ['a file', 'file:///etc/passwd', 'REFUSED'],
  ['data', 'data:text/plain,a', 'REFUSED'],
  ['credentials', 'http://a:b@origin.test/', 'REFUSED'],
  ['no URL', 'http://', 'FAILED'],
])('a redirect to %s ends the request', async (_, location, problem) => {
  const { url } = await serveRedirects()
  const { code, message } = await failureOf(ask(open(), `${url}/302/${location}`))
  expect(code).toBe(`WASM_SERVE_OUTBOUND_${problem}`)
  expect(message).toContain('redirected')
})

test('a redirect to a name of a private address is refused where a pattern allowed it', async () => {
  const inner = await serveEcho()
  const { url } = await serveRedirects()
  const outbound = open({ allowedHosts: ['origin.test', '*.test'] })
  const { code, message } = await failureOf(ask(outbound, `${url}/302/http://inner.test:${inner.port}/`))
  expect(code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  expect(message).toContain('inner.test resolves to 127.0.0.1, a loopback address')
  expect(inner.accepted).toBe(0)
})

// This machine by its own public address.

const OWN = ['198.51.99.7', '2606:4700::7']
const asThisMachine = (allowedHosts: readonly string[], resolve: Resolve = async () => ['127.0.0.1']) =>
  open({ allowedHosts, network: { resolve, addresses: () => OWN } })

test.each([
  'http://198.51.99.7/',
  'http://3325256455/',
  'http://0xc6.063.25351/',
  'http://198.51.99.7./',
  'http://[2606:4700::7]/',
  'http://[2606:4700:0:0::0:7]/',
  'http://[::ffff:198.51.99.7]/',
  'http://[64:ff9b::c633:6307]/',
  'http://168.63.129.16/machine?comp=goalstate',
  'http://0xa83f8110/',
  'http://[::ffff:a83f:8110]/',
])('under a pattern this machine is not reached as %s, nor by a name or a redirect', async (url) => {
  const outbound = asThisMachine(['*', 'origin.test'])
  expect((await failureOf(ask(outbound, url))).code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  const redirects = await serveRedirects()
  const redirect = await failureOf(ask(outbound, `${redirects.url}/302/${url}`))
  expect(redirect.code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  const address = new URL(url).hostname.replace(/[[\]]|\.$/g, '')
  const named = asThisMachine(['*'], async () => ['93.184.216.34', address])
  expect((await failureOf(ask(named, 'http://name.test/'))).code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
})

test('a host that is named in full is reached by a public address of this machine too', async () => {
  const { url } = await serveEcho()
  const network = { resolve: async () => ['127.0.0.1'], addresses: () => ['127.0.0.1', ...OWN] }
  expect((await ask(open({ network }), url)).status).toBe(200)
})

// What goes wrong: a named error, and no connection is left.

const OK = 'HTTP/1.1 200 OK\r\n'

test.each<[string, (socket: Socket) => void, string]>([
  ['nothing', () => undefined, 'TIMEOUT'],
  ['half of its headers', (socket) => socket.write(`${OK}A: b\r\n`), 'TIMEOUT'],
  ['half of its body', (socket) => socket.write(`${OK}Content-Length: 9\r\n\r\nabc`), 'TIMEOUT'],
  ['interim answers only', (socket) => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 'TIMEOUT'],
  ['interim answers without end', sendInterim, 'FAILED'],
  ['a reset', (socket) => socket.resetAndDestroy(), 'FAILED'],
  ['an end', (socket) => socket.end(), 'FAILED'],
  ['an end within the headers', (socket) => socket.end(`${OK}A: b`), 'FAILED'],
  ['an end within the body', (socket) => socket.end(`${OK}Content-Length: 9\r\n\r\nabc`), 'FAILED'],
  [
    'an end within a chunk',
    (socket) => socket.end(`${OK}Transfer-Encoding: chunked\r\n\r\n9\r\na`),
    'FAILED',
  ],
  ['no HTTP', (socket) => socket.end('220 mail.test ESMTP\r\n'), 'FAILED'],
  ['two lengths', (socket) => socket.end(`${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`), 'FAILED'],
  ['endless headers', (socket) => socket.write(`${OK}${`A: ${'b'.repeat(99)}\r\n`.repeat(200)}`), 'FAILED'],
  [
    'another protocol',
    (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
    'FAILED',
  ],
  ['a length too large', (socket) => socket.write(`${OK}Content-Length: 1048577\r\n\r\n`), 'TOO_LARGE'],
])('a server that answers with %s', async (_, answer, problem) => {
  const origin = await serveRaw((socket) => socket.once('data', () => answer(socket)))
  const timeoutMs = problem === 'TIMEOUT' ? 200 : 10_000
  const failure = await failureOf(ask(open(), origin.url, { timeoutMs }))
  expect(failure).toMatchObject({ code: `WASM_SERVE_OUTBOUND_${problem}` })
  await origin.allClosed()
})

test('an endless body is cut off at the limit', async () => {
  const origin = await serveHttp((_, response) => {
    const more = () => {
      while (!response.destroyed && response.write('a'.repeat(16_384)));
    }
    response.on('drain', more)
    more()
  })
  const { code, message } = await failureOf(ask(open({ responseMax: 100_000 }), origin.url))
  expect(code).toBe('WASM_SERVE_OUTBOUND_TOO_LARGE')
  expect(message).toContain('100000')
  await origin.allClosed()
})

test('a body that fills the limit is complete', async () => {
  const { url } = await serveHttp((_, response) => void response.end('a'.repeat(1_000)))
  expect((await ask(open({ responseMax: 1_000 }), url)).body).toHaveLength(1_000)
  expect((await failureOf(ask(open({ responseMax: 999 }), url))).code).toBe('WASM_SERVE_OUTBOUND_TOO_LARGE')
  const { url: empty } = await serveHttp((_, response) => void response.end())
  expect((await ask(open({ responseMax: 0 }), empty)).body).toHaveLength(0)
})

test('the answer to a HEAD may tell a length that it does not send', async () => {
  const { url } = await serveHttp((_, response) => {
    response.setHeader('content-length', 9_999_999).end()
  })
  const { headers } = await ask(open(), url, { method: 'HEAD' })
  expect(headers['content-length']).toBe('9999999')
})

test('the time limit is one for all redirects', async () => {
  const { url } = await serveHttp((request, response) => {
    setTimeout(() => response.writeHead(302, { location: `${request.url}a` }).end(), 60)
  })
  const { code } = await failureOf(ask(open(), url, { timeoutMs: 150 }))
  expect(code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
})

test('the time limit holds for a name that is not resolved', async () => {
  const outbound = open({ network: { resolve: () => new Promise(() => undefined) } })
  const { code } = await failureOf(ask(outbound, 'http://origin.test/', { timeoutMs: 50 }))
  expect(code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
})

test('a time limit beyond that of timers is none', async () => {
  const { url } = await serveEcho()
  expect((await ask(open(), url, { timeoutMs: Number.POSITIVE_INFINITY })).status).toBe(200)
})

test('a signal ends the request with its reason', async () => {
  const ended = new AbortController()
  const origin = await serveHttp(() => ended.abort(new Error('nobody waits')))
  await expect(ask(open(), origin.url, { signal: ended.signal })).rejects.toThrow('nobody waits')
  await origin.allClosed()
  await expect(ask(open(), origin.url, { signal: ended.signal })).rejects.toThrow('nobody waits')
  expect(origin.accepted).toBe(1)
})

test('a server that answers before it has read all keeps no connection', async () => {
  let received = 0
  const sockets: Socket[] = []
  const origin = await serveRaw((socket) => {
    sockets.push(socket)
    socket.on('data', (bytes) => {
      received += bytes.length
    })
    socket.once('data', () => {
      socket.pause()
      socket.write(`${OK}Content-Length: 2\r\n\r\nno`)
    })
  })
  const body = new Uint8Array(32 * 1_048_576)
  expect(textOf(await ask(open(), origin.url, { method: 'POST', body }))).toBe('no')
  for (const socket of sockets) socket.resume()
  await origin.allClosed()
  expect(received).toBeLessThan(body.length)
})

test('where nothing listens, the message says so', async () => {
  const { port } = await serveRaw((socket) => socket.destroy())
  const outbound = open({ network: { resolve: async () => ['127.0.0.2'] } })
  const { code, message } = await failureOf(ask(outbound, `http://origin.test:${port}/`))
  expect(code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(message).toContain(`nothing listens on origin.test:${port}`)
})

test.each([
  ['does not resolve', async () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' }))],
  ['has no address', async () => []],
])('a name that %s is named', async (_, resolve) => {
  const { code, message } = await failureOf(ask(open({ network: { resolve } }), 'http://origin.test/'))
  expect(code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(message).toContain('the name origin.test does not resolve')
})

test('this machine resolves its own name', async () => {
  const { port } = await serveEcho()
  const outbound = open({ allowedHosts: ['localhost'], network: undefined })
  expect((await ask(outbound, `http://localhost:${port}/`)).status).toBe(200)
})

// TLS.

const certificate = selfSigned('origin.test')
const loopback = async () => ['127.0.0.1']

test('a certificate is checked for the name, and a trusted one is good', async () => {
  const origin = await serveHttps(certificate, (request, response) => void response.end(request.headers.host))
  const outbound = open({ network: { resolve: loopback, ca: certificate.cert } })
  expect(textOf(await ask(outbound, origin.url))).toBe(`origin.test:${origin.port}`)
  const { code, message } = await failureOf(ask(outbound, `https://other.test:${origin.port}/`))
  expect(code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(message).toContain('no trusted TLS connection to other.test')
  await outbound.close()
  await origin.allClosed()
})

test('a certificate that nobody vouches for is refused', async () => {
  const origin = await serveHttps(certificate, (_, response) => void response.end())
  const { code, message } = await failureOf(ask(open(), origin.url))
  expect(code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(message).toContain('no trusted TLS connection')
  await origin.allClosed()
})

test('a server that does not speak TLS, or hangs in its handshake, is an error', async () => {
  const plain = await serveEcho()
  const failure = await failureOf(ask(open(), `https://origin.test:${plain.port}/`))
  expect(failure.message).toContain('no trusted TLS connection')
  const silent = await serveRaw(() => undefined)
  const hang = await failureOf(ask(open(), `https://origin.test:${silent.port}/`, { timeoutMs: 100 }))
  expect(hang.code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
  await silent.allClosed()
})

// Pinning.

test('the addresses that were checked are those that are connected to', async () => {
  const checked = await serveHttp((_, response) => void response.end('checked'))
  await serveHttp((_, response) => void response.end('rebound'), '127.0.0.2', checked.port)
  let asked = 0
  const outbound = open({ network: { resolve: async () => [++asked === 1 ? '127.0.0.1' : '127.0.0.2'] } })
  expect(textOf(await ask(outbound, checked.url))).toBe('checked')
  expect(textOf(await ask(outbound, checked.url))).toBe('checked')
  expect(asked).toBe(1)
})

test('a name that is public when it is checked and local afterwards never leads here', async () => {
  const victim = await serveEcho()
  let asked = 0
  // An address of a block that was given back: nothing is there.
  const resolve = async () => [++asked === 1 ? '3ffe::1' : '127.0.0.1']
  const outbound = open({ allowedHosts: ['*'], network: { resolve } })
  const url = `http://rebind.test:${victim.port}/`
  const first = await failureOf(ask(outbound, url, { timeoutMs: 300 }))
  expect(first.code).toMatch(/^WASM_SERVE_OUTBOUND_(?:FAILED|TIMEOUT)$/)
  expect(asked).toBe(1)
  expect((await failureOf(ask(outbound, url))).code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  expect(victim.accepted).toBe(0)
})

// Not all machines have IPv6.
test.skipIf(!ownAddresses()().check('::1', 'ipv6'))(
  'an address of IPv6 that is allowed is reached',
  async () => {
    const { port } = await serveHttp((request, response) => void response.end(request.headers.host), '::1')
    const outbound = open({ allowedHosts: ['[::1]'] })
    expect(textOf(await ask(outbound, `http://[0:0::1]:${port}/`))).toBe(`[::1]:${port}`)
  },
)

test('one forbidden address among public ones refuses the name', async () => {
  const victim = await serveEcho()
  const network = { resolve: async () => ['93.184.216.34', '127.0.0.1'] }
  const outbound = open({ allowedHosts: ['*'], network })
  const { code } = await failureOf(ask(outbound, `http://mixed.test:${victim.port}/`))
  expect(code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  expect(victim.accepted).toBe(0)
})
