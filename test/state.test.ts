import { existsSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createApp } from '../src/app.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../src/config/options.ts'
import { openLog } from '../src/log/log.ts'
import { openLmdbStore } from '../src/store/lmdb.ts'
import { file, guest } from './support/guest.ts'
import { kvGuest } from './support/kv-guest.ts'
import { type RedisServer, startRedis } from './support/redis.ts'
import { newFolder } from './support/stores.ts'

const canWait = 'Suspending' in WebAssembly
const inWorkers = { engine: 'workers', workers: 2, timeoutMs: 10_000 } as const
const ALL = ['get', 'set', 'list', 'kv_read', 'kv_write'] as const

/** A plug-in that calls all functions of the store, as a file. */
const kvPlugin = (name = 'kv.wasm') => file(name, kvGuest(...ALL))

/** A route for each of these exports of a plug-in, at its name. */
function routesOf(plugin: string, exports: readonly string[], options: Partial<RouteOptions> = {}) {
  return exports.map((name) => ({ plugin, function: name, url: `/${name}`, ...options }))
}

/** An app with these routes; closed when the test ends. */
async function mount(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const options = checkServerOptions({ logLevel: 'silent', stallMs: 0, ...server, routes })
  const { app, routes: served } = await createApp(options, openLog('silent'))
  onTestFinished(() => app.close())
  const post = async (url: string, payload: string | Buffer = '') => {
    const reply = await app.inject({ method: 'POST', url, payload })
    return { status: reply.statusCode, body: reply.body, bytes: reply.rawPayload, headers: reply.headers }
  }
  return { app, post, engines: served.map(({ engine, engineReason }) => engineReason ?? engine) }
}

async function startOwnRedis(port?: number): Promise<RedisServer> {
  const server = await startRedis([], port)
  onTestFinished(() => server.stop())
  return server
}

const storeOf = {
  memory: async () => 'memory:',
  lmdb: async () => `lmdb:${newFolder()}`,
  redis: async () => `redis://127.0.0.1:${(await startOwnRedis()).port}`,
}

/** What the guest returned. */
const code = (number: number) => ({ status: 409, body: expect.stringMatching(`returned ${number}$`) })

type Kind = keyof typeof storeOf
const places: readonly (readonly [Kind, string, Partial<RouteOptions>])[] = [
  ['memory', 'inline', {}],
  ['memory', 'the sdk inline', { runtime: 'sdk' }],
  ['memory', 'workers', inWorkers],
  ['lmdb', 'workers', inWorkers],
  ['redis', 'workers', inWorkers],
  ['redis', 'the sdk in workers', { runtime: 'sdk', ...inWorkers }],
  ['lmdb', 'fresh instances in workers', { isolation: 'fresh', ...inWorkers }],
  ...(canWait
    ? ([
        ['lmdb', 'inline, where guests can wait', { engine: 'inline' }],
        ['redis', 'inline, where guests can wait', { engine: 'inline' }],
      ] as const)
    : []),
]

describe.each(places)('state in %s, with guests in %s', (kind, _place, options) => {
  test('is what the routes of a plug-in share', async () => {
    const { post } = await mount(routesOf(kvPlugin(), ['get', 'set', 'list', 'read', 'write'], options), {
      store: await storeOf[kind](),
    })
    expect(await post('/read', 'greeting')).toMatchObject({ status: 200, body: '\0\0\0\0' })
    if (options.runtime !== 'sdk') expect(await post('/get', 'greeting')).toMatchObject(code(-1))
    expect(await post('/set', 'greetingHello')).toMatchObject({ status: 200, body: '' })
    expect(await post('/get', 'greeting')).toMatchObject({ status: 200, body: 'Hello' })
    expect(await post('/write', 'greetingHi')).toMatchObject({ status: 200, body: '' })
    expect(await post('/read', 'greeting')).toMatchObject({ status: 200, body: 'Hi' })
    expect(JSON.parse((await post('/list', '')).body)).toEqual({ keys: ['greeting'] })
  })

  test('keeps each of many values as it was written', async () => {
    const { post } = await mount(routesOf(kvPlugin(), ['get', 'set'], options), {
      store: await storeOf[kind](),
    })
    const sizes = [0, 1, 7, 16_384, 100_000, 1_000_000]
    const entries = sizes.map((size, i) => {
      const value = Buffer.from(Array.from({ length: size }, (_, at) => (at * 7 + i) % 256))
      return { key: `key ${i}   `, value }
    })
    const written = entries.map(({ key, value }) => post('/set', Buffer.concat([Buffer.from(key), value])))
    for (const { status } of await Promise.all(written)) expect(status).toBe(200)
    const read = await Promise.all(entries.map(({ key }) => post('/get', key)))
    read.forEach(({ bytes }, i) => {
      expect(bytes.equals(entries[i]?.value ?? Buffer.alloc(0))).toBe(true)
    })
  })
})

describe('where guests run that have state', () => {
  test('on the event loop with a store in memory', async () => {
    expect((await mount(routesOf(kvPlugin(), ['get', 'set']))).engines).toEqual(['inline', 'inline'])
  })

  test('on the event loop if they only read from lmdb', async () => {
    const folder = newFolder()
    const plugin = file('reader.wasm', kvGuest('get', 'list', 'kv_read'))
    const before = await openLmdbStore({ folder })
    await before.set('reader.wasm', 'k', Buffer.from('of before'))
    await before.close()
    const { engines, post } = await mount(routesOf(plugin, ['get', 'read', 'list']), {
      store: `lmdb:${folder}`,
    })
    expect(engines).toEqual(['inline', 'inline', 'inline'])
    expect(await post('/get', 'k')).toMatchObject({ body: 'of before' })
    expect(await post('/read', 'k')).toMatchObject({ body: 'of before' })
    expect(await post('/list')).toMatchObject({ body: '{"keys":["k"]}' })
  })

  test('in a thread if they write to lmdb, unless they may only read', async () => {
    const store = await storeOf.lmdb()
    const [route] = routesOf(kvPlugin(), ['set'])
    if (!route) throw new Error('no route')
    const { engines, post } = await mount([route, { ...route, url: '/refused', kv: { access: 'read' } }], {
      store,
    })
    expect(engines).toEqual(['key-value store', 'inline'])
    expect(await post('/set', 'keykeykex')).toMatchObject({ status: 200 })
    expect(await post('/refused', 'keykeykey')).toMatchObject(code(-3))
  })

  test('in a thread with redis', async () => {
    const plugin = file('reader.wasm', kvGuest('get'))
    const { engines } = await mount(routesOf(plugin, ['get']), { store: await storeOf.redis() })
    expect(engines).toEqual(['key-value store'])
  })

  test.runIf(!canWait)('not on the event loop, where they cannot wait there', async () => {
    const opening = mount(routesOf(kvPlugin(), ['set'], { engine: 'inline' }), {
      store: await storeOf.lmdb(),
    })
    await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_HOST_FUNCTION_ASYNC' })
  })

  test('not in a thread with functions that are objects: it is said why there would be one', async () => {
    const routes = routesOf(kvPlugin(), ['set'], { functions: { mine: { f: () => 0 } } })
    await expect(mount(routes, { store: await storeOf.lmdb() })).rejects.toThrow(
      /threads \(key-value store\) cannot be given functions/,
    )
  })
})

describe('a store', () => {
  test('is not opened if no plug-in uses it', async () => {
    const folder = newFolder()
    const mine = { functions: { 'wasm-serve:kv': { get: () => 0n } } }
    const own = { ...routesOf(file('get.wasm', kvGuest('get')), ['get'])[0], ...mine } as RouteOptions
    await mount([{ plugin: guest('echo') }, own], { store: `lmdb:${folder}` })
    expect(existsSync(folder)).toBe(false)
    await mount([{ plugin: guest('echo') }], { store: 'redis://127.0.0.1:1' })
  })

  test('that cannot be opened is an error at the start', async () => {
    const routes = routesOf(kvPlugin(), ['get', 'set'])
    await expect(mount(routes, { store: 'redis://127.0.0.1:1' })).rejects.toMatchObject({
      code: 'WASM_SERVE_STORE_UNAVAILABLE',
    })
    await expect(mount(routes, { store: `lmdb:${guest('echo')}` })).rejects.toMatchObject({
      code: 'WASM_SERVE_STORE_INVALID',
    })
  })

  test('goes on when another app of the process that had it too is closed', async () => {
    const store = await storeOf.lmdb()
    const [old, next] = [
      await mount(routesOf(kvPlugin(), ['set'], inWorkers), { store }),
      await mount(routesOf(kvPlugin(), ['set', 'get'], inWorkers), { store }),
    ]
    expect(await old.post('/set', 'key old Hello')).toMatchObject({ status: 200 })
    expect(await next.post('/set', 'key new Hi')).toMatchObject({ status: 200 })
    await old.app.close()
    expect(await next.post('/set', 'key lastHey')).toMatchObject({ status: 200 })
    const read = await Promise.all(['key old ', 'key new ', 'key last'].map((key) => next.post('/get', key)))
    expect(read.map(({ body }) => body)).toEqual(['Hello', 'Hi', 'Hey'])
  })

  test('is not there for a route that may not have it', async () => {
    await expect(mount(routesOf(kvPlugin(), ['get'], { kv: { access: 'none' } }))).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
    })
  })

  test('keeps plug-ins apart, unless they are told the same namespace', async () => {
    const [one, two] = [kvPlugin('one.wasm'), kvPlugin('two.wasm')]
    const { post } = await mount([
      { plugin: one, function: 'set', url: '/one/set' },
      { plugin: two, function: 'get', url: '/two/get' },
      { plugin: two, function: 'list', url: '/two/list' },
      { plugin: two, function: 'get', url: '/shared/get', kv: { namespace: 'one.wasm' } },
    ])
    expect(await post('/one/set', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/two/get', 'greeting')).toMatchObject(code(-1))
    expect(await post('/two/list')).toMatchObject({ body: '{"keys":[]}' })
    expect(await post('/shared/get', 'greeting')).toMatchObject({ body: 'Hello' })
  })

  test.each([
    ['on the event loop', {}],
    ['in threads', inWorkers],
  ])('can be read only, %s', async (_where, options) => {
    const { post } = await mount([
      ...routesOf(kvPlugin(), ['set', 'get'], options),
      ...routesOf(kvPlugin(), ['set', 'write', 'get'], { ...options, kv: { access: 'read' } }).map(
        (route) => ({
          ...route,
          url: `/read${route.url}`,
        }),
      ),
    ])
    await post('/set', 'greetingHello')
    expect(await post('/read/set', 'greetingHi')).toMatchObject(code(-3))
    const written = await post('/read/write', 'greetingHi')
    expect([written.status, JSON.parse(written.body).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
    expect(await post('/read/get', 'greeting')).toMatchObject({ body: 'Hello' })
  })

  test("stands back behind functions of the user's own", async () => {
    const own = {
      'wasm-serve:kv': { get: (context: { store(text: string): bigint }) => context.store('mine') },
    }
    const named = file(
      'functions.mjs',
      "export default { 'wasm-serve:kv': { get: (context) => context.store('mine') } }",
    )
    const { post } = await mount([
      { plugin: kvPlugin(), function: 'get', url: '/object', functions: own },
      { plugin: kvPlugin(), function: 'get', url: '/module', functions: named, ...inWorkers },
      { plugin: kvPlugin(), function: 'set', url: '/set', functions: own },
      { plugin: kvPlugin(), function: 'read', url: '/read', functions: named, ...inWorkers },
    ])
    expect(await post('/set', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/object', 'greeting')).toMatchObject({ body: 'mine' })
    expect(await post('/module', 'greeting')).toMatchObject({ body: 'mine' })
    expect(await post('/read', 'greeting')).toMatchObject({ body: 'Hello' })
  })

  test('is there when a plug-in is tried before it serves', async () => {
    const { post } = await mount(routesOf(kvPlugin(), ['set', 'get']), { trial: true })
    await post('/set', 'greetingHello')
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Hello' })
  })

  test('that is full is told to the guest, or answered with 503', async () => {
    const { post } = await mount(routesOf(kvPlugin(), ['set', 'write', 'get']), { storeMax: 1_000 })
    const large = `greeting${'x'.repeat(2_000)}`
    expect(await post('/set', large)).toMatchObject(code(-6))
    const written = await post('/write', large)
    expect(written).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(JSON.parse(written.body)).toMatchObject({ code: 'WASM_SERVE_HOST_UNAVAILABLE' })
    expect(await post('/write', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Hello' })
  })

  test('that goes away and comes back costs the calls in between, not the instance', async () => {
    const server = await startOwnRedis()
    const store = `redis://127.0.0.1:${server.port}`
    const { post } = await mount(routesOf(kvPlugin(), ['set', 'get', 'read'], { ...inWorkers, workers: 1 }), {
      store,
    })
    expect(await post('/set', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Hello' })
    await server.stop()
    for (let i = 0; i < 3; i++) {
      expect(await post('/get', 'greeting')).toMatchObject(code(-7))
      const read = await post('/read', 'greeting')
      expect(read).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
      expect(JSON.parse(read.body)).toMatchObject({ code: 'WASM_SERVE_HOST_UNAVAILABLE' })
      expect(read.body).not.toContain('127.0.0.1')
    }
    await startOwnRedis(server.port)
    let calls = 4
    for (;;) {
      const answer = await post('/set', 'greetingAgain') // until the client has connected again
      if (answer.status === 200) break
      expect(answer).toMatchObject(code(-7))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(await post('/get', 'greeting')).toMatchObject({ body: 'Again' })
    expect(await post('/read', 'greeting')).toMatchObject({ body: 'Again' })
    calls += 2
    expect([...(await post('/get', '')).bytes]).toEqual([calls])
  })
})

test('a thread that is ended in the middle of a write leaves the store whole, and open to others', async () => {
  const folder = newFolder()
  const options = { engine: 'workers', workers: 2 } as const
  const { post } = await mount(
    [
      ...routesOf(kvPlugin(), ['storm'], { ...options, timeoutMs: 60 }),
      ...routesOf(kvPlugin(), ['set', 'get'], { ...options, timeoutMs: 10_000 }),
    ],
    { store: `lmdb:${folder}` },
  )
  const other = await openLmdbStore({ folder })
  onTestFinished(() => other.close())
  for (let round = 0; round < 10; round++) {
    const stormed = await Promise.all([post('/storm', 'key one '), post('/storm', 'key two ')])
    expect(stormed.map(({ status }) => status)).toEqual([504, 504])
    for (const key of ['key one ', 'key two ']) {
      const { body } = await post('/get', key)
      expect(body).toBe((body[0] ?? '').repeat(50_000))
      expect(body).toMatch(/^[a-z]/)
    }
    expect(await post('/set', `key last${round}`)).toMatchObject({ status: 200 })
    await other.set('kv.wasm', 'of other', Buffer.from(String(round)))
    expect(await post('/get', 'of other')).toMatchObject({ body: String(round) })
  }
})
