import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type OwnOptions, readOwnOptions } from '../../../src/deploy/configuration.ts'
import { NO_EDITS } from '../../../src/deploy/edits.ts'
import { NodeStates } from '../../../src/deploy/fleet/node-states.ts'
import { readShared } from '../../../src/deploy/fleet/open-fleet.ts'
import { fleetSettings } from '../../../src/deploy/fleet/settings.ts'
import { renderShared, SHARED_OPTIONS } from '../../../src/deploy/fleet/shared-configuration.ts'
import { PluginTable } from '../../../src/deploy/loader.ts'
import { renderState } from '../../../src/deploy/state-json.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { readConfig } from '../../../src/options/config.ts'
import { configFileSchema } from '../../../src/options/config-file-schema.ts'
import { toData } from '../../../src/options/config-node.ts'
import { RESTART_OPTIONS } from '../../../src/options/facts.ts'
import type { Schema } from '../../../src/options/schema.ts'
import { file, guest } from '../../support/guest.ts'
import { MemoryFleet } from '../../support/memory-fleet.ts'

const ENVIRONMENT = { API_KEY: 'of-the-node-0123456789', WASM_SERVE_ADMIN_TOKEN: 'admin-token-0123456789' }
const VARIABLE = `\${API_KEY}`
const EDITS = renderState(NO_EDITS)

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-permissions-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function writtenDocument(): Promise<string> {
  const path = file('wasm-serve.json', JSON.stringify({ routes: [{ url: '/echo', plugin: guest('echo') }] }))
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  const { configuration } = await readShared(
    readConfig(['-c', path], {}),
    context,
    new PluginTable(),
    NO_EDITS,
  )
  return renderShared(configuration)
}

let written: Promise<string> | undefined

/** A document as an operator writes it, which the caller changes as one can who may write to the store. */
async function documentOf(change: (data: SharedData) => void): Promise<string> {
  written ??= writtenDocument()
  const data: SharedData = JSON.parse(await written)
  change(data)
  return JSON.stringify(data)
}

type RenderedMap = [origin: number, kind: 'm', entries: [string, number, unknown][]]

interface SharedData {
  server: RenderedMap
  defaults: { route: RenderedMap; plugins: [string, RenderedMap][] }
  routes: { given: RenderedMap; version: { settings?: object } }[]
}

/** Data as the document has it; texts with variables are templates. */
function node(value: unknown): unknown[] {
  if (Array.isArray(value)) return [0, 'l', value.map(node)]
  if (typeof value === 'object' && value !== null)
    return [0, 'm', Object.entries(value).map(([key, item]) => [key, 0, node(item)])]
  const isTemplate = typeof value === 'string' && value.includes(`\${`)
  return isTemplate ? [0, 't', { text: value, kind: 'string', isSecret: false, isPath: true }] : [0, value]
}

const set = (map: RenderedMap, options: object) => map[2].push(...(node(options)[2] as RenderedMap[2]))

/** What a node makes of a document. @param fleet - More of the option `fleet` in its own file. */
async function served(text: string, fleet: object = {}, more: object = {}, at = folder()) {
  const path = join(at, 'node.json')
  writeFileSync(path, JSON.stringify({ fleet: { url: 'redis://127.0.0.1', ...fleet }, ...more }))
  const context = { environment: ENVIRONMENT, secrets: new Secrets(), commands: {} }
  const config = readConfig(['-c', path], ENVIRONMENT)
  const readOwn = () => readOwnOptions(config, context)
  const permissions = (own: OwnOptions) => fleetSettings(own)?.permissions ?? {}
  const parts = { store: new MemoryFleet().open(), copy: undefined, config, context, sources: () => ({}) }
  const states = new NodeStates({ ...parts, readOwn, permissions }, await readOwn())
  return states.stateOf({ configuration: text, edits: EDITS }, 1).configuration
}

const FORBIDDEN = { code: 'WASM_SERVE_FLEET_FORBIDDEN' }

const places: Record<string, (data: SharedData, options: object) => void> = {
  'a route': ({ routes }, options) => routes[0] && set(routes[0].given, options),
  'the defaults': ({ defaults }, options) => set(defaults.route, options),
  'the defaults of a plug-in': ({ defaults }, options) =>
    defaults.plugins.push(['echo', node(options) as RenderedMap]),
}

const ASKS: [options: object, fault: string][] = [
  [{ functions: '/srv/tool.mjs' }, 'functions: /srv/tool.mjs'],
  [{ functions: './tool.mjs' }, 'functions: ./tool.mjs'],
  [{ functions: 'data:text/javascript,0' }, 'functions: data:'],
  [{ functions: { run: 'x' } }, 'functions'],
  [{ functions: ['/srv/tool.mjs'] }, 'functions'],
  [{ functions: null }, 'functions'],
  [{ allowedPaths: { '/': '/host' } }, 'allowedPaths: /'],
  [{ allowedPaths: { 'ro:/proc': '/proc' } }, 'allowedPaths: ro:/proc'],
  [{ allowedPaths: { 'ro:ro:/srv': '/x' } }, 'allowedPaths: ro:ro:/srv'],
  [{ links: { a: '/srv/a.wasm' } }, 'links: /srv/a.wasm'],
  [{ links: { a: 'file:///srv/a.wasm' } }, 'links: file:///srv/a.wasm'],
  [{ links: { a: 'https://example.com/a.wasm' } }, 'links: https://example.com/a.wasm'],
  [{ process: 'shared' }, 'process: shared'],
  [{ onCall: 'x' }, 'onCall'],
  [{ plugin: { wasm: [{ path: '/etc/passwd' }] } }, 'plugin'],
  [{ contract: { name: 'mine' } }, 'contract'],
  [{ constructor: 'x' }, 'constructor'],
  [{ headers: { 'x-leak': `\${WASM_SERVE_ADMIN_TOKEN}` } }, 'WASM_SERVE_ADMIN_TOKEN'],
  [{ headers: { 'x-leak': `\${HOME:-none}` } }, 'HOME'],
  [{ config: { key: VARIABLE } }, 'API_KEY'],
  [{ env: { KEY: `a ${VARIABLE}` } }, 'API_KEY'],
  [{ description: VARIABLE }, 'API_KEY'],
  [{ allowedHosts: [`${VARIABLE}.example.com`] }, 'API_KEY'],
  [{ smoke: { body: VARIABLE } }, 'API_KEY'],
  [{ tool: { inputSchema: { properties: { a: { const: VARIABLE } } } } }, 'API_KEY'],
  [{ function: VARIABLE }, 'API_KEY'],
]

test.each(ASKS)('a document that asks for %j is refused, wherever it does', async (options, fault) => {
  for (const [, put] of Object.entries(places)) {
    const text = await documentOf((data) => put(data, options))
    await expect(served(text)).rejects.toMatchObject({
      ...FORBIDDEN,
      message: expect.stringContaining(fault),
    })
  }
})

test.each<[object, string]>([
  [{ static: { '/fs/': '/' } }, 'static: /'],
  [{ jwt: { publicKey: '/etc/shadow' } }, 'jwt: /etc/shadow'],
  [{ jwt: { jwks: '/etc/shadow' } }, 'jwt: /etc/shadow'],
  [{ jwt: { jwksUrl: 'https://example.com/', jwksCa: '/etc/shadow' } }, 'jwt: /etc/shadow'],
  [{ jwt: { secret: VARIABLE } }, 'API_KEY'],
  [{ cors: { origin: [VARIABLE] } }, 'API_KEY'],
  [{ static: { '/fs/': VARIABLE } }, 'API_KEY'],
  [{ tls: { cert: '/srv/cert.pem', key: '/srv/key.pem' } }, 'tls'],
  [{ adminToken: 'known-to-the-attacker' }, 'adminToken'],
  [{ state: '/srv' }, 'state'],
  [{ store: 'lmdb:/srv' }, 'store'],
  [{ stallMs: 0 }, 'stallMs'],
  [{ subprocessUser: '0' }, 'subprocessUser'],
  [{ trust: {} }, 'trust'],
  [{ requireSignatures: false }, 'requireSignatures'],
  [{ cacheFolder: '/srv' }, 'cacheFolder'],
  [{ routes: [] }, 'routes'],
  [{ onError: 'x' }, 'onError'],
  [{ unknown: 1 }, 'unknown'],
])('a document that asks for %j of the server is refused', async (options, fault) => {
  const text = await documentOf(({ server }) => set(server, options))
  await expect(served(text)).rejects.toMatchObject({ ...FORBIDDEN, message: expect.stringContaining(fault) })
})

/** Options with a path at each place where the schema has one. */
function pathsIn(schema: Schema | undefined, make: (value: unknown) => object): object[] {
  const { properties = {}, patternProperties = {}, additionalProperties, items, holds } = schema ?? {}
  const others = [...Object.values(patternProperties), additionalProperties]
  const nested = [
    ...Object.entries(properties).map(
      ([key, part]) => [part, (value: unknown) => make({ [key]: value })] as const,
    ),
    ...others.map((part) => [part, (value: unknown) => make({ '/key': value })] as const),
    [items, (value: unknown) => make([value])] as const,
  ]
  const own = holds === 'folders' ? [make({ '/etc': '/x' })] : holds ? [make('/etc/shadow')] : []
  return [...own, ...nested.flatMap(([part, of]) => (typeof part === 'object' ? pathsIn(part, of) : []))]
}

test('no option of the schema takes a path of a document that a node does not name', async () => {
  const { routes, plugins: _plugins, defaults: _defaults, ...server } = configFileSchema.properties ?? {}
  const { plugin: _plugin, ...route } = routes?.items?.properties ?? {}
  const ofServer = pathsIn({ properties: server }, (value) => value as object)
  const ofRoute = pathsIn({ properties: route }, (value) => value as object)
  expect(ofServer.length).toBeGreaterThan(10)
  expect(ofRoute).toEqual([
    { functions: '/etc/shadow' },
    { links: { '/key': '/etc/shadow' } },
    { allowedPaths: { '/etc': '/x' } },
  ])
  for (const options of ofServer) {
    const text = await documentOf((data) => set(data.server, options))
    await expect(served(text), JSON.stringify(options)).rejects.toMatchObject(FORBIDDEN)
  }
})

test('a manifest in a document opens no folder', async () => {
  const folders = (readOnly: boolean) =>
    documentOf(({ routes }) => {
      const settings = { isRemote: false, memory: {}, config: {} }
      const allowedPaths = [{ host: '/srv', guest: '/', readOnly }]
      if (routes[0]) routes[0].version.settings = { ...settings, allowedPaths }
    })
  await expect(served(await folders(true))).rejects.toMatchObject(FORBIDDEN)
  await expect(served(await folders(false), { allow: { paths: ['ro:/srv'] } })).rejects.toMatchObject(
    FORBIDDEN,
  )
  await served(await folders(true), { allow: { paths: ['ro:/srv'] } })
  await served(await folders(false), { allow: { paths: ['/srv'] } })
})

test('what a node names, a document may use, and nothing beside it', async () => {
  const at = folder()
  const allow = {
    functions: ['tool.mjs'],
    paths: ['ro:data', '/srv/www'],
    env: ['API_KEY'],
    processes: ['g'],
  }
  const asks = (options: object, server: object = {}) =>
    documentOf((data) => {
      places['a route']?.(data, options)
      set(data.server, server)
    })
  const allowed = await asks(
    {
      functions: join(at, 'tool.mjs'),
      allowedPaths: { [`ro:${at}/data`]: '/data', '/srv/www': '/www' },
      process: 'g',
      config: { key: VARIABLE },
    },
    { static: { '/a/': join(at, 'data'), '/b/': '/srv/www' }, accessLog: true },
  )
  const { routes, server } = await served(allowed, { allow }, {}, at)
  const [route] = routes
  expect(route && toData(route.configured)).toMatchObject({ config: { key: ENVIRONMENT.API_KEY } })
  expect(toData(server)).toMatchObject({ static: { '/b/': '/srv/www' }, accessLog: true })
  for (const options of [
    { functions: '/srv/www/tool.mjs' },
    { functions: `${at}/./tool.mjs` },
    { allowedPaths: { [`${at}/data`]: '/data' } },
    { allowedPaths: { '/srv/www/../..': '/' } },
    { allowedPaths: { '/srv/www/below': '/' } },
    { process: 'other' },
  ])
    await expect(served(await asks(options), { allow }, {}, at)).rejects.toMatchObject(FORBIDDEN)
  const static_ = await asks({}, { static: { '/a/': `${VARIABLE}/../../srv/www` } })
  await expect(served(static_, { allow }, {}, at)).rejects.toMatchObject({
    ...FORBIDDEN,
    message: expect.not.stringContaining(ENVIRONMENT.API_KEY),
  })
})

test('secrets of the server cannot be shared, whatever its file says', async () => {
  const text = await documentOf(() => undefined)
  for (const name of ['WASM_SERVE_ADMIN_TOKEN', 'wasm_serve_source_auth', 'OTEL_EXPORTER_OTLP_HEADERS'])
    await expect(served(text, { allow: { env: [name] } })).rejects.toMatchObject({
      code: 'WASM_SERVE_OPTIONS_INVALID',
    })
  const own = { store: `redis://user:${VARIABLE}@127.0.0.1` }
  await expect(served(text, { allow: { env: ['API_KEY'] } }, own)).rejects.toMatchObject({
    message: expect.stringContaining('API_KEY'),
  })
  const url = `redis://user:${VARIABLE}@127.0.0.1`
  await expect(served(text, { url, allow: { env: ['API_KEY'] } })).rejects.toThrow('API_KEY')
  await served(text, { allow: { env: ['API_KEY'] } }, { apiKeys: [VARIABLE] }) // is shared itself
})

test('nothing is read beside the file of a plug-in, and no credentials go to its URL, unless the node names it', async () => {
  const text = await documentOf(() => undefined)
  const sourceIn = async (allow: object) => {
    const [route] = (await served(text, { allow })).routes
    return route && (toData(route.configured) as { plugin: string }).plugin
  }
  expect(await sourceIn({})).toBe(`fleet://${guest('echo')}`)
  expect(await sourceIn({ paths: [guest('echo')] })).toBe(guest('echo'))
})

test('what a reload cannot change stays with its node', () => {
  expect([...SHARED_OPTIONS].filter((name) => RESTART_OPTIONS.has(name))).toEqual([])
})

test('a fleet has defaults for all but its store', async () => {
  const path = join(folder(), 'node.json')
  writeFileSync(path, JSON.stringify({ fleet: { url: 'redis://127.0.0.1', node: 'n' } }))
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  expect(fleetSettings(await readOwnOptions(readConfig(['-c', path], {}), context))).toEqual({
    ...{ url: 'redis://127.0.0.1', name: 'default', node: 'n', keyPrefix: 'wasm-serve:', pollMs: 2_000 },
    rules: { canaryMs: 60_000, maxRefusals: 0, onRefusals: 'stop' },
    ...{ history: 20, moduleMax: 32 * 2 ** 20, permissions: {} },
  })
})
