import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { HostAnswer, HostRequest } from './protocol.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** The worker's end of the bridge to what lives on the main thread only. Whoever asks waits, and the thread with it. */
export class HostClient {
  readonly #port: MessagePort
  readonly #stamp: Stamp
  readonly #waitMs: number
  #lastId = 0

  /** @param waitMs - Longest time to wait for an answer. */
  constructor(port: MessagePort, stamp: Stamp, waitMs: number) {
    this.#port = port
    this.#stamp = stamp
    this.#waitMs = waitMs
  }

  /** @throws Error with the words of the host if it says no, or if it does not answer. */
  ask(operation: string, ...args: readonly unknown[]): unknown {
    const id = ++this.#lastId
    this.#port.postMessage({ id, operation, args } satisfies HostRequest)
    const until = monotonicMs() + this.#waitMs
    for (;;) {
      const answer = this.#receive(id)
      if (answer) return readAnswer(answer)
      const left = until - monotonicMs()
      if (left <= 0) throw new Error(`the host did not answer within ${this.#waitMs} ms (${operation})`)
      this.#stamp.waitForHost(left)
    }
  }

  /** An answer to what was asked earlier, and not waited for any more, is dropped. */
  #receive(id: number): HostAnswer | undefined {
    for (;;) {
      const received = receiveMessageOnPort(this.#port)
      if (!received) return undefined
      const answer = received.message as HostAnswer
      if (answer.id === id) return answer
    }
  }
}

function readAnswer(answer: HostAnswer): unknown {
  if ('failure' in answer) throw new Error(answer.failure)
  return answer.value
}
