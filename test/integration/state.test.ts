import { existsSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { file, guest } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { canWait, code, describeState, inWorkers, kvPlugin, mount, routesOf } from '../support/state-suite.ts'
import { newFolder } from '../support/stores.ts'

const storeOf = {
  memory: async () => 'memory:',
  lmdb: async () => `lmdb:${newFolder()}`,
}

describeState('memory, with guests inline', storeOf.memory, {})
describeState('lmdb, with guests in workers', storeOf.lmdb, inWorkers)
if (canWait) describeState('lmdb, with guests that wait inline', storeOf.lmdb, { engine: 'inline' })

describe('where guests run that have state', () => {
  test('on the event loop with a store in memory', async () => {
    expect((await mount(routesOf(kvPlugin(), ['get', 'set']))).engines).toEqual(['inline', 'inline'])
  })

  test('on the event loop if they only read from lmdb', async () => {
    const folder = newFolder()
    const plugin = file('reader.wasm', kvGuest('get', 'list', 'kv_read'))
    const before = await openLmdbStore({ folder })
    await before.set('reader', 'k', Buffer.from('of before'))
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

  test.runIf(!canWait)('not on the event loop, where they cannot wait there', async () => {
    const opening = mount(routesOf(kvPlugin(), ['set'], { engine: 'inline' }), {
      store: await storeOf.lmdb(),
    })
    await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_HOST_FUNCTION_ASYNC' })
  })

  test('not in a thread with functions that are objects: it is said why there would be one', async () => {
    const routes = routesOf(kvPlugin(), ['set'], { functions: { mine: { f: () => 0 } } })
    await expect(mount(routes, { store: await storeOf.lmdb() })).rejects.toThrow(
      /threads \(key-value store\) cannot receive function objects/,
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
    const [one, two] = await Promise.all(['one', 'two'].map((name) => loadPlugin(kvPlugin(), { name })))
    if (!one || !two) throw new Error('not loaded')
    const kv = { namespace: 'common' }
    const { post } = await mount([
      { plugin: one, function: 'set', url: '/one/set' },
      { plugin: two, function: 'get', url: '/two/get' },
      { plugin: two, function: 'list', url: '/two/list' },
      { plugin: one, function: 'set', url: '/shared/set', kv },
      { plugin: two, function: 'get', url: '/shared/get', kv },
    ])
    expect(await post('/one/set', 'greetingHello')).toMatchObject({ status: 200 })
    expect(await post('/two/get', 'greeting')).toMatchObject(code(-1))
    expect(await post('/two/list')).toMatchObject({ body: '{"keys":[]}' })
    expect(await post('/shared/set', 'greetingHello')).toMatchObject({ status: 200 })
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
})
