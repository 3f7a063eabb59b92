import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../../src/errors/errors.ts'
import { checkServerOptions, checkWasmServeOptions, problemsOf } from '../../../src/options/options.ts'
import { routeSchema } from '../../../src/options/options-schema.ts'

const plugin = 'hello.wasm'

function problemsIn(check: () => unknown): readonly [option: string, message: string][] {
  try {
    check()
  } catch (error) {
    if (error instanceof OptionsError)
      return problemsOf(error).map(({ option, message }) => [option, message])
    throw error
  }
  return []
}

test('what is left out has its default', () => {
  expect(checkServerOptions({ routes: [{ plugin }] })).toMatchObject({
    host: '127.0.0.1',
    port: 8080,
    drainMs: 300,
    routes: [{ plugin, url: '/', wasi: true, bodyLimit: 1_048_576, outputLimit: 8_388_608, config: {} }],
  })
})

test("the caller's object stays as it was, and bytes are not copied", () => {
  const bytes = Uint8Array.of(0)
  const options = { routes: [{ plugin: bytes }] }
  const checked = checkWasmServeOptions(options)
  expect(options).toEqual({ routes: [{ plugin: bytes }] })
  expect(checked.routes[0]?.plugin).toBe(bytes)
})

test('every problem is listed at once, unknown options with a suggestion', () => {
  const found = problemsIn(() =>
    checkServerOptions({
      prot: 80,
      host: '',
      routes: [{ plugin: '', bodylimit: 1 }, { plugin, url: 'no-slash' }, {}],
    }),
  )
  expect(found).toContainEqual(['prot', 'unknown option; did you mean "port"?'])
  expect(found).toContainEqual(['routes[0].bodylimit', 'unknown option; did you mean "bodyLimit"?'])
  expect(found).toContainEqual(['routes[2].plugin', 'is missing'])
  expect(found.map(([option]) => option).sort()).toEqual([
    'host',
    'prot',
    'routes[0].bodylimit',
    'routes[0].plugin',
    'routes[1].url',
    'routes[2].plugin',
  ])
})

test.each([
  ['nothing', undefined],
  ['null', null],
  ['a list', []],
  ['text', 'routes'],
  ['no routes', {}],
  ['an empty list of routes', { routes: [] }],
  ['a route that is no object', { routes: [null] }],
  ['config that is no text', { routes: [{ plugin, config: { a: 1 } }] }],
  ['config that is no text, with a line break in its key', { routes: [{ plugin, config: { 'a\nb': 1 } }] }],
  ['a list of holes', { routes: new Array(1) }],
  ['a limit of zero', { routes: [{ plugin, maxQueueBytes: 0 }] }],
  ['a limit that is text', { routes: [{ plugin, bodyLimit: '1MB' }] }],
  ['a limit with a fraction', { routes: [{ plugin, bodyLimit: 1.5 }] }],
  ['a limit that is no number', { routes: [{ plugin, bodyLimit: Number.NaN }] }],
  ['a content type with a line break', { routes: [{ plugin, contentType: 'text/plain\r\nx: y' }] }],
  ['a content type that is no media type', { routes: [{ plugin, contentType: 'json' }] }],
  ['an unknown method', { routes: [{ plugin, method: 'FETCH' }] }],
  ['a method in lower case', { routes: [{ plugin, method: ['get'] }] }],
  ['no method', { routes: [{ plugin, method: [] }] }],
  ['a method twice', { routes: [{ plugin, method: ['GET', 'GET'] }] }],
  ['a host with a port', { routes: [{ plugin, host: 'a.example.com:80' }] }],
  ['a host that is a pattern', { routes: [{ plugin, host: '*.example.com' }] }],
  ['an unknown contract', { routes: [{ plugin, contract: 'cgi' }] }],
  ['a contract without an answer', { routes: [{ plugin, contract: { name: 'a', input: () => plugin } }] }],
  ['a contract without a name', { routes: [{ plugin, contract: { input: () => 0, answer: () => 0 } }] }],
  ['a hook that is no function', { routes: [{ plugin, onCall: 'hook.mjs' }] }],
  ['a hook for all that is no function', { onError: {}, routes: [{ plugin }] }],
  ['a status for errors that is none', { routes: [{ plugin, errorStatus: 200 }] }],
  ['a header with a line break', { routes: [{ plugin, headers: { a: 'b\r\nc: d' } }] }],
  ['a header with a bad name', { routes: [{ plugin, headers: { 'a b': 'c' } }] }],
  ['a header that frames the answer', { routes: [{ plugin, headers: { 'Content-Length': '1' } }] }],
  ['a content type among the headers', { routes: [{ plugin, headers: { 'Content-Type': 'a/b' } }] }],
  ['a key of every object', JSON.parse('{"routes":[{"plugin":"a","__proto__":{}}]}')],
])('%s is refused', (_, options) => {
  expect(problemsIn(() => checkWasmServeOptions(options)).length).toBeGreaterThan(0)
})

test('a wrong method, contract or header is one problem that says what is right', () => {
  const route = { plugin, method: 'FETCH', contract: 'cgi' }
  expect(problemsIn(() => checkServerOptions({ routes: [route] }))).toEqual([
    ['routes[0].method', 'must be one or several of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, *'],
    ['routes[0].contract', 'must be one of raw, http, simplism, hyper-mcp, websocket'],
  ])
  const headers = { 'X-A': '1', Connection: 'close' }
  expect(problemsIn(() => checkServerOptions({ routes: [{ plugin, headers }] }))).toEqual([
    ['routes[0].headers.Connection', 'is set by the server'],
  ])
})

/** The options that have a problem, beside a route that has none. */
const wrongIn = (options: object) =>
  problemsIn(() => checkServerOptions({ routes: [{ plugin }], ...options })).map(([option]) => option)

test.each([
  ...['loopback', 'linklocal', 'uniquelocal', '10.0.0.1', '10.0.0.0/8', '10.0.0.0/32', '0.0.0.0/0'],
  ...['::1', 'fd00::/8', '::1/128'],
])('a proxy may be %s', (network) => {
  expect(wrongIn({ trustProxy: [network] })).toEqual([])
})

test.each([
  'localhost',
  '10.0.0.0/33',
  '::1/129',
  '10.0.0/8',
  '10.0.0.0/',
  '10.0.0.0/8/8',
  '10.0.0.0/1000',
  '',
])('a proxy may not be %j', (network) => {
  expect(wrongIn({ trustProxy: ['10.0.0.1', network] })).toEqual(['trustProxy[1]'])
})

test.each<[object, wrong: string[]]>([
  [{ port: 80, admin: '127.0.0.1:81', probes: '127.0.0.1:82' }, []],
  [{ port: 80, admin: '127.0.0.1:80' }, ['admin']],
  [{ port: 80, admin: '80' }, ['admin']],
  [{ port: 80, host: '0.0.0.0', admin: '127.0.0.1:80' }, ['admin']],
  [{ port: 80, host: '::', probes: '127.0.0.1:80' }, ['probes']],
  [{ port: 80, host: '127.0.0.2', admin: '127.0.0.1:80' }, []],
  [{ port: 80, admin: 'localhost:81', probes: '127.0.0.1:81' }, ['probes']],
  [{ port: 0, admin: '127.0.0.1:0', probes: '127.0.0.1:0' }, []],
  [{ port: 80, admin: '/run/a', probes: '/run/a' }, ['probes']],
  [{ port: 80, admin: '/run/a', probes: '/run/b' }, []],
])('of the listeners %j, these have the place of another: %j', (options, wrong) => {
  expect(wrongIn(options)).toEqual(wrong)
})

test.each<[object, wrong: string[]]>([
  [{ secret: 'x'.repeat(32) }, []],
  [{ secret: 'x'.repeat(32), algorithms: ['HS256'] }, []],
  [{ secret: 'x'.repeat(32), algorithms: ['HS256', 'RS256'] }, ['jwt.algorithms[1]']],
  [{ publicKey: 'a', algorithms: ['HS256'] }, ['jwt.algorithms[0]']],
  [{ publicKey: 'a', algorithms: ['RS256'] }, []],
  [{}, ['jwt']],
  [{ secret: 'x'.repeat(32), publicKey: 'a' }, ['jwt']],
  [{ publicKey: 'a', jwksCa: 'a' }, ['jwt.jwksCa']],
  [{ jwksUrl: 'https://a.example/keys', jwksCa: 'a' }, []],
  [{ jwksUrl: 'http://a.example/keys' }, ['jwt.jwksUrl']],
])('of the keys for tokens %j, these are wrong: %j', (jwt, wrong) => {
  expect(wrongIn({ jwt })).toEqual(wrong)
})

test.each([
  [{ secret: 'x'.repeat(32), algorithms: ['ES256'] }, 'needs a public key, not a secret'],
  [{ publicKey: 'a', algorithms: ['HS512'] }, 'needs a secret, not a public key'],
  [{ jwks: 'a', algorithms: ['HS512'] }, 'needs a secret, not a public key'],
])('the algorithm of %j %s', (jwt, message) => {
  const found = problemsIn(() => checkServerOptions({ routes: [{ plugin }], jwt }))
  expect(found).toEqual([['jwt.algorithms[0]', message]])
})

test.each([
  '/a/:',
  '/a/:/b',
  '/:-',
  '/a?',
  '/a?b',
  '/a#b',
])('the URL %s has no request, or a part without a name', (url) => {
  expect(wrongIn({ routes: [{ plugin, url }] })).toEqual(url === '/a?' ? [] : ['routes[0].url'])
})

test.each(['/a/:b', '/a/::b', '/a::', '/:a-:b', '/:a(^\\\\d+:$)', '/:a?'])('the URL %s is one', (url) => {
  expect(wrongIn({ routes: [{ plugin, url }] })).toEqual([])
})

test('a hook that is no function is one problem that says what is right, and null is none', () => {
  const hooks = { onCall: null, onResult: 'log.mjs', onErorr: () => 0 }
  expect(problemsIn(() => checkServerOptions({ ...hooks, routes: [{ plugin }] }))).toEqual([
    ['onErorr', 'unknown option; did you mean "onError"?'],
    ['onCall', 'must be a function'],
    ['onResult', 'must be a function'],
  ])
  const onCall = () => undefined
  expect(checkServerOptions({ onCall, routes: [{ plugin, onError: undefined }] }).onCall).toBe(onCall)
})

test("a contract of the caller's own stays what it is", () => {
  const contract = { name: 'mine', input: () => Uint8Array.of(), answer: () => undefined }
  expect(checkWasmServeOptions({ routes: [{ plugin, contract }] }).routes[0]?.contract).toBe(contract)
})

test('options that contain themselves are refused like others', () => {
  const circle: Record<string, unknown> = { routes: [{ plugin }] }
  circle.circle = circle
  expect(problemsIn(() => checkServerOptions(circle))).toEqual([['circle', 'unknown option']])
})

test('whatever is given, the check answers or lists problems, and Object.prototype stays clean', () => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true }), (routes) => {
      problemsIn(() => checkWasmServeOptions({ routes }))
      problemsIn(() => checkServerOptions(routes))
      expect(Object.keys(Object.prototype)).toEqual([])
    }),
  )
})

test('the published schema describes the same options, as a config file has them', () => {
  const schema = JSON.parse(readFileSync(new URL('../../../dist/schema.json', import.meta.url), 'utf8'))
  expect(schema.properties.port).toMatchObject({
    default: 8080,
    anyOf: [{ type: 'integer', maximum: 65_535 }, { type: 'string' }],
  })
  const { onCall, onResult, onError, ...inFile } = routeSchema.properties
  const { url, plugin, function: _, ...shared } = inFile
  expect(Object.keys(schema.properties.defaults.properties)).toEqual(Object.keys(shared))
  expect(Object.keys(schema.properties.routes.items.properties)).toEqual(Object.keys(inFile))
  expect(schema.properties.routes.items.properties.plugin).toMatchObject({ type: 'string', minLength: 1 })
  expect(schema.properties.routes.items.properties.contract).toMatchObject({
    anyOf: [{ enum: ['raw', 'http', 'simplism', 'hyper-mcp', 'websocket'] }, { type: 'string' }],
  })
  expect(schema.additionalProperties).toBe(false)
  expect(JSON.stringify(schema)).not.toMatch(
    /pluginSource|hostFunctions|allowedHost"|nameOrContract|threadCount|callHook|onCall|holds/,
  )
})

test('the check that is built answers as the source does', async () => {
  const built = await import(new URL('../../../dist/index.js', import.meta.url).href)
  const wrong = { prot: 80, routes: [{ plugin: 1, url: 'x' }] }
  const right = { routes: [{ plugin }] }
  expect(built.checkServerOptions(right)).toEqual(checkServerOptions(right))
  expect(() => built.checkServerOptions(wrong)).toThrowError(
    expect.objectContaining({ message: messageOf(() => checkServerOptions(wrong)) }),
  )
})

function messageOf(check: () => unknown): string {
  try {
    check()
  } catch (error) {
    return (error as Error).message
  }
  return ''
}
