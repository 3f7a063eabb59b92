import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/create-server.ts'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { wasmServe } from '../../src/route/wasm-serve.ts'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { run } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { code, kvPlugin, mount } from '../support/state-suite.ts'

/** A folder with these files. */
function folderOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = temporaryFolder()
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
  return folder
}

const KV = kvGuest('get', 'set')

/** The same code in other bytes. */
const KV_AGAIN = Buffer.concat([KV, Uint8Array.of(0, 2, 1, 0x78)])

const PLUGINS = 'plugins: { one: { source: a/plugin.wasm }, two: { source: b/plugin.wasm } }'
const ROUTES = `routes:
  - { url: /one/set, plugin: a/plugin.wasm, function: set }
  - { url: /one/get, plugin: ./a/plugin.wasm, function: get }
  - { url: /two/set, plugin: b/plugin.wasm, function: set }
  - { url: /two/get, plugin: b/plugin.wasm, function: get }
`

/** Ways to ask for two plug-ins whose files have the same name, with their names and URLs. */
const WAYS = [
  [
    'by names of a config file, with equal bytes',
    KV,
    { 'wasm-serve.yaml': PLUGINS },
    [],
    ['one', 'two'],
    ['/one', '/two'],
  ],
  [
    'by names of a config file',
    KV_AGAIN,
    { 'wasm-serve.yaml': PLUGINS },
    [],
    ['one', 'two'],
    ['/one', '/two'],
  ],
  ['by paths of routes', KV, { 'wasm-serve.yaml': ROUTES }, [], ['a/plugin', 'b/plugin'], ['/one', '/two']],
  ['in a folder', KV, {}, ['.'], ['a/plugin', 'b/plugin'], ['/a/plugin', '/b/plugin']],
] as const

test.each(
  WAYS,
)('plug-ins in files of the same name have keys, log lines, metrics and versions of their own: %s', async (_way, other, files, args, [
  one,
  two,
], [first, second]) => {
  const cwd = folderOf({ ...files, 'a/plugin.wasm': KV, 'b/plugin.wasm': other })
  const { api, post, printed, adminUrl } = await startWithAdmin([...args, '--access-log'], cwd)
  expect(await post(`${first}/set`, 'greetingHello')).toEqual([200, ''])
  expect(await post(`${second}/get`, 'greeting')).toEqual([409, expect.stringMatching(/-1/)])
  expect(await post(`${first}/get`, 'greeting')).toEqual([200, 'Hello'])

  const linesOf = async (name: string) => {
    const { body } = await api('GET', `/api/plugins/${encodeURIComponent(name)}/logs`)
    return body.map(({ plugin, url }: { plugin: string; url: string }) => `${plugin} ${url}`)
  }
  expect(await linesOf(one)).toEqual([`${one} ${first}/set`, `${one} ${first}/get`])
  expect(await linesOf(two)).toEqual([`${two} ${second}/get`])

  const metrics = await (await fetch(`${adminUrl}/metrics`, AUTHORIZED)).text()
  const callsOf = (name: string) =>
    metrics
      .split('\n')
      .filter((line) => line.startsWith('wasm_serve_calls_total{') && line.includes(`plugin="${name}"`))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  expect([callsOf(one), callsOf(two), callsOf('plugin.wasm')]).toEqual([2, 1, 0])

  expect((await api('PUT', `/api/plugins/${encodeURIComponent(one)}`, KV_AGAIN)).status).toBe(200)
  const versions = async (name: string) =>
    (await api('GET', `/api/plugins/${encodeURIComponent(name)}`)).body.versions.length
  expect([await versions(one), await versions(two)]).toEqual([2, 1])
  expect(await post(`${first}/get`, 'greeting')).toEqual([200, 'Hello'])
  expect(await printed('curl')).toMatch(new RegExp(`${first}/set +${one} +set`))
})

const AUTHORIZED = { headers: { authorization: 'Bearer a-token-of-32-characters-or-so-12' } }

test('a plug-in does not go on with the shared variables of another in the same file', async () => {
  const [one, two] = await Promise.all(
    ['one', 'two'].map((name) => loadPlugin(guest('hostile-host'), { name })),
  )
  if (!one || !two) throw new Error('not loaded')
  const { post } = await mount([
    { url: '/one/set', plugin: one, function: 'set', vars: 'shared' },
    { url: '/one/get', plugin: one, function: 'var', vars: 'shared' },
    { url: '/two/get', plugin: two, function: 'var', vars: 'shared' },
  ])
  await post('/one/set', 'name')
  expect((await post('/one/get', 'name')).body).toBe('name')
  expect((await post('/two/get', 'name')).body).toBe('')
})

test('lines of guests are dropped beyond the rate of their own plug-in', async () => {
  const config = `defaults: { logRate: 2 }
plugins: { one: { source: a/plugin.wasm }, two: { source: b/plugin.wasm } }
routes:
  - { url: /one, plugin: one, function: log }
  - { url: /two, plugin: two, function: log }
`
  const log = guestBytes('log')
  const cwd = folderOf({ 'wasm-serve.yaml': config, 'a/plugin.wasm': log, 'b/plugin.wasm': log })
  const { api, post } = await startWithAdmin([], cwd)
  for (let i = 0; i < 5; i++) await post('/one', 'x')
  await post('/two', 'quiet')
  const { body } = await api('GET', '/api/plugins/two/logs')
  expect(body.filter(({ msg }: { msg: string }) => msg === 'quiet')).toHaveLength(2)
})

test('a plug-in that routes name by several spellings of its path is one plug-in', async () => {
  const config = ROUTES.replaceAll('b/plugin.wasm', 'b/../a/plugin.wasm')
  const cwd = folderOf({ 'a/plugin.wasm': KV, 'wasm-serve.yaml': config })
  const { post } = await startWithAdmin([], cwd)
  await post('/one/set', 'greetingHello')
  expect(await post('/two/get', 'greeting')).toEqual([200, 'Hello'])
})

test('two different plug-ins of one name are refused, and not two routes of one', async () => {
  const routes = (one: string, two: string): RouteOptions[] => [
    { url: '/one', plugin: one, function: 'get' },
    { url: '/two', plugin: two, function: 'get' },
  ]
  const folder = folderOf({ 'a/kv.wasm': KV, 'b/kv.wasm': KV })
  const [a, b] = [join(folder, 'a/kv.wasm'), join(folder, 'b/kv.wasm')]
  const open = (one: string, two: string) =>
    createServer({ logLevel: 'silent', routes: routes(one, two) }).then((app) => app.close())
  const mountBoth = async (one: string, two: string) => {
    const app = Fastify()
    onTestFinished(() => app.close())
    await app.register(wasmServe, { routes: routes(one, two) })
  }
  for (const serve of [open, mountBoth]) {
    await expect(serve(a, b)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_NAME_SHARED' })
    await serve(a, a)
  }
})

test('two different plug-ins of one name are refused in two mounts of an app, and not one plug-in in both', async () => {
  const folder = folderOf({ 'a/kv.wasm': KV, 'b/kv.wasm': KV })
  const [a, b] = [join(folder, 'a/kv.wasm'), join(folder, 'b/kv.wasm')]
  const [one, two, three] = await mountEach([{ plugin: a }, { plugin: b }, { plugin: a }])
  expect([one, three]).toEqual([undefined, undefined])
  expect(two).toMatchObject({
    code: 'WASM_SERVE_PLUGIN_NAME_SHARED',
    message: expect.stringMatching(/ \/0\/get.* \/1\/get/),
  })
  expect(await mountEach([{ plugin: b }])).toEqual([undefined])
})

test('a plug-in that would read the keys of another mount is refused', async () => {
  const folder = folderOf({ 'one.wasm': KV, 'two.wasm': KV_AGAIN })
  const [one, two] = [join(folder, 'one.wasm'), join(folder, 'two.wasm')]
  const kv = { namespace: 'one' }
  const refused = expect.objectContaining({ code: 'WASM_SERVE_NAMESPACE_SHARED' })
  expect(await mountEach([{ plugin: one }, { plugin: two, kv }])).toEqual([undefined, refused])
  expect(await mountEach([{ plugin: one }, { plugin: two }])).toEqual([undefined, undefined])
})

test('a mount that fails gives up its names', async () => {
  const folder = folderOf({ 'a/kv.wasm': KV, 'b/kv.wasm': KV })
  const [a, b] = [join(folder, 'a/kv.wasm'), join(folder, 'b/kv.wasm')]
  const failed = expect.objectContaining({ code: 'WASM_SERVE_SMOKE_FAILED' })
  expect(await mountEach([{ plugin: a, smoke: { status: 500 } }, { plugin: b }])).toEqual([failed, undefined])
})

/** Mounts each route by itself in one app of somebody else. @returns the error of each mount. */
async function mountEach(routes: readonly Partial<RouteOptions>[]): Promise<unknown[]> {
  const app = Fastify()
  onTestFinished(() => app.close())
  const errors: unknown[] = []
  for (const [index, route] of routes.entries()) {
    const options = { url: '/get', plugin: KV, function: 'get', ...route }
    // The app goes on after an error that `after` has taken.
    app.register(wasmServe, { prefix: `/${index}`, routes: [options] }).after((error) => {
      errors.push(error ?? undefined)
    })
  }
  await app.ready()
  return errors
}

test('a plug-in that would read the keys of another is refused, with the lines that ask for both', async () => {
  const config = (kv: string) =>
    `plugins:\n  one: { source: a/plugin.wasm${kv} }\n  two: { source: b/plugin.wasm, kv: { namespace: one } }\n`
  const check = async (kv: string) => {
    const cwd = folderOf({
      'wasm-serve.yaml': config(kv),
      'a/plugin.wasm': KV,
      'b/plugin.wasm': KV_AGAIN,
    })
    return run(['check'], {}, { cwd })
  }
  const refused = await check('')
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(/wasm-serve\.yaml:2:.*wasm-serve\.yaml:3:.*WASM_SERVE_NAMESPACE_SHARED/s)
  expect((await check(', kv: { namespace: one }')).code).toBe(0)
  expect((await check(', kv: { access: none }')).code).not.toBe(0) // it imports the store
  expect((await check(', kv: { namespace: other }')).code).toBe(0)
})

test('a version that would read the keys of another plug-in is refused', async () => {
  const cwd = folderOf({
    'wasm-serve.yaml':
      'plugins:\n  one: { source: kv.wasm, kv: { namespace: two } }\n  two: { source: echo.wasm }\n',
    'kv.wasm': KV,
    'echo.wasm': guestBytes('echo'),
  })
  const { api, post } = await startWithAdmin([], cwd)
  expect((await api('PUT', '/api/plugins/two', kvGuest('get'))).body.code).toBe('WASM_SERVE_NAMESPACE_SHARED')
  expect(await post('/two', 'abc')).toEqual([200, 'abc'])
})

test('two plug-ins from bytes have names of their own', async () => {
  const [one, two] = [KV, KV_AGAIN]
  const { post } = await mount([
    { url: '/one/set', plugin: one, function: 'set' },
    { url: '/two/get', plugin: two, function: 'get' },
    { url: '/same/get', plugin: Uint8Array.from(one), function: 'get' },
  ])
  await post('/one/set', 'greetingHello')
  expect(await post('/two/get', 'greeting')).toMatchObject(code(-1))
  expect(await post('/same/get', 'greeting')).toMatchObject({ body: 'Hello' })
})

test('two manifests of one module have names of their own if they differ', async () => {
  const manifest = (tenant: string) => ({ wasm: [{ path: kvPlugin() }], config: { tenant } })
  const { post } = await mount([
    { url: '/one/set', plugin: manifest('one'), function: 'set' },
    { url: '/two/get', plugin: manifest('two'), function: 'get' },
  ])
  await post('/one/set', 'greetingHello')
  expect(await post('/two/get', 'greeting')).toMatchObject(code(-1))
})

test('keys under the former name of a plug-in are reported at the start with the command that moves them', async () => {
  const cwd = folderOf({ 'wasm-serve.yaml': PLUGINS, 'a/plugin.wasm': KV, 'b/plugin.wasm': KV })
  const store = `lmdb:${join(cwd, 'store')}`
  const keep = async (namespace: string) => {
    const opened = await openLmdbStore({ folder: join(cwd, 'store') })
    await opened.set(namespace, 'greeting', Buffer.from('of before'))
    await opened.close()
  }
  const reported = async () => {
    const { api, kill, ended } = await startWithAdmin(['--store', store, '--spare-workers', '0'], cwd)
    const { body } = await api('GET', '/api/logs')
    kill('SIGTERM')
    await ended
    return body.flatMap(({ msg, others }: { msg: string; others?: string[] }) => {
      const [command] = /wasm-serve store rename \S+ \S+/.exec(msg) ?? []
      return command === undefined ? [] : [[command, others]]
    })
  }
  await keep('plugin.wasm')
  const lines = await reported()
  expect(lines).toEqual([
    ['wasm-serve store rename plugin.wasm one', ['two']], // only one of them can have the keys
    ['wasm-serve store rename plugin.wasm two', ['one']],
  ])
  const [[move]] = lines
  const moved = await run([...move.split(' ').slice(1), store], {}, { cwd })
  expect(moved).toMatchObject({ code: 0, stderr: '' })
  expect(await reported()).toEqual([])
})

test('a config file chooses functions of a plug-in, each of which has a URL and is a tool', async () => {
  const config = (chosen: string) => `mcp: {}\nplugins: { store: { source: kv.wasm, exports: [${chosen}] } }`
  const served = folderOf({ 'kv.wasm': kvGuest('get', 'set', 'list'), 'wasm-serve.yaml': config('set, get') })
  const listed = await run(['check', '-c', 'wasm-serve.yaml'], {}, { cwd: served })
  expect([...listed.stdout.matchAll(/POST +(\S+)/g)].map(([, url]) => url)).toEqual([
    '/store/set',
    '/store/get',
  ])
  const wrong = folderOf({ 'kv.wasm': kvGuest('get'), 'wasm-serve.yaml': config('get, nothing') })
  const refused = await run(['check', '-c', 'wasm-serve.yaml'], {}, { cwd: wrong })
  expect([refused.code === 0, refused.stderr.includes('nothing')]).toEqual([false, true])
})
