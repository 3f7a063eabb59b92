import { expect, test } from 'vitest'
import { suspending } from '../../../src/platform/missing-types.ts'
import { STREAMS_PER_THREAD, streamsPerThread, suspensionProblem } from '../../../src/runtime/streaming.ts'

const NONE = { imports: [], linked: [] }
const LINKED = { ...NONE, linked: [{ imports: [], exports: [], name: 'other' }] } as never
const OWN = { ...NONE, imports: [{ module: 'own', name: 'answer', kind: 'function' }] } as never

test('a thread has many streams if their guests can be suspended', () => {
  const many = suspending ? STREAMS_PER_THREAD : 1
  expect([streamsPerThread(NONE), streamsPerThread(OWN, { own: { answer: () => 42n } })]).toEqual([
    many,
    many,
  ])
  expect(suspensionProblem(NONE) === undefined).toBe(suspending !== undefined)
})

test('a thread has one if modules are linked, or a function of the user may wait for ever', () => {
  expect([streamsPerThread(LINKED), streamsPerThread(OWN, { own: { answer: async () => 42n } })]).toEqual([
    1, 1,
  ])
  expect(streamsPerThread(NONE, { own: { answer: async () => 42n } })).toBe(streamsPerThread(NONE))
  expect(suspensionProblem(LINKED)).toBeDefined()
})
