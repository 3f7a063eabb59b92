import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'
import type { WorkersOptions } from '../../src/engine/workers/thread.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { callText, openEngine } from '../support/engine.ts'
import { file } from '../support/guest.ts'
import { type KeptLog, keepLog } from '../support/instance.ts'

const open = (guest: string, options: Partial<WorkersOptions> = {}) =>
  openEngine({ name: 'workers', runtime: kernel }, guest, options)

/** The path of a module with the host function "env" "relay", which does this with the `text` that it is given. */
const relay = (body: string) =>
  file(
    `losses-${serial++}.mjs`,
    `import { parentPort } from 'node:worker_threads'
    export default { env: { relay(context, input) { const text = context.read(input).text(); ${body}; return input } } }`,
  )
let serial = 0

const failed = (settled: readonly PromiseSettledResult<unknown>[]) =>
  settled.filter((each) => each.status === 'rejected')

test('large inputs that were handed over count no more among those that wait', async () => {
  const engine = await open('echo', { maxQueueBytes: 200_000 })
  for (let i = 0; i < 50; i++) {
    const large = String(i).padEnd(100_000, '.')
    expect(await callText(engine, 'echo', large)).toBe(large)
  }
})

/** So large that a few fill what is between the threads. */
const BULK = 'x'.repeat(16_000)

test('calls that were taken back begin at last, though nothing else happens', async () => {
  const engine = await open('moody', { timeoutMs: 20_000 })
  for (let round = 0; round < 20; round++) {
    const quick = Array.from({ length: 100 }, (_, i) => `${i}`)
    expect(await Promise.all(quick.map((text) => callText(engine, 'answer', text)))).toEqual(quick)
    const behind = [`W${BULK}`, ...Array.from({ length: 40 }, (_, i) => `${i} ${BULK}`)]
    expect(await Promise.all(behind.map((text) => callText(engine, 'answer', text)))).toEqual(behind)
  }
})

test('a thread that ends between two calls costs neither of them, however large', async () => {
  const functions = relay('if (text === "later") Promise.reject(new Error("nobody handles this"))')
  const engine = await open('relay', { functions })
  for (let i = 0; i < 20; i++) {
    const large = String(i).padEnd(100_000, '.')
    const calls = ['later', large, large].map((text) => callText(engine, 'relay', text))
    expect(failed(await Promise.allSettled(calls))).toEqual([])
  }
})

test('what a host function posts to whoever started its thread is not ours', async () => {
  const functions = relay('for (const junk of ["x", 1, null, {}, []]) parentPort.postMessage(junk)')
  const engine = await open('relay', { functions })
  for (let i = 0; i < 5; i++) expect(await callText(engine, 'relay', `${i}`)).toBe(`${i}`)
})

test('a call that ends about when its time is up is answered or ended, and those behind it are answered', async () => {
  const functions = relay(
    'const until = performance.now() + Number(text); while (performance.now() < until) void 0',
  )
  const engine = await open('relay', { functions, timeoutMs: 20 })
  await engine.ready
  for (let i = 0; i < 30; i++) {
    const calls = [`${19 + (i % 15) / 5}`, '0', '0'.padEnd(50_000, '0'), '0'].map((text) =>
      callText(engine, 'relay', text),
    )
    for (const { reason } of failed(await Promise.allSettled(calls))) {
      expect(reason).toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    }
  }
})

test('an engine is closed at once while it starts', async () => {
  const engine = await open('start-loop', { startTimeoutMs: 60_000, workers: 2 })
  await engine.close()
  await expect(callText(engine, 'run', '')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
})

test('an engine that is closed while it starts answers the calls that wait', async () => {
  const engine = await open('zoo', { functions: relay(''), workers: 2 })
  const calls = ['a', 'b', 'c'].map((text) => callText(engine, 'run', text))
  await engine.close()
  expect(await Promise.all(calls)).toEqual(['a', 'b', 'c'])
})

test('an engine whose start does not return is closed when no call waits any more', async () => {
  const engine = await open('start-loop', { startTimeoutMs: 60_000, maxWaitMs: 50 })
  const call = callText(engine, 'go', '')
  const closed = engine.close()
  await expect(call).rejects.toMatchObject({ code: 'WASM_SERVE_QUEUE_SLOW' })
  await closed
})

/** What becomes of a call whose input begins so. */
const ENDS: Readonly<Record<string, string>> = {
  C: 'ok',
  L: 'WASM_SERVE_DEADLINE_EXCEEDED',
  H: 'WASM_SERVE_WORKER_LOST',
  T: 'WASM_SERVE_GUEST_TRAP',
  E: 'WASM_SERVE_GUEST_ERROR',
}

const step = fc.record({
  mood: fc.oneof(
    { weight: 24, arbitrary: fc.constant('C') },
    { weight: 1, arbitrary: fc.constant('L') },
    { weight: 1, arbitrary: fc.constant('H') },
    { weight: 2, arbitrary: fc.constantFrom('T', 'E') },
  ),
  isLarge: fc.oneof(
    { weight: 9, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  /** After how many more steps the client goes away, if it does. */
  patience: fc.option(fc.nat(3), { freq: 5 }),
  /** What is waited for after it. */
  pause: fc.constantFrom('none', 'none', 'none', 'turn', 'answer'),
})

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** A call that was made, and what became of it. */
interface Made {
  readonly step: Step
  readonly text: string
  readonly log: KeptLog
  readonly client: { isGone: boolean }
  readonly outcome: Promise<string>
}

function make(engine: Engine, step: Step, serial: number): Made {
  const text = `${step.mood}${serial}`.padEnd(step.isLarge ? 50_000 : 0, '.')
  const log = keepLog()
  const client = { log, isGone: false }
  const outcome = callText(engine, 'run', text, client).then(
    (answer) => (answer === text ? 'ok' : `the answer ${answer.slice(0, 20)}`),
    (error: { code: string }) => error.code,
  )
  return { step, text, log, client, outcome }
}

test('every call ends once, as it should: nothing is lost but the calls that ran when their thread ended', async () => {
  const functions = relay('process.exit(1)')
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 60 }),
      fc.integer({ min: 1, max: 2 }),
      fc.integer({ min: 0, max: 1 }),
      async (steps, workers, spareWorkers) => {
        const engine = await open('zoo', { functions, workers, spareWorkers, timeoutMs: 300 })
        const made: Made[] = []
        for (const [i, each] of steps.entries()) {
          const last = make(engine, each, i)
          made.push(last)
          for (const { step, client } of made.slice(-4)) {
            const age = made.length - 1 - made.findIndex((one) => one.client === client)
            if (step.patience === age) client.isGone = true
          }
          if (each.pause === 'turn') await new Promise(setImmediate)
          if (each.pause === 'answer') await last.outcome
        }
        await Promise.all(made.map(({ outcome }) => outcome))
        await engine.close()
        for (const { step, text, log, client, outcome } of made) {
          const came = await outcome
          const isGone = client.isGone && came === 'WASM_SERVE_CLIENT_GONE'
          expect([text, came]).toEqual([text, isGone ? came : ENDS[step.mood]])
          expect([text, log.lines.length]).toEqual([text, came === 'ok' ? 1 : 0]) // how often it ran
        }
      },
    ),
    { numRuns: 12, endOnFailure: true },
  )
}, 60_000)
