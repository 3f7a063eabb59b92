import { setTimeout as sleep } from 'node:timers/promises'
import { AnswerProblem } from '../contract/http-answer.ts'
import type { StreamExchange, StreamReply } from '../guest/streams/stream-protocol.ts'
import type { Caller } from '../observe/observe.ts'
import { type AnswerHead, readAnswerHead, readTrailers } from '../route/streams/answer-head.ts'

/**
 * The exchange of a guest that streams and is called without HTTP: it reads these pieces, and its answer is written without its
 * head and trailers. These are checked as those of an HTTP answer.
 */
export class StdioExchange implements StreamExchange {
  readonly #pieces: AsyncIterator<Uint8Array>
  readonly #write: (bytes: Uint8Array) => Promise<boolean>
  readonly #log: Caller['log']
  #rest: Uint8Array = new Uint8Array()
  #head: AnswerHead | undefined
  #hasEnded = false
  #isGone = false

  /** @param write - See `sendBytes` of {@link Host}. */
  constructor(
    pieces: AsyncIterable<Uint8Array>,
    write: (bytes: Uint8Array) => Promise<boolean>,
    log: Caller['log'],
  ) {
    this.#pieces = pieces[Symbol.asyncIterator]()
    this.#write = write
    this.#log = log
  }

  /** Whether the guest has started its answer. */
  get isStarted(): boolean {
    return this.#head !== undefined
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

  start(json: Uint8Array): StreamReply<undefined> {
    if (this.isStarted) return { problem: 'order' }
    return this.#checked(() => {
      this.#head = readAnswerHead(json)
    })
  }

  async write(bytes: Uint8Array): Promise<StreamReply<undefined>> {
    if (!this.#head || this.#hasEnded) return { problem: 'order' }
    this.#isGone ||= !(await this.#write(bytes))
    return this.#isGone ? { problem: 'gone' } : { answer: undefined }
  }

  trailers(json: Uint8Array): StreamReply<undefined> {
    const { trailers } = this.#head ?? {}
    if (!trailers || this.#hasEnded) return { problem: 'order' }
    return this.#checked(() => {
      readTrailers(json, trailers)
      this.#hasEnded = true
    })
  }

  async wait(ms: number): Promise<StreamReply<undefined>> {
    await sleep(ms)
    return this.#isGone ? { problem: 'gone' } : { answer: undefined }
  }

  isGone(): StreamReply<boolean> {
    return { answer: this.#isGone }
  }

  #checked(take: () => void): StreamReply<undefined> {
    try {
      take()
      return { answer: undefined }
    } catch (error) {
      if (!(error instanceof AnswerProblem)) throw error
      this.#log.warn({ reason: error.message }, 'a guest gave an invalid head or trailers')
      return { problem: 'invalid' }
    }
  }
}
