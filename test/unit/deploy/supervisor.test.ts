import { expect, onTestFinished, test, vi } from 'vitest'
import type { ProcessEnd, ServingProcess } from '../../../src/deploy/processes/serving-process.ts'
import {
  ProcessSupervisor,
  StartFailures,
  type SupervisorOwner,
} from '../../../src/deploy/processes/supervisor.ts'
import { InstanceStartError } from '../../../src/errors/errors.ts'
import { openLog } from '../../../src/observe/log/log.ts'

interface Fake {
  readonly process: ServingProcess
  end(how: Partial<ProcessEnd>): void
}

const turn = () => new Promise(setImmediate)

/** A supervisor whose processes start, fail and end as the test says. Its pauses take no time. */
function supervise() {
  const ending = new AbortController()
  const begun: Fake[] = []
  const said: string[] = []
  const pauses: number[] = []
  const silent = new Set<ServingProcess>()
  /** How the next processes start. */
  const next: { failure: Error | undefined; isOutdated: boolean } = { failure: undefined, isOutdated: false }
  const start: SupervisorOwner['start'] = (number, storeMayBeAway) => {
    let end: Fake['end'] = () => undefined
    const ended = new Promise<ProcessEnd>((resolve) => {
      end = ({ code = null, signal = null }) => resolve({ code, signal })
    })
    const pid = begun.length + 1
    said.push(storeMayBeAway ? `start ${pid} as a replacement` : `start ${pid}`)
    const process = {
      ...{ number, pid, ended, connections: pid * 10 },
      ready: next.failure ? Promise.reject(next.failure) : Promise.resolve({ routes: [], kept: 0 }),
      beat: { revision: 5, memoryBytes: 1_000, trouble: 'few descriptors' },
      drain: () => void said.push(`drain ${pid}`),
      kill: () => void said.push(`kill ${pid}`),
    } as ServingProcess
    begun.push({ process, end })
    return process
  }
  const failures = new StartFailures()
  const supervisor = new ProcessSupervisor(2, {
    log: openLog('silent'),
    clock: {
      every: () => () => undefined,
      async sleep(ms) {
        pauses.push(ms)
        await turn()
      },
    },
    ending: ending.signal,
    failures,
    silence: { ms: () => 70, isSilent: (process) => silent.has(process), waitForStart: (_, work) => work },
    start,
    isOutdated: async () => next.isOutdated,
    admit: async (_, join) => join(),
    dismiss: ({ pid }) => void said.push(`dismiss ${pid}`),
  })
  return { supervisor, begun, said, pauses, failures, ending, silent, next }
}

test('a process that is started serves, and is shown with what it has reported', async () => {
  const { supervisor, begun, said, silent } = supervise()
  expect(supervisor.info).toMatchObject({ number: 2, pid: undefined, state: 'waiting', connections: 0 })
  const starting = supervisor.start()
  expect(supervisor.info).toMatchObject({ pid: 1, state: 'starting', silentMs: 70, revision: undefined })
  await starting
  expect(supervisor.info).toEqual({
    ...{ number: 2, pid: 1, state: 'serving', silentMs: 70, servingMs: expect.any(Number) },
    ...{ revision: 5, memoryBytes: 1_000, trouble: 'few descriptors', connections: 10 },
    ...{ lost: 0, lastEnd: undefined, problem: undefined },
  })
  expect([supervisor.serving, supervisor.starting]).toEqual([begun[0]?.process, undefined])
  if (supervisor.serving) silent.add(supervisor.serving)
  expect(supervisor.info.state).toBe('silent')
  expect(said).toEqual(['start 1'])
})

test('a process that takes the place of another gets no more of its connections before that one drains', async () => {
  const { supervisor, begun, said } = supervise()
  await supervisor.start()
  const swapped = supervisor.swap('test')
  while (said.at(-1) !== 'drain 1') await turn()
  expect(said).toEqual(['start 1', 'start 2', 'dismiss 1', 'drain 1'])
  begun[0]?.end({ code: 0 })
  await swapped
  expect(supervisor.info).toMatchObject({ pid: 2, state: 'serving', lost: 0 })
})

test('a process that is lost gets no more connections, and is replaced', async () => {
  const { supervisor, begun, said, pauses } = supervise()
  await supervisor.start()
  begun[0]?.end({ signal: 'SIGKILL' })
  while (supervisor.info.pid !== 2 || supervisor.starting) await turn()
  expect(said).toEqual(['start 1', 'dismiss 1', 'start 2 as a replacement'])
  expect(supervisor.info).toMatchObject({ state: 'serving', lost: 1, lastEnd: 'SIGKILL' })
  expect(pauses).toHaveLength(1)
  expect(pauses[0]).toBeGreaterThan(0)
  expect(pauses[0]).toBeLessThanOrEqual(500)
})

test('a process that is about to end is replaced at once, and its end is no second loss', async () => {
  const { supervisor, begun } = supervise()
  await supervisor.start()
  const { serving } = supervisor
  if (serving) supervisor.retire(serving)
  expect(supervisor.info).toMatchObject({ state: 'waiting', lost: 1, lastEnd: 'it ends by itself' })
  if (serving) supervisor.retire(serving)
  while (supervisor.info.state !== 'serving') await turn()
  begun[0]?.end({ code: 3 })
  await turn()
  expect(supervisor.info).toMatchObject({ pid: 2, lost: 1, lastEnd: 'it ends by itself' })
})

test('a process that cannot start is killed, and the one that serves stays', async () => {
  const { supervisor, said, next } = supervise()
  await supervisor.start()
  next.failure = new InstanceStartError('echo', 'no')
  await expect(supervisor.start()).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  expect(said).toEqual(['start 1', 'start 2', 'kill 2'])
  expect(supervisor.info).toMatchObject({ pid: 1, state: 'serving', lost: 0 })
  expect(supervisor.starting).toBeUndefined()
})

test('a process that a change has made obsolete while it started is started again', async () => {
  const { supervisor, said, next } = supervise()
  next.failure = new Error('its module is gone')
  next.isOutdated = true
  const started = supervisor.start(true)
  next.failure = undefined
  await started
  expect(said).toEqual(['start 1 as a replacement', 'kill 1', 'start 2 as a replacement'])
  expect(supervisor.info).toMatchObject({ pid: 2, state: 'serving' })
})

test('after 5 failed starts in a row the server has failed; the attempts go on, and a start ends it', async () => {
  const { supervisor, begun, pauses, failures, next } = supervise()
  let opened = 0
  failures.onOpen = () => {
    opened++
  }
  await supervisor.start()
  next.failure = new InstanceStartError('echo', 'no')
  begun[0]?.end({ code: 1 })
  while (pauses.length < 5) await turn()
  expect([failures.isBreakerOpen, opened]).toEqual([false, 0])
  expect(supervisor.info).toMatchObject({
    state: 'waiting',
    problem: 'WASM_SERVE_INSTANCE_START_FAILED',
    lastEnd: 'exit code 1',
  })
  while (pauses.length < 9) await turn()
  expect([failures.isBreakerOpen, opened]).toEqual([true, 1])
  expect(pauses.slice(1)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  next.failure = undefined
  while (supervisor.info.state !== 'serving') await turn()
  expect([failures.isBreakerOpen, supervisor.info.problem]).toEqual([false, undefined])
})

test('at the end nothing is replaced', async () => {
  const { supervisor, begun, said, ending } = supervise()
  await supervisor.start()
  ending.abort()
  begun[0]?.end({ signal: 'SIGTERM' })
  await turn()
  expect(said).toEqual(['start 1', 'dismiss 1'])
  expect(supervisor.info).toMatchObject({ state: 'waiting', lost: 0, lastEnd: 'SIGTERM' })
  await expect(supervisor.swap('test')).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
})

test('a process may be replaced for its memory once it has served for 10 seconds', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { supervisor } = supervise()
  await supervisor.start()
  vi.advanceTimersByTime(9_999)
  expect(supervisor.isAbove(999)).toBe(false)
  vi.advanceTimersByTime(1)
  expect([supervisor.isAbove(999), supervisor.isAbove(1_000)]).toEqual([true, false])
  const starting = supervisor.start()
  expect(supervisor.isAbove(999)).toBe(false)
  await starting
})
