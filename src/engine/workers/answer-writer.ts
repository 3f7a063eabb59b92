import { toFailure } from '../../errors/call-failure.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import { giveBack } from '../../platform/buffer-pool.ts'
import { ANSWER, type FromWorker, type LogLine, RING_PAYLOAD } from './protocol.ts'
import type { Ring } from './ring.ts'
import type { ThreadState } from './thread-state.ts'

/** Posts a message to the main thread. */
export type Post = (message: FromWorker, transfer?: ArrayBuffer[]) => void

/** A log that passes on each line. */
export function logTo(send: (line: LogLine) => void): Log {
  return {
    trace: (fields, message) => send(['trace', fields, message]),
    debug: (fields, message) => send(['debug', fields, message]),
    info: (fields, message) => send(['info', fields, message]),
    warn: (fields, message) => send(['warn', fields, message]),
    error: (fields, message) => send(['error', fields, message]),
  } satisfies Record<GuestLogLevel, Log[GuestLogLevel]>
}

/**
 * Reports answers and log lines of one call at a time to the main thread. A report arrives even if the thread is killed right
 * after it.
 */
export class AnswerWriter {
  /** Sends log lines immediately, with the number of the running call. */
  readonly log = logTo((line) => this.#report(ANSWER.log, 0, Buffer.from(JSON.stringify(line))))
  readonly #answers: Ring
  readonly #threadState: ThreadState
  readonly #post: Post
  #call = 0
  /** A message of this call was posted: later ones must not overtake it in the ring. */
  #isPosting = false

  constructor(answers: Ring, threadState: ThreadState, post: Post) {
    this.#answers = answers
    this.#threadState = threadState
    this.#post = post
  }

  begin(call: number): void {
    this.#call = call
    this.#isPosting = false
  }

  /** @param ms - Guest time. */
  output(ms: number, output: Uint8Array): void {
    this.#report(ANSWER.output, ms, output)
    this.#call = 0
  }

  /** The output stays where it is. @returns false if it has to be sent. */
  placed(ms: number): boolean {
    if (this.#isPosting || !this.#answers.write(ANSWER.placed, this.#call, 0, ms, NO_BYTES)) return false
    this.#call = 0
    if (this.#threadState.ring()) this.#post('answers')
    return true
  }

  failure(ms: number, error: unknown): void {
    this.#report(ANSWER.failure, ms, Buffer.from(JSON.stringify(toFailure(error))))
    this.#call = 0
  }

  #report(kind: number, ms: number, payload: Uint8Array): void {
    const isSmall = payload.length <= RING_PAYLOAD && !this.#isPosting
    if (isSmall && this.#answers.write(kind, this.#call, 0, ms, payload)) {
      giveBack(payload)
      if (this.#threadState.ring()) this.#post('answers')
      return
    }
    this.#isPosting = true
    const own = ownBuffer(payload)
    this.#post({ kind, call: this.#call, detail: 0, ms, payload: own }, [own.buffer])
  }
}

const NO_BYTES = new Uint8Array()

/** Bytes with their own buffer, which can be transferred. */
function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  return isWhole ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes)
}
