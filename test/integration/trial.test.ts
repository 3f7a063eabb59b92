import { Worker } from 'node:worker_threads'
import { expect, test, vi } from 'vitest'
import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import { TrialThread, tryInThread } from '../../src/engine/workers/trial.ts'
import type { OpenServices } from '../../src/guest/services/services.ts'
import { file, guestBytes } from '../support/guest.ts'
import { threadOptions } from '../support/trial.ts'

/** The threads that were started while something ran. */
async function startedBy(run: () => Promise<unknown>): Promise<number> {
  const posts = vi.spyOn(Worker.prototype, 'postMessage')
  try {
    await run()
    return new Set(posts.mock.contexts).size
  } finally {
    posts.mockRestore()
  }
}

test('plug-ins are tried one after another in one thread', async () => {
  const plugins = await Promise.all(['echo', 'upper', 'count', 'trap'].map((name) => threadOptions(name)))
  const run = async () => {
    for (const plugin of plugins) expect(await tryInThread(plugin, 10_000)).toBeGreaterThan(0)
  }
  expect(await startedBy(run)).toBe(1)
})

test('after a plug-in whose start fails or does not return, the next one is tried in a new thread', async () => {
  const [good, bad, stuck] = await Promise.all(
    ['echo', 'bad-start', 'start-loop'].map((name) => threadOptions(name)),
  )
  if (!good || !bad || !stuck) throw new Error('a plug-in is missing')
  const run = async () => {
    await tryInThread(good, 10_000)
    await expect(tryInThread(bad, 10_000)).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
    await tryInThread(good, 10_000)
    await expect(tryInThread(stuck, 100)).rejects.toMatchObject({
      code: 'WASM_SERVE_INSTANCE_START_FAILED',
      message: expect.stringContaining('100 ms'),
    })
    await tryInThread(good, 10_000)
  }
  expect(await startedBy(run)).toBe(3)
})

test('a thread that ran functions of the user tries no other plug-in', async () => {
  const functions = file('functions.mjs', 'export default { own: { answer: () => 42n } }')
  const own = await threadOptions('echo', { functions })
  const run = async () => {
    await tryInThread(own, 10_000)
    await tryInThread(own, 10_000)
  }
  expect(await startedBy(run)).toBe(2)
})

test('messages that a library posts from the thread are ignored', async () => {
  const functions = file(
    'posts.mjs',
    `import { parentPort } from 'node:worker_threads'
parentPort.postMessage('text')
parentPort.postMessage({ other: 1 })
export default { own: { answer: () => 42n } }`,
  )
  expect(await tryInThread(await threadOptions('echo', { functions }), 10_000)).toBeGreaterThan(0)
})

test('of several idle threads the one used last is used again', async () => {
  const [echo, upper] = await Promise.all(['echo', 'upper'].map((name) => threadOptions(name)))
  if (!echo || !upper) throw new Error('a plug-in is missing')
  for (const thread of [new TrialThread(echo.runtime), new TrialThread(echo.runtime)]) {
    await thread.run(echo)
    thread.rest()
  }
  const run = async () => {
    await tryInThread(echo, 10_000)
    await tryInThread(upper, 10_000)
  }
  expect(await startedBy(run)).toBe(1)
})

/** Asks the store when it starts. */
const ASKS_AT_START = guestBytes(`(module
  (import "wasm-serve:kv" "get" (func $get (param i64) (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (func $start (drop (call $get (call $alloc (i64.const 1)))))
  (start $start)
  (func (export "run") (result i32) (i32.const 0)))`)

test('what a guest has asked of its host is given up when its trial is over', async () => {
  const abandoned = new AbortController()
  let isOver: () => void = () => undefined
  const over = new Promise<void>((resolve) => (isOver = resolve))
  const run: OpenServices['run'] = (_request, { signal }) => {
    signal.addEventListener('abort', isOver)
    abandoned.abort(new Error('abandoned'))
    return new Promise(() => undefined)
  }
  const bridge = new HostBridge({ run }, true)
  const asking = await threadOptions(ASKS_AT_START, { services: ['kv'], bridge })
  await expect(tryInThread(asking, 60_000, abandoned.signal)).rejects.toThrow('abandoned')
  await over
})
