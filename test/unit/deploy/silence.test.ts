import { expect, onTestFinished, test } from 'vitest'
import type { Beat } from '../../../src/deploy/processes/protocol.ts'
import type { ServingProcess } from '../../../src/deploy/processes/serving-process.ts'
import { Silence } from '../../../src/deploy/processes/silence.ts'
import { openLog } from '../../../src/observe/log/log.ts'

/** The silence of one process. Its time passes when the test says so. */
function measure({ maxMs, beat }: { readonly maxMs?: number; readonly beat?: Beat } = {}) {
  let pass: (ms: number) => void = () => undefined
  let isStopped = false
  const changes: boolean[] = []
  const clock = {
    every(_ms: number, given: (ms: number) => void) {
      pass = given
      return () => {
        isStopped = true
      }
    },
  }
  let kills = 0
  let end: () => void = () => undefined
  const ended = new Promise<{ code: number; signal: null }>((resolve) => {
    end = () => resolve({ code: 0, signal: null })
  })
  const kill = () => {
    kills++
  }
  const process = { number: 3, pid: 7, beat, ended, kill } as ServingProcess
  const silence = new Silence({
    log: openLog('silent'),
    maxMs,
    onChange: (changed, isSilent) => void (changed === process && changes.push(isSilent)),
    clock,
  })
  onTestFinished(() => {
    silence.close()
    expect(isStopped).toBe(true)
  })
  silence.add(process)
  return {
    ...{ silence, process, changes, end },
    pass: (ms: number) => pass(ms),
    seconds(count: number) {
      for (let second = 0; second < count; second++) pass(1_000)
    },
    kills: () => kills,
  }
}

const BEAT = {} as Beat

test('operators see a process after 5 seconds of silence, and that it is heard again', () => {
  const { silence, process, changes, seconds } = measure()
  seconds(4)
  expect([silence.ms(process), silence.isSilent(process), changes]).toEqual([4_000, false, []])
  seconds(2)
  expect([silence.ms(process), silence.isSilent(process), changes]).toEqual([6_000, true, [true]])
  silence.hear(process)
  silence.hear(process)
  expect([silence.ms(process), silence.isSilent(process), changes]).toEqual([0, false, [true, false]])
  seconds(5)
  expect(changes).toEqual([true, false, true])
})

test('time in which the primary was stopped does not count', () => {
  const { silence, process, pass } = measure()
  pass(3_600_000)
  expect(silence.ms(process)).toBe(2_000)
  pass(500.4)
  expect(silence.ms(process)).toBe(2_500)
})

test('a silent process is killed once, and only while somebody waits for it', async () => {
  const { silence, process, end, seconds, kills } = measure()
  seconds(60)
  expect(kills()).toBe(0)
  await silence.wait(process, Promise.resolve())
  expect(kills()).toBe(1)
  const waiting = silence.wait(process, process.ended)
  seconds(60)
  expect(kills()).toBe(1)
  end()
  expect(await waiting).toEqual({ code: 0, signal: null })
})

test.each([
  ['that serves after 10 seconds', 'wait', 10],
  ['that starts after 30 seconds', 'waitForStart', 30],
] as const)('whoever waits for a process %s of silence waits no longer', async (_, wait, limit) => {
  const { silence, process, end, seconds, kills } = measure()
  const waiting = silence[wait](process, process.ended)
  seconds(limit - 1)
  expect(kills()).toBe(0)
  silence.hear(process)
  seconds(limit - 1)
  expect(kills()).toBe(0)
  seconds(1)
  expect(kills()).toBe(1)
  end()
  await waiting
})

test('what was waited for is waited for no more', async () => {
  const { silence, process, seconds, kills } = measure()
  expect(await silence.wait(process, Promise.resolve('work'))).toBe('work')
  seconds(60)
  expect(kills()).toBe(0)
})

test.each([
  ['a process that has served is killed after the time of the option', { maxMs: 20_000, beat: BEAT }, 1],
  ['a process that has not served yet is not', { maxMs: 20_000 }, 0],
  ['without the option nothing is', { beat: BEAT }, 0],
])('%s', (_, options, expected) => {
  const { seconds, kills } = measure(options)
  seconds(19)
  expect(kills()).toBe(0)
  seconds(1)
  expect(kills()).toBe(expected)
})

test('the answer of a guest may take its time, until its process is silent', async () => {
  const { silence, process, seconds, kills } = measure()
  const answer = silence.answer(process, process.ended)
  const second = silence.answer(process, Promise.resolve('in time'))
  expect(await second).toBe('in time')
  seconds(5)
  await expect(answer).rejects.toMatchObject({ code: 'WASM_SERVE_PROCESS_SILENT' })
  expect(kills()).toBe(0)
})

test('a process that has ended is not silent, and nobody waits for it', async () => {
  const { silence, process, changes, end, seconds } = measure()
  end()
  await process.ended
  seconds(60)
  expect([silence.ms(process), silence.isSilent(process), changes]).toEqual([0, false, []])
  silence.hear(process)
  expect(await silence.wait(process, Promise.resolve('work'))).toBe('work')
  expect(await silence.answer(process, Promise.resolve('answer'))).toBe('answer')
})
