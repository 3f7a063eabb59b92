import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { EDITABLE_OPTIONS } from '../../src/deploy/edits.ts'
import { routeSchema } from '../../src/options/options-schema.ts'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { run, start } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'

const ECHO = guestBytes('echo')
const UPPER = guestBytes('upper')
const sha = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')

/** Writes what another hand than ours might. */
function stateOf(cwd: string, state: object, modules: readonly Uint8Array[] = []): string {
  const folder = join(cwd, 'state')
  mkdirSync(join(folder, 'modules'), { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, 'state.json'), JSON.stringify({ format: 1, plugins: [], routes: [], ...state }))
  for (const bytes of modules) writeFileSync(join(folder, 'modules', sha(bytes)), bytes)
  return folder
}

const version = (from: string, settings?: object) => ({
  digest: sha(UPPER),
  name: 'echo.wasm',
  from,
  addedAt: new Date(0).toISOString(),
  modules: [{ name: 'main', digest: sha(UPPER), bytes: UPPER.length }],
  ...(settings && { settings }),
})
const SETTINGS = { isRemote: true, memory: {}, config: {}, allowedPaths: [] }
const plugin = (name: string, added: boolean, settings?: object, from = 'url') => ({
  name,
  added,
  versions: [version(from, settings)],
  traffic: [{ digest: sha(UPPER), percent: 100 }],
})

const route = (options: object) => ({
  id: '0123456789ab',
  options: { plugin: 'echo', url: '/a', ...options },
})

/** A module of host functions that leaves a file behind when it is loaded. */
function trap(cwd: string): string {
  const path = join(cwd, 'trap.mjs')
  writeFileSync(
    path,
    `import { writeFileSync } from 'node:fs'\nwriteFileSync(${JSON.stringify(`${path}.ran`)}, '')\nexport const one = () => 1n\n`,
  )
  return path
}

// What it may say.

test.each<[string, string, (cwd: string) => object]>([
  ['functions', 'functions', (cwd) => ({ functions: trap(cwd) })],
  ['functions of a folder', 'functions', () => ({ functions: './trap.mjs' })],
  ['functions that are none', 'functions', () => ({ functions: null })],
  ['folders', 'allowedPaths', () => ({ allowedPaths: { '/': '/host' } })],
  ['no folders', 'allowedPaths', () => ({ allowedPaths: {} })],
  ['links to files', 'links', () => ({ links: { a: '/etc/passwd' } })],
  ['links to a server', 'links', () => ({ links: { a: 'https://example.com/a.wasm' } })],
  ['hooks', 'onCall', () => ({ onCall: 'x' })],
  ['hooks of results', 'onResult', () => ({ onResult: {} })],
  ['hooks of failures', 'onError', () => ({ onError: [] })],
  ['a plug-in that is no name', 'plugin', () => ({ plugin: { wasm: [{ path: '/etc/passwd' }] } })],
  ['no plug-in', 'plugin', () => ({ plugin: undefined })],
  ['a contract that is no name', 'contract', () => ({ contract: { name: 'mine' } })],
])('a state folder that sets %s keeps the server from starting', async (_, member, options) => {
  const cwd = temporaryFolder()
  const folder = stateOf(cwd, { routes: [route(options(cwd))] })
  const before = readFileSync(join(folder, 'state.json'), 'utf8')
  const { code, stderr } = await run([guest('echo'), '--state', 'state', '0'], {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining(`state.json: routes[0].options.${member}`)])
  expect(stderr).toContain(folder)
  expect(existsSync(join(cwd, 'trap.mjs.ran'))).toBe(false)
  expect(readFileSync(join(folder, 'state.json'), 'utf8')).toBe(before)
})

test('the name of a plug-in in a state folder is no file of this machine', async () => {
  const cwd = temporaryFolder()
  const name = join(cwd, 'beside')
  const schema = 'version: v1-draft\nexports:\n  upper:\n    description: of this machine\n'
  writeFileSync(`${name}.schema.yaml`, schema)
  stateOf(cwd, { plugins: [plugin(name, true, SETTINGS)], routes: [route({ plugin: name, tool: {} })] }, [
    UPPER,
  ])
  const { api, url } = await startWithAdmin([guest('echo'), '--state', 'state', '--mcp'], cwd)
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const list = await fetch(`${url}/mcp`, { method: 'POST', body: JSON.stringify(message), headers })
  const shown = [await list.text(), JSON.stringify((await api('GET', '/routes/openapi.json')).body)]
  for (const text of shown) {
    expect(text).toMatch(/upper|"\/a"/)
    expect(text).not.toContain('of this machine')
  }
})

test('whatever the API refuses of a route, a state folder may not have either', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  const names = Object.keys(routeSchema.properties).filter((name) => name !== 'plugin')
  for (const name of names) {
    const { body } = await api('POST', '/api/routes', { plugin: 'echo', url: '/a/:x/*/b', [name]: false })
    const isRefused = body.code === 'WASM_SERVE_ADMIN_FORBIDDEN'
    expect([name, isRefused]).toEqual([name, !EDITABLE_OPTIONS.has(name)])
  }
})

test('the options that no edit may set are these', () => {
  const names = Object.keys(routeSchema.properties)
  const others = names.filter((name) => !EDITABLE_OPTIONS.has(name))
  // A new option is refused until its facts allow it: does it open code, files or limits of the process?
  expect(others.sort()).toEqual(
    ['plugin', 'functions', 'links', 'allowedPaths', 'process', 'onCall', 'onResult', 'onError'].sort(),
  )
})

test('a route of the API stays in the processes that the configuration asks for, and so does one of state.json', async () => {
  const cwd = temporaryFolder()
  const { api } = await startWithAdmin([guest('echo'), '--engine', 'subprocess'])
  const put = (engine: string | undefined) =>
    api('POST', '/api/routes', { plugin: 'echo', url: `/${engine}`, ...(engine && { engine }) })
  expect((await put('inline')).status).toBe(403)
  expect((await put('workers')).status).toBe(403)
  expect((await put('subprocess')).status).toBe(201)
  expect((await put(undefined)).status).toBe(201)

  stateOf(
    cwd,
    { plugins: [plugin('x', true, SETTINGS)], routes: [route({ plugin: 'x', engine: 'inline' })] },
    [UPPER],
  )
  const args = [guest('echo'), '--engine', 'subprocess', '--state', 'state', '0']
  const { code, stderr } = await run(args, {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining('engine')])
})

test.each<[string, object]>([
  [
    'of a plug-in that was added',
    {
      plugins: [
        plugin('x', true, { ...SETTINGS, allowedPaths: [{ host: '/', guest: '/', readOnly: false }] }),
      ],
      routes: [route({ plugin: 'x' })],
    },
  ],
  [
    'that says it is a file’s',
    {
      plugins: [
        plugin(
          'x',
          true,
          { ...SETTINGS, isRemote: false, allowedPaths: [{ host: '/', guest: '/', readOnly: true }] },
          'file',
        ),
      ],
      routes: [route({ plugin: 'x' })],
    },
  ],
  [
    'of a plug-in of the configuration',
    {
      plugins: [
        {
          ...plugin(
            'echo',
            false,
            { ...SETTINGS, isRemote: false, allowedPaths: [{ host: '/', guest: '/', readOnly: true }] },
            'file',
          ),
          over: sha(ECHO),
        },
      ],
    },
  ],
  [
    'that no call reaches',
    {
      plugins: [
        {
          ...plugin('x', true, { ...SETTINGS, allowedPaths: [{ host: '/', guest: '/', readOnly: true }] }),
          traffic: [],
        },
      ],
    },
  ],
  [
    'that opens what is no list',
    {
      plugins: [plugin('x', true, { ...SETTINGS, allowedPaths: { host: '/' } })],
      routes: [route({ plugin: 'x' })],
    },
  ],
])('a version %s opens no folder', async (_, state) => {
  const cwd = temporaryFolder()
  stateOf(cwd, state, [UPPER, ECHO])
  const { code, stderr } = await run([guest('echo'), '--state', 'state', '0'], {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining('allowedPaths')])
})

test('a version of the configuration’s own manifest keeps its folders, as far as that still has them', async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'data'))
  const manifest = (wasm: Uint8Array, paths: object) =>
    writeFileSync(
      join(cwd, 'plugin.json'),
      JSON.stringify({ wasm: [{ data: Buffer.from(wasm).toString('base64') }], allowed_paths: paths }),
    )
  manifest(ECHO, { data: '/data' })
  const { api, post } = await startWithAdmin(['plugin.json', '--state', 'state'], cwd)
  manifest(UPPER, { data: '/data' })
  await api('POST', '/api/reload')
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  expect((await api('POST', '/api/plugins/plugin/rollback')).status).toBe(200)
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
  manifest(UPPER, {})
  await api('POST', '/api/reload')
  const [, old] = (await api('GET', '/api/plugins/plugin')).body.versions
  const refused = await api('POST', '/api/plugins/plugin/rollback', { digest: old.digest })
  expect([refused.status, refused.body.code]).toEqual([403, 'WASM_SERVE_ADMIN_FORBIDDEN'])
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
})

test.each<[string, object]>([
  ['options that are a list', { routes: [{ id: 'a', options: [] }] }],
  ['options that are text', { routes: [{ id: 'a', options: 'x' }] }],
  ['options that are null', { routes: [{ id: 'a', options: null }] }],
  ['a route that is none', { routes: [null] }],
  ['routes that are none', { routes: {} }],
  ['a plug-in without versions', { plugins: [{ name: 'x' }] }],
  ['a version without modules', { plugins: [{ ...plugin('x', true), versions: [{ digest: sha(UPPER) }] }] }],
  [
    'a module with a name of the host',
    {
      plugins: [
        {
          ...plugin('x', true),
          versions: [
            {
              ...version('url'),
              modules: [
                { name: 'main', digest: sha(UPPER) },
                { name: 'extism:host/env', digest: sha(UPPER) },
              ],
            },
          ],
        },
      ],
    },
  ],
  [
    'settings that are none',
    { plugins: [plugin('x', true, { allowedHosts: 'x' })], routes: [route({ plugin: 'x' })] },
  ],
  [
    'a share that is none',
    { plugins: [{ ...plugin('x', true), traffic: [{ digest: sha(UPPER), percent: '100' }] }] },
  ],
])('a state folder with %s is refused in words', async (_, state) => {
  const cwd = temporaryFolder()
  stateOf(cwd, state, [UPPER])
  const { code, stderr } = await run([guest('echo'), '--state', 'state', '0'], {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining('move it away')])
})

test('what the API may set, a state folder may have', async () => {
  const cwd = temporaryFolder()
  stateOf(
    cwd,
    {
      plugins: [plugin('x', true, SETTINGS)],
      routes: [route({ plugin: 'x', method: 'POST', timing: true })],
    },
    [UPPER],
  )
  const server = start([guest('echo'), '--state', 'state', '--port', '0'], {}, { cwd })
  const answer = await fetch(`${await server.listening()}/a`, { method: 'POST', body: 'abc' })
  expect([answer.headers.has('server-timing'), await answer.text()]).toEqual([true, 'ABC'])
})

// Whose it is.

test('what is made is for its owner alone', async () => {
  const cwd = temporaryFolder()
  const { api } = await startWithAdmin([guest('echo'), '--state', 'new/state'], cwd)
  await api('PUT', '/api/plugins/echo', UPPER)
  const mode = (path: string) => statSync(join(cwd, 'new/state', path)).mode & 0o777
  expect([mode('.'), mode('modules'), mode('state.json'), mode(`modules/${sha(UPPER)}`)]).toEqual([
    0o700, 0o700, 0o600, 0o600,
  ])
})

test.each<[string, string, number]>([
  ['the folder', '.', 0o777],
  ['the folder, to its group', '.', 0o770],
  ['the file', 'state.json', 0o666],
  ['the folder of modules', 'modules', 0o777],
  ['a module', `modules/${sha(UPPER)}`, 0o622],
  ['the folder around it', '..', 0o777],
])('a server does not start where %s can be written by others', async (_, path, mode) => {
  const cwd = temporaryFolder()
  const folder = stateOf(cwd, { plugins: [plugin('x', true)] }, [UPPER])
  chmodSync(join(folder, path), mode)
  const { code, stderr } = await run([guest('echo'), '--state', 'state', '0'], {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringMatching(/chmod (?:[67]00|go-w) \S/)])
  chmodSync(join(folder, path), 0o700)
})

test('nor where the file is reached by a link into a folder that others may write', async () => {
  const cwd = temporaryFolder()
  const folder = stateOf(cwd, {})
  const open = join(cwd, 'open')
  mkdirSync(open)
  chmodSync(open, 0o777)
  symlinkSync(folder, join(open, 'state'))
  const through = await run([guest('echo'), '--state', 'open/state', '0'], {}, { cwd })
  expect([through.code, through.stderr]).toEqual([2, expect.stringContaining(`chmod go-w ${open}`)])
})

test('a folder that opened meanwhile is not written to', async () => {
  const cwd = temporaryFolder()
  const { api, post } = await startWithAdmin([guest('echo'), '--state', 'state'], cwd)
  chmodSync(join(cwd, 'state'), 0o777)
  const refused = await api('PUT', '/api/plugins/echo', UPPER)
  expect([refused.status, refused.body.code]).toEqual([507, 'WASM_SERVE_STATE_UNWRITABLE'])
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
})

test('bytes that were exchanged in the folder after the start are not served', async () => {
  const cwd = temporaryFolder()
  const { api, post } = await startWithAdmin([guest('echo'), '--state', 'state'], cwd)
  await api('PUT', '/api/plugins/echo', UPPER)
  writeFileSync(join(cwd, 'state/modules', sha(UPPER)), ECHO)
  await api('POST', '/api/reload')
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  expect((await api('GET', '/api/changes')).body[0]).toMatchObject({
    ok: false,
    error: { code: 'WASM_SERVE_STATE_INVALID' },
  })
})

// The configuration, too, names code.

test.each<[number, number]>([
  [0o666, 1],
  [0o602, 1],
  [0o644, 0],
  [0o660, 0],
])('a config file with mode %o has %i warnings that every user may write to it', async (mode, warnings) => {
  const path = join(temporaryFolder(), 'wasm-serve.yaml')
  writeFileSync(path, `plugins:\n  echo: { source: ${guest('echo')} }\n`)
  chmodSync(path, mode)
  const server = start(['-c', path, '--port', '0'])
  await server.listening()
  expect(server.stderr().split(`chmod o-w ${path}`)).toHaveLength(warnings + 1)
})
