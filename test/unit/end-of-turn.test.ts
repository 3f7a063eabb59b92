import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { EngineHolder, RunCall } from '../../src/route/route.ts'

/** Each test has turns of its own: they are those of the process. */
let atEndOfTurn: (run: RunCall, holder: EngineHolder) => RunCall
beforeEach(async () => {
  vi.resetModules()
  atEndOfTurn = (await import('../../src/route/end-of-turn.ts')).atEndOfTurn
})

const reply = {} as FastifyReply
const request = (id: number) => ({ id: String(id) }) as FastifyRequest

/** A route whose engine has this name; `ran` says which requests ran. */
function open(name: 'inline' | 'workers'): { call: (id: number) => void; ran: string[] } {
  const ran: string[] = []
  const run = atEndOfTurn(({ id }) => void ran.push(id), { engine: { name } } as EngineHolder)
  return { call: (id) => run(request(id), reply), ran }
}

test('the calls of a turn run together at its end, in their order, those of all routes', async () => {
  const [a, b] = [open('inline'), open('inline')]
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
  const run = atEndOfTurn(
    ({ id }) => {
      ran.push(id)
      if (id === '2') throw bug
    },
    { engine: { name: 'inline' } } as EngineHolder,
  )
  for (const id of [1, 2, 3, 4]) run(request(id), reply)
  await nextTurn()
  await nextTurn()
  expect(ran).toEqual(['1', '2', '3', '4'])
  expect(thrown).toEqual([bug])
})
