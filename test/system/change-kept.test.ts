import Fastify from 'fastify'
import { expect, test, vi } from 'vitest'
import { TrialThread } from '../../src/engine/workers/trial.ts'
import { ChangeRefusedError } from '../../src/errors/errors.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Meters } from '../../src/observe/metrics.ts'
import { checkServerOptions, type RouteOptions } from '../../src/options/options.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { openRoutes } from '../../src/route/open-routes.ts'
import { RoutePool } from '../../src/route/route-pool.ts'
import { changing } from '../support/change.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { open, post } from '../support/socket.ts'

const ECHO: RouteOptions = { plugin: guest('echo') }
const UPPER: RouteOptions = { plugin: guest('upper') }

test('what does not change keeps its instance, with its memory and variables; what does begins anew', async () => {
  const count = { plugin: guest('count'), function: 'count' }
  const { attempt, to, post } = await changing([
    { ...count, url: '/a' },
    { ...count, url: '/b' },
  ])
  expect((await post('/a', '')).body).toBe('1')
  expect((await post('/b', '')).body).toBe('1')
  const next = [
    { ...count, url: '/a', description: 'says how often', headers: { 'x-a': 'b' } },
    { ...count, url: '/b', config: { changed: 'yes' } },
    { ...ECHO, url: '/new' },
  ]
  expect(await attempt(to(next))).toMatchObject({ ok: true, routes: 3, kept: 1 })
  expect((await post('/a', '')).body).toBe('2')
  expect((await post('/b', '')).body).toBe('1')
  expect((await post('/new', 'x')).body).toBe('x')
  expect((await attempt(to([{ ...count, url: '/a' }]))).kept).toBe(1)
  expect((await post('/a', '')).body).toBe('3')
  expect((await post('/b', '')).status).toBe(404)
})

test('instances that are kept answer by the new options of HTTP', async () => {
  const route = { ...ECHO, headers: { 'x-version': 'one' }, bodyLimit: 1_000 }
  const { deployments, attempt, to, url } = await changing([route])
  const next = {
    ...route,
    headers: { 'x-version': 'two' },
    description: 'two',
    bodyLimit: 3,
    contentType: 'text/css',
  }
  expect(await attempt(to([next as RouteOptions]))).toMatchObject({ ok: true, kept: 1 })
  expect(deployments.current.served).toMatchObject([{ description: 'two' }])
  const ask = (body: string) => fetch(url, { method: 'POST', body })
  const answers = [await ask('abc'), await ask('abcd')]
  expect(answers.map(({ status }) => status)).toEqual([200, 413])
  expect(answers[0]?.headers.get('content-type')).toBe('text/css')
  expect(answers.map(({ headers }) => headers.get('x-version'))).toEqual(['two', 'two'])
})

test('variables that a plug-in shares outlive a change', async () => {
  const zoo = { plugin: guest('hostile-host'), vars: 'shared' } as const
  const get = { ...zoo, url: '/get', function: 'var' }
  const { attempt, to, post } = await changing([get, { ...zoo, url: '/set', function: 'set' }])
  await post('/set', 'name')
  const route = { ...get, config: { makes: 'another instance' } }
  expect(await attempt(to([route]))).toMatchObject({ ok: true, kept: 0 })
  expect((await post('/get', 'name')).body).toBe('name')
})

test('variables that a plug-in shares end with the last route that has them, also if it is never served', async () => {
  const plugin = await loadPlugin(guest('hostile-host'))
  const zoo = { plugin, function: 'var', vars: 'shared' } as const
  const checked = (...routes: RouteOptions[]) => ({ ...checkServerOptions({ routes }), trial: true })
  const log = openLog('silent')
  const pool = new RoutePool(checked(zoo), log)
  const app = Object.assign(Fastify(), { log })
  const noSmoke = async () => undefined
  const meters = new Meters()
  const areHeld = () => {
    const [first, second] = [1, 2].map(() => {
      const used = pool.shared.vars.open(plugin, 1)
      used.close()
      return used.vars
    })
    return first === second
  }

  const both = [zoo, { ...zoo, url: '/b' }].map((route) => openRoutes(checked(route), app, noSmoke, pool))
  const [a, b] = await Promise.all(both)
  await a?.close()
  expect(areHeld()).toBe(true)
  await b?.close()
  expect(areHeld()).toBe(false)

  const bad = { url: '/bad', plugin: guest('bad-start') }
  await expect(openRoutes({ ...checked(zoo, bad), meters }, app, noSmoke, pool)).rejects.toThrow()
  expect(areHeld()).toBe(false)
  expect(meters.all).toEqual([]) // nor is there a count of it
  await pool.close()
})

test.each([
  ['is not there', { plugin: 'absent.wasm' }, 'WASM_SERVE_PLUGIN_UNREADABLE'],
  [
    'is no module',
    { plugin: file('half.wasm', guestBytes('echo').slice(0, 40)) },
    'WASM_SERVE_PLUGIN_INVALID',
  ],
  ['imports what nobody has', { plugin: guest('bad-import') }, 'WASM_SERVE_PLUGIN_IMPORT_MISSING'],
  ['does not start', { plugin: guest('bad-start') }, 'WASM_SERVE_INSTANCE_START_FAILED'],
  [
    'never ends its start',
    { plugin: guest('start-loop'), startTimeoutMs: 500 },
    'WASM_SERVE_INSTANCE_START_FAILED',
  ],
])('a plug-in that %s changes nothing', async (_, route, code) => {
  const { attempt, to, post } = await changing([ECHO])
  const record = await attempt(
    to([
      { ...UPPER, url: '/b' },
      { url: '/a', ...route },
    ]),
  )
  expect(record).toMatchObject({ ok: false, revision: 1, routes: 1, error: { code } })
  expect(await post('/', 'abc')).toEqual({ status: 200, body: 'abc' })
  expect((await post('/b', 'abc')).status).toBe(404)
})

test('a change is told on to who asked, and to the operator', async () => {
  const { deployments, to } = await changing([ECHO])
  await expect(deployments.apply(to([{ plugin: 'absent.wasm' }]), 'test')).rejects.toMatchObject({
    code: 'WASM_SERVE_PLUGIN_UNREADABLE',
  })
  await deployments.apply(to([UPPER]), 'again')
  expect(deployments.log).toMatchObject({ applied: 1, refused: 1 })
  expect(deployments.log.records).toMatchObject([
    { reason: 'again', ok: true, revision: 2 },
    { reason: 'test', ok: false, revision: 1 },
  ])
})

test('a request that has begun ends on what was there, which is closed afterwards', async () => {
  const { attempt, to, port } = await changing([UPPER])
  const client = await open(port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n')
  expect((await client.answer())?.status).toBe(100)
  client.send('abc')
  expect(await attempt(to([ECHO]))).toMatchObject({ ok: true })
  expect(await attempt(to([{ ...ECHO, url: '/elsewhere' }]))).toMatchObject({
    ok: true,
  })
  client.send('def')
  expect(await client.answer()).toMatchObject({ status: 200, body: Buffer.from('ABCDEF') })
  client.send(post('abc'))
  expect((await client.answer())?.status).toBe(404)
})

test('a change while the server ends is refused, and holds nothing up', async () => {
  const { deployments, attempt, to, server } = await changing([ECHO])
  const late = attempt(async (now, reread) => {
    await server.drain()
    return to([UPPER])(now, reread)
  })
  const after = attempt(to([UPPER]))
  deployments.refuse()
  const refused = { ok: false, error: { code: 'WASM_SERVE_CHANGE_REFUSED' } }
  expect([await late, await after]).toMatchObject([refused, refused])
})

test('an app that is put in the place of another while the server ends is closed', async () => {
  const { deployments, server } = await changing([ECHO])
  const ended = server.drain()
  const { app } = deployments.current
  await server.replace(app)
  await ended
  await expect(app.inject('/')).rejects.toThrow()
})

test('options of the sockets stay as they were, and the record says so', async () => {
  const { deployments, attempt, to, post } = await changing([ECHO])
  const record = await attempt(to([UPPER], { maxConnections: 7, keepAliveTimeoutMs: 9 }))
  expect(record.warnings).toEqual([
    'changed options that take effect at the next start: keepAliveTimeoutMs, maxConnections',
  ])
  expect(deployments.current.options.maxConnections).toBe(7)
  expect((await post('/', 'abc')).body).toBe('ABC')
})

test('a plug-in may have more memory than any had at the start', async () => {
  const { attempt, to } = await changing([{ ...ECHO, memoryMax: 16 }])
  expect(await attempt(to([{ ...ECHO, memoryMax: 4_000 }]))).toMatchObject({ ok: true })
})

test('a plug-in that never answers its smoke request costs nobody else anything', async () => {
  const { attempt, to, post } = await changing([ECHO])
  const loop = { plugin: guest('loop'), timeoutMs: 300, smoke: {} }
  let isOver = false
  const stuck = attempt(to([loop])).finally(() => (isOver = true))
  while (!isOver) expect(await post('/', 'abc')).toEqual({ status: 200, body: 'abc' })
  expect(await stuck).toMatchObject({ ok: false, error: { code: 'WASM_SERVE_SMOKE_FAILED' } })
})

test('a change that nobody wants any more is ended while it is tried, and the next is made', async () => {
  const { deployments, to, post } = await changing([ECHO])
  const gone = new AbortController()
  const reason = new ChangeRefusedError('the client disconnected')
  const hanging = to([{ plugin: guest('start-loop'), startTimeoutMs: 600_000 }])
  const change = deployments.apply(hanging, 'test', { signal: gone.signal })
  const late = deployments.apply(to([UPPER]), 'late', { signal: gone.signal })
  const ended = Promise.allSettled([change, late])
  setImmediate(() => gone.abort(reason))
  expect(await ended).toEqual([
    { status: 'rejected', reason },
    { status: 'rejected', reason },
  ])
  expect(await post('/', 'abc')).toEqual({ status: 200, body: 'abc' })
  expect(await deployments.apply(to([UPPER]), 'test')).toMatchObject({ revision: 2, record: { ok: true } })
})

test('a server that ends does not wait for a plug-in that is tried', async () => {
  const { deployments, attempt, to, server } = await changing([ECHO])
  const stuck = attempt(to([{ plugin: guest('start-loop'), startTimeoutMs: 600_000 }]))
  deployments.refuse()
  expect(await stuck).toMatchObject({ ok: false, error: { code: 'WASM_SERVE_CHANGE_REFUSED' } })
  await server.drain()
})

test('a plug-in of many functions is tried once, and once for each way in which it starts', async () => {
  const { attempt, to } = await changing([ECHO])
  const trials = vi.spyOn(TrialThread.prototype, 'run')
  try {
    const plugin = guest('several')
    const routes = ['alpha', 'b:ta', 'several'].flatMap((name, index) => [
      { plugin, function: name, url: `/${index}` },
      { plugin, function: name, url: `/${index}/configured`, config: { a: 'b' } },
    ])
    expect(await attempt(to(routes))).toMatchObject({ ok: true, routes: 6 })
    expect(trials).toHaveBeenCalledTimes(2)
  } finally {
    trials.mockRestore()
  }
})

test('what a reload has read is behind until it is served; a change of other kind does not touch it', async () => {
  const { deployments, attempt, to } = await changing([ECHO])
  const path = file('watched.wasm', guestBytes('echo'))
  const failing = to([{ plugin: path }, { url: '/b', plugin: 'absent.wasm' }])
  await attempt(to([{ plugin: path }]))
  expect([deployments.files.changed(), deployments.behind]).toEqual([[], undefined])
  file('watched.wasm', guestBytes('upper'))
  expect(deployments.files.changed()).toEqual([path])
  await expect(deployments.apply(() => Promise.reject(new Error('a bug')), 'API')).rejects.toThrow()
  expect([deployments.files.changed(), deployments.behind]).toEqual([[path], undefined])
  const gone = new AbortController()
  const aborted = attempt(
    (_now, reread) => {
      const reading = reread()
      gone.abort(new ChangeRefusedError('the client disconnected'))
      return reading
    },
    { signal: gone.signal },
  )
  expect(await aborted).toMatchObject({ ok: false })
  expect([deployments.files.changed(), deployments.behind]).toEqual([[path], undefined])

  await expect(deployments.apply(failing, 'SIGHUP')).rejects.toThrow()
  const since = deployments.behind?.since
  expect(deployments.behind).toMatchObject({ reason: 'SIGHUP', code: 'WASM_SERVE_PLUGIN_UNREADABLE' })
  expect(deployments.files.changed()).toEqual([]) // else the watcher would try them without a pause
  expect(await attempt((now) => now)).toMatchObject({ ok: true }) // the configuration is not read
  expect(await attempt(failing)).toMatchObject({ ok: false })
  expect(deployments.behind).toMatchObject({ reason: 'test', since })
  await attempt(to([{ plugin: path }]))
  expect(deployments.behind).toBeUndefined()
})
