import { dirname } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../src/index.ts'
import { guest } from '../support/guest.ts'

/** Routes from this number on are in a table. */
const LEAST_ROUTES = 256

/** What clients may ask, and what is asked wrongly. */
const REQUESTS = [
  ['POST', '/upper'],
  ['POST', '/upper?q=%2F'],
  ['POST', '/%75pper'],
  ['POST', '/upper/'],
  ['POST', '//upper'],
  ['POST', '/upper%2f'],
  ['POST', '/Upper'],
  ['POST', '/deep/er'],
  ['POST', '/deep%2Fer'],
  ['POST', '/deep'],
  ['POST', '/with%20space'],
  ['POST', '/caf%C3%A9'],
  ['POST', '/a:b'],
  ['POST', '/a%3ab'],
  ['POST', '/a%3Ab?q'],
  ...['$', '&', '+', ',', ';', '=', '@', '~', '!', "'", '(', '|'].flatMap((char) => [
    ['POST', `/c${char}`] as const,
    ['POST', `/c%${char.charCodeAt(0).toString(16)}`] as const,
    ['GET', `/c%${char.charCodeAt(0).toString(16).toUpperCase()}`] as const,
  ]),
  ['POST', `/${'long'.repeat(60)}`],
  ['POST', '/%zz'],
  ['POST', '/'],
  ['GET', '/upper'],
  ['PROPFIND', '/upper'],
  ['OPTIONS', '/upper'],
  ['GET', '/get'],
  ['HEAD', '/get'],
  ['POST', '/get'],
  ['PUT', '/both'],
  ['POST', '/both'],
  ['GET', '/both'],
  ['POST', '/says-no'],
  ['POST', '/headers'],
  ['PUT', '/headers'],
  ['GET', '/missing'],
] as const

async function serve(count: number, options: Partial<CreateServerOptions> = {}) {
  const plugin = guest('upper')
  const named: RouteOptions[] = [
    ...['/upper', '/deep/er', '/with space', '/café', '/a::b', `/${'long'.repeat(60)}`].map((url) => ({
      url,
    })),
    ...['$', '&', '+', ',', ';', '=', '@', '~', '!', "'", '(', '|'].map((char) => ({ url: `/c${char}` })),
    { url: '/get', method: 'GET' as const },
    { url: '/both', method: 'PUT' as const },
    { url: '/both', plugin: guest('echo') },
    { url: '/says-no', plugin: guest('refuse'), errorStatus: 422 },
    { url: '/headers', headers: { 'x-own': 'yes' } },
  ].map((route) => ({ plugin, ...route }))
  const rest = Array.from({ length: count - named.length }, (_, i) => ({ url: `/p${i}`, plugin }))
  const app = await createServer({
    ...{ logLevel: 'silent', port: 0, stallMs: 0, ...options },
    routes: [...named, ...rest].map((route) => ({ load: 'lazy', ...route })),
  })
  onTestFinished(() => app.close())
  return app
}

async function answersOf(app: Awaited<ReturnType<typeof serve>>, hasCors: boolean) {
  const answers: unknown[] = []
  for (const [method, url] of REQUESTS) {
    if (hasCors && method === 'OPTIONS') continue // the route of @fastify/cors answers, unless a single route is there
    const { statusCode, headers, body } = await app.inject({
      method: method as 'GET',
      url,
      headers: { 'x-request-id': 'same', origin: 'https://example.com' },
      ...(method !== 'GET' && method !== 'HEAD' && { payload: 'abc' }),
    })
    const { date: _, 'retry-after': _wait, 'x-ratelimit-reset': _reset, ...rest } = headers
    answers.push({ method, url, statusCode, headers: rest, body })
  }
  return answers
}

test('a route that answers OPTIONS beside CORS does so among many', async () => {
  const routes = Array.from(
    { length: LEAST_ROUTES },
    (_, i): RouteOptions => ({
      url: `/p${i}`,
      plugin: guest('echo'),
      load: 'lazy',
      method: i === 0 ? 'OPTIONS' : 'POST',
    }),
  )
  const app = await createServer({
    ...{ logLevel: 'silent', port: 0, stallMs: 0, cors: { origin: ['https://example.com'] } },
    routes,
  })
  onTestFinished(() => app.close())
  expect((await app.inject({ method: 'OPTIONS', url: '/p0', payload: 'abc' })).body).toBe('abc')
})

test.each<[string, Partial<CreateServerOptions>]>([
  ['no options', {}],
  ['CORS', { cors: { origin: ['https://example.com'] } }],
  ['API keys', { apiKeys: ['0123456789abcdef0123456789abcdef'] }],
  ['a folder of files', { static: { '/deep': dirname(guest('upper')) } }],
  ['a rate limit', { rateLimit: { max: 10, timeWindowMs: 3_600_000 } }],
])('many routes answer as few do, with %s', async (_what, options) => {
  const hasCors = options.cors !== undefined
  const few = await answersOf(await serve(LEAST_ROUTES - 1, options), hasCors)
  const many = await answersOf(await serve(LEAST_ROUTES, options), hasCors)
  expect(many).toEqual(few)
})
