import { expect, test } from 'vitest'
import { StartQueue } from '../../../src/engine/runners/runner-pool.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import { callText, openEngine } from '../../support/engine.ts'

const NEVER_SLOW = 1_000_000

/** A queue, and starts that note their names when their turn comes. */
function openQueue(limit: number, slowMs = NEVER_SLOW) {
  const queue = new StartQueue(limit, slowMs)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const enter = (name: string, isUrgent: () => boolean = () => true) =>
    queue.enter({
      isUrgent,
      begin: (leave) => {
        begun.push(name)
        ends.set(name, leave)
      },
    })
  return { enter, begun, end: (name: string) => ends.get(name)?.() }
}

test('no more begin than may, and the next when one has ended', () => {
  const { enter, begun, end } = openQueue(2)
  for (const name of ['a', 'b', 'c', 'd']) enter(name)
  expect(begun).toEqual(['a', 'b'])
  end('b')
  end('b') // once is enough
  expect(begun).toEqual(['a', 'b', 'c'])
})

test('what calls need goes before what is spare, also if it came later, or was spare before', () => {
  const { enter, begun, end } = openQueue(1)
  let isNeeded = false
  enter('first')
  enter('spare', () => false)
  enter('was spare', () => isNeeded)
  enter('needed')
  isNeeded = true
  for (const name of ['first', 'was spare', 'needed']) end(name)
  expect(begun).toEqual(['first', 'was spare', 'needed', 'spare'])
})

test('what is not wanted any more gives its place back, whether it has begun or not', () => {
  const { enter, begun, end } = openQueue(1)
  const leaveFirst = enter('first')
  const leaveSecond = enter('second')
  enter('third')
  leaveSecond()
  leaveFirst()
  expect(begun).toEqual(['first', 'third'])
  end('third')
})

test('one that hangs holds up no other for long', async () => {
  const { enter, begun } = openQueue(1, 1)
  enter('hangs')
  enter('next')
  while (begun.length < 2) await new Promise(setImmediate)
  expect(begun).toEqual(['hangs', 'next'])
})

test('a thread waits for its turn without its clock', async () => {
  const starts = new StartQueue(1, NEVER_SLOW)
  let end: () => void = () => undefined
  starts.enter({ isUrgent: () => true, begin: (leave) => (end = leave) })
  const options = { starts, spareWorkers: 0, startTimeoutMs: 1, backoffMs: 1_000_000 }
  const engine = await openEngine({ name: 'workers', runtime: kernel }, 'echo', options)
  let hasFailed = false
  engine.ready.catch(() => (hasFailed = true))
  await new Promise((resolve) => setTimeout(resolve, 20)) // were its clock running, it would be over
  expect(hasFailed).toBe(false)
  end()
  await expect(engine.ready).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test('threads of several engines start one after the other, those that calls need before spare ones', async () => {
  const order: string[] = []
  const inner = new StartQueue(1, NEVER_SLOW)
  let [running, most] = [0, 0]
  /** Counts those that have begun and not ended. */
  const starts = Object.assign(new StartQueue(1, NEVER_SLOW), {
    enter: ((start) =>
      inner.enter({
        isUrgent: () => start.isUrgent(),
        begin(leave) {
          order.push(start.isUrgent() ? 'needed' : 'spare')
          most = Math.max(most, ++running)
          start.begin(() => {
            running--
            leave()
          })
        },
      })) satisfies StartQueue['enter'],
  })
  const kind = { name: 'workers', runtime: kernel } as const
  const engines = await Promise.all([1, 2, 3].map(() => openEngine(kind, 'echo', { starts })))
  await Promise.all(engines.map(({ ready }) => ready))
  for (const engine of engines) expect(await callText(engine, 'echo', 'abc')).toBe('abc')
  while (order.length < 6) await new Promise(setImmediate)
  expect([most, order]).toEqual([1, ['needed', 'needed', 'needed', 'spare', 'spare', 'spare']])
})
