import { availableParallelism } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer, OptionsError } from '../../src/index.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, problemsOf, type RouteOptions } from '../../src/options/options.ts'
import { resolveRoute } from '../../src/options/resolved-route.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { chooseEngine } from '../../src/route/engine-choice.ts'
import { createApp } from '../../src/server/app.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { checkedRoute } from '../support/route.ts'
import { serve } from '../support/serve.ts'

/** What answers at the only route of an app. */
async function chosen(route: Partial<RouteOptions>) {
  const options = checkServerOptions({ logLevel: 'silent', routes: [{ plugin: guest('echo'), ...route }] })
  const { app, routes } = await createApp(options, openLog('silent'))
  onTestFinished(() => app.close())
  return routes[0]
}

async function problems(route: Partial<RouteOptions>) {
  const error = await chosen(route).catch((error: unknown) => error)
  if (!(error instanceof OptionsError)) throw error
  return problemsOf(error).map(({ option }) => option)
}

const manifest = (settings: object, plugin = 'echo') =>
  file('manifest.json', JSON.stringify({ wasm: [{ path: guest(plugin) }], ...settings }))

describe('a route', () => {
  test('is inline unless something asks for threads', async () => {
    expect(await chosen({})).toMatchObject({ engine: 'inline', workers: 0, engineReason: undefined })
    expect(await chosen({ workers: 0 })).toMatchObject({ engine: 'inline' })
    expect(await chosen({ engine: 'inline' })).toMatchObject({ engine: 'inline' })
  })

  test.each([
    [{ workers: 2 }, 2, '--workers 2'],
    [{ engine: 'workers' }, 1, '--engine workers'],
    [{ timeoutMs: 500, interrupts: 'off' }, 1, '--timeout'],
    [{ timeoutMs: 500, workers: 3 }, 3, '--workers 3'],
    [{ workers: 'auto' }, availableParallelism(), '--workers auto'],
  ] as const)('%j has threads, and says why', async (route, workers, engineReason) => {
    expect(await chosen(route)).toMatchObject({ engine: 'workers', workers, engineReason })
  })

  test('whose guests cannot be interrupted has a thread if its manifest has a deadline', async () => {
    const plugin = manifest({ timeout_ms: 500 })
    const reason = { workers: 1, engineReason: "the manifest's timeout_ms" }
    expect(await chosen({ plugin, interrupts: 'off' })).toMatchObject(reason)
    expect(await chosen({ plugin, runtime: 'sdk' })).toMatchObject(reason)
    expect(await chosen({ plugin })).toMatchObject({ engine: 'inline' })
  })

  test.each([
    [{}, true],
    [{ interrupts: 'off' }, false],
    [{ runtime: 'sdk' }, false],
    [{ functions: 'functions.mjs' }, false],
    [{ functions: { env: { own: () => 0n } } }, true],
    [{ functions: 'functions.mjs', interrupts: 'off' }, false],
  ] as const)('with a deadline and %j stays on the event loop: %s', async (options, isInline) => {
    const route = { timeoutMs: 500, ...options }
    const loaded = await loadPlugin(guest('echo'), {
      runtime: 'runtime' in options ? options.runtime : 'kernel',
    })
    const { name } = chooseEngine(resolveRoute(checkedRoute(route), loaded), loaded, [])
    expect(name).toBe(isInline ? 'inline' : 'workers')
  })

  test('whose manifest has the deadline 0 has none, as with hosts of Extism in Go and JavaScript', async () => {
    const plugin = manifest({ timeout_ms: 0 })
    expect(await chosen({ plugin })).toMatchObject({ engine: 'inline' })
    expect(await chosen({ plugin, engine: 'inline' })).toMatchObject({ engine: 'inline' })
    const loaded = await loadPlugin(plugin)
    const choice = chooseEngine(resolveRoute(checkedRoute({ workers: 2 }), loaded), loaded, [])
    expect(choice).toEqual({ name: 'workers', workers: 2, timeoutMs: undefined, reason: '--workers 2' })
    const own = chooseEngine(resolveRoute(checkedRoute({ workers: 2, timeoutMs: 500 }), loaded), loaded, [])
    expect(own).toMatchObject({ timeoutMs: 500 })
  })

  test('whose manifest has the deadline 0 is answered in a thread', async () => {
    const app = await serve({ plugin: manifest({ timeout_ms: 0 }), workers: 1 })
    const answer = await app.inject({ method: 'POST', url: '/', payload: 'here' })
    expect([answer.statusCode, answer.body]).toEqual([200, 'here'])
  })

  test('that may call out has a thread if its plug-in does', async () => {
    const allowedHosts = ['example.com']
    expect(await chosen({ plugin: guest('fetch'), function: 'fetch', allowedHosts })).toMatchObject({
      workers: 1,
      engineReason: 'outbound HTTP',
    })
    expect(await chosen({ allowedHosts })).toMatchObject({ engine: 'inline' })
    const plugin = manifest({ allowed_hosts: allowedHosts }, 'fetch')
    expect(await chosen({ plugin, function: 'fetch' })).toMatchObject({ workers: 1 })
  })

  test('cannot have a deadline on the event loop if its guests cannot be interrupted', async () => {
    const off = { engine: 'inline', interrupts: 'off' } as const
    expect(await problems({ ...off, timeoutMs: 500 })).toEqual(['routes[0].timeoutMs'])
    expect(await problems({ engine: 'inline', workers: 2 })).toEqual(['routes[0].workers'])
    const plugin = manifest({ timeout_ms: 500 })
    expect(await problems({ ...off, plugin })).toEqual(['routes[0].engine'])
    expect(await chosen({ engine: 'inline', plugin })).toMatchObject({ engine: 'inline' })
  })

  test('with threads cannot receive host functions as objects', async () => {
    const functions = { env: { relay: () => 0n } }
    expect(await problems({ plugin: guest('relay'), functions, workers: 1 })).toEqual(['routes[0].functions'])
  })

  test('has processes if it asks for them, and is told what cannot have them', async () => {
    expect(await chosen({ engine: 'subprocess', workers: 2 })).toMatchObject({
      engine: 'subprocess',
      workers: 2,
      engineReason: '--engine subprocess',
    })
    const functions = { env: { relay: () => 0n } }
    expect(await problems({ plugin: guest('relay'), functions, engine: 'subprocess' })).toEqual([
      'routes[0].functions',
    ])
    expect(await problems({ engine: 'subprocess', runtime: 'sdk' })).toEqual(['routes[0].runtime'])
    expect(await problems({ engine: 'workers', process: 'shared' })).toEqual(['routes[0].process'])
    const plugin = await loadPlugin(guest('echo'))
    expect(await problems({ plugin, engine: 'subprocess' })).toEqual(['routes[0].plugin'])
  })

  test('has processes if its plug-in needs them, which no other engine can have', async () => {
    const { module, ...plugin } = await loadPlugin(guest('echo'))
    const needy = { ...plugin, needsProcess: 'garbage-collected types' }
    const choose = (route: Partial<RouteOptions>) =>
      chooseEngine(resolveRoute(checkedRoute(route), needy), needy, [])
    expect(choose({})).toMatchObject({ name: 'subprocess', reason: 'garbage-collected types' })
    for (const engine of ['inline', 'workers'] as const)
      expect(() => choose({ engine })).toThrow(OptionsError)
    expect(module).toBeDefined()
  })

  test.each([-1, 1.5, 257, 'many', null])('does not take %j for a number of threads', (workers) => {
    expect(() => checkServerOptions({ routes: [{ plugin: 'a.wasm', workers }] })).toThrow(OptionsError)
  })
})

test.each([
  'inline',
  'workers',
  'subprocess',
] as const)('with shared variables a route sees what another has set (%s)', async (engine) => {
  const route = { plugin: guest('hostile-host'), engine, workers: engine === 'inline' ? 0 : 2 }
  const ask = async (vars: 'own' | 'shared') => {
    const app = await createServer({
      logLevel: 'silent',
      routes: [
        { ...route, vars, url: '/set', function: 'set' },
        { ...route, vars, url: '/get', function: 'var' },
      ],
    })
    onTestFinished(() => app.close())
    await app.inject({ method: 'POST', url: '/set', payload: 'name' })
    return (await app.inject({ method: 'POST', url: '/get', payload: 'name' })).body
  }
  expect(await ask('shared')).toBe('name')
  expect(await ask('own')).toBe('')
})

test.each([
  'own',
  'shared',
] as const)('a client is told that variables are full, wherever they are kept (%s)', async (vars) => {
  const route = { plugin: guest('hostile-host'), function: 'set_big', vars, varMax: 1_000 }
  for (const workers of [0, 1]) {
    const app = await createServer({ logLevel: 'silent', routes: [{ ...route, workers }] })
    onTestFinished(() => app.close())
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/', payload: 'name' })
    expect([statusCode, JSON.parse(body).code]).toEqual([500, 'WASM_SERVE_VARIABLES_FULL'])
  }
})

test('the sdk runtime refuses to disable variables, which it cannot', async () => {
  const route = { plugin: guest('hostile-host'), function: 'set', runtime: 'sdk' } as const
  const serve = (varMax: number) => createServer({ logLevel: 'silent', routes: [{ ...route, varMax }] })
  await expect(serve(0)).rejects.toMatchObject({ code: 'WASM_SERVE_RUNTIME_UNFIT' })
  const app = await serve(1)
  await app.close()
})

/** Wants blocks of two pages, and of one byte more. */
const ALLOCATES = `(module (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (func (export "fits") (if (i64.eqz (call $alloc (i64.const 131000))) (then (unreachable))))
  (func (export "exceeds") (if (i64.eqz (call $alloc (i64.const 131073))) (then (unreachable)))))`

test.each([
  ['kernel', 'inline'],
  ['kernel', 'workers'],
  ['sdk', 'inline'],
  ['sdk', 'workers'],
] as const)('max_pages of a manifest is a limit of blocks too (%s, %s)', async (runtime, engine) => {
  const plugin = { wasm: [{ data: guestBytes(ALLOCATES) }], memory: { max_pages: 2 } }
  const answers = async (route: Partial<RouteOptions>) => {
    const routes = ['fits', 'exceeds'].map((name) => ({
      ...{ plugin, runtime, engine, ...(engine === 'workers' && { timeoutMs: 20_000, spareWorkers: 0 }) },
      ...{ url: `/${name}`, function: name, ...route },
    }))
    const app = await createServer({ logLevel: 'silent', stallMs: 0, routes })
    onTestFinished(() => app.close())
    const all = routes.map(({ url }) => app.inject({ method: 'POST', url }))
    return (await Promise.all(all)).map(({ statusCode }) => statusCode)
  }
  expect(await answers({})).toEqual([200, 500])
  expect(await answers({ blockLimit: 1_000_000 })).toEqual([200, 200])
  expect(await answers({ memoryMax: 100 })).toEqual([200, 500])
})

test('a plug-in whose start does not return is refused in a trial, where nothing else would end it', async () => {
  const plugin = guest('start-loop')
  const trial = serve({ plugin, startTimeoutMs: 300 }, { trial: true })
  await expect(trial).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test('a plug-in that passes its trial is served', async () => {
  const app = await serve({ plugin: guest('echo') }, { trial: true })
  expect((await app.inject({ method: 'POST', url: '/', payload: 'well' })).body).toBe('well')
})
