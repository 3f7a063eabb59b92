import { IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { setCommonHeaders } from '../contract/answer-headers.ts'
import { keepBeyondApp } from '../platform/lasting-responses.ts'
import { sendBody } from '../route/error-response.ts'

/**
 * The answer to one request: a JSON text, or a stream of server-sent events if there was a notification before it.
 */
export class Answer {
  readonly #reply: FastifyReply
  #isDirect: boolean
  #isStream = false

  /** @param isDirect - Whether no hook reads the answer: then it need not pass through Fastify. */
  constructor(reply: FastifyReply, isDirect: boolean) {
    this.#reply = reply
    this.#isDirect = isDirect && reply.request.raw instanceof IncomingMessage
  }

  /**
   * Whether the client has closed its side of the connection, which cancels the request. For other routes the server waits for
   * a sign that the other side is closed, too; an answer that is there already is sent in any case.
   */
  get isGone(): boolean {
    const { raw } = this.#reply.request
    return raw.aborted || raw.socket.readableEnded || this.#isCut
  }

  /** Whether the client does not read as fast as it gets notifications. */
  get isBehind(): boolean {
    const { writableLength, writableHighWaterMark } = this.#reply.raw
    return writableLength >= writableHighWaterMark
  }

  /** @param read - Called once, when the client has read what it had not when {@link Answer.isBehind} was true. */
  onceRead(read: () => void): void {
    this.#reply.raw.once('drain', read)
  }

  get #isOpen(): boolean {
    return !this.#isCut && !this.#reply.raw.writableEnded
  }

  get #isCut(): boolean {
    const { raw, request } = this.#reply
    return raw.destroyed || request.raw.socket.destroyed
  }

  /** Adds a header. It has no effect after a notification. */
  header(name: string, value: string): void {
    this.#isDirect = false
    this.#reply.header(name, value)
  }

  /** Sends a notification at once. @param params - JSON on one line. */
  notify(method: string, params: string): void {
    if (!this.#isOpen) return
    if (!this.#isStream) this.#begin()
    this.#write(`{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${params}}`)
  }

  /** Sends something that has no meaning, after a notification. */
  keepAlive(): void {
    if (this.#isOpen) this.#reply.raw.write(': keep-alive\n\n')
  }

  /** Keeps a stream open when the app is replaced. @param onClosed - Called once, when it has ended. */
  keepOpen(onClosed: () => void): void {
    const { raw, request } = this.#reply
    keepBeyondApp(raw)
    raw.once('close', onClosed)
    if (request.raw instanceof IncomingMessage) endWithClient(raw, request.raw.socket)
    if (this.#isCut) onClosed()
  }

  /**
   * Sends the last message.
   *
   * @param status - Ignored after a notification: the status was sent then.
   * @param message - JSON.
   */
  end(status: number, message: string): void {
    if (this.#isStream) {
      this.#write(message)
      this.#reply.raw.end()
      return
    }
    const reply = this.#reply
    if (status === 200 && this.#isDirect) {
      endDirectly(message, reply)
      return
    }
    setCommonHeaders(reply)
    reply.code(status).header('content-type', JSON_TYPE)
    if (status === 200) reply.send(message)
    else sendBody(Buffer.from(message), reply) // the client may still be sending its body
  }

  /** Ends without a message: the client has cancelled its request, and waits for none. */
  endWithout(): void {
    if (this.#isCut) return
    if (!this.#isStream) this.#begin()
    this.#reply.raw.end()
  }

  /** Accepts messages that have no answer. */
  accept(): void {
    setCommonHeaders(this.#reply)
    this.#reply.code(202).send()
  }

  #begin(): void {
    this.#isStream = true
    const reply = this.#reply.hijack()
    setCommonHeaders(reply)
    reply.header('content-type', 'text/event-stream')
    reply.header('cache-control', 'no-cache, no-transform')
    reply.header('x-accel-buffering', 'no') // a reverse proxy would collect the events
    reply.raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders)
  }

  #write(message: string): void {
    if (this.#isOpen) this.#reply.raw.write(`event: message\ndata: ${message}\n\n`)
  }
}

/** Ends a response when the client has closed its side of the connection. */
function endWithClient(response: ServerResponse, socket: Socket): void {
  const end = () => response.destroy()
  socket.once('end', end)
  response.once('close', () => socket.off('end', end))
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** Answers through Node's response: Fastify's reply does much work whose result is known here. */
function endDirectly(text: string, { raw, request }: FastifyReply): void {
  raw.writeHead(200, [
    'x-request-id',
    request.id,
    'x-content-type-options',
    'nosniff',
    'content-type',
    JSON_TYPE,
    'content-length',
    `${Buffer.byteLength(text)}`,
  ])
  raw.end(text)
}
