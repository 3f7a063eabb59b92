import { describe, expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../../../src/engine/engine.ts'
import { type InlineOptions, openInline } from '../../../src/engine/inline.ts'
import { TurnScheduler } from '../../../src/engine/turn-scheduler.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { guest, guestBytes } from '../../support/guest.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const caller = { log: keepLog() }

/** An engine whose opening is not waited for; closed when the test ends. */
async function open(name: string, options: Partial<InlineOptions> = {}): Promise<Engine> {
  const engine = openInline({
    plugin: await loadPlugin(guest(name), { runtime: 'sdk' }), // each runtime can open it
    runtime: sdk,
    settings: settingsOf(),
    maxQueue: 1_000,
    isolation: 'reuse',
    recycleMemory: Number.POSITIVE_INFINITY,
    ...options,
  })
  onTestFinished(() => engine.close())
  return engine
}

const call = async (engine: Engine, exportName: string, input: string) =>
  Buffer.from(await engine.call(exportName, bytes(input), caller)).toString()

describe.each([kernel, sdk])('the inline engine with the $name runtime', (runtime) => {
  test('refuses a call at once when as many wait as may', async () => {
    const [gate, release] = openGate()
    const engine = await open('upper', { runtime: behind(gate, runtime), maxQueue: 2 })
    const waiting = [call(engine, 'upper', 'a'), call(engine, 'upper', 'b')]
    await expect(call(engine, 'upper', 'c')).rejects.toMatchObject({ code: 'WASM_SERVE_QUEUE_FULL' })
    release()
    expect(await Promise.all(waiting)).toEqual(['A', 'B'])
  })

  test('says why when no instance can be opened, and tries again for the next call', async () => {
    let attempts = 0
    const badStart = await loadPlugin(guest('bad-start'), { runtime: 'sdk' })
    const engine = await open('echo', {
      runtime: {
        name: runtime.name,
        open: (plugin, settings) => runtime.open(attempts++ < 2 ? badStart : plugin, settings),
      },
    })
    await expect(engine.ready).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
    await expect(call(engine, 'echo', 'a')).rejects.toMatchObject({
      code: 'WASM_SERVE_INSTANCE_START_FAILED',
    })
    expect(await call(engine, 'echo', 'b')).toBe('b')
  })

  test('lets the calls that wait end when it closes, takes no more, and closes its instance', async () => {
    const closed: Instance[] = []
    const engine = await open('upper', {
      runtime: {
        name: runtime.name,
        async open(plugin, settings) {
          const instance = await runtime.open(plugin, settings)
          return {
            memoryBytes: 0,
            kernelBytes: 0,
            hasExited: false,
            call: (...args) => instance.call(...args),
            close: async () => void closed.push(instance),
          }
        },
      },
    })
    const calls = [call(engine, 'upper', 'a'), call(engine, 'upper', 'b')]
    const closing = engine.close()
    await expect(call(engine, 'upper', 'c')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
    expect(await Promise.all(calls)).toEqual(['A', 'B'])
    await closing
    expect(closed).toHaveLength(1)
  })

  test('closes each instance that it has replaced, once', async () => {
    const [opened, closed]: [Instance[], Instance[]] = [[], []]
    const counting: Runtime = {
      name: runtime.name,
      async open(plugin, settings) {
        const instance = await runtime.open(plugin, settings)
        opened.push(instance)
        return {
          memoryBytes: 0,
          kernelBytes: 0,
          hasExited: false,
          call: (...args) => instance.call(...args),
          async close() {
            closed.push(instance)
            await instance.close()
          },
        }
      },
    }
    const engine = await open('count', { runtime: counting, recycle: 2 })
    await Promise.allSettled(['count', 'count', 'trap', 'count'].map((name) => call(engine, name, '')))
    await engine.close()
    expect(opened).toHaveLength(3)
    expect(closed).toEqual(opened)
  })
})

function openGate(): [gate: Promise<void>, release: () => void] {
  let release: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  return [gate, release]
}

/** A runtime that opens nothing before the gate does. */
function behind(gate: Promise<void>, runtime: Runtime): Runtime {
  return { name: runtime.name, open: (plugin, settings) => gate.then(() => runtime.open(plugin, settings)) }
}

describe('the calls of a slow guest', () => {
  /** A guest that computes for some milliseconds, never in slices, and an engine of it that has been called once. */
  async function openSlow(options: Partial<InlineOptions> = {}): Promise<Engine> {
    const plugin = await loadPlugin(
      guestBytes(`(module (func (export "quick") (result i32) (i32.const 0)) (func (export "work") (result i32) (local $i i32)
        (loop $next (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5_000_000))))
        (i32.const 0))
        (func (export "long") (result i32) (local $i i32)
        (loop $next (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100_000_000))))
        (i32.const 0)))`),
      { interrupts: 'off' },
    )
    const engine = openInline({
      plugin,
      runtime: kernel,
      settings: settingsOf(),
      maxQueue: 10,
      isolation: 'reuse',
      recycleMemory: Number.POSITIVE_INFINITY,
      turns: new TurnScheduler(),
      ...options,
    })
    onTestFinished(() => engine.close())
    await call(engine, 'work', '')
    return engine
  }

  /** Counts the turns of the event loop until the test ends. */
  function countTurns(): { turns: number } {
    const counted = { turns: 0 }
    let isOver = false
    onTestFinished(() => {
      isOver = true
    })
    const next = () => {
      counted.turns++
      if (!isOver) setImmediate(next)
    }
    setImmediate(next)
    return counted
  }

  test('run in turns of the event loop, in their order, and others run between them', async () => {
    const engine = await openSlow()
    const counted = countTurns()
    const ends: [index: number, turn: number][] = []
    const calls = Array.from({ length: 5 }, async (_, index) => {
      await call(engine, 'work', '')
      ends.push([index, counted.turns])
    })
    expect(engine.stats).toMatchObject({ waiting: 5, running: 0 })
    await Promise.all(calls)
    expect(ends.map(([index]) => index)).toEqual([0, 1, 2, 3, 4])
    expect(new Set(ends.map(([, turn]) => turn)).size).toBe(5)
  })

  test('do not run when their clients are gone', async () => {
    const engine = await openSlow({ maxQueue: 2 })
    const leaving = { ...caller, isGone: false }
    const gone = Promise.resolve(engine.call('work', bytes(''), leaving))
    const refusal = expect(gone).rejects.toMatchObject({ code: 'WASM_SERVE_CLIENT_GONE' })
    const last = call(engine, 'work', '')
    leaving.isGone = true
    await refusal
    expect(await last).toBe('')
  })

  test('may be many if only one was slow: none is refused, and all run in their order', async () => {
    const engine = await openSlow({ maxQueue: 1_000 })
    const ends: number[] = []
    const calls = Array.from({ length: 20_000 }, (_, index) => {
      return call(engine, 'quick', '').then(() => ends.push(index))
    })
    expect(engine.stats.waiting).toBe(20_000)
    await Promise.all(calls)
    expect(ends).toEqual(Array.from({ length: 20_000 }, (_, index) => index))
  })

  test('are refused beyond maxQueue, also those that came before it was known to be slow', async () => {
    const engine = await openSlow({ maxQueue: 5 })
    const calls = Array.from({ length: 200 }, () => call(engine, 'work', ''))
    const ends = await Promise.allSettled(calls)
    const answered = ends.filter(({ status }) => status === 'fulfilled').length
    expect(ends.slice(0, answered).every(({ status }) => status === 'fulfilled')).toBe(true)
    expect(answered).toBe(8) // it was slow with the third of them, and five waited then
    expect(ends[199]).toMatchObject({ reason: { code: 'WASM_SERVE_QUEUE_FULL' } })
    const later = Array.from({ length: 7 }, () => call(engine, 'work', ''))
    const refused = expect(later[6]).rejects.toMatchObject({ code: 'WASM_SERVE_QUEUE_FULL' })
    await Promise.all([
      ...later.slice(0, 5),
      expect(later[5]).rejects.toMatchObject({ statusCode: 503 }),
      refused,
    ])
  })

  test('stay slow after one that took longer than a slice', async () => {
    const engine = await openSlow({ maxQueue: 5 })
    await call(engine, 'long', '')
    const ends = await Promise.allSettled(Array.from({ length: 200 }, () => call(engine, 'work', '')))
    expect(ends.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(150)
  })

  test('are refused when their inputs are too large together, whatever their number', async () => {
    const engine = await openSlow({ maxQueueBytes: 1_000 })
    const calls = Array.from({ length: 3 }, () => call(engine, 'quick', 'x'.repeat(400)))
    const ends = await Promise.allSettled(calls)
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
    expect(ends[2]).toMatchObject({ reason: { message: expect.stringContaining('1000 bytes') } })
  })

  test('end before the engine closes', async () => {
    const engine = await openSlow()
    const calls = [call(engine, 'work', ''), call(engine, 'work', '')]
    await engine.close()
    expect(await Promise.all(calls)).toEqual(['', ''])
  })

  test('run one after the other without turns', async () => {
    const engine = await openSlow({ turns: undefined })
    const [first, second] = [engine.call('work', bytes(''), caller), engine.call('work', bytes(''), caller)]
    expect([first, second]).toEqual([expect.any(Uint8Array), expect.any(Uint8Array)])
  })
})
