import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { BlockedTimeMeter, unusedMs } from '../../src/engine/runners/runner.ts'
import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file } from '../support/guest.ts'

/** What a guest that has not used its time may meet: a host that is held for much longer. */
const TIMEOUT_MS = 250
const HOLD_MS = 2 * TIMEOUT_MS
/** Above what counts as held. */
const MAX_HELD_MS = 60

/** Holds the event loop. */
function hold(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** A thread whose guest asks the main thread for a variable, and answers with it. */
function openAsking(answer: () => unknown) {
  const functions = file('relay.mjs', 'export default { env: { relay: (_context, input) => input } }')
  return openEngine({ name: 'workers', runtime: kernel }, 'zoo', {
    functions,
    timeoutMs: TIMEOUT_MS,
    spareWorkers: 0,
    services: ['vars'],
    bridge: new HostBridge({ run: answer }, true),
  })
}

const value = () => Buffer.from('the value')

test.each<[string, () => unknown]>([
  [
    'while it answers',
    () => {
      hold(HOLD_MS)
      return value()
    },
  ],
  [
    'while the answer is on its way',
    async () => {
      await turn()
      hold(HOLD_MS)
      await turn()
      return value()
    },
  ],
])('a guest that waits for a host that is held %s has its answer, and not the end of its time', async (_when, answer) => {
  const engine = await openAsking(answer)
  expect(await callText(engine, 'run', 'U')).toBe('the value')
  expect(engine.stats).toMatchObject({ timeouts: 0, restarted: 0 })
})

test('so has one that asks a host that is held already', async () => {
  const engine = await openAsking(value)
  await engine.ready
  const answered = callText(engine, 'run', 'U')
  await turn() // so that the thread has the call
  hold(HOLD_MS)
  expect(await answered).toBe('the value')
  expect(engine.stats.timeouts).toBe(0)
})

test('a host that does not answer, and is not held, is the end of its time', async () => {
  const engine = await openAsking(() => new Promise(() => undefined))
  await expect(callText(engine, 'run', 'U')).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
})

test('a guest that runs is ended all the same when the host was held', async () => {
  const engine = await openAsking(() => undefined)
  await engine.ready
  const answered = callText(engine, 'run', 'L')
  await turn()
  hold(HOLD_MS)
  await expect(answered).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
})

const running = { call: 1, since: 100 }

test.each([
  ['waits for the host all the time', { from: 200, to: 1_200, cpuMs: 5_000 }, 150, 1_000],
  ['begins to wait in the middle', { from: 200, to: 1_200, cpuMs: 5_000 }, 700, 500],
  ['runs', { from: 200, to: 1_200, cpuMs: 1_000 }, undefined, 0],
  ['is stopped with the process', { from: 200, to: 1_200, cpuMs: 3 }, undefined, 997],
  ['began in the middle and is stopped', { from: 0, to: 1_000, cpuMs: 0 }, undefined, 900],
])('of a held time, a guest that %s is not charged what it cannot have used', (_what, held, waitsSince, ms) => {
  expect(unusedMs(held, running, waitsSince)).toBe(ms)
})

test('what is shorter than the least is no held time, and what was held is told once', () => {
  let [nowMs, cpuMs] = [0, 0]
  const watch = new BlockedTimeMeter(100, { nowMs: () => nowMs, cpuMs: () => cpuMs })
  watch.begin()
  nowMs = 99
  expect(watch.look()).toBeUndefined()
  nowMs = 300
  cpuMs = 7
  expect(watch.look()).toEqual({ from: 0, to: 300, cpuMs: 7 })
  expect(watch.look()).toBeUndefined()
})

describe('a host that is held again and again does not prolong a call without end:', () => {
  /** Holds the event loop until the call is over. @returns how long it was held. */
  async function holdDuring(call: PromiseLike<unknown>): Promise<number> {
    let isOver = false
    const over = () => {
      isOver = true
    }
    call.then(over, over)
    const each = 2 * MAX_HELD_MS
    let heldMs = 0
    for (; !isOver && heldMs < 100 * TIMEOUT_MS; heldMs += each) {
      hold(each)
      await turn()
    }
    return heldMs
  }

  test('a guest that does not return is ended in its process', async () => {
    const engine = await openEngine({ name: 'subprocess', runtime: kernel }, 'loop', {
      timeoutMs: TIMEOUT_MS,
      spareWorkers: 0,
    })
    await engine.ready
    const answered = callText(engine, 'loop', '')
    const refused = expect(answered).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    expect(await holdDuring(answered)).toBeLessThan(20 * TIMEOUT_MS)
    await refused
  })

  test('a host that never answers is the end of the time of its guest in a thread', async () => {
    const engine = await openAsking(() => new Promise(() => undefined))
    await engine.ready
    const answered = callText(engine, 'run', 'U')
    const refused = expect(answered).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    expect(await holdDuring(answered)).toBeLessThan(20 * TIMEOUT_MS)
    await refused
  })

  test('a thread that is stuck is replaced, and its call answered', async () => {
    const state = file('state', '')
    const functions = file(
      'sticks.mjs',
      `import fs from 'node:fs'
      const state = ${JSON.stringify(state)}
      if (fs.readFileSync(state, 'utf8') === '') {
        fs.writeFileSync(state, 'first')
        setTimeout(() => { fs.writeFileSync(state, 'stuck'); for (;;); }, 50)
      }
      export default { env: { relay: (_context, input) => input } }`,
    )
    const engine = await openEngine({ name: 'workers', runtime: kernel }, 'relay', {
      functions,
      timeoutMs: TIMEOUT_MS,
      spareWorkers: 0,
    })
    await engine.ready
    await expect.poll(() => readFileSync(state, 'utf8'), { timeout: 10_000 }).toBe('stuck')
    const answered = callText(engine, 'relay', 'a')
    expect(await holdDuring(answered)).toBeLessThan(40 * TIMEOUT_MS)
    expect(await answered).toBe('a')
  })
})
