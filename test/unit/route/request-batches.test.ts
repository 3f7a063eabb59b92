import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { batched, MAX_BATCH, MIN_BATCH, RequestBatches } from '../../../src/route/request-batches.ts'

const reply = {} as FastifyReply
const request = (id: number, httpVersionMajor = 1) =>
  ({ id: String(id), raw: { httpVersionMajor } }) as FastifyRequest

/** A route whose engine has this name; `ran` says which requests ran. Each test has turns of its own. */
function open(
  name: 'inline' | 'workers',
  turns = new RequestBatches(),
): { call: (id: number) => void; ran: string[] } {
  const ran: string[] = []
  const run = batched(({ id }) => void ran.push(id), { name }, turns)
  return { call: (id) => run(request(id), reply), ran }
}

/** How the calls of many turns ran, as parts of them all. */
interface Shares {
  /** At once, as they came. */
  readonly oneByOne: number
  /** With others before their turn ended, because as many waited as may. */
  readonly full: number
  /** At the end of their turn. */
  readonly atEnd: number
}

/** Runs turns with so many calls each. */
async function sharesOf(callsPerTurn: number, turns: number): Promise<Shares> {
  const { call, ran } = open('inline')
  const counts = { oneByOne: 0, full: 0, atEnd: 0 }
  const sizes = new Set<number>()
  let id = 0
  for (let turn = 0; turn < turns; turn++) {
    for (let i = 0; i < callsPerTurn; i++) {
      const before = ran.length
      call(id++)
      const ranNow = ran.length - before
      sizes.add(ranNow)
      if (ranNow === 1) counts.oneByOne++
      else counts.full += ranNow
    }
    const before = ran.length
    await nextTurn()
    counts.atEnd += ran.length - before
  }
  expect([...sizes].filter((size) => ![0, 1, MAX_BATCH].includes(size))).toEqual([])
  expect(ran.length).toBe(id)
  expect(ran.every((each, index) => each === String(index))).toBe(true)
  return { oneByOne: counts.oneByOne / id, full: counts.full / id, atEnd: counts.atEnd / id }
}

describe('a hundred turns', () => {
  test.each([
    MIN_BATCH,
    32,
    63,
    64,
    65,
    66,
    67,
    100,
    128,
    129,
    130,
    131,
    192,
    256,
    1_000,
  ])('of %d calls run together, all of them', async (calls) => {
    const full = calls - (calls % MAX_BATCH)
    expect(await sharesOf(calls, 100)).toEqual({
      oneByOne: 0,
      full: full / calls,
      atEnd: (calls - full) / calls,
    })
  })

  test.each([1, 2])('of %d calls, too few to wait for each other, run one by one', async (calls) => {
    const { oneByOne, full } = await sharesOf(calls, 100)
    expect(oneByOne).toBeGreaterThan(0.8)
    expect(full).toBe(0)
  })

  test('of which sixteen in a row were quiet let the next calls run at once', async () => {
    const { call, ran } = open('inline')
    for (let turn = 0; turn < 16; turn++) {
      call(turn)
      expect(ran).toHaveLength(turn)
      await nextTurn()
    }
    call(16)
    expect(ran).toHaveLength(17)
  })

  test('some of which are quiet run together, if there are never many of those in a row', async () => {
    const { call, ran } = open('inline')
    let [id, oneByOne] = [0, 0]
    for (let turn = 0; turn < 100; turn++) {
      for (let i = 0; i < (turn % 10 === 0 ? MAX_BATCH : 1); i++) {
        const before = ran.length
        call(id++)
        if (ran.length - before === 1) oneByOne++
      }
      await nextTurn()
    }
    expect([ran.length, oneByOne]).toEqual([id, 0])
  })
})

test('the calls of a turn run together at its end, in their order, those of all routes', async () => {
  const turns = new RequestBatches()
  const [a, b] = [open('inline', turns), open('inline', turns)]
  for (const id of [1, 2, 3]) a.call(id)
  b.call(4)
  expect([a.ran, b.ran]).toEqual([[], []])
  await nextTurn()
  expect([a.ran, b.ran]).toEqual([['1', '2', '3'], ['4']])
})

test('many calls do not wait for the end of the turn, and each runs once, in its order', async () => {
  const { call, ran } = open('inline')
  const all = Array.from({ length: 1_000 }, (_, id) => id)
  for (const id of all) call(id)
  expect(ran.length).toBeGreaterThan(900)
  expect(ran.length).toBeLessThan(1_000)
  await nextTurn()
  expect(ran).toEqual(all.map(String))
})

test('a test with a clock of its own gets its answers', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { call, ran } = open('inline')
  call(1)
  await nextTurn()
  expect(ran).toEqual(['1'])
})

test('calls for threads are handed over at once', () => {
  const { call, ran } = open('workers')
  call(1)
  expect(ran).toEqual(['1'])
})

test('calls over HTTP/2 run at once: Node reads and answers a connection at a time', () => {
  const ran: string[] = []
  const run = batched(({ id }) => void ran.push(id), { name: 'inline' }, new RequestBatches())
  for (const id of [1, 2, 3]) run(request(id, 2), reply)
  expect(ran).toEqual(['1', '2', '3'])
})

test('calls that come alone run at once after a while, and wait again when there is a crowd', async () => {
  const { call, ran } = open('inline')
  let calls = 0
  const waits = () => {
    const before = ran.length
    call(calls++)
    return ran.length === before
  }
  let alone = 0
  while (waits()) {
    alone++
    await nextTurn()
  }
  expect(alone).toBeGreaterThan(2)
  let atOnce = 1
  while (!waits()) atOnce++
  expect(atOnce).toBeGreaterThan(10 * alone)
  for (let turn = 0; turn < 10 * alone; turn++) {
    for (let i = 0; i < 5; i++) expect(waits()).toBe(true)
    await nextTurn()
  }
  expect(ran).toEqual(Array.from({ length: ran.length }, (_, id) => String(id)))
})

test('one that throws does not take the others with it', async () => {
  const listeners = process.listeners('uncaughtException')
  const thrown: unknown[] = []
  process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => thrown.push(error))
  onTestFinished(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of listeners) process.on('uncaughtException', listener)
  })
  const ran: string[] = []
  const bug = new Error('a bug')
  const run = batched(
    ({ id }) => {
      ran.push(id)
      if (id === '2') throw bug
    },
    { name: 'inline' },
    new RequestBatches(),
  )
  for (const id of [1, 2, 3, 4]) run(request(id), reply)
  await nextTurn()
  await nextTurn()
  expect(ran).toEqual(['1', '2', '3', '4'])
  expect(thrown).toEqual([bug])
})
