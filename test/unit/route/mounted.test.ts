import cors from '@fastify/cors'
import Fastify, { type FastifyInstance, type FastifyServerOptions, type HTTPMethods } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type RouteOptions, wasmServe } from '../../../src/index.ts'
import { guest } from '../../support/guest.ts'
import { open } from '../../support/socket.ts'

function openApp(options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options)
  onTestFinished(() => app.close())
  return app
}

/** A route whose answer tells which one it was. */
const route = (name: string, options: Partial<RouteOptions>): RouteOptions => ({
  plugin: guest('answer'),
  config: { answer: name },
  ...options,
})

const mounted = (...routes: RouteOptions[]) => ({ logLevel: 'silent', routes }) as const

async function ask(app: FastifyInstance, line: string, headers: Record<string, string> = {}) {
  const [method, url = '/'] = line.split(' ')
  const answer = await app.inject({ method: method as HTTPMethods, url, headers })
  return answer.statusCode === 200 ? answer.body : `${answer.statusCode} ${answer.headers.allow ?? ''}`.trim()
}

describe("the app's other methods at a URL of ours", () => {
  test.each(['before', 'after'])('are its own, whether it adds them before or after: %s', async (order) => {
    const app = openApp()
    const add = () => app.get('/hello', () => 'own')
    if (order === 'before') add()
    await app.register(wasmServe, mounted(route('guest', { url: '/hello' })))
    if (order === 'after') add()
    expect(await ask(app, 'GET /hello')).toBe('own')
    expect(await ask(app, 'POST /hello')).toBe('guest')
    expect(await ask(app, 'PUT /hello')).toBe('405 GET, HEAD, POST')
  })

  test('may be those of another mount', async () => {
    const app = openApp()
    app.register(wasmServe, mounted(route('post', { url: '/hello' })))
    app.register(wasmServe, mounted(route('get', { url: '/hello', method: 'GET' })))
    app.register(wasmServe, {
      prefix: '/hello',
      ...mounted(route('patch', { method: 'PATCH' })),
    })
    expect(await ask(app, 'GET /hello')).toBe('get')
    expect(await ask(app, 'POST /hello')).toBe('post')
    expect(await ask(app, 'PATCH /hello')).toBe('patch')
    expect(await ask(app, 'PUT /hello')).toBe('405 GET, HEAD, PATCH, POST')
    expect(await ask(app, 'PUT /hello/')).toBe('405 PATCH')
  })

  test('include HEAD, and all that a route for all methods leaves', async () => {
    const app = openApp()
    app.head('/read', (_request, reply) => reply.header('x-own', 'yes').send())
    app.get('/all', () => 'own')
    app.options('*', () => 'own')
    await app.register(
      wasmServe,
      mounted(
        route('read', { url: '/read', method: 'GET' }),
        route('all', { url: '/all', method: '*' }),
        route('rest', { url: '/*', method: '*' }),
      ),
    )
    expect((await app.inject({ method: 'HEAD', url: '/read' })).headers).toHaveProperty('x-own')
    expect(await ask(app, 'GET /read')).toBe('read')
    expect(await ask(app, 'GET /all')).toBe('own')
    expect(await ask(app, 'OPTIONS /all')).toBe('all')
    expect(await ask(app, 'OPTIONS /other')).toBe('own')
    expect(await ask(app, 'PUT /other')).toBe('rest')
  })

  test('may not be all of them, or the same', async () => {
    const app = openApp()
    app.all('/hello', () => 'own')
    for (const method of ['*', 'POST'] as const) {
      const refused = app.register(wasmServe, mounted(route('guest', { url: '/hello', method }))).after()
      await expect(refused).rejects.toMatchObject({ code: 'WASM_SERVE_ROUTE_INVALID' })
    }
  })

  test('may have a wildcard, a parameter, a host or a version', async () => {
    const app = openApp()
    await app.register(
      wasmServe,
      mounted(
        route('all', { url: '/*', method: 'GET' }),
        route('user', { url: '/users/:id', method: 'PUT' }),
        route('host', { url: '/host', host: 'a.example' }),
      ),
    )
    app.options('*', () => 'preflight')
    app.get('/users/:name', () => 'own user')
    app.post('/host', () => 'other host')
    app.get('/versions', { constraints: { version: '1.0.0' } }, () => 'one')
    expect(await ask(app, 'OPTIONS /a')).toBe('preflight')
    expect(await ask(app, 'GET /users/7')).toBe('own user')
    expect(await ask(app, 'PUT /users/7')).toBe('user')
    expect(await ask(app, 'DELETE /users/7?a=b')).toBe('405 GET, HEAD, OPTIONS, PUT')
    expect(await ask(app, 'POST /host', { host: 'A.example:80' })).toBe('host')
    expect(await ask(app, 'POST /host', { host: 'b.example' })).toBe('other host')
    expect(await ask(app, 'GET /versions', { 'accept-version': '1.x' })).toBe('one')
    expect(await ask(app, 'PUT /versions')).toBe('405 GET, HEAD, OPTIONS')
  })

  test('stay unanswered as before, where no route of ours is', async () => {
    const app = openApp()
    app.get('/own', () => 'own')
    await app.register(wasmServe, {
      prefix: '/p',
      ...mounted(route('guest', { url: '/a/:id?' }), route('host', { url: '/h', host: 'a.example' })),
    })
    const answer = await app.inject({ method: 'POST', url: '/own' })
    expect([answer.statusCode, answer.json().message]).toEqual([404, 'Route POST:/own not found'])
    for (const line of ['GET /p/b', 'GET /a', 'GET /p/a/b/c', 'GET /p/h'])
      expect(await ask(app, line)).toBe('404')
    for (const line of ['GET /p/a', 'GET /p/a/7']) expect(await ask(app, line)).toBe('405 POST')
  })
})

describe('a refused method', () => {
  test('is answered before the body is read, after the hooks of the app', async () => {
    const app = openApp()
    await app.register(cors, { origin: 'https://a.example' })
    await app.register(wasmServe, mounted(route('guest', { url: '/hello' })))
    const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
    const client = await open(Number(url.port))
    client.send('PUT /hello HTTP/1.1\r\nHost: a\r\nContent-Type: odd\r\nContent-Length: 99999999\r\n\r\n')
    const answer = await client.answer()
    expect(answer).toMatchObject({
      status: 405,
      headers: { allow: 'OPTIONS, POST', 'access-control-allow-origin': 'https://a.example' },
    })
    expect(JSON.parse(String(answer?.body)).code).toBe('WASM_SERVE_METHOD_NOT_ALLOWED')
  })

  test('is found by the URL as the router of the app compares it', async () => {
    const app = openApp({ routerOptions: { caseSensitive: false, ignoreTrailingSlash: true } })
    await app.register(wasmServe, {
      prefix: '/p',
      ...mounted(route('a', {}), route('b', { url: '/b' }), route('b', { url: '/b/', method: 'PATCH' })),
    })
    for (const url of ['/P', '/p/']) expect(await ask(app, `PUT ${url}`)).toBe('405 POST')
    for (const url of ['/P/B', '/p/b/', '/p/%62'])
      expect(await ask(app, `PUT ${url}`)).toBe('405 PATCH, POST')
  })

  test('is not found where a route of the app has no result', async () => {
    const app = openApp()
    app.get('/items/:id', (_request, reply) => reply.callNotFound())
    await app.register(wasmServe, mounted(route('put', { url: '/items/:id', method: 'PUT' })))
    expect(await ask(app, 'GET /items/7')).toBe('404')
    expect(await ask(app, 'POST /items/7')).toBe('405 GET, HEAD, PUT')
  })
})

describe("the app's own not-found handler", () => {
  const own = (app: FastifyInstance) =>
    app.setNotFoundHandler((_request, reply) => reply.code(200).send('own'))

  test.each([
    'before the mounts',
    'after the mounts',
    'before they are loaded',
    'in a scope',
  ])('answers in place of ours, set %s', async (when) => {
    const app = openApp()
    if (when === 'before the mounts') own(app)
    app.register(wasmServe, { prefix: '/p', ...mounted(route('guest', { url: '/hello' })) })
    app.register(wasmServe, mounted(route('guest', { url: '/hello' })))
    if (when === 'before they are loaded') own(app)
    await app.after()
    if (when === 'after the mounts') own(app)
    if (when === 'in a scope') app.register(async (scope) => void own(scope))
    for (const line of ['GET /p/hello', 'GET /hello', 'GET /p/other', 'GET /other'])
      expect(await ask(app, line)).toBe('own')
    expect(await ask(app, 'POST /p/hello')).toBe('guest')
  })

  test('answers below its prefix, also beside ours', async () => {
    const app = openApp()
    app.register(wasmServe, { prefix: '/p', ...mounted(route('guest', { url: '/hello' })) })
    app.register(async (scope) => void own(scope), { prefix: '/p' })
    app.register(wasmServe, { prefix: '/p', ...mounted(route('guest', { url: '/again' })) })
    app.register(wasmServe, mounted(route('guest', { url: '/hello' })))
    expect(await ask(app, 'GET /p/hello')).toBe('own')
    expect(await ask(app, 'GET /hello')).toBe('405 POST')
    expect(await ask(app, 'GET /other')).toBe('404')
  })
})

test('hooks and lists of routes see each method of ours, and no other', async () => {
  const app = openApp()
  const seen: unknown[] = []
  app.addHook('onRoute', ({ method, url, config }) => void seen.push([method, url, config?.wasmServe?.url]))
  await app.register(wasmServe, {
    prefix: '/p',
    ...mounted(route('a', { url: '/a' }), route('b', { url: '/b', method: ['GET', 'PUT'] })),
  })
  await app.ready()
  expect(seen).toEqual([
    ['POST', '/p/a', '/p/a'],
    ['GET', '/p/b', '/p/b'],
    ['PUT', '/p/b', '/p/b'],
    ['HEAD', '/p/b', '/p/b'],
  ])
  expect(app.printRoutes()).toContain('b (GET, PUT, HEAD)')
})

test('an onRoute hook finds what is served', async () => {
  const app = openApp()
  const served = new Set<unknown>()
  app.addHook('onRoute', ({ config }) => {
    if (config?.wasmServe) served.add(config.wasmServe)
  })
  await app.register(wasmServe, {
    prefix: '/p',
    ...mounted(
      route('a', { method: 'GET', url: '/a', host: 'a.b', description: 'Reads.', contract: 'http' }),
      route('b', { method: '*', url: '/b', errorStatus: 422 }),
    ),
  })
  expect([...served]).toMatchObject([
    {
      methods: ['GET', 'HEAD'],
      url: '/p/a',
      host: 'a.b',
      description: 'Reads.',
      contract: 'http',
      errorStatus: 409,
    },
    { methods: ['*'], url: '/p/b', contract: 'raw', errorStatus: 422 },
  ])
})
