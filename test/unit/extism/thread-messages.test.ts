import { expect, test } from 'vitest'
import { ANSWER_BYTES, waitForAnswer, writeAnswer } from '../../../src/extism/thread-messages.ts'

const failed = () => new Error('thrown')

/** Whether a thread would wait for the answer: its first word is 0 until it is there. */
const isAwaited = (answer: SharedArrayBuffer) =>
  Atomics.wait(new Int32Array(answer, 0, 1), 0, 0, 0) === 'timed-out'

test('what a host function returned is found by a thread that begins to wait for it later, once', () => {
  const answer = new SharedArrayBuffer(ANSWER_BYTES)
  for (const [returned, found] of [
    [1.5, 1.5],
    [0, 0],
    [true, 1],
    [-(2n ** 63n), -(2n ** 63n)],
    [0n, 0n],
    [undefined, undefined],
    ['a text', undefined],
  ] as const) {
    expect(isAwaited(answer)).toBe(true)
    writeAnswer(answer, returned)
    expect(isAwaited(answer)).toBe(false)
    expect(waitForAnswer(answer, failed)).toBe(found)
  }
})

test('what a host function threw is thrown', () => {
  const answer = new SharedArrayBuffer(ANSWER_BYTES)
  writeAnswer(answer, undefined, true)
  expect(isAwaited(answer)).toBe(false)
  expect(() => waitForAnswer(answer, failed)).toThrow('thrown')
  expect(isAwaited(answer)).toBe(true)
})
