import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { HostAnswer, HostRequest } from './protocol.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** Where what lives on the main thread can be asked for. */
export interface HostAsker {
  /** Whoever asks waits. @throws Error with the words of the host if it says no. */
  ask(operation: string, ...args: readonly unknown[]): unknown
}

/** The worker's end of the bridge to what lives on the main thread only. Whoever asks waits, and the thread with it. */
export class HostClient implements HostAsker {
  readonly #port: MessagePort
  readonly #stamp: Stamp

  constructor(port: MessagePort, stamp: Stamp) {
    this.#port = port
    this.#stamp = stamp
  }

  /**
   * Waits without a limit of its own: the main thread ends this one at its deadline, and knows for how long it was held
   * itself.
   *
   * @throws Error with the words of the host if it says no.
   */
  ask(operation: string, ...args: readonly unknown[]): unknown {
    this.#stamp.beginAsking(monotonicMs())
    this.#port.postMessage({ operation, args } satisfies HostRequest)
    for (;;) {
      const received = receiveMessageOnPort(this.#port)
      if (received) {
        this.#stamp.endAsking()
        return readAnswer(received.message)
      }
      this.#stamp.waitForHost()
    }
  }
}

/** @throws Error with the words of the host if it says no. */
export function readAnswer(answer: HostAnswer): unknown {
  if ('failure' in answer) throw new Error(answer.failure)
  return answer.value
}
