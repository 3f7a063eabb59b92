import { isUtf8 } from 'node:buffer'
import { OutputTooLargeError } from '../../errors/errors.ts'
import type {
  MessageKind,
  StreamExchange,
  StreamMessage,
  StreamReply,
} from '../../guest/streams/stream-protocol.ts'
import type { Connection } from './connection.ts'

/** A guest may run for this long after its connection has ended. */
const GRACE_MS = 1_000

/** The connection of a call as its guest sees it: the call gets its messages, or only sends some beside its answer. */
export class SocketExchange implements StreamExchange {
  readonly #connection: Connection
  readonly #takes: boolean
  readonly #exportName: string
  readonly #outputLimit: number
  #isClosed = false
  #failure: Error | undefined

  /** @param takes - Whether the guest takes the messages. @param exportName - Of its function, for messages. */
  constructor(connection: Connection, takes: boolean, exportName: string, outputLimit: number) {
    this.#connection = connection
    this.#takes = takes
    this.#exportName = exportName
    this.#outputLimit = outputLimit
  }

  /** Whether the guest has had time to notice the end of the connection. */
  get isPastDeadline(): boolean {
    return this.#connection.overMs >= GRACE_MS
  }

  /** The reason that the exchange failed although the guest has returned. */
  get failure(): Error | undefined {
    return this.#failure
  }

  async receiveMessage(): Promise<StreamReply<StreamMessage>> {
    if (!this.#takes) return { problem: 'unavailable' }
    if (this.#isClosed) return GONE
    const message = await this.#connection.take()
    return message ? { answer: message } : GONE
  }

  async sendMessage(bytes: Uint8Array, kind: MessageKind): Promise<StreamReply<undefined>> {
    if (this.#isClosed) return { problem: 'order' }
    if (bytes.length > this.#outputLimit) {
      this.#failure ??= new OutputTooLargeError(this.#exportName, bytes.length, this.#outputLimit)
      return { problem: 'too-large' }
    }
    if (kind === 'text' && !isUtf8(bytes)) return { problem: 'invalid' }
    return (await this.#connection.send(bytes, kind === 'text')) ? DONE : GONE
  }

  closeSocket(code: number, reason: Uint8Array): StreamReply<undefined> {
    if (this.#isClosed) return { problem: 'order' }
    if (!isGuestCode(code) || reason.length > REASON_BYTES || !isUtf8(reason)) return { problem: 'invalid' }
    this.#isClosed = true
    this.#connection.end(code, Buffer.from(reason).toString())
    return DONE
  }

  async wait(ms: number): Promise<StreamReply<undefined>> {
    const until = performance.now() + ms
    for (let left = ms; left > 0 && !this.#connection.isOver; left = until - performance.now())
      await this.#connection.news(left)
    return this.#connection.isOver ? GONE : DONE
  }

  isGone(): StreamReply<boolean> {
    return { answer: this.#connection.isOver }
  }
}

const DONE = { answer: undefined } as const
const GONE = { problem: 'gone' } as const

const REASON_BYTES = 123

/** Normal, policy, internal error. */
const ENDS: ReadonlySet<number> = new Set([1000, 1008, 1011])

/** Whether a guest may close with this code: one for applications. The server itself sends the others, or they must not be sent. (RFC 6455, section 7.4) */
function isGuestCode(code: number): boolean {
  return ENDS.has(code) || (Number.isInteger(code) && code >= 3_000 && code <= 4_999)
}
