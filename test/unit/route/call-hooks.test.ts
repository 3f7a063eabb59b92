import Fastify from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type CallHooks,
  CallRefusedError,
  createServer,
  type FailedCall,
  type GuestResult,
  type RouteOptions,
  wasmServe,
} from '../../../src/index.ts'
import { sendAnyError } from '../../../src/route/error-response.ts'
import { guest } from '../../support/guest.ts'
import { listen, serve } from '../../support/serve.ts'

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Hooks that keep what they are told. */
function keep() {
  const results: GuestResult[] = []
  const failures: FailedCall[] = []
  const hooks: CallHooks = {
    onResult: (result) => results.push(result),
    onError: (failure) => failures.push(failure),
  }
  return { hooks, results, failures }
}

/** Where a call ends at once, where it ends later, and where it ends in another thread. */
const places: readonly Partial<RouteOptions>[] = [
  { engine: 'inline', runtime: 'kernel' },
  { engine: 'inline', runtime: 'sdk' },
  { engine: 'workers', timeoutMs: 5_000 },
]

describe.each(places)('hooks of a route with $engine $runtime', (place) => {
  const upper = { ...place, plugin: guest('upper') }

  test('onCall and onResult are told of a call', async () => {
    const { hooks, results, failures } = keep()
    const inputs: string[] = []
    const onCall: CallHooks['onCall'] = ({ route, request, input }) => {
      inputs.push(`${route.url} ${request.id} ${text(input)}`)
    }
    const app = await serve({ ...upper, url: '/up', ...hooks, onCall })
    const headers = { 'x-request-id': 'mine' }
    const reply = await app.inject({ method: 'POST', url: '/up', headers, payload: 'abc' })
    expect([reply.statusCode, reply.body]).toEqual([200, 'ABC'])
    expect(inputs).toEqual(['/up mine abc'])
    expect(failures).toEqual([])
    expect(results).toMatchObject([{ route: { url: '/up', function: 'upper' }, request: { id: 'mine' } }])
    expect(text(results[0]?.output ?? bytes(''))).toBe('ABC')
    expect(results[0]?.ms).toBeGreaterThan(0)
  })

  test.each([
    ['at once', () => bytes('other')],
    ['later', async () => turn().then(() => bytes('other'))],
  ])('onCall can replace the input %s', async (_, onCall) => {
    const app = await serve({ ...upper, onCall })
    expect((await app.inject({ method: 'POST', url: '/', payload: 'abc' })).body).toBe('OTHER')
  })

  test.each([
    [
      'at once',
      () => {
        throw new CallRefusedError('not today')
      },
    ],
    ['later', async () => turn().then(() => Promise.reject(new CallRefusedError('not today')))],
  ])('onCall can refuse the call %s: the guest is not run', async (_, refuse) => {
    const { hooks, results, failures } = keep()
    let refuses = true
    const onCall = () => (refuses ? refuse() : undefined)
    const app = await serve({ ...place, plugin: guest('count'), function: 'count', ...hooks, onCall })
    const refused = await app.inject({ method: 'POST', url: '/' })
    expect(refused.statusCode).toBe(403)
    expect(refused.json()).toMatchObject({ code: 'WASM_SERVE_CALL_REFUSED', detail: 'not today' })
    expect(failures).toMatchObject([{ error: { code: 'WASM_SERVE_CALL_REFUSED' }, ms: 0 }])
    refuses = false
    expect((await app.inject({ method: 'POST', url: '/' })).body).toBe('1')
    expect(results.length).toBe(1)
  })

  test.each([
    ['refuse', 'refuse', 409, 'WASM_SERVE_GUEST_ERROR'],
    ['trap', 'trap!', 500, 'WASM_SERVE_GUEST_TRAP'],
  ])('onError is told when the guest of %s fails, and onResult is not', async (name, payload, status, code) => {
    const { hooks, results, failures } = keep()
    const app = await serve({ ...place, plugin: guest(name), ...hooks })
    const reply = await app.inject({ method: 'POST', url: '/', payload })
    expect(reply.statusCode).toBe(status)
    expect(failures).toMatchObject([{ error: { code }, request: {}, route: { url: '/' } }])
    expect(failures[0]?.ms).toBeGreaterThan(0)
    expect(results).toEqual([])
  })

  test('a hook that watches and throws changes no answer, and is logged', async () => {
    const lines: string[] = []
    const app = Fastify({ logger: { level: 'error', stream: { write: (line: string) => lines.push(line) } } })
    onTestFinished(() => app.close())
    const broken = {
      onResult: () => {
        throw new Error('broken result')
      },
      onError: async () => Promise.reject(new Error('broken error')),
    }
    await app.register(wasmServe, {
      routes: [
        { ...upper, ...broken, url: '/upper' },
        { ...place, ...broken, plugin: guest('refuse'), url: '/refuse' },
      ],
    })
    expect((await app.inject({ method: 'POST', url: '/upper', payload: 'abc' })).body).toBe('ABC')
    expect((await app.inject({ method: 'POST', url: '/refuse', payload: 'no' })).statusCode).toBe(409)
    await turn()
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'the hook onResult failed', err: { message: 'broken result' } },
      { msg: 'the hook onError failed', err: { message: 'broken error' } },
    ])
  })

  test('calls that overlap keep their inputs, and each is told of once', async () => {
    const { hooks, results } = keep()
    const onCall: CallHooks['onCall'] = async ({ input }) => {
      for (let turns = Math.random() * 5; turns > 0; turns--) await turn()
      return bytes(`<${text(input)}>`)
    }
    const { url } = await listen({ ...place, plugin: guest('echo'), ...hooks, onCall })
    const ids = Array.from({ length: 100 }, (_, id) => `id-${id}`)
    const answers = ids.map(async (id) => (await fetch(url, { method: 'POST', body: id })).text())
    expect(await Promise.all(answers)).toEqual(ids.map((id) => `<${id}>`))
    expect(results.map(({ output }) => text(output)).sort()).toEqual(ids.map((id) => `<${id}>`).sort())
  })
})

test('hooks for all routes come before those of the route, which gets the input they put in its place', async () => {
  const seen: string[] = []
  const hooks = (name: string): CallHooks => ({
    onCall: ({ route, input }) => {
      seen.push(`${name} call ${route.url}`)
      return bytes(`${name}(${text(input)})`)
    },
    onResult: () => seen.push(`${name} result`),
    onError: () => seen.push(`${name} error`),
  })
  const app = await createServer({
    ...hooks('all'),
    logLevel: 'silent',
    routes: [
      { url: '/a', plugin: guest('echo'), ...hooks('own') },
      { url: '/b', plugin: guest('refuse') },
    ],
  })
  onTestFinished(() => app.close())
  expect((await app.inject({ method: 'POST', url: '/a', payload: 'x' })).body).toBe('own(all(x))')
  await app.inject({ method: 'POST', url: '/b', payload: 'x' })
  expect(seen).toEqual(['all call /a', 'own call /a', 'all result', 'own result', 'all call /b', 'all error'])
})

test('an error of onCall goes to the error handler of the app, unless it is of wasm-serve', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.setErrorHandler((error: Error, _request, reply) => reply.code(418).send({ mine: error.message }))
  const refuse = (error: Error) => () => {
    throw error
  }
  await app.register(wasmServe, {
    routes: [
      { url: '/own', plugin: guest('echo'), onCall: refuse(new Error('own')) },
      { url: '/ours', plugin: guest('echo'), onCall: refuse(new CallRefusedError('ours')) },
    ],
  })
  const own = await app.inject({ method: 'POST', url: '/own' })
  expect([own.statusCode, own.json()]).toEqual([418, { mine: 'own' }])
  expect((await app.inject({ method: 'POST', url: '/ours' })).statusCode).toBe(403)
})

test.each([
  ['an error with a status of 4xx', Object.assign(new Error('pay'), { statusCode: 402 }), 402, 'pay'],
  [
    'a refusal with another status',
    Object.assign(new CallRefusedError('slow'), { statusCode: 429 }),
    429,
    'slow',
  ],
  ['an error without a status', new Error('secret'), 500, 'Internal server error'],
  ['a text', 'secret', 500, 'Internal server error'],
  ['nothing', undefined, 500, 'Internal server error'],
  ['what cannot be a text', Object.create(null), 500, 'Internal server error'],
])('%s that onCall throws in a server of its own is a failure', async (_, thrown, status, detail) => {
  const { hooks, failures } = keep()
  const onCall = () => {
    throw thrown
  }
  const app = await serve({ plugin: guest('echo'), ...hooks, onCall })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'x' })
  expect([reply.statusCode, reply.json().status, reply.json().detail]).toEqual([status, status, detail])
  expect(reply.json().code).toBe(status < 500 ? 'WASM_SERVE_CALL_REFUSED' : 'WASM_SERVE_INTERNAL_ERROR')
  expect(failures[0]?.error).toBeInstanceOf(Error)
})

test('a 4xx of a package is no refusal of a hook', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.setErrorHandler(sendAnyError)
  app.get('/', async () => Promise.reject(Object.assign(new Error('not here'), { statusCode: 421 })))
  const reply = await app.inject('/')
  const problem = { status: 421, code: 'WASM_SERVE_REQUEST_REFUSED', detail: 'not here' }
  expect([reply.statusCode, reply.json()]).toEqual([421, expect.objectContaining(problem)])
})

test('what onCall returns must be bytes or nothing: a mistake is not passed over', async () => {
  const app = await serve({ plugin: guest('echo'), onCall: (() => 'text') as never })
  const reply = await app.inject({ method: 'POST', url: '/', payload: 'x' })
  expect(reply.json()).toMatchObject({ status: 500, code: 'WASM_SERVE_INTERNAL_ERROR' })
})

test('an output that is no answer is an error, and no result', async () => {
  const { hooks, results, failures } = keep()
  const app = await serve({
    plugin: guest('echo'),
    contract: 'http',
    onCall: () => bytes('no JSON'),
    ...hooks,
  })
  expect((await app.inject({ method: 'POST', url: '/' })).statusCode).toBe(502)
  expect(failures).toMatchObject([{ error: { code: 'WASM_SERVE_CONTRACT_BROKEN' } }])
  expect(results).toEqual([])
})

test('a call that is ended by its deadline is told of with its error', async () => {
  const { hooks, failures } = keep()
  const app = await serve({ plugin: guest('loop'), function: 'loop', timeoutMs: 50, ...hooks })
  expect((await app.inject({ method: 'POST', url: '/' })).statusCode).toBe(504)
  expect(failures).toMatchObject([{ error: { code: 'WASM_SERVE_DEADLINE_EXCEEDED' } }])
  expect(failures[0]?.ms).toBeGreaterThanOrEqual(50)
})

test('what is refused before there is a call, no hook sees', async () => {
  const { hooks, results, failures } = keep()
  const app = await serve({ plugin: guest('echo'), bodyLimit: 1, ...hooks })
  expect((await app.inject({ method: 'POST', url: '/', payload: 'xx' })).statusCode).toBe(413)
  expect((await app.inject({ method: 'GET', url: '/' })).statusCode).toBe(405)
  expect([results, failures]).toEqual([[], []])
})
