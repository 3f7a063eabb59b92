import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createNodeServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import { openAdmin, startAdmin } from '../../../src/admin/admin.ts'
import type { ServerView } from '../../../src/admin/feature.ts'
import { openListener, parseOperatorAddress } from '../../../src/admin/listener.ts'
import { openProbes } from '../../../src/admin/probes.ts'
import { openWaiting } from '../../../src/cli/dev/waiting.ts'
import { openOutbound } from '../../../src/guest/outbound/outbound.ts'
import { serviceUse } from '../../../src/guest/services/service.ts'
import { openLog, RecentLines } from '../../../src/observe/log/log.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { Meters } from '../../../src/observe/metrics.ts'
import { readConfig } from '../../../src/options/config.ts'
import {
  type CheckedServerOptions,
  checkServerOptions,
  type RouteOptions,
} from '../../../src/options/options.ts'
import { resolveRoute } from '../../../src/options/resolved-route.ts'
import { nextTurn } from '../../../src/platform/event-loop.ts'
import { loadPlugin, type Plugin } from '../../../src/plugin/plugin.ts'
import { openAppResources } from '../../../src/route/app-resources.ts'
import { openGuestServices } from '../../../src/route/guest-services.ts'
import { claimNames } from '../../../src/route/name-conflicts.ts'
import { type ChosenRoute, chooseRoute, openRoute } from '../../../src/route/open-route.ts'
import { openRoutes, type VersionedOptions } from '../../../src/route/open-routes.ts'
import { RoutePool } from '../../../src/route/route-pool.ts'
import { withGuestRequests } from '../../../src/route/streams/guest-requests.ts'
import { createApp } from '../../../src/server/app.ts'
import { listenAt } from '../../../src/server/listen.ts'
import { openServer } from '../../../src/server/server.ts'
import { testPlugin } from '../../../src/testing.ts'
import { AUTHORIZED, TOKEN } from '../admin.ts'
import { temporaryFolder } from '../admin-api.ts'
import { guest, guestBytes } from '../guest.ts'
import { keepLog } from '../instance.ts'
import { kvGuest } from '../kv-guest.ts'
import type { Mark, Openers, Round } from '../leaves-nothing.ts'
import { checkedRoute } from '../route.ts'
import { refusal } from './refusal.ts'

const log = openLog('silent')

const LONG_MS = 600_000

/** Options of a server on a free port. */
function serverOptions(more: object = {}): CheckedServerOptions {
  const quick = { stallMs: 0, drainMs: 0, graceMs: LONG_MS, port: 0, logLevel: 'silent' } as const
  return checkServerOptions({ ...quick, routes: [{ plugin: 'none.wasm' }], ...more })
}

/** Asks a server, and keeps no connection. */
async function get(url: string): Promise<void> {
  const asked = request(url, { agent: false, headers: AUTHORIZED }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  answer.resume()
  await once(answer, 'close')
}

/** A port that another server listens on. */
async function takenPort(): Promise<number> {
  const server = createNodeServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())))
  return (server.address() as AddressInfo).port
}

interface Listening {
  readonly url?: string | undefined
  close(): Promise<void>
}

/** @param open - Opens a listener for operators. */
async function listeners(
  open: (mark: Mark, address: string) => Promise<Listening>,
): Promise<Readonly<Record<string, Round>>> {
  const taken = await takenPort()
  return {
    async 'asked, closed twice'(mark) {
      const listener = mark(await open(mark, '127.0.0.1:0'))
      await get(`${listener.url}/healthz`)
      await listener.close()
      await listener.close()
    },
    async 'closed at once'(mark) {
      await mark(await open(mark, '127.0.0.1:0')).close()
    },
    'its port is in use': (mark) => refusal(() => open(mark, `127.0.0.1:${taken}`)),
  }
}

function adminContext(mark: Mark, options = serverOptions()) {
  const served: ServerView = { state: 'serving', server: { url: undefined, routes: [] } }
  return { served, meters: mark(new Meters()), log, lines: mark(new RecentLines()), options }
}

/** A copy, which nothing else keeps. */
function copyOf<Loaded extends Plugin>(plugin: Loaded): Loaded {
  return { ...plugin }
}

let versions = 0

/** Another version of a plug-in, with the same bytes. */
function newVersionOf<Loaded extends Plugin>(plugin: Loaded): Loaded {
  return { ...plugin, digest: createHash('sha256').update(String(++versions)).digest('hex') }
}

/** A Fastify app without routes. */
function emptyApp(): FastifyInstance {
  const app = Fastify()
  onTestFinished(() => app.close())
  return app
}

/** Resources that outlive routes, and how many of them there are. */
async function surroundings() {
  const meters = new Meters()
  const shared = openAppResources({ ...serverOptions(), meters }, log)
  onTestFinished(() => shared.close())
  const path = guest('read-file')
  const route: RouteOptions = {
    plugin: path,
    wasi: true,
    allowedPaths: { '/': temporaryFolder() },
    allowedHosts: ['127.0.0.1'],
    vars: 'shared',
    startTimeoutMs: LONG_MS,
    maxWaitMs: LONG_MS,
  }
  return {
    plugin: await loadPlugin(path),
    stateful: await loadPlugin(kvGuest('get')),
    shared,
    route,
    sizes: () => ({ 'versions with metrics': meters.all.length }),
  }
}

/** Plug-ins whose modules nothing else has. */
function moduleOf(round: number): Uint8Array {
  return guestBytes(
    `(module (func (export "run") (result i32) (i32.const 0)) (global i32 (i32.const ${round})))`,
  )
}

/** Openers of `route/`. */
export const ROUTES: Openers = {
  'route/name-conflicts.ts claimNames': async () => {
    const app = emptyApp()
    const plugin = await loadPlugin(guest('echo'))
    const other = { ...plugin, digest: '0'.repeat(64) }
    const named = (of: Plugin, namespace = 'same') => {
      const options = checkedRoute({ kv: { access: 'readwrite', namespace } })
      return [{ options, plugin: of, source: 'a.wasm', place: () => 'route /' }]
    }
    return {
      rounds: {
        'given up twice'(mark) {
          const giveUp = claimNames(app, mark(named(mark(copyOf(plugin)))))
          giveUp()
          giveUp()
        },
        'the names of another mount'(mark) {
          const giveUp = claimNames(app, named(plugin))
          claimNames(app, mark(named(mark(copyOf(plugin)))))()
          giveUp()
        },
        'of an app that ends': async (mark) => {
          const own = mark(Fastify())
          claimNames(own, named(other))
          await own.close()
        },
      },
    }
  },

  'route/app-resources.ts openAppResources': () => {
    const folder = join(temporaryFolder(), 'store')
    const open = (mark: Mark, store: string) =>
      mark(openAppResources({ ...serverOptions({ store }), meters: mark(new Meters()) }, log))
    return {
      rounds: {
        async 'its store used, closed twice'(mark) {
          const shared = open(mark, `lmdb:${folder}`)
          mark(await shared.store.open())
          await shared.close()
          await shared.close()
        },
        'its store not used': (mark) => open(mark, `lmdb:${folder}`).close(),
        async 'closed while its store opens'(mark) {
          const shared = open(mark, `lmdb:${folder}`)
          const opening = shared.store.open()
          await shared.close()
          await opening
        },
        async 'variables of equal plug-ins'(mark) {
          const shared = open(mark, 'memory:')
          const plugin = await loadPlugin(guest('echo'))
          const used = [mark(shared.vars.open(plugin, 100)), mark(shared.vars.open(copyOf(plugin), 100))]
          for (const { close } of [...used, ...used]) close()
          await shared.close()
        },
      },
    }
  },

  'route/guest-services.ts openGuestServices': async () => {
    const { plugin, shared, route } = await surroundings()
    const open = async (mark: Mark, version: Plugin) => {
      const options = mark(resolveRoute(checkedRoute(route), version))
      return mark(await openGuestServices(options, serviceUse(options, version), shared, undefined))
    }
    return {
      rounds: {
        async 'closed twice'(mark) {
          const services = await open(mark, mark(newVersionOf(plugin)))
          await services.close()
          await services.close()
        },
        async 'of equal plug-ins'(mark) {
          const version = mark(newVersionOf(plugin))
          const [one, other] = [await open(mark, version), await open(mark, copyOf(version))]
          await Promise.all([one.close(), other.close()])
        },
      },
    }
  },

  'route/open-route.ts chooseRoute': async () => {
    const { plugin, stateful, shared, route, sizes } = await surroundings()
    const closed = openAppResources(serverOptions(), log)
    await closed.close()
    const choose = (mark: Mark, more: Partial<RouteOptions> = {}, of: Plugin = plugin, from = shared) =>
      chooseRoute(
        mark({ ...checkedRoute({ ...route, ...more }), plugin: mark(newVersionOf(of)) }),
        ['routes', '0'],
        {
          ...from,
          meters: shared.meters,
        },
      )
    return {
      sizes,
      rounds: {
        async 'closed twice'(mark) {
          const chosen = mark(await choose(mark))
          await chosen.close()
          await chosen.close()
        },
        'its engine cannot be had': (mark) => refusal(() => choose(mark, { engine: 'subprocess' })),
        'its function is not there': (mark) => refusal(() => choose(mark, { function: 'nothing' })),
        'its store is closed': (mark) => refusal(() => choose(mark, { url: '/kv' }, stateful, closed)),
      },
    }
  },

  'route/open-route.ts openRoute': async () => {
    const { plugin, shared, route, sizes } = await surroundings()
    const open = async (mark: Mark) => {
      const checked = mark({ ...checkedRoute(route), plugin: mark(copyOf(plugin)) })
      const chosen = mark(await chooseRoute(checked, ['routes', '0'], shared))
      return mark(openRoute(chosen, '/', LONG_MS, log))
    }
    const call = (opened: ChosenRoute & Awaited<ReturnType<typeof open>>) =>
      opened.instances.call('read', Buffer.from('file'), { log: keepLog() })
    return {
      count: 6,
      sizes,
      rounds: {
        async 'called, closed twice'(mark) {
          const opened = await open(mark)
          await call(opened)
          await opened.close()
          await opened.close()
        },
        async 'closed while it opens'(mark) {
          await (await open(mark)).close()
        },
      },
    }
  },

  'route/open-routes.ts openRoutes': async () => {
    const meters = new Meters()
    const app = emptyApp()
    const pool = new RoutePool({ ...serverOptions(), meters }, log)
    onTestFinished(() => pool.close())
    const optionsOf = (...routes: RouteOptions[]): VersionedOptions => ({
      ...checkServerOptions({ stallMs: 0, routes: routes as [RouteOptions] }),
      meters,
    })
    const open = (options: VersionedOptions, of?: RoutePool) =>
      openRoutes(options, app, async () => undefined, of)
    const one = (round: number): RouteOptions => ({ url: '/one', plugin: moduleOf(round) })
    const bad: RouteOptions = { url: '/two', plugin: guest('bad-start') }
    return {
      sizes: () => ({ 'open versions with metrics': meters.all.filter(({ isOpen }) => isOpen).length }),
      rounds: {
        async 'without a pool, closed twice'(mark, round) {
          const opened = mark(await open(mark(optionsOf(one(round)))))
          for (const { live } of opened.routes) mark(live.plugin)
          await opened.close()
          await opened.close()
        },
        async 'with a pool, and again with the same plug-in'(mark, round) {
          const options = mark(optionsOf(one(round)))
          const first = mark(await open(options, pool))
          const second = mark(await open(options, pool))
          for (const { live } of second.routes) mark(live.plugin)
          await first.close()
          await second.close()
        },
        'one of them does not start': (mark, round) =>
          refusal(() => open(mark(optionsOf(one(round), bad)), pool)),
        'its opening is aborted': (mark, round) =>
          refusal(() => open(mark({ ...optionsOf(one(round)), signal: AbortSignal.abort() }), pool)),
      },
    }
  },

  'route/streams/guest-requests.ts withGuestRequests': async () => {
    const { shared, route, plugin } = await surroundings()
    const outbound = openOutbound({ allowedHosts: ['origin.test'], responseMax: 1_000 })
    onTestFinished(() => outbound.close())
    const limits = { bufferBytes: 1_000, idleMs: LONG_MS, timeoutMs: LONG_MS }
    return {
      rounds: {
        async 'called, closed twice'(mark) {
          const checked = { ...checkedRoute(route), plugin }
          const opened = openRoute(await chooseRoute(checked, ['routes', '0'], shared), '/', 0, log)
          const engine = mark(withGuestRequests(opened.instances, { outbound, limits }))
          await engine.call('read', Buffer.from('file'), mark({ log: keepLog() }))
          await engine.close()
          await engine.close()
          await opened.close()
        },
      },
    }
  },
}

/** Openers of `server/`, `admin/` and the root. */
export const SERVERS: Openers = {
  'server/server.ts openServer': async () => {
    const options = serverOptions()
    const taken = await takenPort()
    const open = async (mark: Mark) => {
      const { app } = await createApp({ ...options, routes: checkedEcho }, log)
      return mark(openServer(options, mark(app), log))
    }
    const { routes: checkedEcho } = checkServerOptions({ routes: [{ plugin: guest('echo') }] })
    const listen = async (server: Awaited<ReturnType<typeof open>>) => {
      await listenAt(server.http, options, '--port')
      return `http://127.0.0.1:${(server.http.address() as AddressInfo).port}`
    }
    return {
      count: 6,
      rounds: {
        async 'asked, drained twice'(mark) {
          const server = await open(mark)
          await get(await listen(server))
          await server.drain()
          await server.drain()
          await server.closeApps()
        },
        async 'its app replaced'(mark) {
          const server = await open(mark)
          await get(await listen(server))
          const { app } = await createApp({ ...options, routes: checkedEcho }, log)
          await server.replace(mark(app))
          await server.drain()
        },
        async 'drained before it listens'(mark) {
          const server = await open(mark)
          server.addHttp()
          await server.drain()
          await server.closeApps()
        },
        async 'its port is in use'(mark) {
          const server = await open(mark)
          await refusal(() => listenAt(server.http, { ...options, port: taken }, '--port'))
          await server.closeApps()
        },
      },
    }
  },

  'cli/dev/waiting.ts openWaiting': async () => {
    const taken = await takenPort()
    const reason = { code: 'WASM_SERVE_BUILD_FAILED', message: 'it has failed' }
    const open = (words: readonly string[]) =>
      openWaiting(readConfig(words, {}), { environment: {}, secrets: new Secrets(), commands: {} }, reason)
    return {
      count: 6,
      rounds: {
        async 'asked and closed'(mark) {
          const waiting = mark(await open(['none.wasm', '0']))
          await get(waiting.url ?? '')
          waiting.show(reason)
          await waiting.close()
        },
        async 'its port is in use'() {
          await refusal(() => open(['none.wasm', String(taken)]))
        },
      },
    }
  },

  'admin/listener.ts openListener': async () => ({
    count: 4,
    rounds: await listeners((_mark, text) => {
      const address = parseOperatorAddress(text)
      return openListener(
        { address, flag: '--admin', hosts: undefined, server: serverOptions(), log },
        (app) => {
          app.get('/healthz', async () => 'ok')
        },
      )
    }),
  }),

  'admin/probes.ts openProbes': async () => ({
    count: 4,
    rounds: await listeners((mark, address) => openProbes(address, serverOptions(), adminContext(mark))),
  }),

  'admin/admin.ts openAdmin': async () => ({
    count: 4,
    rounds: await listeners((mark, address) =>
      openAdmin({ address, token: TOKEN, server: serverOptions() }, adminContext(mark)),
    ),
  }),

  'admin/admin.ts startAdmin': async () => {
    const taken = await takenPort()
    const start = (mark: Mark, admin: string, probes = '127.0.0.1:0') =>
      startAdmin(serverOptions({ admin, probes, adminToken: TOKEN }), { log, meters: mark(new Meters()) })
    return {
      count: 4,
      rounds: {
        ...(await listeners((mark, address) => start(mark, address))),
        'the port for probes is in use': (mark) =>
          refusal(() => start(mark, '127.0.0.1:0', `127.0.0.1:${taken}`)),
      },
    }
  },

  'testing.ts testPlugin': () => ({
    count: 4,
    rounds: {
      async 'called, closed twice'(mark, round) {
        const tested = mark(await testPlugin(moduleOf(round), { logLevel: 'silent' }))
        await tested.call('run', 'text')
        await tested.close()
        await tested.close()
      },
      async 'closed while a function opens'(mark) {
        const tested = mark(await testPlugin(guest('several'), { logLevel: 'silent' }))
        const called = tested.call('alpha', 'text')
        await nextTurn()
        await Promise.all([tested.close(), called.catch(() => undefined)])
      },
      async 'a function is not there'(mark) {
        const tested = mark(await testPlugin(guest('echo'), { logLevel: 'silent' }))
        await refusal(() => tested.call('nothing', 'text'))
        await tested.close()
      },
      'a start fails': () => refusal(() => testPlugin(guest('bad-start'), { logLevel: 'silent' })),
    },
  }),
}
