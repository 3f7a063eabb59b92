import { getEventListeners, once } from 'node:events'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openClient } from '../../../src/guest/outbound/client.ts'
import { openOutbound } from '../../../src/guest/outbound/outbound.ts'
import { openStream, type StreamLimits } from '../../../src/guest/outbound/outbound-stream.ts'
import { checkTarget, ownAddresses } from '../../../src/guest/outbound/target.ts'
import { openLmdbStore } from '../../../src/guest/store/lmdb.ts'
import { openMemoryStore } from '../../../src/guest/store/memory.ts'
import { openStore } from '../../../src/guest/store/open-store.ts'
import { shareStore } from '../../../src/guest/store/shared-store.ts'
import type { Store } from '../../../src/guest/store/store.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { startTracingSdk } from '../../../src/observe/traces.ts'
import { FD_FOLDER, watchDescriptors } from '../../../src/platform/descriptors.ts'
import { nextTurn, startClock } from '../../../src/platform/event-loop.ts'
import { deferIdleClose } from '../../../src/platform/node-workarounds.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { allowHosts } from '../../../src/plugin/source/allowed-hosts.ts'
import { Directory } from '../../../src/runtime/wasi/directory.ts'
import { openRegularFile } from '../../../src/runtime/wasi/file.ts'
import { openWasi } from '../../../src/runtime/wasi/wasi.ts'
import { temporaryFolder } from '../admin-api.ts'
import { kvGuest } from '../kv-guest.ts'
import type { Mark, Openers } from '../leaves-nothing.ts'
import { serveHttp } from '../outbound.ts'
import { openServicesOf, serviceResources } from '../services.ts'
import { refusal } from './refusal.ts'

const LONG_MS = 600_000

/** Writes and reads a value. */
export async function useStore(store: Store): Promise<void> {
  await store.set('space', 'key', Buffer.from('value'), { ttlMs: LONG_MS })
  await store.get('space', 'key')
}

/** A server that answers at `/`, and nothing at `/silent`. */
async function originAndTargets() {
  const { url } = await serveHttp((request, response) => {
    if (request.url === '/silent') request.resume()
    else response.end('hello')
  })
  const reach = allowHosts(['origin.test'])
  const view = { resolve: async () => ['127.0.0.1'], own: ownAddresses() }
  const check = (to: URL, label: string) => checkTarget(to, label, () => reach(to), view)
  const ask = (path: string) => ({
    url: new URL(path, url),
    method: 'GET',
    headers: new Map<string, string>(),
    body: undefined,
  })
  return { url, check, ask }
}

const LIMITS: StreamLimits = { bufferBytes: 65_536, idleMs: LONG_MS, timeoutMs: LONG_MS }

/** Openers of `platform/`, `observe/`, `runtime/` and `guest/`. */
export const SERVICES: Openers = {
  'platform/event-loop.ts startClock': () => ({
    rounds: {
      'stopped twice'(mark) {
        const stop = startClock(
          LONG_MS,
          mark(() => undefined),
        )
        stop()
        stop()
      },
      over: (mark) =>
        new Promise<void>((resolve) =>
          startClock(
            1,
            mark(() => resolve()),
          ),
        ),
    },
  }),

  'platform/descriptors.ts watchDescriptors': () => ({
    rounds: {
      async 'stopped twice'(mark) {
        const stop = watchDescriptors(mark(openLog('silent')))
        for (let turn = 0; turn < 5; turn++) await nextTurn()
        stop()
        stop()
      },
      'stopped before its first look': (mark) => watchDescriptors(mark(openLog('silent')))(),
    },
  }),

  'platform/node-workarounds.ts deferIdleClose': () => ({
    rounds: {
      async closed(mark) {
        const server = mark(createServer((_request, response) => response.end()))
        server.listen(0, '127.0.0.1')
        await once(server, 'listening')
        const closeIdle = deferIdleClose(server)
        server.close()
        closeIdle()
        await once(server, 'close')
      },
    },
  }),

  'observe/traces.ts startTracingSdk': () => ({
    rounds: {
      async 'closed twice'(mark) {
        const sdk = mark(await startTracingSdk({}))
        await sdk.close()
        await sdk.close()
      },
    },
  }),

  'runtime/wasi/file.ts openRegularFile': () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'file'), 'text')
    mkdirSync(join(folder, 'folder'))
    const directory = Directory.open(folder, FD_FOLDER)
    onTestFinished(() => directory.close())
    const none = { read: true, write: false, append: false, frozen: false }
    const mode = { ...none, create: false, exclusive: false, truncate: false }
    return {
      rounds: {
        closed(mark) {
          const file = mark(openRegularFile(directory, 'file', mode))
          file.read(Buffer.alloc(4), 0, 4)
          file.close()
        },
        'not a file': () => refusal(() => openRegularFile(directory, 'folder', mode)),
        'not there': () => refusal(() => openRegularFile(directory, 'nothing', mode)),
      },
    }
  },

  'runtime/wasi/wasi.ts openWasi': () => {
    const host = temporaryFolder()
    const here = { guest: '/here', host, readOnly: false }
    const missing = { guest: '/missing', host: join(host, 'missing'), readOnly: false }
    const open = (mark: Mark, ...allowedPaths: (typeof here)[]) =>
      openWasi(mark({ allowedPaths, writeLine: () => undefined }))
    return {
      rounds: {
        'closed twice'(mark) {
          const wasi = mark(open(mark, here, here))
          wasi.close()
          wasi.close()
        },
        'opened again'(mark) {
          const wasi = mark(open(mark, here))
          wasi.close()
          wasi.reopen()
          wasi.close()
        },
        'a folder is missing': (mark) => refusal(() => open(mark, here, missing)),
      },
    }
  },

  'guest/outbound/client.ts openClient': async () => {
    const { check, ask } = await originAndTargets()
    const request = ask('/')
    const target = check(request.url, 'origin')
    return {
      rounds: {
        async 'used, closed twice'(mark) {
          const client = mark(openClient(1_000))
          const ended = mark(new AbortController())
          await client.exchange(request, target, ended.signal)
          client.close()
          client.close()
        },
        'never used': (mark) => mark(openClient(1_000)).close(),
        async 'closed during a request'(mark) {
          const client = mark(openClient(1_000))
          const asked = client.exchange(ask('/silent'), target, new AbortController().signal)
          await nextTurn()
          client.close()
          await refusal(() => asked)
        },
      },
    }
  },

  'guest/outbound/outbound-stream.ts openStream': async () => {
    const { check, ask } = await originAndTargets()
    const client = openClient(1_000)
    onTestFinished(() => client.close())
    const parts = { client, check, maxBytes: 1_000, followsRedirects: true }
    return {
      rounds: {
        async 'read to its end'(mark) {
          const stream = mark(openStream(mark(ask('/')), undefined, LIMITS, parts))
          while ((await stream.read(100)).length > 0);
          stream.close()
          stream.close()
        },
        async 'closed while it is waited for'(mark) {
          const stream = mark(openStream(ask('/silent'), undefined, LIMITS, parts))
          const response = stream.response()
          await nextTurn()
          stream.close()
          await refusal(() => response)
        },
        async 'closed before it is sent'(mark) {
          const stream = mark(openStream({ ...ask('/'), method: 'POST' }, undefined, LIMITS, parts))
          stream.close()
          await refusal(() => stream.done)
        },
        'a host that is not allowed': () =>
          refusal(() =>
            openStream({ ...ask('/'), url: new URL('http://other.test') }, undefined, LIMITS, parts),
          ),
      },
    }
  },

  'guest/outbound/outbound.ts openOutbound': async () => {
    const { url } = await originAndTargets()
    const { signal } = new AbortController()
    const open = () =>
      openOutbound({
        allowedHosts: ['origin.test'],
        responseMax: 1_000,
        network: { resolve: async () => ['127.0.0.1'] },
      })
    const ask = (path: string) => ({ url: url + path, method: 'GET', headers: {} })
    const streamed = { length: undefined, followsRedirects: true }
    return {
      sizes: () => ({ 'listeners of a signal': getEventListeners(signal, 'abort').length }),
      rounds: {
        async 'used, closed twice'(mark) {
          const outbound = mark(open())
          await outbound.fetch(ask('/'), undefined, mark({ timeoutMs: LONG_MS, signal }))
          await outbound.close()
          await outbound.close()
        },
        async 'closed during a request'(mark) {
          const outbound = mark(open())
          const asked = outbound.fetch(ask('/silent'), undefined, { timeoutMs: LONG_MS, signal })
          const stream = outbound.open({ ...ask('/silent'), ...streamed }, LIMITS)
          await nextTurn()
          await Promise.all([outbound.close(), refusal(() => asked), refusal(() => stream.done)])
        },
        async 'a request is refused'(mark) {
          const outbound = mark(open())
          const other = { ...ask('/'), url: 'http://other.test' }
          await refusal(() => outbound.fetch(other, undefined, { timeoutMs: LONG_MS, signal }))
          await outbound.close()
        },
      },
    }
  },

  'guest/store/memory.ts openMemoryStore': () => ({
    rounds: {
      async 'used, closed twice'(mark) {
        const store = mark(openMemoryStore({ maxBytes: 1_000_000 }))
        await useStore(store)
        await store.close()
        await store.close()
      },
    },
  }),

  'guest/store/lmdb.ts openLmdbStore': () => {
    const all = temporaryFolder()
    const folder = join(all, 'store')
    const damaged = temporaryFolder()
    writeFileSync(join(damaged, 'data.mdb'), Buffer.alloc(8_192, 1))
    return {
      count: 10,
      sizes: () => ({ 'files beside damage': readdirSync(damaged).length }),
      rounds: {
        async 'used, closed twice'(mark, round) {
          const store = mark(await openLmdbStore({ folder: join(all, String(round)) }))
          await useStore(store)
          await store.close()
          await store.close()
        },
        async 'two of one folder'(mark) {
          const stores = [mark(await openLmdbStore({ folder })), mark(await openLmdbStore({ folder }))]
          for (const store of stores) await useStore(store)
          for (const store of stores) await store.close()
        },
        damaged: () => refusal(() => openLmdbStore({ folder: damaged })),
        missing: () => refusal(() => openLmdbStore({ folder: join(damaged, 'none'), mustExist: true })),
      },
    }
  },

  'guest/store/shared-store.ts shareStore': () => {
    const folder = join(temporaryFolder(), 'store')
    const share = (mark: Mark, url: string) =>
      mark(shareStore(url, { maxBytes: 1_000_000, timeoutMs: LONG_MS, log: openLog('silent') }))
    return {
      rounds: {
        async 'used, closed twice'(mark) {
          const shared = share(mark, `lmdb:${folder}`)
          await useStore(mark(await shared.open()))
          await shared.close()
          await shared.close()
        },
        async 'an empty one beside it'(mark) {
          const shared = share(mark, 'memory:')
          const empty = mark(await shared.openEmpty())
          await empty.close()
          await shared.close()
        },
        async 'closed while it opens'(mark) {
          const shared = share(mark, `lmdb:${folder}`)
          const opening = shared.open()
          await shared.close()
          await opening
        },
      },
    }
  },

  'guest/services/services.ts openServices': async () => {
    const plugin = await loadPlugin(kvGuest('get'))
    return {
      rounds: {
        async 'closed twice'(mark) {
          const resources = mark(serviceResources())
          const services = mark(await openServicesOf(plugin, { vars: 'shared' }, resources))
          services.close()
          services.close()
          await resources.store.close()
        },
        async 'for a trial'(mark) {
          const resources = mark(serviceResources())
          const services = mark(await openServicesOf(plugin, {}, resources))
          mark(await services.forTrial()).close()
          services.close()
          await resources.store.close()
        },
        async 'its store is closed'(mark) {
          const resources = mark(serviceResources())
          await resources.store.close()
          await refusal(() => openServicesOf(plugin, { vars: 'shared' }, resources))
        },
      },
    }
  },

  'guest/store/open-store.ts openStore': () => {
    const folder = join(temporaryFolder(), 'store')
    const open = (url: string) => openStore(url, { maxBytes: 1_000_000, timeoutMs: 1_000 })
    return {
      count: 10,
      rounds: {
        async 'memory, closed'(mark) {
          const store = mark(await open('memory:'))
          await useStore(store)
          await store.close()
        },
        async 'lmdb, closed'(mark) {
          const store = mark(await open(`lmdb:${folder}`))
          await useStore(store)
          await store.close()
        },
        'of an unknown kind': () => refusal(() => open('files:/tmp')),
      },
    }
  },
}
