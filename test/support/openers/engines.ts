import { EventEmitter, once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Engine, trackEndable } from '../../../src/engine/engine.ts'
import { openInline } from '../../../src/engine/inline.ts'
import { AwakeEngines, openLazy } from '../../../src/engine/lazy.ts'
import type { RunnerOwner } from '../../../src/engine/runners/runner.ts'
import { openRunners } from '../../../src/engine/runners/runners.ts'
import { GuestProcesses, type ProcessGroup } from '../../../src/engine/subprocess/process-group.ts'
import { openSubprocess, type SubprocessOptions } from '../../../src/engine/subprocess/subprocess.ts'
import { openSuspending } from '../../../src/engine/suspending.ts'
import { watchGuest } from '../../../src/engine/watchdog.ts'
import { HostBridge } from '../../../src/engine/workers/host-bridge.ts'
import { openWorkers, threadKind, type WorkersOptions } from '../../../src/engine/workers/thread.ts'
import { openInlinePlugin } from '../../../src/extism/inline-plugin.ts'
import type { GuestOptions, NamedModule } from '../../../src/extism/plugin.ts'
import { openThreadPlugin } from '../../../src/extism/thread-plugin.ts'
import { createPlugin } from '../../../src/extism.ts'
import { nextTurn } from '../../../src/platform/event-loop.ts'
import { type CompiledPlugin, compilePlugin, loadPlugin } from '../../../src/plugin/plugin.ts'
import { readSource } from '../../../src/plugin/source/source.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { InstanceSettings } from '../../../src/runtime/runtime.ts'
import { temporaryFolder } from '../admin-api.ts'
import { guest, guestBytes } from '../guest.ts'
import { keepLog, settingsOf } from '../instance.ts'
import type { Mark, Openers, Rounds } from '../leaves-nothing.ts'
import { refusal } from './refusal.ts'

const LONG_MS = 600_000

/** No services for guests. */
const NONE = { run: () => undefined, onEventLoop: () => ({ settings: {}, calls: [] }) }

const REUSE = { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY } as const

/** A folder with a file that the guest `read-file` reads. */
function folderOfGuest(): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'file'), 'text')
  return folder
}

/** Settings of an instance that has a folder open. */
function settingsWith(...folders: readonly string[]): InstanceSettings {
  const allowedPaths = folders.map((host) => ({ guest: '/', host, readOnly: true }))
  return { ...settingsOf(), wasi: { env: {}, allowedPaths } }
}

/** Reads the file, or makes another call fail. */
async function call(engine: Pick<Engine, 'call'>, name = 'read', input = 'file'): Promise<void> {
  await engine.call(name, Buffer.from(input), { log: keepLog() })
}

/** A copy, which nothing else keeps. */
function copyOf(plugin: CompiledPlugin): CompiledPlugin {
  return { ...plugin }
}

/** What has instances on the event loop. */
interface OnLoop extends Pick<Engine, 'call'> {
  readonly ready: Promise<void>
  close(): Promise<void>
}

/** @param open - Opens it with a plug-in and the settings of its instances. */
async function onLoop(
  open: (plugin: CompiledPlugin, settings: InstanceSettings) => OnLoop,
): Promise<Rounds['rounds']> {
  const folder = folderOfGuest()
  const reading = await loadPlugin(guest('read-file'))
  const trapping = await loadPlugin(guest('count'))
  const opened = (mark: Mark, plugin = reading) =>
    mark(open(mark(copyOf(plugin)), mark(settingsWith(folder))))
  return {
    async 'called, closed twice'(mark) {
      const engine = opened(mark)
      await engine.ready
      await call(engine)
      await engine.close()
      await engine.close()
    },
    async 'closed while it opens'(mark) {
      const engine = opened(mark)
      await engine.close()
      await refusal(() => call(engine))
    },
    async 'closed during a call'(mark) {
      const engine = opened(mark)
      const called = call(engine)
      await Promise.all([engine.close(), called])
    },
    async 'closed after a trap'(mark) {
      const engine = opened(mark, trapping)
      await refusal(() => call(engine, 'trap'))
      await engine.close()
    },
    async 'a folder is missing'(mark) {
      const engine = mark(open(copyOf(reading), mark(settingsWith(folder, join(folder, 'missing')))))
      await refusal(() => engine.ready)
      await engine.close()
    },
  }
}

/** Options of threads. */
async function threads(name: string): Promise<WorkersOptions> {
  const {
    name: plugin,
    digest,
    module,
    merge,
    imports,
    exports,
    memories,
    linked,
  } = await loadPlugin(guest(name))
  return {
    plugin: { name: plugin, digest, module, merge, imports, exports, memories, linked },
    runtime: 'kernel',
    ...runners(),
  }
}

function runners() {
  const { log: _log, ...settings } = settingsWith()
  return {
    settings,
    functions: undefined,
    isolation: REUSE,
    services: [],
    bridge: new HostBridge(NONE, true),
    concurrent: 1,
    log: keepLog(),
    workers: 1,
    spareWorkers: 0,
    startTimeoutMs: LONG_MS,
    backoffMs: LONG_MS,
    timeoutMs: LONG_MS,
    idempotent: false,
    maxQueue: 1_000,
    maxQueueBytes: 1_000_000,
    maxWaitMs: LONG_MS,
  }
}

/** @param open - Opens threads with these options. */
async function inThreads(open: (options: WorkersOptions) => Engine): Promise<Rounds> {
  const [echo, loop, broken] = [await threads('echo'), await threads('loop'), await threads('bad-start')]
  const opened = (mark: Mark, options: WorkersOptions, more: Partial<WorkersOptions> = {}) =>
    mark(open(mark({ ...options, ...more, bridge: mark(new HostBridge(NONE, true)) })))
  return {
    count: 4,
    rounds: {
      async 'called, closed twice'(mark) {
        const engine = opened(mark, echo)
        const called = call(engine, 'echo')
        await Promise.all([engine.close(), called])
        await engine.close()
      },
      async 'closed while it starts'(mark) {
        await opened(mark, echo).close()
      },
      async 'ended at a deadline'(mark) {
        const engine = opened(mark, loop, { timeoutMs: 20, spareWorkers: 1 })
        await refusal(() => call(engine, 'loop'))
        await engine.close()
      },
      async 'a start fails'(mark) {
        const engine = opened(mark, broken)
        await refusal(() => engine.ready)
        await engine.close()
      },
    },
  }
}

/** Tells when a thread is ready, and when it has ended. */
function recordedOwner(): RunnerOwner & { readonly news: EventEmitter } {
  const news = new EventEmitter()
  const nothing = () => undefined
  return {
    news,
    ready: () => void news.emit('ready'),
    ended: () => void news.emit('ended'),
    ...{ free: nothing, asking: nothing, answered: nothing, late: nothing, broken: nothing },
  }
}

async function processes(name: string, group: ProcessGroup): Promise<SubprocessOptions> {
  const {
    name: plugin,
    digest,
    uncompiled = [],
  } = await compilePlugin(await readSource(guest(name)), {
    compiles: false,
    isolation: 'reuse',
  })
  const { log: _log, ...settings } = settingsOf()
  return {
    ...runners(),
    settings,
    plugin: { name: plugin, digest, modules: uncompiled },
    group,
    needs: { heapMiB: 128, dataBytes: 4 * 2 ** 30, reads: [], writes: [] },
  }
}

/** Options of a plug-in without a server. */
function pluginOptions(folder: string): GuestOptions {
  return {
    allowedPaths: { '/': folder },
    allowedHosts: [],
    memory: {},
    config: {},
    timeoutMs: undefined,
    useWasi: true,
    enableWasiOutput: false,
    logger: console,
    logLevel: 'silent',
    functions: {},
    fetch: globalThis.fetch,
    allowHttpResponseHeaders: false,
    nodeWorkerArgs: {},
  }
}

/** Imports WASI, and traps when it is instantiated. */
const TRAPS_AT_START = `(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (memory (export "memory") 1)
  (func $main (drop (call $yield)) (unreachable))
  (start $main))`

type OpenedPlugin = Awaited<ReturnType<typeof createPlugin>>

/** @param open - Opens a plug-in with these modules and options. */
function withoutServer(
  open: (modules: readonly NamedModule[], options: GuestOptions) => OpenedPlugin | Promise<OpenedPlugin>,
): Rounds['rounds'] {
  const folder = folderOfGuest()
  const compiled = (name: string) => new WebAssembly.Module(guestBytes(name) as Uint8Array<ArrayBuffer>)
  const [reading, broken] = [compiled('read-file'), compiled(TRAPS_AT_START)]
  const opened = async (mark: Mark, module = reading, allowed = folder) =>
    mark(await open(mark([{ name: 'main', module }]), mark(pluginOptions(allowed))))
  return {
    async 'called, closed twice'(mark) {
      const plugin = await opened(mark)
      await plugin.call('read', 'file')
      await plugin.close()
      await plugin.close()
    },
    async 'closed during a call'(mark) {
      const plugin = await opened(mark)
      const called = plugin.call('read', 'file').catch(() => undefined)
      await plugin.close()
      await called
    },
    'a start fails': (mark) => refusal(() => opened(mark, broken)),
    'a folder is missing': (mark) => refusal(() => opened(mark, reading, join(folder, 'missing'))),
  }
}

/** Openers of `engine/` and `extism/`. */
export const ENGINES: Openers = {
  'engine/engine.ts trackEndable': () => ({
    rounds: {
      'given up twice'(mark) {
        const stop = trackEndable(mark({ endCalls: () => undefined }))
        stop()
        stop()
      },
    },
  }),

  'engine/inline.ts openInline': async () => {
    const watched = {
      function: 'read',
      plugin: 'read-file',
      route: '/',
      stallMs: LONG_MS,
      deadlineMs: 0,
      runsAtStart: false,
    }
    const stays = watchGuest(watched, () => undefined) // and with it the thread
    onTestFinished(() => stays.close())
    return {
      rounds: await onLoop((plugin, settings) => {
        const watch = watchGuest(watched, () => undefined)
        return openInline({ plugin, runtime: kernel, settings, maxQueue: 10, watch, ...REUSE })
      }),
    }
  },

  'engine/suspending.ts openSuspending': async () => ({
    rounds: await onLoop((plugin, settings) => {
      const limits = { concurrent: 2, maxQueue: 10, maxWaitMs: LONG_MS }
      return openSuspending({ plugin, runtime: kernel, settings, services: NONE, ...limits, ...REUSE })
    }),
  }),

  'engine/lazy.ts openLazy': async () => {
    const reading = await loadPlugin(guest('read-file'))
    const settings = settingsWith(folderOfGuest())
    const awake = new AwakeEngines({ idleMs: LONG_MS, maxInstances: 1 })
    const opened = (mark: Mark, open: () => Promise<Engine>, maxWaitMs = LONG_MS) =>
      mark(openLazy({ name: 'inline', open, instances: 1, maySleep: false, maxQueue: 10, maxWaitMs, awake }))
    const inline = (mark: Mark) => async () =>
      mark(openInline({ plugin: reading, runtime: kernel, settings, maxQueue: 10, ...REUSE }))
    return {
      rounds: {
        async 'called, closed twice'(mark) {
          const engine = opened(mark, inline(mark))
          await call(engine)
          await engine.close()
          await engine.close()
        },
        'never called': (mark) => opened(mark, inline(mark)).close(),
        async 'closed while it opens'(mark) {
          const engine = opened(mark, inline(mark))
          const called = call(engine)
          await Promise.all([engine.close(), called])
        },
        async 'an opening fails'(mark) {
          const engine = opened(mark, () => Promise.reject(new Error('it does not open')))
          await refusal(() => call(engine))
          await engine.close()
        },
        async 'another one takes its place'(mark) {
          const [first, second] = [opened(mark, inline(mark)), opened(mark, inline(mark))]
          await call(first)
          await call(second)
          await Promise.all([first.close(), second.close()])
        },
        async 'there is no room'(mark) {
          let release: (() => void) | undefined
          const isReleased = new Promise<void>((resolve) => {
            release = resolve
          })
          const first = opened(mark, () => isReleased.then(inline(mark)))
          const second = opened(mark, inline(mark), 0)
          const called = call(first)
          await refusal(() => call(second))
          release?.()
          await called
          await Promise.all([first.close(), second.close()])
        },
      },
    }
  },

  'engine/watchdog.ts watchGuest': () => {
    const guestOf = (plugin: string) => {
      return { plugin, function: 'run', route: '/', stallMs: LONG_MS, deadlineMs: 0, runsAtStart: true }
    }
    const watch = (mark: Mark, plugin: string) =>
      watchGuest(
        mark(guestOf(plugin)),
        mark(() => undefined),
      )
    const run = (mark: Mark, plugin: string) => {
      const watched = mark(watch(mark, plugin))
      watched.beginCall()
      watched.end()
      watched.close()
      watched.close()
    }
    return {
      count: 8,
      rounds: {
        'the only guest': (mark) => run(mark, 'only'),
        'never run': (mark) => watch(mark, 'only').close(),
        async 'one of several'(mark, round) {
          // It stays from the first round on.
          if (round === 0) {
            const other = watchGuest(guestOf('other'), () => undefined)
            onTestFinished(() => other.close())
          }
          run(mark, 'another')
          await nextTurn()
        },
      },
    }
  },

  'engine/workers/thread.ts openWorkers': () => inThreads(openWorkers),

  'engine/runners/runners.ts openRunners': async () => {
    const options = await threads('echo')
    const start = () => {
      throw new Error('the system has no more threads')
    }
    return {
      rounds: {
        async 'none can be started, closed twice'(mark) {
          const engine = mark(openRunners(mark({ ...threadKind(options), start }), mark({ ...options })))
          await refusal(() => engine.ready)
          await engine.close()
          await engine.close()
        },
      },
    }
  },

  'engine/workers/thread.ts threadKind': async () => {
    const [echo, broken] = [await threads('echo'), await threads('bad-start')]
    const begin = (mark: Mark, options: WorkersOptions) => {
      const kind = threadKind(mark({ ...options }))
      const owner = mark(recordedOwner())
      return { owner, thread: mark(kind.start(owner)) }
    }
    return {
      count: 4,
      rounds: {
        async 'ended twice'(mark) {
          const { owner, thread } = begin(mark, echo)
          await once(owner.news, 'ready')
          await thread.end()
          await thread.end()
        },
        async 'ended while it starts'(mark) {
          await begin(mark, echo).thread.end()
        },
        async abandoned(mark) {
          const { owner, thread } = begin(mark, echo)
          await once(owner.news, 'ready')
          thread.abandon()
        },
        async 'a start fails'(mark) {
          await once(begin(mark, broken).owner.news, 'ended')
        },
      },
    }
  },

  'engine/subprocess/subprocess.ts openSubprocess': async () => {
    const all = new GuestProcesses({}, keepLog())
    const shared = await processes('echo', all.group('shared'))
    const stays = openSubprocess(shared)
    onTestFinished(() => stays.close())
    await call(stays, 'echo')
    const own = async (name = 'echo') => processes(name, all.group(undefined))
    const [echo, broken] = [await own(), await own('bad-start')]
    const opened = (mark: Mark, options: SubprocessOptions) =>
      mark(openSubprocess(mark({ ...options, plugin: mark({ ...options.plugin }) })))
    return {
      count: 4,
      rounds: {
        async 'called in a process of its own, closed twice'(mark) {
          const engine = opened(mark, { ...echo, group: all.group(undefined) })
          await call(engine, 'echo')
          await engine.close()
          await engine.close()
        },
        async 'called in a shared process'(mark) {
          const engine = opened(mark, { ...shared, group: all.group('shared') })
          await call(engine, 'echo')
          await engine.close()
          await call(stays, 'echo')
        },
        async 'one that needs more than the shared process'(mark, round) {
          const needs = { ...shared.needs, reads: [`/folder-${round}`] }
          const engine = opened(mark, { ...shared, group: all.group('shared'), needs })
          await call(engine, 'echo')
          await engine.close()
          await call(stays, 'echo')
        },
        async 'closed while it starts'(mark) {
          await opened(mark, { ...echo, group: all.group(undefined) }).close()
          await opened(mark, { ...shared, group: all.group('shared') }).close()
        },
        async 'a start fails'(mark) {
          const engine = opened(mark, { ...broken, group: all.group(undefined) })
          await refusal(() => engine.ready)
          await engine.close()
        },
      },
    }
  },

  'extism/inline-plugin.ts openInlinePlugin': () => ({ rounds: withoutServer(openInlinePlugin) }),

  'extism/thread-plugin.ts openThreadPlugin': () => ({ count: 4, rounds: withoutServer(openThreadPlugin) }),

  'extism.ts createPlugin': () => ({
    count: 4,
    rounds: {
      ...withoutServer((modules, { allowedPaths, useWasi }) =>
        createPlugin({ wasm: [...modules] }, { allowedPaths, useWasi }),
      ),
      // On a busy machine, the deadline may end its start.
      async 'in a thread, ended at a deadline'(mark) {
        const opening = createPlugin(
          { wasm: [{ data: guestBytes('loop') }] },
          { runInWorker: true, timeoutMs: 100 },
        )
        await refusal(async () => mark(await opening).call('loop'))
        const plugin = await opening.catch(() => undefined)
        await plugin?.close()
      },
    },
  }),
}
