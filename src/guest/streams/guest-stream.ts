import type { Caller } from '../../observe/observe.ts'
import { type MaybePromise, thenMaybe } from '../../platform/maybe-promise.ts'
import { blocksOf, type CallContext } from '../call-context.ts'
import { EVENT_JSON_MAX, renderEvent } from './sse.ts'
import {
  type MessageKind,
  type Operations,
  PIECE_BYTES,
  type RequestOperation,
  type StreamClient,
  type StreamHost,
  type StreamReply,
} from './stream-protocol.ts'

/** Maximum bytes of the JSON of an answer's head, and of its trailers. */
const HEAD_JSON_MAX = 131_072

/** The streams of the running calls of an engine. */
export class GuestStreams {
  readonly suspends: boolean
  readonly #host: StreamHost
  readonly #streams = new WeakMap<Caller, GuestStream>()

  constructor(host: StreamHost) {
    this.suspends = host.suspends
    this.#host = host
  }

  /** A call begins. A caller has one call at a time. */
  begin(caller: Caller): void {
    const known = this.#streams.get(caller)
    if (known) known.begin()
    else this.#streams.set(caller, new GuestStream(this.#host.clientOf(caller)))
  }

  /** The stream of a host function's call. While a guest starts, there is none. */
  of(context: CallContext): GuestStream {
    const { caller } = blocksOf(context)
    return (caller && this.#streams.get(caller)) ?? new GuestStream(UNAVAILABLE)
  }

  /** Sends what a guest has written before its call ended. */
  end(caller: Caller): MaybePromise<unknown> {
    return this.#streams.get(caller)?.flush()
  }
}

const UNAVAILABLE: StreamClient = { call: () => ({ problem: 'unavailable' }) }

/** The stream of a call: whether its answer can be written to, and the bytes that were written since the last send. */
export class GuestStream {
  readonly #client: StreamClient
  #buffer: Uint8Array<ArrayBuffer> | undefined
  #spare: Uint8Array<ArrayBuffer> | undefined
  #used = 0
  /** Whether the answer has started, and its trailers have not been sent. */
  #isOpen = false
  #kind: MessageKind = 'text'

  constructor(client: StreamClient) {
    this.#client = client
  }

  /** Forgets the previous call. */
  begin(): void {
    this.#used = 0
    this.#isOpen = false
    this.#kind = 'text'
  }

  /** @param limit - Maximum bytes, whatever the guest wants. */
  read(max: number, limit: number): MaybePromise<StreamReply<Uint8Array>> {
    if (!(max > 0)) return INVALID
    const written = this.#takeWritten()
    const memory = this.#spare
    this.#spare = undefined
    return this.#client.call('read', written, Math.min(max, limit), memory)
  }

  start(head: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (head.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    return thenMaybe(this.#client.call('start', undefined, head.slice()), (reply) => {
      if (!('problem' in reply)) this.#isOpen = true
      return reply
    })
  }

  /** @param bytes - Read before the reply. */
  write(bytes: Uint8Array, from = 0): MaybePromise<StreamReply<undefined>> {
    if (!this.#isOpen) return { problem: 'order' }
    for (let at = from; at < bytes.length; ) {
      if (this.#used === PIECE_BYTES) {
        const reply = this.flush()
        if (reply instanceof Promise)
          return reply.then((later) => ('problem' in later ? later : this.write(bytes, at)))
        if ('problem' in reply) return reply
      }
      const buffer = this.#roomFor(bytes.length - at)
      const part = bytes.subarray(at, at + PIECE_BYTES - this.#used)
      buffer.set(part, this.#used)
      this.#used += part.length
      at += part.length
    }
    return DONE
  }

  /** Sends what was written. */
  flush(): MaybePromise<StreamReply<undefined>> {
    const written = this.#takeWritten()
    return written ? this.#client.call('write', undefined, written) : DONE
  }

  /** What was written and not sent yet. */
  #takeWritten(): Uint8Array | undefined {
    if (this.#used === 0 || !this.#buffer) return undefined
    const written = this.#buffer.subarray(0, this.#used)
    this.#used = 0
    if (written.length <= COPIED_BYTES) return written.slice()
    this.#buffer = undefined
    return written
  }

  /** The buffer for writes. It grows: most streams write little at a time. */
  #roomFor(bytes: number): Uint8Array<ArrayBuffer> {
    const needed = Math.min(this.#used + bytes, PIECE_BYTES)
    if (this.#buffer && this.#buffer.length >= needed) return this.#buffer
    const larger = needed > MIN_BUFFER_BYTES ? this.#takeReusable() : new Uint8Array(MIN_BUFFER_BYTES)
    if (this.#buffer) larger.set(this.#buffer.subarray(0, this.#used))
    this.#buffer = larger
    return larger
  }

  #takeReusable(): Uint8Array<ArrayBuffer> {
    const taken = this.#spare ?? new Uint8Array(PIECE_BYTES)
    this.#spare = undefined
    return taken
  }

  /** Keeps the memory of a piece that was read, for writes: memory for each would be garbage. */
  reuse({ buffer }: Uint8Array): void {
    if (buffer.byteLength === PIECE_BYTES && buffer instanceof ArrayBuffer)
      this.#spare = new Uint8Array(buffer)
  }

  /** A copy, which has its buffer for itself. @param bytes - At most {@link PIECE_BYTES}. */
  copy(bytes: Uint8Array): Uint8Array {
    if (bytes.length <= COPIED_BYTES) return bytes.slice()
    const whole = this.#takeReusable()
    whole.set(bytes)
    return whole.subarray(0, bytes.length)
  }

  /** Runs an operation of a request to another server, which may wait. Before, it sends what was written. */
  request<Name extends RequestOperation>(
    operation: Name,
    ...args: Parameters<Operations[Name]>
  ): MaybePromise<StreamReply<ReturnType<Operations[Name]>>> {
    return this.#client.call(operation, this.#takeWritten(), ...args)
  }

  trailers(json: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (json.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    if (!this.#isOpen) return { problem: 'order' }
    return thenMaybe(this.#client.call('trailers', this.#takeWritten(), json.slice()), (reply) => {
      if (!('problem' in reply)) this.#isOpen = false
      return reply
    })
  }

  /** Sends an event at once. The first one starts the answer, if the guest has not. */
  event(json: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (json.length > EVENT_JSON_MAX) return { problem: 'too-large' }
    const event = renderEvent(json)
    if (!event) return INVALID
    const send = () => thenMaybe(this.write(event), (reply) => ('problem' in reply ? reply : this.flush()))
    if (this.#isOpen) return send()
    return thenMaybe(this.start(EVENT_STREAM), (reply) => ('problem' in reply ? reply : send()))
  }

  wait(ms: number): MaybePromise<StreamReply<undefined>> {
    if (!(ms >= 0)) return INVALID
    return this.#client.call('wait', this.#takeWritten(), Math.min(ms, MAX_WAIT_MS))
  }

  isGone(): MaybePromise<boolean> {
    return thenMaybe(this.#client.call('isGone', undefined), (reply) => 'problem' in reply || reply.answer)
  }

  /** The kind of the last message. Default: text. */
  get kind(): MessageKind {
    return this.#kind
  }

  receive(): MaybePromise<StreamReply<Uint8Array>> {
    return thenMaybe(this.#client.call('receiveMessage', undefined), (reply) => {
      if ('problem' in reply) return reply
      this.#kind = reply.answer.isText ? 'text' : 'binary'
      return { answer: reply.answer.bytes }
    })
  }

  /** @param kind - 1: text, 2: binary, 0: that of the last message. */
  send(bytes: Uint8Array, kind: number): MaybePromise<StreamReply<undefined>> {
    const chosen = kind === 0 ? this.#kind : KINDS[kind]
    return chosen ? this.#client.call('sendMessage', undefined, bytes.slice(), chosen) : INVALID
  }

  close(code: number, reason: Uint8Array): MaybePromise<StreamReply<undefined>> {
    return this.#client.call('closeSocket', undefined, code, reason.slice())
  }
}

/** Kinds by opcode. (RFC 6455, section 5.2) */
const KINDS: Readonly<Record<number, MessageKind | undefined>> = { 1: 'text', 2: 'binary' }

/** The size of a buffer for writes that has never held more. */
const MIN_BUFFER_BYTES = 16_384

/** The size below which bytes are copied into memory of their own: the buffer stays for the next ones. */
const COPIED_BYTES = PIECE_BYTES / 4

const INVALID = { problem: 'invalid' } as const
const DONE = { answer: undefined } as const

/** The maximum of a timer. */
const MAX_WAIT_MS = 2_147_483_647

const EVENT_STREAM = new TextEncoder().encode(
  JSON.stringify({ headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } }),
)
