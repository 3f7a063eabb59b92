import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { PendingCall } from '../../../src/engine/engine.ts'
import type { Runner, RunnerKind, RunnerOwner } from '../../../src/engine/runners/runner.ts'
import { openRunners, type RunnersOptions } from '../../../src/engine/runners/runners.ts'
import { callText } from '../../support/engine.ts'
import { keepLog } from '../../support/instance.ts'

const NO_STATS = { guestBytes: 0, kernelBytes: 0, recycled: 0, restarted: 0, droppedLines: 0, checks: 0 }

/** A runner that does what the test says. */
function fakeRunner(owner: RunnerOwner) {
  const given: PendingCall[] = []
  const runner = {
    get load() {
      return given.length
    },
    stats: NO_STATS,
    hasRun: true,
    mayTake: () => true,
    give: (call: PendingCall) => given.push(call) > 0,
    wake: () => false,
    collect: () => false,
    stopPolling: () => undefined,
    silentMs: () => 0,
    running: () => undefined,
    usedMs: () => 0,
    creditBlockedTime: () => undefined,
    takeBack: () => [],
    dropGone: () => undefined,
    isAbandoned: () => false,
    mayInterrupt: false,
    interrupt: () => false,
    drop: () => undefined,
    end: vi.fn(async () => {
      owner.ended(runner, { unbegun: [], lost: [] }, new Error('it was ended'))
      return true
    }),
    abandon: () => undefined,
    fail: () => undefined,
  } satisfies Runner
  const ready = () => owner.ready(runner)
  const breakDown = () => owner.broken(runner, new Error('it has no instance'))
  /** @param ms - How long the guest ran. */
  const answer = (ms: number) => {
    given.shift()?.resolve(new Uint8Array())
    owner.answered(runner, ms)
  }
  return { runner, ready, breakDown, answer }
}

function openFakes(options: Partial<RunnersOptions> = {}) {
  const started: ReturnType<typeof fakeRunner>[] = []
  let heard: () => void = () => undefined
  const kind: RunnerKind = {
    ...{ name: 'workers', one: 'worker thread', many: 'worker threads', owner: {}, concurrent: 1 },
    start(owner) {
      const fake = fakeRunner(owner)
      started.push(fake)
      heard()
      return fake.runner
    },
  }
  const engine = openRunners(kind, {
    plugin: { name: 'a.wasm' },
    log: keepLog(),
    workers: 1,
    spareWorkers: 0,
    startTimeoutMs: 20_000,
    backoffMs: 20_000,
    timeoutMs: 20_000,
    idempotent: false,
    maxQueue: 1_000,
    maxQueueBytes: 1_000_000,
    maxWaitMs: 20_000,
    ...options,
  })
  onTestFinished(() => engine.close())
  /** @returns the runners when so many have been started. */
  const after = async (count: number) => {
    while (started.length < count) await new Promise<void>((resolve) => (heard = resolve))
    return started
  }
  return { engine, started, after }
}

test('spare runners start when those that run calls are ready', async () => {
  const { engine, started, after } = openFakes({ workers: 2, spareWorkers: 1 })
  const [first, second] = await after(2)
  first?.ready()
  await turn()
  expect(started).toHaveLength(2)
  second?.ready()
  await engine.ready
  expect(await after(3)).toHaveLength(3)
})

test('a runner that cannot open another instance is ended, once', async () => {
  const { engine, after } = openFakes()
  const [fake] = await after(1)
  fake?.ready()
  await engine.ready
  for (let times = 0; times < 2; times++) {
    fake?.breakDown()
    expect(fake?.runner.end).toHaveBeenCalledTimes(1)
  }
  expect(engine.trouble).toBeDefined()
})

test('after slow calls a runner gets none in advance, however quick those before were', async () => {
  const { engine, after } = openFakes()
  const [fake] = await after(1)
  if (!fake) throw new Error('nothing was started')
  fake.ready()
  const run = async (times: number, ms: number) => {
    for (let time = 0; time < times; time++) {
      const called = callText(engine, 'run', '')
      fake.answer(ms)
      await called
    }
  }
  await run(1_000, 0)
  await run(10, 100)
  const calls = Array.from({ length: 10 }, () => callText(engine, 'run', ''))
  expect(fake.runner.load).toBe(1)
  while (fake.runner.load > 0) fake.answer(1)
  await Promise.all(calls)
})
