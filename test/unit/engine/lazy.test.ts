import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Engine } from '../../../src/engine/engine.ts'
import { AwakeEngines, type AwakeLimits, type LazyOptions, openLazy } from '../../../src/engine/lazy.ts'
import { type EngineStats, NO_STATS } from '../../../src/observe/engine-stats.ts'
import { callText } from '../../support/engine.ts'
import { keepLog } from '../../support/instance.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
})

test('the first call opens it, and calls that come meanwhile wait', async () => {
  const { lazy, opened } = lazyEngine()
  expect(opened).toHaveLength(0)
  expect(await Promise.all(['a', 'b'].map((text) => callText(lazy, 'run', text)))).toEqual(['a', 'b'])
  expect(await callText(lazy, 'run', 'c')).toBe('c')
  expect(opened).toHaveLength(1)
})

test('more calls than may wait are refused', async () => {
  const { lazy } = lazyEngine({ maxQueue: 1 })
  const [first, second] = ['a', 'b'].map((text) => callText(lazy, 'run', text))
  await expect(second).rejects.toMatchObject({ code: 'WASM_SERVE_QUEUE_FULL' })
  expect(await first).toBe('a')
})

test('after a failure calls fail with its error for a while, and then it is opened again', async () => {
  let attempts = 0
  const open = async () => {
    if (++attempts < 3) throw new Error(`attempt ${attempts}`)
    return fakeEngine()
  }
  const { lazy } = lazyEngine({ open })
  const call = () => callText(lazy, 'run', 'a')
  await expect(call()).rejects.toThrow('attempt 1')
  await expect(call()).rejects.toThrow('attempt 1')
  expect(lazy.trouble).toBe('attempt 1')
  vi.advanceTimersByTime(1_000)
  await expect(call()).rejects.toThrow('attempt 2')
  vi.advanceTimersByTime(1_000)
  await expect(call()).rejects.toThrow('attempt 2')
  vi.advanceTimersByTime(1_000)
  expect(await call()).toBe('a')
  expect(lazy.trouble).toBeUndefined()
})

test('an engine that does not get ready is closed, and the call gets the reason', async () => {
  const broken = { ...fakeEngine(), ready: Promise.reject(new Error('it cannot start')) }
  const { lazy } = lazyEngine({ open: async () => broken })
  await expect(callText(lazy, 'run', '')).rejects.toThrow('it cannot start')
  expect(broken.close).toHaveBeenCalled()
})

test('it is closed when it has had no call for the idle time, and opened again by the next call', async () => {
  const { lazy, opened } = lazyEngine({}, { idleMs: 1_000 })
  await callText(lazy, 'run', 'a')
  vi.advanceTimersByTime(900)
  await callText(lazy, 'run', 'b')
  vi.advanceTimersByTime(900)
  expect(lazy.stats.instances).toBe(1)
  vi.advanceTimersByTime(600)
  expect(lazy.stats.instances).toBe(0)
  expect(await callText(lazy, 'run', 'c')).toBe('c')
  expect(opened).toHaveLength(2)
})

test('it stays open if closing it would lose its memory, or a call runs, or there is no idle time', async () => {
  const stateful = lazyEngine({ maySleep: false }, { idleMs: 1_000 })
  const busy = lazyEngine({ open: async () => fakeEngine({ running: 1 }) }, { idleMs: 1_000 })
  const full = lazyEngine({ open: async () => fakeEngine({ running: 1, waiting: 1 }) }, { idleMs: 1_000 })
  const never = lazyEngine({}, { idleMs: 0 })
  const all = [stateful, busy, full, never]
  for (const { lazy } of all) await callText(lazy, 'run', '')
  vi.advanceTimersByTime(10_000)
  for (const { lazy } of all) expect(lazy.stats.instances).toBe(1)
})

test('where there are too many, the one that was not used for longest is closed', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 2 })
  const [first, second, third] = [1, 2, 3].map(() => lazyEngine({ awake }).lazy)
  if (!first || !second || !third) throw new Error('there are three')
  for (const lazy of [first, second, first, third]) await callText(lazy, 'run', '')
  expect([first, second, third].map(({ stats }) => stats.instances)).toEqual([1, 0, 1])
})

test('the one that was not used for longest is closed even if that loses its memory', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 1 })
  const { lazy: stateful } = lazyEngine({ awake, maySleep: false })
  const { lazy: late } = lazyEngine({ awake })
  await callText(stateful, 'run', '')
  expect(await callText(late, 'run', 'a')).toBe('a')
  expect(stateful.stats.instances).toBe(0)
})

test('while all are in use, calls wait for the first that is not, in their order', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 1 })
  const stats = { running: 1 }
  const { lazy: busy } = lazyEngine({ awake, open: async () => fakeEngine(stats) })
  await callText(busy, 'run', '')
  const order: string[] = []
  const calls = ['a', 'b'].map(async (text) =>
    order.push(await callText(lazyEngine({ awake }).lazy, 'run', text)),
  )
  await new Promise(setImmediate)
  expect(order).toEqual([])
  stats.running = 0
  await Promise.all(calls)
  expect(order).toEqual(['a', 'b'])
})

test('where no addresses are left for a memory, some are closed, and fewer are open from then on', async () => {
  const lowered: number[] = []
  const awake = new AwakeEngines({ idleMs: 0, onLowered: (most) => lowered.push(most) })
  let open = 0
  const failures: unknown[] = []
  const limited = (): Partial<LazyOptions> => ({
    awake,
    async open() {
      if (open === 32) throw new RangeError('WebAssembly.Memory(): could not allocate memory')
      open++
      const engine = fakeEngine()
      return { ...engine, close: async () => void open-- }
    },
    failed: (error) => failures.push(error),
  })
  const all = Array.from({ length: 100 }, () => lazyEngine(limited()).lazy)
  for (const [number, lazy] of all.entries())
    expect(await callText(lazy, 'run', `${number}`)).toBe(`${number}`)
  expect(failures).toEqual([])
  expect(lowered).toEqual([30])
  expect(all.filter(({ stats }) => stats.instances > 0)).toEqual(all.slice(-30))
})

test('engines that notice together that no addresses are left lower the limit once', async () => {
  const lowered: number[] = []
  const awake = new AwakeEngines({ idleMs: 0, onLowered: (most) => lowered.push(most) })
  const all = Array.from({ length: 16 }, () => lazyEngine({ awake }).lazy)
  for (const lazy of all) await callText(lazy, 'run', '')
  let trying = 0
  let allTry: () => void = () => undefined
  const together = new Promise<void>((resolve) => {
    allTry = resolve
  })
  const late = Array.from({ length: 8 }, (_, number) => {
    let attempts = 0
    const open = async () => {
      if (++attempts > 1) return fakeEngine()
      if (++trying === 8) allTry()
      await together
      throw new RangeError('WebAssembly.Memory(): could not allocate memory')
    }
    return callText(lazyEngine({ awake, open }).lazy, 'run', `${number}`)
  })
  expect(await Promise.all(late)).toEqual(late.map((_, number) => `${number}`))
  expect(lowered).toHaveLength(1)
})

test('where no addresses are left and all are in use, the call fails', async () => {
  const awake = new AwakeEngines({ idleMs: 0 })
  const { lazy: busy } = lazyEngine({ awake, open: async () => fakeEngine({ running: 1 }) })
  await callText(busy, 'run', '')
  const error = new RangeError(
    'WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance',
  )
  const failures: unknown[] = []
  const open = async () => Promise.reject(error)
  const { lazy } = lazyEngine({ awake, open, failed: (each) => failures.push(each) })
  await expect(callText(lazy, 'run', '')).rejects.toBe(error)
  expect(failures).toEqual([error])
})

test('calls that have waited too long for one are refused, and their route can be called again', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 1 })
  const stats = { running: 1 }
  const { lazy: busy } = lazyEngine({ awake, open: async () => fakeEngine(stats) })
  const { lazy: late } = lazyEngine({ awake, maxWaitMs: 1_000 })
  await callText(busy, 'run', '')
  const refused = expect(callText(late, 'run', '')).rejects.toMatchObject({
    code: 'WASM_SERVE_INSTANCES_FULL',
  })
  await new Promise(setImmediate)
  vi.advanceTimersByTime(1_001)
  await refused
  stats.running = 0
  expect(await callText(late, 'run', 'a')).toBe('a')
})

test('nobody waits for a client that has gone', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 1 })
  const stats = { running: 1 }
  const { lazy: busy } = lazyEngine({ awake, open: async () => fakeEngine(stats) })
  const { lazy: late } = lazyEngine({ awake })
  await callText(busy, 'run', '')
  const caller = { log: keepLog(), isGone: false }
  const left = late.call('run', Buffer.alloc(0), caller)
  caller.isGone = true
  await expect(left).rejects.toMatchObject({ code: 'WASM_SERVE_CLIENT_GONE' })
  await late.close()
})

test('a route with more instances than the limit still gets its own', async () => {
  const awake = new AwakeEngines({ idleMs: 0, maxInstances: 2 })
  const { lazy } = lazyEngine({ awake, instances: 5 })
  expect(await callText(lazy, 'run', 'a')).toBe('a')
})

test('its counters continue when it is closed and opened again', async () => {
  const { lazy } = lazyEngine(
    { open: async () => fakeEngine({ recycled: 2, restarted: 1 }) },
    { idleMs: 100 },
  )
  await callText(lazy, 'run', '')
  vi.advanceTimersByTime(1_000)
  await callText(lazy, 'run', '')
  expect(lazy.stats).toMatchObject({ recycled: 4, restarted: 2 })
  await lazy.close()
  expect(lazy.stats).toMatchObject({ recycled: 4, restarted: 2, instances: 0 })
})

test('closing it waits for its opening, and its calls are answered', async () => {
  const { lazy, opened } = lazyEngine()
  const call = callText(lazy, 'run', 'a')
  await lazy.close()
  expect(await call).toBe('a')
  expect(opened[0]?.close).toHaveBeenCalled()
  await expect(callText(lazy, 'run', 'b')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
})

/** A lazy engine, and those that it has opened. */
function lazyEngine(options: Partial<LazyOptions> = {}, limits: AwakeLimits = { idleMs: 0 }) {
  const opened: ReturnType<typeof fakeEngine>[] = []
  const open = async () => {
    const engine = fakeEngine()
    opened.push(engine)
    return engine
  }
  const awake = new AwakeEngines(limits)
  const lazy = openLazy({
    name: 'inline',
    open,
    instances: 1,
    maySleep: true,
    maxQueue: 10,
    awake,
    ...options,
  })
  return { lazy, opened }
}

/** An engine that answers with its input. */
function fakeEngine(stats: Partial<EngineStats> = {}) {
  let isOpen = true
  return {
    name: 'inline',
    trouble: undefined,
    get stats() {
      const { recycled = 0, restarted = 0 } = stats
      return isOpen ? { ...NO_STATS, instances: 1, ...stats } : { ...NO_STATS, recycled, restarted }
    },
    ready: Promise.resolve(),
    call: (_name: string, input: Uint8Array) => input,
    close: vi.fn(async () => {
      isOpen = false
    }),
  } satisfies Engine
}
