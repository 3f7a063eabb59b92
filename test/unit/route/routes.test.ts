import Fastify, { type FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions, wasmServe } from '../../../src/index.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { checkServerOptions } from '../../../src/options/options.ts'
import { createApp } from '../../../src/server/app.ts'
import { guest, guestBytes } from '../../support/guest.ts'
import { cannedGuest } from '../../support/hyper-guest.ts'
import { open } from '../../support/socket.ts'

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

const echo = guest('echo')

async function serveAll(routes: RouteOptions[]): Promise<FastifyInstance> {
  const app = await createServer({ logLevel: 'silent', routes })
  onTestFinished(() => app.close())
  return app
}

/** A route whose answer tells which one it was. */
const route = (name: string, options: Partial<RouteOptions>): RouteOptions => ({
  plugin: guest('answer'),
  config: { answer: name },
  ...options,
})

async function ask(app: FastifyInstance, line: string, host = 'localhost') {
  const [method, url] = line.split(' ')
  const { statusCode, body, headers } = await app.inject({
    method: method as Method,
    url: url ?? '/',
    headers: { host },
  })
  return statusCode === 405 ? `405 ${headers.allow}` : statusCode === 404 ? '404' : body
}

describe('methods', () => {
  test.each([
    'GET',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'POST',
  ] as const)('%s gives its body to the guest, or none', async (method) => {
    const app = await serveAll([{ plugin: echo, method }])
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as { port: number }
    const client = await open(port)
    client.send(`${method} / HTTP/1.1\r\nHost: a\r\nContent-Type: odd\r\nContent-Length: 3\r\n\r\nabc`)
    expect(String((await client.answer())?.body)).toBe('abc')
    client.send(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`)
    expect(await client.answer()).toMatchObject({ status: 200, headers: { 'content-length': '0' } })
  })

  test('HEAD follows GET: the guest runs, and the length of its output is told', async () => {
    const app = await serveAll([{ plugin: guest('count'), function: 'count', method: 'GET', url: '/' }])
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const head = await fetch(url, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '1', ''])
    expect(await (await fetch(url)).text()).toBe('2')
  })

  test('routes of one URL share its methods, and the rest is refused with all of them', async () => {
    const app = await serveAll([
      route('read', { method: 'GET', url: '/users/:id' }),
      route('write', { method: ['PUT', 'PATCH'], url: '/users/:id' }),
      route('remove', { method: 'DELETE', url: '/users/:user' }),
      route('me', { method: 'GET', url: '/users/me' }),
    ])
    expect(await ask(app, 'GET /users/7')).toBe('read')
    expect(await ask(app, 'PATCH /users/7')).toBe('write')
    expect(await ask(app, 'DELETE /users/7')).toBe('remove')
    expect(await ask(app, 'POST /users/7')).toBe('405 DELETE, GET, HEAD, PATCH, PUT')
    expect(await ask(app, 'OPTIONS /users/7')).toBe('405 DELETE, GET, HEAD, PATCH, PUT')
    expect(await ask(app, 'GET /users/me')).toBe('me')
    expect(await ask(app, 'PUT /users/me')).toBe('write')
    expect(await ask(app, 'POST /users/me')).toBe('405 DELETE, GET, HEAD, PATCH, PUT')
    expect(await ask(app, 'GET /users')).toBe('404')
  })

  test('a route of its own for HEAD wins over that of GET', async () => {
    for (const methods of [
      ['GET', 'HEAD'],
      ['HEAD', 'GET'],
    ] as const) {
      const app = await serveAll(
        methods.map((method) =>
          route(method, {
            method,
            contract: 'http',
            config: { answer: `{"status":${method === 'GET' ? 201 : 202}}` },
          }),
        ),
      )
      expect((await app.inject({ method: 'GET', url: '/' })).statusCode).toBe(201)
      expect((await app.inject({ method: 'HEAD', url: '/' })).statusCode).toBe(202)
    }
  })

  test('a wildcard and all methods answer everything', async () => {
    const app = await serveAll([route('all', { method: '*', url: '/*' })])
    for (const line of ['GET /', 'PUT /a/b', 'OPTIONS /a', 'TRACE /', 'PROPFIND /c'])
      expect(await ask(app, line)).toBe('all')
  })

  test('a parameter that may be left out is refused with and without it', async () => {
    const app = await serveAll([
      route('got', { method: 'GET', url: '/a/:id?' }),
      route('put', { method: 'PUT', url: '/a' }),
    ])
    expect(await ask(app, 'GET /a')).toBe('got')
    expect(await ask(app, 'GET /a/1')).toBe('got')
    expect(await ask(app, 'POST /a')).toBe('405 GET, HEAD, PUT')
    expect(await ask(app, 'PUT /a/1')).toBe('405 GET, HEAD')
  })
})

describe('hosts', () => {
  test('a route answers to its host alone, in any case and at any port, and the others to the rest', async () => {
    const app = await serveAll([
      route('a', { method: 'GET', url: '/x', host: 'a.example.com' }),
      route('b', { method: 'GET', url: '/x', host: 'B.example.com' }),
      route('any', { method: ['GET', 'PUT'], url: '/x' }),
      route('only', { method: 'GET', url: '/only', host: '[::1]' }),
    ])
    expect(await ask(app, 'GET /x', 'a.example.com')).toBe('a')
    expect(await ask(app, 'GET /x', 'A.EXAMPLE.com:8080')).toBe('a')
    expect(await ask(app, 'GET /x', 'b.example.com')).toBe('b')
    expect(await ask(app, 'GET /x', 'axexample.com')).toBe('any')
    expect(await ask(app, 'PUT /x', 'a.example.com')).toBe('any')
    expect(await ask(app, 'POST /x', 'a.example.com')).toBe('405 GET, HEAD, PUT')
    expect(await ask(app, 'POST /x', 'c.example.com')).toBe('405 GET, HEAD, PUT')
    expect(await ask(app, 'GET /only', '[::1]:80')).toBe('only')
    expect(await ask(app, 'GET /only', 'a.example.com')).toBe('404')
    expect(await ask(app, 'PUT /only', '[::1]')).toBe('405 GET, HEAD')
  })
})

test.each([
  ['the same method and URL', { method: 'GET' }, { method: ['PUT', 'GET'] }],
  ['HEAD twice', { method: 'HEAD' }, { method: ['HEAD'] }],
  ['all methods and one of them', { method: '*' }, { method: 'GET' }],
  ['the same host', { host: 'a.b' }, { host: 'A.B' }],
] as const)('two routes with %s are refused', async (_what, one, other) => {
  const routes = [one, other].map((options) => ({ plugin: echo, ...options }) as RouteOptions)
  await expect(serveAll(routes)).rejects.toMatchObject({ code: 'WASM_SERVE_ROUTE_CONFLICT' })
})

test('two names of one parameter are refused for the same method', async () => {
  const routes = ['/a/:b', '/a/:c'].map((url) => ({ plugin: echo, url }))
  await expect(serveAll(routes)).rejects.toMatchObject({ code: 'WASM_SERVE_ROUTE_CONFLICT' })
})

describe('headers of a route', () => {
  const headers = { 'Cache-Control': 'no-store', 'X-A': '1', 'Set-Cookie': 'a=1' }

  test('are part of its answers and of its failures', async () => {
    const app = await serveAll([{ plugin: guest('trap'), headers, bodyLimit: 10 }])
    for (const [payload, status] of [
      ['ok', 200],
      ['trap', 500],
      ['x'.repeat(11), 413],
    ] as const) {
      const reply = await app.inject({ method: 'POST', url: '/', payload })
      expect(reply.statusCode).toBe(status)
      expect(reply.headers).toMatchObject({ 'cache-control': 'no-store', 'x-a': '1', 'set-cookie': 'a=1' })
    }
  })

  test('give way to those of the guest, but for cookies, which are added', async () => {
    const answer = JSON.stringify({ headers: { 'cache-control': 'max-age=1', 'set-cookie': 'b=2' } })
    const app = await serveAll([{ plugin: guest('answer'), headers, contract: 'http', config: { answer } }])
    for (const _ of [1, 2]) {
      const reply = await app.inject({ method: 'POST', url: '/' })
      expect(reply.headers).toMatchObject({
        'cache-control': 'max-age=1',
        'x-a': '1',
        'set-cookie': ['a=1', 'b=2'],
      })
    }
  })
})

test.each([
  400, 422, 503,
])('a guest that says no is answered with %i where the route says so', async (errorStatus) => {
  const app = await serveAll([{ plugin: guest('refuse'), errorStatus }])
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'no' })
  expect([reply.statusCode, reply.body, reply.headers['content-type']]).toEqual([
    errorStatus,
    'no',
    'text/plain; charset=utf-8',
  ])
})

test("the app's own methods at a URL of ours are answered, and allowed", async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.get('/p/a', () => 'own')
  app.get('/p', () => 'own root')
  await app.register(wasmServe, {
    prefix: '/p',
    logLevel: 'silent',
    routes: [{ plugin: echo, url: '/a' }, { plugin: echo }],
  })
  expect(await ask(app, 'GET /p/a')).toBe('own')
  expect(await ask(app, 'GET /p')).toBe('own root')
  expect(await ask(app, 'PUT /p/a')).toBe('405 GET, HEAD, POST')
  expect(await ask(app, 'PUT /p')).toBe('405 GET, HEAD, POST')
  expect(await ask(app, 'PUT /p/')).toBe('405 POST') // as app.get('/p') answers no slash
})

test.each([
  'PUT',
  'DELETE',
  'GET',
] as const)('a mounted route gives the bytes of %s to the guest', async (method) => {
  const app = Fastify()
  onTestFinished(() => app.close())
  await app.register(wasmServe, { logLevel: 'silent', routes: [{ plugin: echo, method }] })
  for (const type of ['application/json', 'no type', '']) {
    const payload = '{ "a" :1'
    const headers = type === '' ? {} : { 'content-type': type }
    const reply = await app.inject({ method, url: '/', headers, payload })
    expect([reply.statusCode, reply.body]).toEqual([200, payload])
  }
})

describe('of a route that is a tool', () => {
  const canned = [{ when: '', output: '{"tools":[]}' }]
  const routesOf = async (mcp: object) => {
    const routes: RouteOptions[] = [
      { plugin: echo, url: '/text/in', tool: {} },
      {
        plugin: guestBytes(cannedGuest({ list_tools: canned, call_tool: canned })),
        url: '/h',
        contract: 'hyper-mcp',
        engine: 'inline',
      },
    ]
    const options = checkServerOptions({ logLevel: 'silent', stallMs: 0, mcp, routes })
    const { app, routes: served } = await createApp(options, openLog('silent'))
    onTestFinished(() => app.close())
    return served.map(({ tool }) => tool)
  }

  test('the name is known, unless its plug-in names its tools itself', async () => {
    expect(await routesOf({})).toEqual([
      { name: 'text_in', isOnly: false },
      { name: undefined, isOnly: true },
    ])
  })

  test('there is no URL if the server only has tools', async () => {
    expect(await routesOf({ toolsOnly: true })).toMatchObject([{ isOnly: true }, { isOnly: true }])
  })
})
