import { expect, onTestFinished, test } from 'vitest'
import { openInline } from '../../src/engine/inline.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { guestBytes } from '../support/guest.ts'
import { keptBytes } from '../support/heap.ts'
import { keepLog, settingsOf } from '../support/instance.ts'

const caller = { log: keepLog() }
const hello = new URL('../../plugins/hello/hello.wasm', import.meta.url).pathname

test('50,000 calls on one instance leave memory flat', async () => {
  const instance = await kernel.open(await loadPlugin(guestBytes('upper')), settingsOf({ wasi: false }))
  onTestFinished(() => instance.close())
  const input = Buffer.from('a'.repeat(100))
  const run = (calls: number) => {
    for (let i = 0; i < calls; i++) instance.call('upper', input, caller)
  }
  run(10_000)
  const [kernelBytes, kept] = [instance.memoryBytes, await keptBytes()]
  run(50_000)
  expect(instance.memoryBytes).toBe(kernelBytes)
  expect(((await keptBytes()) - kept) / 50_000).toBeLessThan(8) // bytes a call: less than an object
})

test.each([
  ['upper', guestBytes('upper'), 5_000],
  ['hello', hello, 2_000],
])('thousands of calls on instances of their own need no more memory than hundreds (%s)', async (name, source, calls) => {
  const engine = openInline({
    plugin: await loadPlugin(source, { isolation: 'fresh' }),
    runtime: kernel,
    settings: settingsOf(),
    maxQueue: 1_000,
    isolation: 'fresh',
    recycleMemory: Number.POSITIVE_INFINITY,
  })
  onTestFinished(() => engine.close())
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) await engine.call(name, Buffer.from('some input'), caller)
  }
  await run(calls / 10)
  const before = await keptBytes()
  await run(calls)
  expect(((await keptBytes()) - before) / 2 ** 20).toBeLessThan(4) // MiB: the engine and its one instance
})
