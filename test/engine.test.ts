import { describe, expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../src/engine/engine.ts'
import { openInline } from '../src/engine/inline.ts'
import { loadPlugin } from '../src/plugin.ts'
import type { Instance, Runtime } from '../src/runtime/runtime.ts'
import { sdk } from '../src/runtime/sdk.ts'
import { guest } from './support/guest.ts'
import { keepLog, settingsOf } from './support/instance.ts'

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const caller = { log: keepLog() }

/** An engine whose opening is not waited for; closed when the test ends. */
async function open(name: string, runtime: Runtime = sdk, maxQueue = 1_000): Promise<Engine> {
  const plugin = await loadPlugin(guest(name))
  const engine = openInline({ plugin, runtime, settings: settingsOf(), maxQueue })
  onTestFinished(() => engine.close())
  return engine
}

const call = async (engine: Engine, exportName: string, input: string) =>
  Buffer.from(await engine.call(exportName, bytes(input), caller)).toString()

describe.each([{ name: 'inline' }])('the $name engine', () => {
  test('gives each of 1,000 calls its own answer, made while it is still opening', async () => {
    const engine = await open('upper')
    const calls = Array.from({ length: 1_000 }, (_, i) => call(engine, 'upper', `call ${i}`))
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 1_000 }, (_, i) => `CALL ${i}`))
  })

  test('runs one call at a time', async () => {
    const engine = await open('count')
    const answers = await Promise.all(Array.from({ length: 9 }, () => call(engine, 'count', '')))
    expect(answers).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])
  })

  test('replaces an instance that trapped before the next call', async () => {
    const engine = await open('count')
    expect(await call(engine, 'count', '')).toBe('1')
    expect(await call(engine, 'count', '')).toBe('2')
    await expect(call(engine, 'trap', '')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
    expect(await call(engine, 'count', '')).toBe('1')
  })

  test('keeps an instance that said no', async () => {
    const engine = await open('refuse')
    for (const words of ['one', 'two']) {
      await expect(call(engine, 'refuse', words)).rejects.toMatchObject({ message: words })
    }
  })

  test('gives calls that overlap with a trap their own answers', async () => {
    const engine = await open('trap')
    const calls = Array.from({ length: 60 }, (_, i) => call(engine, 'trap', i % 3 === 0 ? 'trap!' : 'ok'))
    const settled = await Promise.allSettled(calls)
    expect(settled.map(({ status }) => status)).toEqual(
      Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? 'rejected' : 'fulfilled')),
    )
  })

  test('refuses a call at once when as many wait as may', async () => {
    const engine = await open('upper', sdk, 2)
    const waiting = [call(engine, 'upper', 'a'), call(engine, 'upper', 'b')]
    await expect(call(engine, 'upper', 'c')).rejects.toMatchObject({ code: 'WASM_SERVE_QUEUE_FULL' })
    expect(await Promise.all(waiting)).toEqual(['A', 'B'])
  })

  test('says why when no instance can be opened, and tries again for the next call', async () => {
    let attempts = 0
    const engine = await open('echo', {
      name: 'sdk',
      open: async (plugin, settings) =>
        attempts++ < 2
          ? sdk.open(await loadPlugin(guest('bad-start')), settings)
          : sdk.open(plugin, settings),
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
      name: 'sdk',
      async open(plugin, settings) {
        const instance = await sdk.open(plugin, settings)
        return {
          memoryBytes: 0,
          call: (...args) => instance.call(...args),
          close: async () => void closed.push(instance),
        }
      },
    })
    const calls = [call(engine, 'upper', 'a'), call(engine, 'upper', 'b')]
    const closing = engine.close()
    await expect(call(engine, 'upper', 'c')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
    expect(await Promise.all(calls)).toEqual(['A', 'B'])
    await closing
    expect(closed).toHaveLength(1)
  })
})
