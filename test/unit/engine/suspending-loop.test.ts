import { MessageChannel } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { AnswerWriter } from '../../../src/engine/workers/answer-writer.ts'
import { HostClient } from '../../../src/engine/workers/host-bridge.ts'
import { ANSWER, CALL, type SuspendedRequest } from '../../../src/engine/workers/protocol.ts'
import { Ring } from '../../../src/engine/workers/ring.ts'
import { type SuspendedCall, SuspendedCalls } from '../../../src/engine/workers/suspended-calls.ts'
import { SuspendingLoop } from '../../../src/engine/workers/suspending-loop.ts'
import { ThreadState } from '../../../src/engine/workers/thread-state.ts'
import { http } from '../../../src/guest/services/http.ts'
import { NO_STATS } from '../../../src/observe/engine-stats.ts'

type Run = (exportName: string, input: Uint8Array, call: SuspendedCall) => unknown

/** A thread whose guests do this, its host, and its answers. */
function openLoop(run: (turns: SuspendedCalls) => Run) {
  const [inputs, host] = [new MessageChannel(), new MessageChannel()]
  onTestFinished(() => {
    inputs.port1.close()
    host.port1.close()
  })
  const [callBytes, answerBytes] = [Ring.allocate(4_096), Ring.allocate(4_096)]
  const [calls, answers] = [new Ring(callBytes), new Ring(answerBytes)]
  const threadState = new ThreadState()
  const turns = new SuspendedCalls(
    host.port2,
    threadState,
    new HostClient(host.port2, threadState),
    Number.POSITIVE_INFINITY,
  )
  const instances = {
    changes: 0,
    stats: { ...NO_STATS, guestBytes: 7 },
    call: async (...args: Parameters<Run>) => run(turns)(...args),
  }
  let heard: () => void = () => undefined
  const start = { calls: callBytes, inputs: inputs.port2, threadState: threadState.memory }
  const loop = new SuspendingLoop(
    start as never,
    instances as never,
    turns,
    () => new AnswerWriter(new Ring(answerBytes), threadState, () => heard()),
  )
  calls.write(CALL.name, 0, 3, 0, Buffer.from('run'))
  return {
    loop,
    threadState,
    host: host.port1,
    call(number: number, input: string) {
      threadState.offer(number)
      calls.write(CALL.here, number, 3, 0, Buffer.from(input))
    },
    post(number: number, input: string) {
      threadState.offer(number)
      inputs.port1.postMessage(Buffer.from(input))
      calls.write(CALL.posted, number, 3, 0, Buffer.of())
    },
    /** The next answers. */
    async answers(count: number) {
      const got: unknown[] = []
      while (got.length < count) {
        threadState.heard()
        const record = answers.peek()
        if (!record) {
          await new Promise<void>((resolve) => (heard = resolve))
          continue
        }
        const text = String(Buffer.from(record.payload))
        got.push([record.call, record.kind === ANSWER.output ? text : JSON.parse(text)])
        answers.release(record)
      }
      return got
    },
  }
}

/** Asks the host what its input says, then answers. */
const asks =
  (turns: SuspendedCalls): Run =>
  async (exportName, input, call) => {
    const text = String(Buffer.from(input))
    const answer = await turns.askLater(call, http, 'send', [text]).catch(() => {
      throw new Error('unreachable') // as a guest that traps
    })
    return Buffer.from(`${exportName} ${text} ${answer}`)
  }

test('guests are suspended while others run, and each call gets its own answer', async () => {
  const { loop, threadState, host, call, post, answers } = openLoop(asks)
  call(257, 'a')
  post(258, 'b')
  call(259, 'c')
  threadState.claim(259) // taken back by the main thread
  const asked: SuspendedRequest[] = []
  const bothAsked = new Promise<void>((resolve) =>
    host.on('message', (request: SuspendedRequest) => {
      if (asked.push(request) === 2) resolve()
    }),
  )
  loop.run()
  await bothAsked
  for (const { call: number, args } of asked.toReversed()) {
    host.postMessage({ call: number, answer: { value: `for ${args}` } })
    threadState.replied()
  }
  expect(await answers(2)).toEqual([
    [258, 'run b for b'],
    [257, 'run a for a'],
  ])
  expect(threadState.readStats()).toMatchObject({ guestBytes: 7 })
})

test('a call that must end fails with the reason, however its guest ends', async () => {
  const { loop, threadState, host, call, answers } = openLoop(asks)
  call(257, 'a')
  host.on('message', (request: SuspendedRequest) => {
    host.postMessage({ call: request.call, answer: undefined })
    threadState.replied()
  })
  loop.run()
  expect(await answers(1)).toMatchObject([[257, { code: 'WASM_SERVE_CLIENT_GONE' }]])
})

test('a call whose guest returns nevertheless fails with the reason, too', async () => {
  const { loop, threadState, host, call, answers } = openLoop((turns) => async (_name, _input, own) => {
    await turns.askLater(own, http, 'send', []).catch(() => undefined)
    return Buffer.from('well')
  })
  call(257, 'a')
  host.on('message', () => {
    host.postMessage({ call: 257, answer: undefined })
    threadState.replied()
  })
  loop.run()
  expect(await answers(1)).toMatchObject([[257, { code: 'WASM_SERVE_CLIENT_GONE' }]])
})

test('a guest that traps costs its call only', async () => {
  const { loop, call, answers } = openLoop(() => (_name, input) => {
    if (String(Buffer.from(input)) === 'trap') throw new Error('it trapped')
    return input
  })
  for (const [at, input] of ['a', 'trap', 'b'].entries()) call(257 + at, input)
  loop.run()
  expect(await answers(3)).toMatchObject([
    [257, 'a'],
    [258, { message: 'it trapped' }],
    [259, 'b'],
  ])
})
