import { describe, expect, onTestFinished, test } from 'vitest'
import type { Engine, EngineOptions } from '../src/engine/engine.ts'
import { openInline } from '../src/engine/inline.ts'
import { loadPlugin } from '../src/plugin/plugin.ts'
import { kernel } from '../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../src/runtime/runtime.ts'
import { sdk } from '../src/runtime/sdk.ts'
import { guest } from './support/guest.ts'
import { keepLog, settingsOf } from './support/instance.ts'

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const caller = { log: keepLog() }

/** An engine whose opening is not waited for; closed when the test ends. */
async function open(name: string, options: Partial<EngineOptions> = {}): Promise<Engine> {
  const engine = openInline({
    plugin: await loadPlugin(guest(name)),
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

const engines = [
  { name: 'inline', runtime: kernel },
  { name: 'inline', runtime: sdk },
]

describe.each(engines)('the $name engine with the $runtime.name runtime', ({ runtime }) => {
  test('gives each of 1,000 calls its own answer, made while it is still opening', async () => {
    const engine = await open('upper', { runtime })
    const calls = Array.from({ length: 1_000 }, (_, i) => call(engine, 'upper', `call ${i}`))
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 1_000 }, (_, i) => `CALL ${i}`))
  })

  test('runs one call at a time', async () => {
    const engine = await open('count', { runtime })
    const answers = await Promise.all(Array.from({ length: 9 }, () => call(engine, 'count', '')))
    expect(answers).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])
  })

  test('replaces an instance that trapped before the next call', async () => {
    const engine = await open('count', { runtime })
    expect(await call(engine, 'count', '')).toBe('1')
    expect(await call(engine, 'count', '')).toBe('2')
    await expect(call(engine, 'trap', '')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
    expect(await call(engine, 'count', '')).toBe('1')
  })

  test('keeps an instance that said no', async () => {
    const engine = await open('refuse', { runtime })
    for (const words of ['one', 'two']) {
      await expect(call(engine, 'refuse', words)).rejects.toMatchObject({ message: words })
    }
  })

  test('gives calls that overlap with a trap their own answers', async () => {
    const engine = await open('trap', { runtime })
    const calls = Array.from({ length: 60 }, (_, i) => call(engine, 'trap', i % 3 === 0 ? 'trap!' : 'ok'))
    const settled = await Promise.allSettled(calls)
    expect(settled.map(({ status }) => status)).toEqual(
      Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? 'rejected' : 'fulfilled')),
    )
  })

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
    const badStart = await loadPlugin(guest('bad-start'))
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

  test('can be closed twice, also while it opens', async () => {
    const engine = await open('upper', { runtime })
    await Promise.all([engine.close(), engine.close()])
    await engine.close()
    await expect(call(engine, 'upper', 'a')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
  })

  test('gives each call an instance of its own when it is fresh', async () => {
    const engine = await open('count', { runtime, isolation: 'fresh' })
    const answers = await Promise.all(Array.from({ length: 5 }, () => call(engine, 'count', '')))
    expect(answers).toEqual(['1', '1', '1', '1', '1'])
  })

  test('replaces an instance after as many calls as it may have', async () => {
    const engine = await open('count', { runtime, recycle: 3 })
    const answers = await Promise.all(Array.from({ length: 7 }, () => call(engine, 'count', '')))
    expect(answers).toEqual(['1', '2', '3', '1', '2', '3', '1'])
  })

  test('replaces an instance whose memory has grown beyond the limit', async () => {
    const engine = await open('grow', { runtime, recycleMemory: 40 * 65_536 })
    const answers: string[] = []
    for (let i = 0; i < 100; i++) answers.push(await call(engine, 'grow', ''))
    expect(answers.filter((answer) => answer === '1').length).toBeGreaterThan(2)
    expect(answers.every((answer) => answer !== '!')).toBe(true)
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
