import { describe, expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../../../src/engine/engine.ts'
import { type InlineOptions, openInline } from '../../../src/engine/inline.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { guest } from '../../support/guest.ts'
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
