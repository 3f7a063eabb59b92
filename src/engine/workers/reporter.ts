import { toFailure } from '../../errors/call-failure.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import { ANSWER, type FromWorker, type LogLine, RING_PAYLOAD } from './protocol.ts'
import { Ring } from './ring.ts'
import type { Stamp } from './stamp.ts'

type Post = (message: FromWorker, transfer?: ArrayBuffer[]) => void

/** The worker's way to tell: what it has told arrives, also if the thread is killed the next moment. */
export class Reporter {
  /** Takes the guest's lines, which go out at once, with the number of the call that runs. */
  readonly log: Log = {
    trace: (fields, message) => this.#line(['trace', fields, message]),
    debug: (fields, message) => this.#line(['debug', fields, message]),
    info: (fields, message) => this.#line(['info', fields, message]),
    warn: (fields, message) => this.#line(['warn', fields, message]),
    error: (fields, message) => this.#line(['error', fields, message]),
  } satisfies Record<GuestLogLevel, Log[GuestLogLevel]>

  readonly #answers: Ring
  readonly #stamp: Stamp
  readonly #post: Post
  #call = 0
  /** Something of this call was posted: what follows must not overtake it in the ring. */
  #isPosting = false

  constructor(answers: SharedArrayBuffer, stamp: Stamp, post: Post) {
    this.#answers = new Ring(answers)
    this.#stamp = stamp
    this.#post = post
  }

  begin(call: number): void {
    this.#call = call
    this.#isPosting = false
  }

  /** @param ms - How long the guest ran. */
  output(ms: number, output: Uint8Array): void {
    this.#report(ANSWER.output, ms, output)
    this.#call = 0
  }

  failure(ms: number, error: unknown): void {
    this.#report(ANSWER.failure, ms, Buffer.from(JSON.stringify(toFailure(error))))
    this.#call = 0
  }

  #line(line: LogLine): void {
    this.#report(ANSWER.log, 0, Buffer.from(JSON.stringify(line)))
  }

  #report(kind: number, ms: number, payload: Uint8Array): void {
    const isSmall = payload.length <= RING_PAYLOAD && !this.#isPosting
    if (isSmall && this.#answers.write(kind, this.#call, 0, ms, payload)) {
      if (this.#stamp.ring()) this.#post('answers')
      return
    }
    this.#isPosting = true
    const own = ownBuffer(payload)
    this.#post({ kind, call: this.#call, detail: 0, ms, payload: own }, [own.buffer])
  }
}

/** Bytes that fill their buffer, so that it can be given away. */
export function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  return isWhole ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes)
}
