import { setTimeout as sleep } from 'node:timers/promises'
import type { StreamExchange, StreamReply } from '../guest/streams/operations.ts'

/**
 * The exchange of a guest that streams and is called without HTTP: it reads these pieces, and its answer is written without its
 * head and trailers.
 */
export class StdioExchange implements StreamExchange {
  readonly #pieces: AsyncIterator<Uint8Array>
  readonly #write: (bytes: Uint8Array) => Promise<boolean>
  #rest: Uint8Array = new Uint8Array()
  #state: 'new' | 'started' | 'ended' = 'new'
  #isGone = false

  /** @param write - See `sendBytes` of {@link Host}. */
  constructor(pieces: AsyncIterable<Uint8Array>, write: (bytes: Uint8Array) => Promise<boolean>) {
    this.#pieces = pieces[Symbol.asyncIterator]()
    this.#write = write
  }

  /** Whether the guest has started its answer. */
  get isStarted(): boolean {
    return this.#state !== 'new'
  }

  async read(max: number): Promise<StreamReply<Uint8Array>> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#pieces.next()
      if (done) return { answer: new Uint8Array() }
      this.#rest = value
    }
    const answer = new Uint8Array(this.#rest.subarray(0, max)) // its buffer changes its owner
    this.#rest = this.#rest.subarray(answer.length)
    return { answer }
  }

  start(): StreamReply<undefined> {
    if (this.isStarted) return { problem: 'order' }
    this.#state = 'started'
    return { answer: undefined }
  }

  async write(bytes: Uint8Array): Promise<StreamReply<undefined>> {
    if (this.#state !== 'started') return { problem: 'order' }
    this.#isGone ||= !(await this.#write(bytes))
    return this.#isGone ? { problem: 'gone' } : { answer: undefined }
  }

  trailers(): StreamReply<undefined> {
    if (this.#state !== 'started') return { problem: 'order' }
    this.#state = 'ended'
    return { answer: undefined }
  }

  async wait(ms: number): Promise<StreamReply<undefined>> {
    await sleep(ms)
    return this.#isGone ? { problem: 'gone' } : { answer: undefined }
  }

  isGone(): StreamReply<boolean> {
    return { answer: this.#isGone }
  }
}
