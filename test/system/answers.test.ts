import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from 'vitest'
import type { Contract } from '../../src/contract/contract.ts'
import { openHttp } from '../../src/contract/http.ts'
import { openSimplism } from '../../src/contract/simplism.ts'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { AUTHORIZED, listenBoth } from '../support/admin.ts'
import { answerOf } from '../support/contract.ts'
import { guest } from '../support/guest.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'
import { streamGuest } from '../support/stream-guest.ts'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-answers-'))
afterAll(() => rmSync(folder, { recursive: true }))
const site = join(folder, 'site')
mkdirSync(join(site, 'sub'), { recursive: true })
for (const name of ['index.html', 'a.txt', 'sub/index.html']) writeFileSync(join(site, name), 'hello')
writeFileSync(join(site, 'a.gif'), 'GIF89a')
const { ca, tls } = localhostTls()

/** Describes a body in all ways, and has one. */
const DESCRIBED = {
  'content-type': 'text/html',
  'content-encoding': 'x',
  'content-language': 'de',
  'content-range': 'bytes 0-1/2',
}

/** A contract whose answers have a body whatever their status, which is the path of the URL. */
const careless: Contract = {
  name: 'careless',
  input: ({ url }) => Buffer.from(url),
  answer: (output, reply) => {
    const status = Number(/\d+$/.exec(String(output)))
    reply
      .code(status)
      .headers({ ...DESCRIBED, 'content-length': '4', etag: '"x"' })
      .send('body')
  },
}

const echo = { plugin: guest('echo') }
const head = (status: number) => JSON.stringify({ status, headers: DESCRIBED })
const streamed = (status: number): RouteOptions => {
  const plugin = streamGuest(['start', head(status)], ['write', 'body'])
  return { url: `/stream/${status}`, method: '*', plugin, function: 'run', spareWorkers: 0 }
}

const ROUTES: RouteOptions[] = [
  { ...echo, url: '/raw', method: ['GET', 'POST'], bodyLimit: 100 },
  { plugin: guest('refuse'), url: '/refuse' },
  { plugin: guest('trap'), url: '/trap' },
  { ...answerOf(openHttp({})), url: '/http' },
  { ...answerOf(openSimplism({})), url: '/simplism' },
  { ...echo, contract: careless, url: '/careless/:status', method: ['GET', 'POST'] },
]

const KEY = 'first-key-0123456789'

/** The servers, each with the options of its kind of answers. */
const SERVERS: Readonly<Record<string, readonly [RouteOptions[], Partial<ServerOptions>]>> = {
  plain: [[...ROUTES, streamed(200), streamed(204), streamed(205), streamed(304)], {}],
  edge: [
    ROUTES,
    {
      etag: true,
      compress: { thresholdBytes: 0 },
      cors: { origin: ['https://a.example'] },
      static: { '/files': site },
      mcp: {},
    },
  ],
  key: [ROUTES, { apiKeys: [KEY], etag: true }],
  jwt: [ROUTES, { jwt: { secret: 's'.repeat(32) }, etag: true }],
  limited: [ROUTES, { rateLimit: { max: 1, timeWindowMs: 60_000 }, etag: true }],
}

/** What writes the head: the contract `raw` itself, Fastify, a stream of a guest, or the server without Fastify. */
type Writer = 'direct' | 'Fastify' | 'stream' | 'server'

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** How often; the last answer counts. */
  readonly times?: number
}

const POST = { method: 'POST' }
const GZIP = { 'accept-encoding': 'gzip' }
const SAME = { headers: { 'if-none-match': '*', ...GZIP } }
const PREFLIGHT = { origin: 'https://a.example', 'access-control-request-method': 'POST' }
const envelope = (status: number) => ({ ...POST, body: head(status) })

const KINDS: readonly (readonly [
  server: string,
  url: string,
  asked: Asked,
  status: number,
  writer: Writer,
  kind: string,
])[] = [
  ['plain', '/raw', {}, 200, 'direct', 'an output'],
  ['plain', '/raw', { method: 'HEAD' }, 200, 'direct', 'an output that HEAD leaves out'],
  ['plain', '/raw', { ...POST, body: 'x'.repeat(101) }, 413, 'Fastify', 'a body over the limit'],
  ['plain', '/refuse', { ...POST, body: 'no' }, 409, 'Fastify', 'the error of a guest'],
  ['plain', '/trap', POST, 500, 'Fastify', 'a trap'],
  ['plain', '/nowhere', {}, 404, 'Fastify', 'an unknown URL'],
  ['plain', '/raw', { method: 'PUT' }, 405, 'Fastify', 'another method'],
  ['plain', '/raw', { method: 'OPTIONS' }, 405, 'Fastify', 'OPTIONS'],
  ['plain', '/%zz', {}, 400, 'Fastify', 'a malformed URL'],
  ['plain', '/careless/200', {}, 200, 'Fastify', 'a contract of the user'],
  ['plain', '/stream/200', {}, 200, 'stream', 'a stream'],
  ['plain', '/stream/200', { method: 'HEAD' }, 200, 'stream', 'a stream that HEAD leaves out'],
  ['plain', '/simplism', { ...POST, body: 'no JSON' }, 500, 'Fastify', 'a broken contract'],
  ['plain', '/http', { ...POST, body: 'no JSON' }, 502, 'Fastify', 'a broken contract'],
  ...[204, 205, 304].flatMap(
    (status) =>
      [
        ['plain', '/http', envelope(status), status, 'Fastify', `the contract http with ${status}`],
        ['plain', `/careless/${status}`, {}, status, 'Fastify', `a careless contract with ${status}`],
        ['plain', `/stream/${status}`, {}, status, 'stream', `a stream with ${status}`],
        ['edge', '/http', envelope(status), status, 'Fastify', `the contract http with ${status}`],
        ['edge', `/careless/${status}`, {}, status, 'Fastify', `a careless contract with ${status}`],
      ] as const,
  ),
  ['edge', '/raw', {}, 200, 'Fastify', 'an output'],
  ['edge', '/raw', { headers: GZIP }, 200, 'Fastify', 'an output that is compressed'],
  ['edge', '/raw', { method: 'HEAD', headers: GZIP }, 200, 'Fastify', 'an output that HEAD leaves out'],
  ['edge', '/raw', POST, 200, 'Fastify', 'an output to POST'],
  ['edge', '/raw', SAME, 304, 'Fastify', 'an output that is not new'],
  ['edge', '/raw', { method: 'HEAD', ...SAME }, 304, 'Fastify', 'an output that is not new to HEAD'],
  ['edge', '/raw', { ...POST, ...SAME }, 200, 'Fastify', 'an output to POST with a condition'],
  ['edge', '/nowhere', SAME, 404, 'Fastify', 'an unknown URL with a condition'],
  ['edge', '/trap', { ...POST, ...SAME }, 500, 'Fastify', 'a trap with a condition'],
  ['edge', '/raw', { method: 'PUT', headers: GZIP }, 405, 'Fastify', 'another method, compressed'],
  ['edge', '/raw', { method: 'OPTIONS' }, 405, 'Fastify', 'OPTIONS that is no preflight request'],
  ['edge', '/raw', { method: 'OPTIONS', headers: PREFLIGHT }, 204, 'Fastify', 'a preflight request'],
  ['edge', '/nowhere', { method: 'OPTIONS', headers: PREFLIGHT }, 204, 'Fastify', 'a preflight request'],
  ['edge', '/mcp', {}, 405, 'Fastify', 'another method at the MCP endpoint'],
  ['edge', '/mcp', { method: 'OPTIONS' }, 405, 'Fastify', 'OPTIONS at the MCP endpoint'],
  [
    'edge',
    '/mcp',
    { method: 'OPTIONS', headers: PREFLIGHT },
    403,
    'Fastify',
    'a preflight request of an unknown page',
  ],
  ['edge', '/mcp', POST, 415, 'Fastify', 'no message to the MCP endpoint'],
  ['edge', '/files/a.txt', {}, 200, 'Fastify', 'a file'],
  ['edge', '/files/a.txt', { headers: GZIP }, 200, 'Fastify', 'a file that is compressed'],
  ['edge', '/files/a.gif', { headers: GZIP }, 200, 'Fastify', 'a file that is not compressible'],
  ['edge', '/files/a.txt', { method: 'HEAD' }, 200, 'Fastify', 'a file that HEAD leaves out'],
  ['edge', '/files/a.txt', { headers: { range: 'bytes=1-2' } }, 206, 'Fastify', 'a part of a file'],
  ['edge', '/files/a.txt', { method: 'HEAD', headers: { range: 'bytes=1-2' } }, 200, 'Fastify', 'no part'],
  ['edge', '/files/a.txt', { headers: { range: 'bytes=9-' } }, 416, 'Fastify', 'a part that is none'],
  ['edge', '/files/a.txt', { headers: { 'if-match': '"x"' } }, 412, 'Fastify', 'another file'],
  ['edge', '/files/a.txt', SAME, 304, 'Fastify', 'a file that is not new'],
  ['edge', '/files/a.txt', { method: 'HEAD', ...SAME }, 304, 'Fastify', 'a file that is not new to HEAD'],
  ['edge', '/files/sub', {}, 301, 'Fastify', 'a folder'],
  ['edge', '/files', { method: 'HEAD' }, 301, 'Fastify', 'the first folder'],
  ['edge', '/files/none', {}, 404, 'Fastify', 'no file'],
  ...['/files/a.txt', '/files/sub', '/files/', '/files'].flatMap((url) =>
    ['POST', 'OPTIONS', 'DELETE'].map(
      (method) => ['edge', url, { method }, 405, 'Fastify', `${method} of a file`] as const,
    ),
  ),
  ['edge', '/files/none', POST, 404, 'Fastify', 'POST of no file'],
  ['key', '/raw', { headers: { 'if-none-match': '*' } }, 401, 'Fastify', 'no key'],
  ['jwt', '/raw', { headers: { authorization: 'Bearer x.y.z' } }, 401, 'Fastify', 'no token'],
  ['limited', '/raw', { times: 2 }, 429, 'Fastify', 'too many requests'],
]

interface Seen {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** All bytes after the head. */
  readonly body: Buffer
}

/** What is wrong with an answer, whatever it is the answer to. */
function faultsOf(
  { status, headers, body }: Seen,
  method: string,
  options: Partial<ServerOptions>,
): string[] {
  const { date, allow, vary = '', etag } = headers
  const isRead = method === 'GET' || method === 'HEAD'
  const type = headers['content-type']
  const length = headers['content-length']
  const isBodiless = [204, 205, 304].includes(status)
  const hasOwn = ['"x"', undefined].includes(etag) // of the contract, or of send
  const faults: Readonly<Record<string, boolean>> = {
    'no date': Number.isNaN(Date.parse(date ?? '')),
    'a body of HEAD': method === 'HEAD' && body.length > 0,
    'a body': isBodiless && body.length > 0,
    'the length of a body that is not there': [204, 304].includes(status) && length !== undefined,
    'another length': method !== 'HEAD' && length !== undefined && Number(length) !== body.length,
    'a description of a body that is not there':
      isBodiless && Object.keys(DESCRIBED).some((name) => headers[name] !== undefined),
    'no type': body.length > 0 && type === undefined,
    'no Allow': status === 405 && !allow,
    'no size': status === 416 && !/^bytes \*\/\d+$/.test(headers['content-range'] ?? ''),
    'a part for HEAD': status === 206 && method !== 'GET',
    'no Location': status === 301 && !headers.location?.startsWith('/'),
    'no challenge': status === 401 && !headers['www-authenticate'],
    'no Retry-After': status === 429 && !headers['retry-after'],
    'no problem details':
      status >= 400 && status !== 409 && method !== 'HEAD' && !/json|text/.test(type ?? ''),
    'a tag of a failure': status >= 400 && etag !== undefined,
    'a tag of what is not read': !isRead && !hasOwn,
    'no tag': options.etag === true && isRead && [200, 304].includes(status) && etag === undefined,
    'no Vary':
      options.compress !== undefined &&
      (type ?? '').startsWith('text/') &&
      headers['content-encoding'] !== 'x' &&
      !vary.includes('accept-encoding'),
    'a needless Vary': (type ?? '').startsWith('image/gif') && vary.includes('accept-encoding'),
  }
  return Object.keys(faults).filter((fault) => faults[fault])
}

/** Sends bytes and reads all that comes until the server closes. */
async function sendBytes(port: number, bytes: string): Promise<Seen> {
  const socket = connect(port, '127.0.0.1')
  socket.write(Buffer.from(bytes, 'latin1'))
  return readSeen(await buffer(socket))
}

function readSeen(received: Buffer): Seen {
  const end = received.indexOf('\r\n\r\n')
  const [start = '', ...lines] = received.toString('latin1', 0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  return { status: Number(start.split(' ')[1]), headers, body: received.subarray(end + 4) }
}

async function overHttp1(
  port: number,
  url: string,
  { method = 'GET', headers = {}, body }: Asked,
): Promise<Seen> {
  const all = {
    host: 'localhost',
    connection: 'close',
    ...headers,
    ...(body && { 'content-length': body.length }),
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return sendBytes(port, `${method} ${url} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`)
}

async function overHttp2(
  port: number,
  url: string,
  { method = 'GET', headers = {}, body }: Asked,
): Promise<Seen> {
  const session = connectHttp2(`https://localhost:${port}`, { ca, host: '127.0.0.1' })
  try {
    const path = method === 'CONNECT' ? {} : { ':path': url }
    const stream = session.request({ ':method': method, ...path, ...headers })
    stream.end(body)
    const answer = new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
      stream.once('response', resolve).once('error', reject)
    })
    const [{ ':status': status, ...others }, bytes] = await Promise.all([answer, buffer(stream)])
    const all = Object.entries(others).map(([name, value]) => [name, String(value)])
    return { status: Number(status), headers: Object.fromEntries(all), body: bytes }
  } finally {
    session.destroy()
  }
}

describe.each([
  ['HTTP/1.1', {}, overHttp1],
  ['HTTP/2', { tls, http2: true }, overHttp2],
] as const)('each answer over %s is complete, and says nothing of a body that is not there', (_, how, ask) => {
  const open = new Map<string, ReturnType<typeof listenAll>>()
  const serverOf = (name: string) => {
    const [routes, options] = SERVERS[name] ?? [[], {}]
    const server = open.get(name) ?? listenAll(routes, { ...options, ...how })
    open.set(name, server)
    return server
  }
  afterAll(async () => {
    for (const server of open.values()) await (await server).drain()
  })

  test.each(KINDS)('%s %s %j: %i by %s (%s)', async (server, url, asked, status) => {
    const { port } = await serverOf(server)
    for (let i = 1; i < (asked.times ?? 1); i++) await ask(port, url, asked)
    const seen = await ask(port, url, asked)
    expect([seen.status, faultsOf(seen, asked.method ?? 'GET', SERVERS[server]?.[1] ?? {})]).toEqual([
      status,
      [],
    ])
  })

  test('CONNECT, by the server', async () => {
    const { port } = await serverOf('plain')
    const seen = await ask(port, 'a:443', {
      method: 'CONNECT',
      headers: ask === overHttp2 ? { ':authority': 'a:443' } : {},
    })
    expect([seen.status, faultsOf(seen, 'CONNECT', {})]).toEqual([405, []])
  })
})

test.each([
  ['/', {}, 200, undefined],
  ['/healthz', {}, 200, undefined],
  ['/api', {}, 401, undefined],
  ['/api', { headers: AUTHORIZED }, 200, undefined],
  ['/nowhere', { headers: AUTHORIZED }, 404, undefined],
  ['/healthz', { ...POST, headers: AUTHORIZED }, 405, 'GET, HEAD'],
  ['/api/plugins', { method: 'DELETE', headers: AUTHORIZED }, 405, 'GET, HEAD'],
  ['/api/routes', { method: 'OPTIONS', headers: AUTHORIZED }, 405, 'GET, HEAD, POST'],
  ['/api/routes', { method: 'DELETE' }, 401, undefined],
])('so is an answer of the admin listener: %s %j', async (url, asked, status, allow) => {
  const { adminUrl } = await listenBoth(ROUTES)
  const seen = await overHttp1(Number(new URL(adminUrl).port), url, asked)
  const faults = faultsOf(seen, 'method' in asked ? asked.method : 'GET', {})
  expect([seen.status, seen.headers.allow, faults]).toEqual([status, allow, []])
})

test.each([
  [400, 'how do you do?\r\n\r\n'],
  [400, 'GET / HTTP/1.1\r\n\r\n'],
  [408, 'GET / HTTP/1.1\r\nHost: a\r\n'],
  [431, `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`],
  [501, 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'],
  [505, 'GET / HTTP/1.2\r\nHost: a\r\n\r\n'],
])('so is an answer to a malformed request: %i', async (status, bytes) => {
  const running = await listenAll(ROUTES, { headersTimeoutMs: 100 })
  const seen = await sendBytes(running.port, bytes)
  await running.drain()
  expect([seen.status, faultsOf(seen, 'GET', {})]).toEqual([status, []])
})

test.each([
  ['/files/a.txt', [200, undefined], [200, undefined]],
  ['/files/none.txt', [405, 'POST'], [405, 'POST']],
])('%s is read as a file, if there is one, where a route has other methods', async (url, ...expected) => {
  const running = await listenAll([{ ...echo, url }], { static: { '/files': site } })
  const answers: unknown[] = []
  for (const method of ['GET', 'HEAD']) {
    const { status, headers } = await overHttp1(running.port, url, { method })
    answers.push([status, headers.allow])
  }
  await running.drain()
  expect(answers).toEqual(expected)
})
