import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { constants } from 'node:http2'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AnswerProblem, BODILESS, DESCRIBING } from '../../contract/http-answer.ts'
import {
  BodyTooLargeError,
  ClientGoneError,
  OutputTooLargeError,
  RequestTimeoutError,
  StreamTimeoutError,
} from '../../errors/errors.ts'
import type { StreamExchange, StreamProblem, StreamReply } from '../../guest/streams/stream-protocol.ts'
import type { StreamStats } from '../../observe/counters.ts'
import type { StreamEvent } from '../../observe/observe.ts'
import { nextTurn } from '../../platform/event-loop.ts'
import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { http2ResponseOf } from '../../platform/missing-types.ts'
import { breakOff, flushHead, sendContinue } from '../../platform/node-workarounds.ts'
import { discardRest } from '../../platform/unread-body.ts'
import { type AnswerHead, readAnswerHead, readTrailers } from './answer-head.ts'
import { BodyReader } from './body-reader.ts'

/** The options of a route that its streams use. */
export interface StreamLimits {
  /** Maximum bytes of the request's body; 0: none. */
  readonly bodyLimit: number
  /** Maximum bytes of the answer's body; 0: none. */
  readonly outputLimit: number
  /** Bytes of each direction that are kept. */
  readonly streamBuffer: number
  /** Maximum time of an exchange. */
  readonly streamTimeoutMs: number
  /** Maximum time in which a client sends nothing while the guest reads. */
  readonly streamIdleMs: number
  /** Content type of answers for which the guest sets none. Default: bytes. */
  readonly contentType?: string | undefined
  /** Interval of comments in a stream of events without other bytes; 0: none. */
  readonly sseHeartbeatMs: number
}

/** A guest may run for this long after its client has gone, or its time is over. */
const GRACE_MS = 1_000

/** How often a client that has closed its side of the connection is probed. */
const PROBE_MS = 1_000

/** An HTTP exchange whose guest reads the body of the request and writes that of the answer piece by piece. */
export class HttpExchange implements StreamExchange, StreamStats {
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #limits: StreamLimits
  readonly #exportName: string
  readonly #body: BodyReader
  readonly #since = performance.now()
  readonly #timeout: NodeJS.Timeout
  #heartbeat: NodeJS.Timeout | undefined
  #head: AnswerHead | undefined
  #trailers: Record<string, string | string[]> | undefined
  /** Bytes that were written and have not left yet. */
  #pending = 0
  #sent = 0
  #firstByteMs: number | undefined
  #onEvent: ((event: StreamEvent) => void) | undefined
  #lastWriteAt = 0
  #hasReceived = false
  #goneAt: number | undefined
  #failure: Error | undefined
  /** Set if the answer is larger than it may be. */
  #overflow: Error | undefined
  #isClosed = false
  #isBroken = false
  /** Operations that wait. A guest waits for one at a time, but a new guest may follow one that was ended. */
  readonly #waiting = new Set<() => void>()

  /** @param exportName - Of the guest's function, for messages. */
  constructor(request: FastifyRequest, reply: FastifyReply, limits: StreamLimits, exportName: string) {
    this.#exportName = exportName
    this.#request = request
    this.#reply = reply
    this.#limits = limits
    this.#body = new BodyReader(request.raw, limits.bodyLimit, limits.streamBuffer)
    this.#body.subscribe(() => this.#heard())
    this.#timeout = setTimeout(
      () => this.#end(new StreamTimeoutError(limits.streamTimeoutMs)),
      limits.streamTimeoutMs,
    )
    // Set before close: Node reports a cancelled HTTP/2 stream as finished.
    reply.raw.once('close', () => this.#end(new ClientGoneError()))
  }

  /** Whether the guest has started the answer. */
  get isStarted(): boolean {
    return this.#head !== undefined
  }

  /** Whether the client has disconnected, or the time of the exchange is over. */
  get isOver(): boolean {
    const { socket } = this.#request.raw
    // A client of HEAD that has closed its side has all of its answer: nothing that is sent would tell whether it is still there.
    const hasLeft =
      socket.destroyed || (this.isStarted && this.#request.method === 'HEAD' && socket.readableEnded)
    if (this.#goneAt === undefined && hasLeft) this.#end(new ClientGoneError())
    return this.#goneAt !== undefined
  }

  /** Whether the guest has had time to notice that. */
  get isPastDeadline(): boolean {
    return this.isOver && performance.now() - (this.#goneAt ?? 0) >= GRACE_MS
  }

  /** The reason that the exchange failed, unless its guest did; undefined if it did not. */
  get failure(): Error | undefined {
    return this.#failure ?? this.#overflow ?? (this.isStarted ? undefined : this.#body.error)
  }

  /** The reason that the body cannot be read, of which the guest was told. */
  get bodyError(): Error | undefined {
    return this.#body.error
  }

  get received(): number {
    return this.#body.received
  }

  get sent(): number {
    return this.#sent
  }

  get firstByteMs(): number | undefined {
    return this.#firstByteMs
  }

  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Sets the only listener for events. */
  listen(onEvent: (event: StreamEvent) => void): void {
    this.#onEvent = onEvent
  }

  read(max: number, memory?: Uint8Array): MaybePromise<StreamReply<Uint8Array>> {
    if (memory) this.#body.reuse(memory)
    this.#continue()
    return this.#take(max) ?? this.#takeLater(max)
  }

  #take(max: number): StreamReply<Uint8Array> | undefined {
    if (this.isOver) return GONE
    const { error } = this.#body
    if (error) return problem(error instanceof BodyTooLargeError ? 'too-large' : 'gone')
    const piece = this.#body.take(max)
    return piece && { answer: piece }
  }

  async #takeLater(max: number): Promise<StreamReply<Uint8Array>> {
    const until = performance.now() + this.#limits.streamIdleMs // other news, such as bytes that leave, do not extend it
    for (;;) {
      if (await this.#news(Math.max(0, until - performance.now())))
        await nextTurn() // more bytes come in this turn: a guest takes them together
      else this.#end(new RequestTimeoutError())
      const reply = this.#take(max)
      if (reply) return reply
    }
  }

  start(json: Uint8Array): StreamReply<undefined> {
    if (this.isOver) return GONE
    if (this.#head || this.#reply.raw.headersSent) return problem('order')
    try {
      const head = readAnswerHead(json)
      if (head.status < 300) this.#continue() // after a final status the client would not send the body
      this.#head = head
    } catch (error) {
      if (error instanceof AnswerProblem) return this.#invalid(error)
      throw error
    }
    this.#sendHead(this.#head)
    return DONE
  }

  write(bytes: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (!this.#head || this.#trailers) return problem('order')
    if (this.isOver) return GONE
    if (!this.#hasBody) return DONE // HEAD, and statuses without a body, discard it
    const sent = this.#sent + bytes.length
    const { outputLimit } = this.#limits
    if (outputLimit > 0 && sent > outputLimit) {
      // A guest that goes on would end an incomplete answer in good order.
      this.#overflow ??= new OutputTooLargeError(this.#exportName, sent, outputLimit)
      return problem('too-large')
    }
    this.#send(bytes)
    this.#sent = sent
    return this.#pending > this.#limits.streamBuffer ? this.#drained() : DONE
  }

  async #drained(): Promise<StreamReply<undefined>> {
    while (this.#pending > this.#limits.streamBuffer && !this.isOver) await this.#news()
    return this.isOver ? GONE : DONE
  }

  trailers(json: Uint8Array): StreamReply<undefined> {
    if (!this.#head || this.#trailers) return problem('order')
    try {
      const trailers = readTrailers(json, this.#head.trailers)
      this.#trailers = toObject(trailers)
    } catch (error) {
      if (error instanceof AnswerProblem) return this.#invalid(error)
      throw error
    }
    return DONE
  }

  async wait(ms: number): Promise<StreamReply<undefined>> {
    const until = performance.now() + ms
    for (let left = ms; left > 0 && !this.isOver; left = until - performance.now()) await this.#news(left)
    return this.isOver ? GONE : DONE
  }

  isGone(): StreamReply<boolean> {
    return { answer: this.isOver }
  }

  /** Ends the answer after the guest has returned. Only if it was started. */
  finish(): void {
    const { raw } = this.#reply
    if (this.#trailers) raw.addTrailers(this.#trailers)
    raw.end()
  }

  /** Ends the connection, or the stream of HTTP/2, without the end of the answer: the client notices. */
  break(): void {
    this.#isBroken = !(this.#failure instanceof ClientGoneError)
    breakResponse(this.#reply.raw)
  }

  /** Releases everything. Operations that wait return. */
  close(): void {
    this.#isClosed = true
    this.#goneAt ??= performance.now()
    clearTimeout(this.#timeout)
    clearInterval(this.#heartbeat)
    this.#notify()
    this.#body.close()
    this.#endRequest()
  }

  /** The client may send a body without an end. HTTP/2 can reset a stream; an HTTP/1 connection has to be closed. */
  #endRequest(): void {
    const { raw } = this.#request
    if (!this.#body.isIncomplete || raw.httpVersionMajor !== 1) return
    void discardRest(raw).then(() => raw.complete || raw.socket.destroy())
  }

  /** A client that expects 100 sends no body before. */
  #continue(): void {
    const { headers, raw } = this.#request
    if (headers.expect === undefined || raw.complete || this.isStarted || this.#body.error) return
    delete raw.headers.expect
    sendContinue(this.#reply.raw)
  }

  #sendHead({ status, headers, trailers }: AnswerHead): void {
    const reply = this.#reply.hijack()
    const all: OutgoingHttpHeaders = {
      'content-type': this.#limits.contentType ?? 'application/octet-stream',
      ...(reply.getHeaders() as OutgoingHttpHeaders),
      ...toObject(headers),
    }
    if (BODILESS.has(status)) for (const name of Object.keys(all)) if (DESCRIBING.has(name)) delete all[name]
    if (trailers.size > 0 && this.#hasBody && this.#request.raw.httpVersion !== '1.0')
      all.trailer = [...trailers].join(', ')
    flushHead(reply.raw.writeHead(status, all))
    const isEvents = headers.get('content-type')?.[0]?.startsWith('text/event-stream')
    if (isEvents && this.#hasBody) this.#beginBeats()
  }

  /**
   * A client that has closed its side may be gone, or wait for the rest: only the answer to some bytes tells. Streams of
   * events have bytes without a meaning.
   */
  #beginBeats(): void {
    const beatMs = this.#limits.sseHeartbeatMs || Number.POSITIVE_INFINITY
    const beat = () => {
      const isDue = performance.now() - this.#lastWriteAt >= beatMs || this.#request.raw.socket.readableEnded
      if (isDue && this.#pending === 0 && !this.isOver) this.#send(HEARTBEAT)
    }
    this.#heartbeat = setInterval(beat, Math.min(beatMs, PROBE_MS))
  }

  #send(bytes: Uint8Array): void {
    this.#lastWriteAt = performance.now()
    if (this.#firstByteMs === undefined) {
      this.#firstByteMs = this.#lastWriteAt - this.#since
      this.#onEvent?.('response.first_byte')
    }
    this.#pending += bytes.length
    this.#reply.raw.write(bytes, () => {
      this.#pending -= bytes.length
      this.#body.reuse(bytes)
      this.#notify()
    })
  }

  get #hasBody(): boolean {
    const status = this.#head?.status ?? 200
    return this.#request.method !== 'HEAD' && !BODILESS.has(status)
  }

  #invalid(error: Error): StreamReply<undefined> {
    this.#request.log.debug({ reason: error.message }, 'a guest gave an invalid head or trailers')
    return problem('invalid')
  }

  /** Only the first reason counts. */
  #end(reason: Error): void {
    if (this.#goneAt !== undefined || this.#isClosed) return
    this.#goneAt = performance.now()
    this.#failure = reason
    this.#notify()
  }

  /** The body has news. */
  #heard(): void {
    if (!this.#hasReceived && this.#body.received > 0) {
      this.#hasReceived = true
      this.#onEvent?.('request.first_byte')
    }
    this.#notify()
  }

  #notify(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  /** Waits for a change. @param ms - Default: no limit. @returns false after this time. */
  async #news(ms?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isNews: boolean) => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve(isNews)
      }
      const wake = () => settle(true)
      const timer = ms === undefined ? undefined : setTimeout(() => settle(false), Math.ceil(ms))
      this.#waiting.add(wake)
    })
  }
}

const DONE = { answer: undefined } as const

const GONE = { problem: 'gone' } as const

/** A comment, which clients ignore. */
const HEARTBEAT = Buffer.from(':\n\n')

function breakResponse(raw: ServerResponse): void {
  const stream = http2ResponseOf(raw)?.stream
  if (stream) stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  else if (raw.socket) breakOff(raw.socket, raw)
  else raw.destroy()
}

function problem(problem: StreamProblem): { readonly problem: StreamProblem } {
  return { problem }
}

function toObject(headers: ReadonlyMap<string, readonly string[]>): Record<string, string | string[]> {
  return Object.fromEntries(
    [...headers].map(([name, values]) => [name, values.length === 1 ? String(values[0]) : [...values]]),
  )
}
