import { EventEmitter, getEventListeners, once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type ConfigurationSource, programConfiguration } from '../../../src/deploy/configuration.ts'
import type { ChangeRecord } from '../../../src/deploy/deployments.ts'
import { type Deployments, reload } from '../../../src/deploy/deployments.ts'
import { FileSnapshot } from '../../../src/deploy/file-snapshot.ts'
import { openRedisFleet } from '../../../src/deploy/fleet/redis-fleet-store.ts'
import { followTags } from '../../../src/deploy/follow-tags.ts'
import { deploymentsFrom } from '../../../src/deploy/live-deployments.ts'
import { openLocalReplica } from '../../../src/deploy/local-replica.ts'
import { type Channel, type LinkMessage, openLink } from '../../../src/deploy/processes/link.ts'
import { openProcesses } from '../../../src/deploy/processes/processes.ts'
import { changeServer, openDeployments, planFirst } from '../../../src/deploy/start.ts'
import { watchFiles } from '../../../src/deploy/watch.ts'
import { openRedisStore } from '../../../src/guest/store/redis.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { Meters } from '../../../src/observe/metrics.ts'
import { checkServerOptions, type RouteOptions } from '../../../src/options/options.ts'
import { nextTurn } from '../../../src/platform/event-loop.ts'
import { temporaryFolder } from '../admin-api.ts'
import { file, guest, moduleNumber } from '../guest.ts'
import { planReceived, startHere } from '../in-process.ts'
import type { Mark, Openers } from '../leaves-nothing.ts'
import { freePort, startRedis } from '../redis.ts'
import { openControl } from '../replica-suite.ts'
import { refusal } from './refusal.ts'
import { useStore } from './services.ts'

const log = openLog('silent')

const LONG_MS = 600_000

const ECHO: RouteOptions = { url: '/', plugin: guest('echo'), startTimeoutMs: LONG_MS }

/** A route whose smoke request fails. */
const UNFIT: RouteOptions = { ...ECHO, url: '/unfit', smoke: { body: 'abc', answer: 'xyz' } }

/** Deployments whose configuration is that of a program. */
function sourceOf(routes: readonly RouteOptions[], more: object = {}): ConfigurationSource {
  const quick = { stallMs: 0, drainMs: 0, port: 0, logLevel: 'silent' } as const
  return programConfiguration(checkServerOptions({ ...quick, ...more, routes: routes as [RouteOptions] }))
}

/** As a server ends them. */
async function end(deployments: Deployments): Promise<void> {
  deployments.refuse()
  await deployments.current.app.close()
  await deployments.close()
}

/** Deployments that stay until the test has ended. */
async function openStaying(more: object = {}): Promise<Deployments> {
  const deployments = await openDeployments(sourceOf([ECHO], more), () => ({ log }))
  onTestFinished(() => end(deployments))
  return deployments
}

/** As far as those that follow files and tags use them. */
function deploymentsWith(parts: Partial<Deployments>): Deployments {
  return parts as Deployments
}

/** Two ends that pass messages on at once, and keep nothing. */
function channels(): readonly [Channel, Channel] {
  const [one, other] = [new EventEmitter(), new EventEmitter()]
  const channel = (to: EventEmitter, from: EventEmitter): Channel => ({
    send: (message) => void to.emit('message', structuredClone(message)),
    onMessage: (listener) => void from.on('message', (message: LinkMessage) => listener(message)),
  })
  return [channel(other, one), channel(one, other)]
}

/** Openers of `deploy/`. */
export const DEPLOYMENTS: Openers = {
  'deploy/start.ts openDeployments': () => {
    const state = join(temporaryFolder(), 'state')
    const open = async (mark: Mark, routes: readonly RouteOptions[], more: object = {}) =>
      mark(await openDeployments(mark(sourceOf(routes, more)), () => ({ log, meters: mark(new Meters()) })))
    return {
      count: 6,
      sizes: () => ({ 'files of the state': readdirSync(state, { recursive: true }).length }),
      rounds: {
        async 'with a state folder, closed twice'(mark) {
          const deployments = await open(mark, [ECHO], { state })
          mark(deployments.current.app)
          await end(deployments)
          await end(deployments)
        },
        async changed(mark, round) {
          const path = file(`changed-${round % 2}.wasm`, moduleNumber(round))
          const deployments = await open(mark, [{ url: '/', plugin: path }])
          mark(deployments.current.desired)
          await deployments.apply(reload, 'test')
          mark(deployments.current.desired)
          await end(deployments)
        },
        async 'served by processes'(mark) {
          const here = startHere()
          const meters = mark(new Meters())
          const processes = openProcesses({ count: 2, log, secrets: () => [], start: here.start, meters })
          const deployments = mark(
            await openDeployments(sourceOf([ECHO]), () => ({ log, open: (first) => processes.open(first) })),
          )
          const running = await processes.serve(deployments)
          await deployments.apply(reload, 'test')
          await running.drain()
        },
        'no process starts': () => {
          const here = startHere()
          here.behavior.start = () => Promise.reject(new Error('it does not start'))
          const processes = openProcesses({ count: 2, log, secrets: () => [], start: here.start })
          return refusal(() =>
            openDeployments(sourceOf([ECHO]), () => ({ log, open: (first) => processes.open(first) })),
          )
        },
        'its smoke request fails': (mark) => refusal(() => open(mark, [ECHO, UNFIT])),
        'a plug-in does not start': (mark) =>
          refusal(() => open(mark, [ECHO, { url: '/bad', plugin: guest('bad-start') }])),
        'a plug-in is missing': (mark) =>
          refusal(() => open(mark, [ECHO, { url: '/bad', plugin: '/missing.wasm' }])),
      },
    }
  },

  'deploy/live-deployments.ts deploymentsFrom': async () => {
    const { current } = await openStaying()
    const { signal } = new AbortController()
    const open = async (mark: Mark, routes: readonly RouteOptions[] = [ECHO]) => {
      const first = await planFirst(sourceOf([ECHO]), async () => undefined)
      const replica = mark(await openLocalReplica(mark(first), { log }))
      const parts = { files: new FileSnapshot(), tags: new Map<string, string>(), replica, store: undefined }
      return mark(deploymentsFrom(sourceOf(routes), { ...current, app: replica.app }, mark(parts), { log }))
    }
    return {
      count: 6,
      sizes: () => ({ 'listeners of a signal': getEventListeners(signal, 'abort').length }),
      rounds: {
        async 'closed twice'(mark) {
          const deployments = await open(mark)
          await end(deployments)
          await deployments.close()
        },
        async 'a change is aborted'(mark) {
          const deployments = await open(mark)
          const prepared = mark(await deployments.prepare(reload, 'test', { signal }))
          await prepared.abort()
          await prepared.abort()
          await end(deployments)
        },
        async 'closed while a change is prepared'(mark) {
          const deployments = await open(mark)
          const preparing = deployments.prepare(reload, 'test', { signal })
          await nextTurn()
          await Promise.all([end(deployments), refusal(() => preparing)])
        },
        async 'closed after a change was prepared'(mark) {
          const deployments = await open(mark)
          mark(await deployments.prepare(reload, 'test', { signal }))
          await end(deployments)
        },
        async 'a change is refused'(mark) {
          const deployments = await open(mark, [ECHO, UNFIT])
          await refusal(() => deployments.apply(reload, 'test', { signal }))
          await end(deployments)
        },
      },
    }
  },

  'deploy/local-replica.ts openLocalReplica': async () => {
    const control = openControl()
    const first = await control.state(1, [ECHO])
    const second = await control.state(2, [ECHO, { ...ECHO, url: '/more' }])
    const unfit = await control.state(2, [ECHO, UNFIT])
    const open = async (mark: Mark, state = first) => {
      const plan = await planReceived(mark({ ...state }), control.module)
      return mark(await openLocalReplica(plan, { log, meters: mark(new Meters()), revision: state.revision }))
    }
    const close = async (replica: Awaited<ReturnType<typeof open>>) => {
      replica.refuse()
      await replica.app.close()
      await replica.close()
    }
    return {
      count: 6,
      rounds: {
        async 'a state committed, another one prepared'(mark) {
          const replica = await open(mark)
          await replica.prepare(mark({ ...second }), 'test')
          await replica.commit(2)
          await replica.prepare(mark({ ...second, revision: 3 }), 'test')
          await replica.abort(3)
          await close(replica)
          await close(replica)
        },
        async 'closed after a state was prepared'(mark) {
          const replica = await open(mark)
          await replica.prepare(mark({ ...second }), 'test')
          await close(replica)
        },
        async 'a change is refused, another one aborted'(mark) {
          const replica = await open(mark)
          await refusal(() => replica.prepare(mark({ ...unfit }), 'test'))
          await refusal(() => replica.prepare(mark({ ...second }), 'test', AbortSignal.abort()))
          await close(replica)
        },
        'its smoke request fails': (mark) => refusal(() => open(mark, { ...unfit, revision: 1 })),
      },
    }
  },

  'deploy/start.ts changeServer': async () => {
    const deployments = await openStaying({ watch: true })
    return {
      rounds: {
        async 'ended twice'(mark) {
          const server = mark({ replace: async () => undefined })
          const stop = mark(await changeServer(deployments, server, mark(openLog('silent'))))
          // What follows has no part in it.
          deployments.follow({ replace: async () => undefined })
          stop()
          stop()
        },
      },
    }
  },

  'deploy/watch.ts watchFiles': () => ({
    count: 6,
    rounds: {
      'ended twice'(mark) {
        const stop = mark(watchFiles(mark(deploymentsWith({ files: new FileSnapshot() }))))
        stop()
        stop()
      },
      async 'ended while a change is made'(mark) {
        const news = new EventEmitter()
        const attempted = once(news, 'attempt')
        const changing = deploymentsWith({
          files: Object.assign(new FileSnapshot(), { changed: () => ['changed'] }),
          async attempt() {
            news.emit('attempt')
            await nextTurn()
            return { record: { ok: false } as ChangeRecord }
          },
        })
        const stop = watchFiles(mark(changing))
        await attempted
        stop()
      },
    },
  }),

  'deploy/follow-tags.ts followTags': () => ({
    rounds: {
      async 'ended twice'(mark) {
        const stop = mark(followTags(mark(deploymentsWith({ tags: new Map() })), LONG_MS, log))
        await nextTurn()
        stop()
        stop()
      },
      async 'ended while a registry is asked'(mark) {
        const news = new EventEmitter()
        const asking = once(news, 'ask')
        const answerless = deploymentsWith({
          tags: new Map([['oci://registry.test/name:tag', 'sha256:1']]),
          resolveTag(_reference, signal) {
            news.emit('ask')
            return new Promise((_resolve, reject) => {
              signal.addEventListener('abort', () => reject(signal.reason), { once: true })
            })
          },
        })
        const stop = followTags(mark(answerless), 1, log)
        await asking
        stop()
      },
    },
  }),

  'deploy/processes/link.ts openLink': () => {
    const { signal } = new AbortController()
    type Asked = { readonly echo: readonly [string, string]; readonly never: readonly [string, string] }
    const open = (mark: Mark) => {
      const [near, far] = channels()
      const answers = mark({
        echo: (text: string) => text,
        never: () => new Promise<string>(() => undefined),
      })
      return [
        mark(openLink<Asked, Asked>(near, answers)),
        mark(openLink<Asked, Asked>(far, answers)),
        near,
      ] as const
    }
    return {
      sizes: () => ({ 'listeners of a signal': getEventListeners(signal, 'abort').length }),
      rounds: {
        async 'asked, closed twice'(mark) {
          const links = open(mark)
          await links[0].ask('echo', 'text', signal)
          for (const link of [links[0], links[1], links[0]]) link.close(new Error('it is over'))
        },
        async 'closed while it is asked'(mark) {
          const [near, far] = open(mark)
          const asked = near.ask('never', 'text', signal)
          near.close(new Error('it is over'))
          far.close(new Error('it is over'))
          await refusal(() => asked)
        },
        async 'a request cannot be sent'(mark) {
          const [near, , channel] = open(mark)
          channel.send = () => {
            throw new Error('the channel is closed')
          }
          await refusal(() => near.ask('echo', 'text', signal))
          near.close(new Error('it is over'))
        },
      },
    }
  },
}

/** Openers that need a server of Redis. */
export const REDIS: Openers = {
  'guest/store/redis.ts openRedisStore': async () => {
    const server = await startRedis()
    const closed = await startRedis(['--requirepass', 'secret'])
    onTestFinished(async () => {
      await Promise.all([server.stop(), closed.stop()])
    })
    const open = (port: number) =>
      openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs: 5_000, log })
    return {
      count: 6,
      rounds: {
        async 'used, closed twice'(mark) {
          const store = mark(await open(server.port))
          await useStore(store)
          await store.close()
          await store.close()
        },
        'the login is refused': () => refusal(() => open(closed.port)),
      },
    }
  },

  'deploy/fleet/redis-fleet-store.ts openRedisFleet': async () => {
    const server = await startRedis()
    onTestFinished(() => server.stop())
    const open = (port: number) =>
      openRedisFleet({ url: `redis://127.0.0.1:${port}`, fleet: 'test', keyPrefix: '', history: 3, log })
    const nobody = await freePort()
    return {
      count: 4,
      rounds: {
        async 'used, closed twice'(mark) {
          const store = mark(await open(server.port))
          store.onWrite(mark(() => undefined))
          await store.head()
          await store.close()
          await store.close()
        },
        async 'closed while it subscribes'(mark) {
          const store = mark(await open(server.port))
          store.onWrite(mark(() => undefined))
          await store.close()
        },
        async 'no server answers'(mark) {
          const store = mark(await open(nobody))
          store.onWrite(mark(() => undefined))
          await store.close()
        },
      },
    }
  },
}
