import { once } from 'node:events'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger } from 'fastify'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { commandConfiguration } from '../../src/deploy/configuration.ts'
import type { ChangeRecord } from '../../src/deploy/deployments.ts'
import { type Deployments, reload } from '../../src/deploy/deployments.ts'
import { openDeployments } from '../../src/deploy/start.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { readConfig } from '../../src/options/config.ts'
import type { OptionScope } from '../../src/options/facts.ts'
import { loadSchema, routeSchema, serverSchema } from '../../src/options/options-schema.ts'
import { type Schema, schemasOf } from '../../src/options/schema.ts'
import { startServer } from '../../src/server/server.ts'
import { temporaryFolder } from '../support/admin-api.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { openOciRegistry } from '../support/oci-registry.ts'
import { streamGuest } from '../support/stream-guest.ts'
import { openRawSocket, openSocket } from '../support/web-socket.ts'

/*
 * A reload that changes one option, for each option: instances stay if its facts say that it does not reach them, and it takes
 * effect; or a warning says that it needs a restart.
 */

type Values = Readonly<Record<string, unknown>>

/** How an option is changed, and what shows that it took effect. */
interface Change {
  /** Options of the route, or of the rest of the file, before and after. */
  readonly route?: Values
  readonly file?: Values
  /** The value before. Default: none. */
  readonly from?: unknown
  /** The value after. Default: one that the schema allows. */
  readonly to?: unknown
  /** Options that the value after needs. */
  readonly needs?: Values
  /** What differs before and after. Default: the answers to some requests. */
  readonly see?: (served: Served) => unknown
  /** What is seen after the change, if there is nothing to see before. */
  readonly seen?: unknown
  /** Whether the change is refused, because the option is in effect. */
  readonly isRefused?: true
}

interface Served {
  readonly url: string
  readonly port: number
  readonly log: FastifyBaseLogger
  readonly lines: readonly Values[]
  readonly deployments: Deployments
}

const KEY = '0123456789abcdef0123456789abcdef'
const TLS = fileURLToPath(new URL('../support/tls/', import.meta.url))
const PEM = { cert: `${TLS}cert.pem`, key: `${TLS}key.pem` }
const EVENTS = [
  ['sse', '{"data":"a"}'],
  ['wait', 60_000],
] as const
const LOGGED = { file: { accessLog: true, logLevel: 'info' }, see: lineOfRequest }
const SOCKETS = { contract: 'websocket', method: 'GET' }
const WEB_PAGE = { headers: { origin: 'https://a.example' } }

/** Options whose values the schema does not tell, or that other requests show. */
const CHANGES: Readonly<Record<string, () => Change | Promise<Change>>> = {
  'route url': () => ({ to: '/other' }),
  'route host': () => ({ to: 'localhost' }),
  'route method': () => ({ to: 'PUT' }),
  'route function': () => ({ to: 'echo' }),
  'route plugin': () => ({ from: guest('echo'), to: copyOf('echo') }),
  'route links': () => {
    const copies = [1, 2].map(() => copyOf('link-print'))
    const main = file(
      'links.wasm',
      guestBytes(
        '(module (import "lib" "print" (func $p)) (func (export "go") (result i32) (call $p) (i32.const 0)))',
      ),
    )
    return { route: { plugin: main }, from: { lib: copies[0] }, to: { lib: copies[1] } }
  },
  'route config': () => ({ to: { a: 'b' } }),
  'route functions': () => ({ to: file('functions.mjs', 'export default {}') }),
  'route contentType': () => ({ to: 'text/css' }),
  'route headers': () => ({ to: { 'x-a': 'b' } }),
  'route bodyLimit': () => ({ to: 2 }),
  'route errorStatus': () => ({ route: { plugin: guest('refuse') }, to: 418 }),
  'route description': () => ({ file: { mcp: {} }, to: 'what it does' }),
  'route recycle': () => ({ to: 10 }),
  'route recycleMemory': () => ({ to: 1_000_000 }),
  'route env': () => ({ to: { A: 'b' } }),
  'route allowedPaths': () => ({ to: { [temporaryFolder()]: '/a' } }),
  'route allowedHosts': () => ({ to: ['a.example'] }),
  'route memoryMax': () => ({ to: 100 }),
  'route blockLimit': () => ({ to: 1_000_000 }),
  'route varMax': () => ({ to: 1_000 }),
  'route process': () => ({ route: { engine: 'subprocess' }, to: 'group' }),
  'route workers': () => ({ to: 1 }),
  'route timeoutMs': () => ({ to: 5_000 }),
  'route cancelOnDisconnect': () => ({
    route: { plugin: guest('moody'), workers: 1, timeoutMs: 1_000 },
    see: endOfLeaving,
  }),
  'route startTimeoutMs': () => ({ to: 60_000 }),
  'route kv': () => ({ to: { access: 'read' } }),
  'route smoke': () => ({ to: { status: 418 }, isRefused: true }),
  'route tool': () => ({ file: { mcp: {} }, to: { title: 'Echo' } }),
  'route sseHeartbeatMs': () => ({
    route: { plugin: file('events.wasm', streamGuest(...EVENTS)), function: 'run' },
    to: 5,
    see: firstComment,
    seen: true,
  }),
  'route websocketMax': () => ({ route: SOCKETS, to: 1, see: twoSockets }),
  'route websocketOrigins': () => ({
    route: SOCKETS,
    to: ['https://a.example'],
    see: (served) => socketOf(served, WEB_PAGE),
  }),
  'route websocketProtocols': () => ({
    route: SOCKETS,
    to: ['chat.v1'],
    see: (served) => socketOf(served, { protocols: ['chat.v1'] }),
  }),
  'route websocketPingMs': () => ({ route: SOCKETS, from: 0, to: 5, see: firstOpcode, seen: 9 }),
  'route websocketIdleMs': () => ({
    route: SOCKETS,
    to: 5,
    see: async ({ port }: Served) => (await (await openSocket(port)).closed).length,
    seen: 2,
  }),

  'load cacheFolder': async () => {
    const folder = temporaryFolder()
    return { ...(await pulled()), to: folder, see: () => readdirSync(folder).length > 0 }
  },
  'load downloadLimit': async () => ({ ...(await downloaded()), to: 10, isRefused: true }),
  'load downloadTimeoutMs': async () => ({
    ...(await downloaded()),
    to: 1,
    needs: { cacheFolder: temporaryFolder() }, // without an earlier copy
    isRefused: true,
  }),
  'load pullPolicy': async () => ({
    ...(await pulled({ isOnce: true })),
    from: 'IfNotPresent',
    to: 'Always',
    isRefused: true,
  }),
  'load registries': async () => {
    const { file: ofFile, host, ...change } = await pulled()
    const to = { [host]: { ca: PEM.cert } }
    return { ...change, file: { ...ofFile, pullPolicy: 'Always' }, to, isRefused: true }
  },
  'load trust': () => ({ to: { '*': { keys: [file('signer.pem', 'no key')] } }, isRefused: true }),
  'load requireSignatures': () => ({ isRefused: true }),
  'load moduleLimits': () => ({ to: { functions: 0 }, isRefused: true }),
  'load maxFunctions': () => ({
    file: { routes: undefined, plugins: { several: { source: guest('several') } } },
    to: 1,
    see: ({ deployments }) => deployments.current.served.length,
  }),
  'load allowGc': () => ({ see: ({ deployments }) => deployments.current.options.allowGc }),

  'server mcp': () => ({ from: {}, to: { url: '/tools' } }),
  'server trial': () => ({ see: ({ deployments }) => deployments.current.options.trial }), // each change has a trial
  'server apiKeys': () => ({ to: [KEY] }),
  'server jwt': () => ({ to: { secret: KEY } }),
  'server cors': () => ({ to: { origin: ['https://a.example'] } }),
  'server rateLimit': () => ({ to: { max: 1, timeWindowMs: 60_000 } }),
  'server compress': () => ({ to: { thresholdBytes: 0 } }),
  'server static': () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'a.txt'), 'a file')
    return { to: { '/files': folder } }
  },
  'server trustProxy': () => ({ ...LOGGED, to: ['loopback'] }),
  'server logLevel': () => ({ to: 'warn', see: ({ log }) => log.level }),
  'server accessLog': () => ({ see: lineOfRequest }),
  'server accessLogFormat': () => LOGGED,
  'server accessLogLevel': () => ({ ...LOGGED, to: 'debug' }),
  'server accessLogHeaders': () => LOGGED,
  'server redactHeaders': () => ({
    ...LOGGED,
    file: { ...LOGGED.file, accessLogHeaders: true },
    to: ['origin'],
  }),
  'server store': () => ({ to: `lmdb:${temporaryFolder()}` }),
  'server subprocessUser': () => ({ to: '1:1' }),
  'server subprocessCgroup': () => ({ to: temporaryFolder() }),
  'server host': () => ({ from: '127.0.0.1', to: '127.0.0.2' }),
  'server port': () => ({ from: 0, to: 1 }),
  'server socket': () => ({ to: join(temporaryFolder(), 'socket') }),
  'server tls': () => ({ to: PEM }),
  'server http2': () => ({ needs: { tls: PEM } }),
  'server admin': () => ({ to: '127.0.0.1:1' }),
  'server adminToken': () => ({ to: KEY }),
  'server adminHosts': () => ({ to: ['a.example'] }),
  'server probes': () => ({ to: '127.0.0.1:1' }),
  'server state': () => ({ to: temporaryFolder() }),
  'server processes': () => ({ to: 2 }),
  'server processMemoryMax': () => ({ needs: { processes: 2 } }),
  'server processSilentMs': () => ({ needs: { processes: 2 } }),
  'server fleet': () => ({ to: { url: 'redis://127.0.0.1:1' } }),
}

const OPTIONS = [
  ...optionsOf('route', routeSchema, 'instance'),
  ...optionsOf('load', loadSchema, 'process'),
  ...optionsOf('server', serverSchema, 'process'),
]

/** All but the routes themselves, and functions of a program, whose options do not change. */
function optionsOf(scope: OptionScope, of: { readonly properties: object }, usual: 'instance' | 'process') {
  return Object.entries(schemasOf(of))
    .filter(([name, { callHook }]) => !callHook && name !== 'routes')
    .map(([name, schema]) => ({ scope, name, schema, reach: schema.facts?.reach ?? usual }))
}

test.each(OPTIONS)('a reload that changes $scope $name, which reaches $reach', async (option) => {
  const { scope, name, schema, reach } = option
  const change = (await CHANGES[`${scope} ${name}`]?.()) ?? {}
  const to = change.to ?? otherValue(schema)
  if (to === undefined) throw new Error(`no value is known for the option ${name}: add one to CHANGES`)
  const { served, change: attempt } = await serve(fileWith(option, change, change.from))
  const see = change.see ?? (reach === 'answer' || reach === 'document' ? answers : () => undefined)
  const before = change.seen === undefined ? await see(served) : undefined
  const record = await attempt(fileWith(option, { ...change, file: { ...change.file, ...change.needs } }, to))

  expect(record.error).toEqual(change.isRefused ? expect.anything() : undefined)
  if (change.isRefused) return
  const hasNew = reach === 'place' || reach === 'instance' || (scope === 'route' && reach === 'load')
  if (scope !== 'load' || change.see === undefined) expect(record.kept).toBe(hasNew ? 0 : 1)
  const pending = record.warnings.flatMap((warning) => warning.split('next start: ')[1]?.split(', ') ?? [])
  if (reach === 'process') expect(pending).toContain(name)
  else {
    expect(pending).toEqual([])
    if (change.seen !== undefined) expect(await see(served)).toEqual(change.seen)
    else if (see === change.see || reach === 'answer' || reach === 'document')
      expect(await see(served)).not.toEqual(before)
  }
})

/** The first code in the log after the client of a guest that does not return has left. */
async function endOfLeaving({ url, log, lines }: Served): Promise<unknown> {
  log.level = 'debug'
  const before = lines.length
  const leaving = request(url, { method: 'POST', agent: false }).end('G begins')
  leaving.on('error', () => undefined)
  const news = () => lines.slice(before)
  while (!news().some(({ msg }) => msg === 'G begins')) await nextTurn()
  leaving.destroy()
  const codes = () => news().flatMap(({ code }) => (String(code).startsWith('WASM_SERVE') ? [code] : []))
  while (codes().length === 0) await nextTurn()
  return codes()[0]
}

/** A value that the schema allows, other than the default. */
function otherValue(schema: Schema): unknown {
  const { type, enum: names = schema.nameOrContract, default: usual, minimum } = schema
  if (names) return names.find((each) => each !== usual)
  if (type === 'boolean') return usual !== true
  if (type === 'integer') return typeof usual === 'number' ? usual + 1 : minimum
  return undefined
}

/** A configuration with this value of an option. */
function fileWith(
  { scope, name }: (typeof OPTIONS)[number],
  { route: ofRoute, file: ofFile }: Change,
  value: unknown,
): Values {
  const own = value === undefined ? {} : { [name]: value }
  const route = {
    url: '/',
    plugin: guest('echo'),
    method: ['GET', 'POST'],
    startTimeoutMs: 30_000,
    ...ofRoute,
  }
  const usual = { port: 0, stallMs: 0, drainMs: 0, graceMs: 100 }
  const routes = [scope === 'route' ? { ...route, ...own } : route]
  return { ...usual, routes, ...ofFile, ...(scope !== 'route' && own) }
}

/** Serves a config file, which changes. */
async function serve(first: Values) {
  const path = join(temporaryFolder(), 'wasm-serve.json')
  const write = (values: Values) => writeFileSync(path, JSON.stringify(values))
  write(first)
  const lines: Values[] = []
  const log = pino({ level: 'info', base: null }, { write: (line) => void lines.push(JSON.parse(line)) })
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  const source = commandConfiguration(readConfig(['-c', path], {}), context)
  const deployments = await openDeployments(source, () => ({ log }))
  const { options, app } = deployments.current
  const running = await startServer(options, app, log)
  deployments.follow(running)
  onTestFinished(async () => {
    deployments.refuse()
    await running.drain()
    await deployments.close()
  })
  const { url } = running
  const served: Served = { url, port: Number(new URL(url).port), log, lines, deployments }
  return {
    served,
    async change(next: Values): Promise<ChangeRecord> {
      write(next)
      return (await deployments.attempt(reload, 'test')).record
    },
  }
}

/** What clients get, apart from times. */
async function answers({ url }: Served): Promise<unknown> {
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  const accept = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
  const requests: [path: string, init: RequestInit][] = [
    ['/', { method: 'POST', body: 'abc', headers: { origin: 'https://a.example' } }],
    ['/', { headers: { 'x-request-id': 'one' } }],
    ['/files/a.txt', {}],
    ['/mcp', { method: 'POST', body: message, headers: accept }],
  ]
  const all: unknown[] = []
  for (const [path, init] of requests) {
    const answer = await fetch(url + path, init)
    const headers = [...answer.headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
    const body = (await answer.text()).replace(/"requestId":"[^"]*"/, '')
    all.push([answer.status, headers, body])
  }
  return all
}

/** The line of the access log for a request, if there is one. Lines are written in the order of requests. */
async function lineOfRequest({ url, lines }: Served): Promise<unknown> {
  const first = lines.length
  for (const id of ['first', 'second']) {
    const headers = { 'x-request-id': id, 'x-forwarded-for': '10.0.0.9', origin: 'https://a.example' }
    await (await fetch(url, { method: 'POST', body: 'abc', headers })).text()
  }
  const found = lines.slice(first).find(({ msg, reqId }) => msg === 'request' && reqId === 'first')
  return found && { ...found, time: 0, ms: 0 }
}

/** Whether a stream of events has a comment before it ends. */
async function firstComment({ url }: Served): Promise<boolean> {
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const answer = await fetch(url, { signal: abort.signal })
  let all = ''
  for await (const bytes of answer.body ?? []) {
    all += Buffer.from(bytes)
    if (all.includes('\n\n:\n\n')) return true
  }
  return false
}

/** What a client learns from its handshake. */
async function socketOf({ port }: Served, options: Parameters<typeof openSocket>[2]): Promise<unknown> {
  try {
    return (await openSocket(port, '/', options)).socket.protocol
  } catch (error) {
    return String(error)
  }
}

async function twoSockets(served: Served): Promise<unknown> {
  const { socket, closed } = await openSocket(served.port)
  const second = await socketOf(served, {})
  socket.terminate()
  await closed
  return second
}

async function firstOpcode({ port }: Served): Promise<number | undefined> {
  return (await (await openRawSocket(port)).frame())?.opcode
}

/** A file with the name and the bytes of a guest, in a folder of its own. */
function copyOf(name: string): string {
  const folder = join(temporaryFolder(), 'copy')
  mkdirSync(folder)
  const path = join(folder, `${name}.wasm`)
  writeFileSync(path, guestBytes(name))
  return path
}

/** A plug-in behind a server that takes some time. */
async function downloaded(): Promise<Change> {
  const server = createServer((_request, response) => {
    setTimeout(() => response.end(guestBytes('echo')), 50)
  })
  onTestFinished(() => void server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { route: { plugin: `http://127.0.0.1:${port}/echo.wasm` }, file: { cacheFolder: temporaryFolder() } }
}

/** A plug-in of a registry. @param isOnce - Whether the registry answers no more when it was pulled. */
async function pulled({ isOnce = false } = {}): Promise<Change & { readonly host: string }> {
  let isGone = false
  const registry = await openOciRegistry({
    intercept({ url = '' }, response) {
      const wasGone = isGone
      isGone ||= isOnce && url.includes('/blobs/')
      if (wasGone) response.writeHead(404).end()
      return wasGone
    },
  })
  const { host } = registry
  registry.putArtifact(
    'echo',
    { layers: [{ mediaType: 'application/wasm', bytes: guestBytes('echo') }] },
    'one',
  )
  return { host, route: { plugin: `oci://${host}/echo:one` }, file: { cacheFolder: temporaryFolder() } }
}
