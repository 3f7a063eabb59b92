import type { ClientRequest, IncomingMessage } from 'node:http'
import {
  OutboundFailedError,
  OutboundRequestInvalidError,
  OutboundTimeoutError,
  OutboundTooLargeError,
} from '../../errors/errors.ts'
import { bytesTaken } from '../../platform/node-workarounds.ts'
import { declaresMore, joinHeaders, type OutboundClient, responseTo, wasStale } from './client.ts'
import type { SendableRequest } from './guest-request.ts'
import { toOutboundError } from './outbound-error.ts'
import { followRedirects } from './redirect.ts'
import { ResponseReader } from './response-reader.ts'
import { showTarget, type Target } from './target.ts'

/** The head of a response. */
export interface StreamedResponse {
  readonly status: number
  /** Alternating names and values, as Node.js provides them. */
  readonly rawHeaders: readonly string[]
}

/**
 * A request whose body is written and whose response is read piece by piece. Each function throws an error of
 * `Outbound.fetch` once the request has failed, except that bytes that have arrived can be read.
 */
export interface OutboundStream {
  /** Settles when nothing more arrives: with the status, or the failure. */
  readonly done: Promise<number>

  /**
   * Sends a piece of the body. Waits while the server takes bytes more slowly.
   *
   * @param bytes - None: the end of the body. Their buffer changes its owner.
   * @returns `read first` if they were not taken because the server may be waiting until its response is read, or because
   * its response is complete. `refused` if the body has ended.
   */
  write(bytes: Uint8Array): Promise<'taken' | 'read first' | 'refused'>

  /** The head of the response. If it has to be waited for, the body ends. */
  response(): Promise<StreamedResponse>

  /** The next bytes of the response; none at its end. If they have to be waited for, the body ends. */
  read(max: number): Promise<Uint8Array>

  /** Closes the connection, unless the exchange is complete. @param reason - Default: it is not needed any more. */
  close(reason?: Error): void
}

export interface StreamLimits {
  /** Bytes of each direction that are kept. */
  readonly bufferBytes: number
  /** Maximum time in which the server sends no part of its final response and takes no bytes while the guest waits for that. */
  readonly idleMs: number
  /** Maximum time of the whole exchange. */
  readonly timeoutMs: number
}

/** The parts of a route's client that a stream uses. */
interface StreamParts {
  readonly client: OutboundClient
  /** @throws `OutboundRefusedError` */
  readonly check: (url: URL, label: string) => Target
  /** Maximum bytes of the response's body. */
  readonly maxBytes: number
  readonly followsRedirects: boolean
}

/**
 * Begins a request. Those without a body, GET and HEAD, are sent at once.
 *
 * @param length - The size of its body in bytes, if it is known.
 * @throws `OutboundRefusedError`, `OutboundRequestInvalidError`
 */
export function openStream(
  request: SendableRequest,
  length: number | undefined,
  limits: StreamLimits,
  parts: StreamParts,
): OutboundStream {
  const hasNoBody = request.method === 'GET' || request.method === 'HEAD'
  if (hasNoBody && length) throw new OutboundRequestInvalidError(`a ${request.method} request has no body`)
  parts.check(request.url, showTarget(request.url))
  return new HttpStream(request, length, limits, parts, hasNoBody)
}

class HttpStream implements OutboundStream {
  readonly done: Promise<number>
  readonly #first: SendableRequest
  readonly #length: number | undefined
  readonly #limits: StreamLimits
  readonly #parts: StreamParts
  readonly #label: string
  readonly #timeout: NodeJS.Timeout
  /** Aborted when it fails or is closed. */
  readonly #ended = new AbortController()
  /** The request that takes the body; undefined before it, and after a redirect to a request without one. */
  #outgoing: ClientRequest | undefined
  #isSent = false
  #hasBodyEnded = false
  #writtenBytes = 0
  /** Bytes that were written and have not left yet. */
  #pending = 0
  /** The last request: with the body, or after a redirect. */
  #last: ClientRequest | undefined
  #head: StreamedResponse | undefined
  #body: ResponseReader | undefined
  #failure: unknown
  #wake: () => void = () => undefined
  #settle: { readonly resolve: (status: number) => void; readonly reject: (reason: unknown) => void } = NONE

  constructor(
    request: SendableRequest,
    length: number | undefined,
    limits: StreamLimits,
    parts: StreamParts,
    hasNoBody: boolean,
  ) {
    this.#first = request
    this.#length = length
    this.#limits = limits
    this.#parts = parts
    this.#label = showTarget(request.url)
    this.done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.done.catch(() => undefined) // the functions throw it
    const { timeoutMs } = limits
    this.#timeout = setTimeout(() => this.#fail(new OutboundTimeoutError(this.#label, timeoutMs)), timeoutMs)
    if (hasNoBody) this.#endBody()
  }

  async write(bytes: Uint8Array): Promise<'taken' | 'read first' | 'refused'> {
    if (this.#failure) throw this.#failure
    if (bytes.length === 0) {
      if (!this.#hasBodyEnded) this.#endBody()
      return 'taken'
    }
    if (this.#hasBodyEnded) return 'refused'
    for (;;) {
      if (this.#isComplete || (this.#isFull && this.#isUnread)) return 'read first'
      if (!this.#isFull) break
      await this.#news()
    }
    this.#writtenBytes += bytes.length
    this.#checkLength(this.#writtenBytes > (this.#length ?? Number.POSITIVE_INFINITY))
    if (!this.#isSent) this.#send(true)
    this.#push(bytes)
    return 'taken'
  }

  async response(): Promise<StreamedResponse> {
    while (!this.#head) await this.#answer()
    return this.#head
  }

  async read(max: number): Promise<Uint8Array> {
    for (;;) {
      const piece = this.#body?.take(max)
      if (piece) return piece
      if (this.#isComplete) return NO_BYTES
      await this.#answer()
    }
  }

  close(reason?: Error): void {
    if (this.#head && !reason) this.#settle.resolve(this.#head.status)
    this.#body?.close()
    this.#fail(
      reason ?? new OutboundFailedError(this.#label, 'it was closed before its response was complete'),
    )
  }

  /** Whether all of the response has arrived. */
  get #isComplete(): boolean {
    return this.#body?.isComplete === true
  }

  get #isFull(): boolean {
    return this.#pending >= this.#limits.bufferBytes
  }

  /** Whether the next read need not wait, which would end the body. */
  get #isUnread(): boolean {
    return this.#body !== undefined && this.#body.bytes > 0
  }

  /** Waits for more of the response. A guest that waits for it writes nothing meanwhile: its body is complete. */
  async #answer(): Promise<void> {
    if (this.#failure) throw this.#failure
    if (!this.#hasBodyEnded) this.#endBody()
    await this.#news()
  }

  #endBody(): void {
    this.#hasBodyEnded = true
    if (this.#isComplete) return
    this.#checkLength(this.#writtenBytes < (this.#length ?? 0))
    if (this.#isSent) this.#outgoing?.end()
    else this.#send(false)
  }

  /** Fails on a wrong length: the rest would be taken for a part of the next request. */
  #checkLength(isWrong: boolean): void {
    if (isWrong)
      throw this.#fail(new OutboundRequestInvalidError(`its body does not have ${this.#length} bytes`))
  }

  /** Sets the request that takes the body before it returns. */
  #send(hasBody: boolean): void {
    this.#isSent = true
    this.#follow(hasBody).then(
      (response) => this.#accept(response),
      (error) => this.#fail(error),
    )
  }

  async #follow(hasBody: boolean): Promise<Answer> {
    const send = (request: SendableRequest, label: string) =>
      this.#exchange(request, label, hasBody && request === this.#first)
    if (!this.#parts.followsRedirects) return send(this.#first, this.#label)
    // The body is gone: only a redirect that drops it can be followed.
    return followRedirects(this.#first, send, ({ method }) => !hasBody || method === 'GET')
  }

  async #exchange(request: SendableRequest, label: string, hasBody: boolean): Promise<Answer> {
    this.#last?.destroy() // its response is a redirect
    this.#outgoing = undefined
    const { client, check } = this.#parts
    const target = check(request.url, label)
    const { signal } = this.#ended
    for (;;) {
      const outgoing = client.begin(request, target, hasBody ? (this.#length ?? 'chunked') : undefined)
      this.#last = outgoing
      if (hasBody) this.#outgoing = outgoing
      else outgoing.end()
      try {
        const response = await responseTo(outgoing, signal)
        const { statusCode = 0, rawHeaders } = response
        return {
          status: statusCode,
          headers: joinHeaders(rawHeaders),
          rawHeaders,
          response,
          outgoing,
          target,
        }
      } catch (error) {
        outgoing.destroy()
        if (hasBody || !wasStale(outgoing, error, signal)) throw toOutboundError(error, target)
      }
    }
  }

  #accept({ status, rawHeaders, response, outgoing, target }: Answer): void {
    if (this.#failure) return
    const { maxBytes } = this.#parts
    if (declaresMore(response, outgoing, maxBytes)) {
      this.#fail(new OutboundTooLargeError(target.name, maxBytes))
      return
    }
    this.#head = { status, rawHeaders }
    this.#body = new ResponseReader(response, target.name, maxBytes, this.#limits.bufferBytes, {
      news: () => this.#wake(),
      complete: () => this.#complete(status, outgoing),
      failed: (error) => void this.#fail(toOutboundError(error, target)),
    })
    this.#wake()
  }

  #complete(status: number, outgoing: ClientRequest): void {
    clearTimeout(this.#timeout)
    if (!outgoing.writableFinished) outgoing.destroy() // the server may never read the rest
    this.#settle.resolve(status)
    this.#wake()
  }

  /** Sends a piece of the body. After a redirect to a request without a body, the rest is dropped. */
  #push(bytes: Uint8Array): void {
    const outgoing = this.#outgoing
    if (!outgoing) return
    this.#pending += bytes.length
    outgoing.write(bytes, (error) => {
      this.#pending -= bytes.length
      if (!error) this.#body?.reuse(bytes)
      this.#wake()
    })
  }

  /** Only the first reason counts. @returns it. */
  #fail(reason: unknown): unknown {
    if (this.#failure) return this.#failure
    this.#failure = reason
    clearTimeout(this.#timeout)
    if (!this.#isComplete) {
      this.#ended.abort(reason)
      this.#last?.destroy()
    }
    this.#settle.reject(reason)
    this.#wake()
    return reason
  }

  /** A large piece leaves in parts, without an event. */
  get #taken(): number {
    const socket = this.#last?.socket
    return socket ? bytesTaken(socket) : 0
  }

  /** Waits for a change. There is one operation at a time. */
  async #news(): Promise<void> {
    const { idleMs } = this.#limits
    await new Promise<void>((resolve) => {
      let taken = this.#taken
      const check = () => {
        const before = taken
        taken = this.#taken
        if (taken === before) this.#fail(new OutboundTimeoutError(this.#label, idleMs))
        else timer.refresh()
      }
      const timer = setTimeout(check, idleMs)
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = () => undefined
        resolve()
      }
    })
    if (this.#failure) throw this.#failure
  }
}

/** The response that ends the redirects. */
interface Answer extends StreamedResponse {
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly response: IncomingMessage
  readonly outgoing: ClientRequest
  readonly target: Target
}

const NONE = { resolve: () => undefined, reject: () => undefined }

const NO_BYTES = new Uint8Array()
