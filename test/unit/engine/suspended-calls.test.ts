import { once } from 'node:events'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { AnswerWriter } from '../../../src/engine/workers/answer-writer.ts'
import { HostClient } from '../../../src/engine/workers/host-bridge.ts'
import type { SuspendedRequest } from '../../../src/engine/workers/protocol.ts'
import { Ring } from '../../../src/engine/workers/ring.ts'
import { SuspendedCall, SuspendedCalls } from '../../../src/engine/workers/suspended-calls.ts'
import { ThreadState } from '../../../src/engine/workers/thread-state.ts'
import { http } from '../../../src/guest/services/http.ts'
import { stream } from '../../../src/guest/services/stream.ts'

/** The turns of a thread, and the port of its host. */
function open(timeoutMs = Number.POSITIVE_INFINITY) {
  const { port1: host, port2: port } = new MessageChannel()
  onTestFinished(() => host.close())
  const threadState = new ThreadState()
  const turns = new SuspendedCalls(port, threadState, new HostClient(host, threadState), timeoutMs)
  const events: string[] = []
  const answered = new EventTarget()
  turns.open({
    free: () => events.push('free'),
    answered: () => answered.dispatchEvent(new Event('answer')),
  })
  const callOf = (number: number) =>
    new SuspendedCall(
      number,
      'run',
      new AnswerWriter(new Ring(Ring.allocate(1_024)), threadState, () => undefined),
    )
  const answer = async (message: object) => {
    const arrives = once(answered, 'answer')
    host.postMessage(message)
    threadState.replied()
    await arrives
  }
  return { turns, threadState, host, events, callOf, answer }
}

async function request(host: MessagePort): Promise<SuspendedRequest> {
  const [message] = await once(host, 'message')
  return message
}

test('a guest that asks is suspended, and another one may run', async () => {
  const { turns, threadState, host, events, callOf, answer } = open()
  const [first, second] = [callOf(257), callOf(258)]
  turns.begin(first)
  expect([turns.isFree, threadState.running()?.call]).toEqual([false, 257])
  const asked = turns.askLater(first, stream, 'read', [10])
  expect([turns.isFree, threadState.running(), events]).toEqual([true, undefined, ['free']])
  expect(await request(host)).toEqual({ call: 257, service: 'stream', operation: 'read', args: [10] })
  turns.begin(second)
  await answer({ call: 257, answer: { value: 'piece' } })
  expect([turns.isFree, threadState.hasReplies]).toEqual([false, true])
  turns.end(second)
  expect(turns.next()).toBe(true)
  expect([threadState.running()?.call, threadState.hasReplies, await asked]).toEqual([257, false, 'piece'])
  expect(turns.next()).toBe(false)
})

test('answers come to the guests that asked, in any order', async () => {
  const { turns, callOf, answer } = open()
  const calls = [callOf(257), callOf(514), callOf(771)]
  const asked = calls.map((call) => {
    turns.begin(call)
    return turns.askLater(call, stream, 'isGone', [])
  })
  for (const call of [771, 257, 514]) await answer({ call, answer: { value: call } })
  for (const number of [771, 257, 514]) {
    turns.next()
    const call = calls.find((each) => each.number === number)
    if (call) turns.end(call)
  }
  expect(await Promise.all(asked)).toEqual([257, 514, 771])
})

test('a failure of the host is thrown in the guest that asked', async () => {
  const { turns, callOf, answer } = open()
  const call = callOf(257)
  turns.begin(call)
  const asked = turns.askLater(call, http, 'send', [])
  await answer({ call: 257, answer: { failure: 'no' } })
  turns.next()
  await expect(asked).rejects.toThrow('no')
})

test('waits do not count, but a minimum of each does', async () => {
  const { turns, threadState, callOf, answer } = open()
  const call = callOf(257)
  const begun = performance.now()
  turns.begin(call)
  const ran = turns.ranMs(call)
  void turns.askLater(call, stream, 'wait', [30])
  const runMs = performance.now() - begun
  const until = performance.now() + 30
  while (performance.now() < until) await new Promise(setImmediate)
  await answer({ call: 257, answer: { value: undefined } })
  turns.next()
  const { beforeMs = 0 } = threadState.running() ?? {}
  expect(beforeMs).toBeGreaterThanOrEqual(ran + 0.02)
  expect(beforeMs).toBeLessThan(runMs + 0.03)
})

test('a guest that must not continue gets an exception, and every time that it asks again', async () => {
  const { turns, threadState, callOf, answer } = open()
  const call = callOf(257)
  turns.begin(call)
  const asked = turns.askLater(call, stream, 'wait', [1])
  await answer({ call: 257, answer: undefined })
  turns.next()
  const gone = { code: 'WASM_SERVE_CLIENT_GONE' }
  await expect(asked).rejects.toMatchObject(gone)
  await expect(turns.askLater(call, stream, 'isGone', [])).rejects.toMatchObject(gone)
  expect([call.endReason, threadState.running()]).toMatchObject([gone, { call: 257 }])
})

test('an answer for a call that is over is ignored', async () => {
  const { turns, threadState, callOf, answer } = open()
  const call = callOf(257)
  turns.begin(call)
  void turns.askLater(call, stream, 'isGone', [])
  turns.end(call)
  await answer({ call: 257, answer: { value: true } })
  expect([turns.next(), turns.isFree, threadState.hasReplies]).toEqual([true, true, false])
})

test('each turn of a call has another start', async () => {
  const { turns, threadState, callOf, answer } = open()
  const call = callOf(257)
  turns.begin(call)
  const [before, turn] = [threadState.running(), threadState.turn]
  void turns.askLater(call, stream, 'isGone', [])
  await answer({ call: 257, answer: { value: true } })
  turns.next()
  expect(threadState.running()?.since).toBeGreaterThan(before?.since ?? 0)
  expect(threadState.turn).not.toBe(turn)
})

test('a guest whose time is over gets an exception when it would continue', async () => {
  const { turns, callOf, answer } = open(0.05)
  const call = callOf(257)
  const late = { code: 'WASM_SERVE_DEADLINE_EXCEEDED' }
  turns.begin(call)
  const asks = async () => {
    // Each of them counts, however short it is.
    for (let count = 0; count < 3; count++) {
      const asked = turns.askLater(call, stream, 'isGone', [])
      await answer({ call: 257, answer: { value: true } })
      turns.next()
      await asked
    }
  }
  await expect(asks()).rejects.toMatchObject(late)
  expect(call.endReason).toMatchObject(late)
})
