import type { AdminApi, CallLine, RouteAnswer } from './admin-api.ts'
import { EventStream, type ServerEvent } from './event-stream.ts'
import { fromBase64 } from './format.ts'

/** A call of a route whose answer arrives piece by piece. */
export interface StreamedCall {
  readonly answer: StreamedAnswer
  /** Calls a function after each change of the answer. @returns a function that ends it. */
  follow(onChange: () => void): () => void
  /** Ends the call, unless it has ended. */
  cancel(): void
}

/** A request for a route. */
interface StreamedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as it is read. */
  readonly body: Blob | undefined
}

/** Opens a call. @throws `AdminApiError` */
export async function openStreamedCall(api: AdminApi, request: StreamedRequest): Promise<StreamedCall> {
  const { body, headers, ...rest } = request
  const ending = new AbortController()
  const length = body && { 'content-length': `${body.size}` }
  const call = { ...rest, headers: { ...length, ...headers }, hasBody: body !== undefined }
  const lines = api.lines<CallLine>('/api/streams', call, ending.signal)
  const first = await lines.next()
  const answer = new StreamedAnswer()
  const listeners = new Set<() => void>()
  const add = (line: CallLine) => {
    answer.add(line)
    for (const listener of listeners) listener()
  }
  const readAll = async () => {
    try {
      for await (const line of lines) add(line)
    } catch {
      // The signal, or the end of the server.
    }
    if (!answer.isOver)
      add({
        ms: answer.ms,
        problem: ending.signal.aborted ? 'Cancelled.' : 'The connection to the server was lost.',
      })
  }
  if (body) api.upload(`/api/streams/${first.value?.call}`, body, ending.signal).catch(() => undefined) // a line has the reason
  void readAll()
  return {
    answer,
    follow(onChange) {
      listeners.add(onChange)
      return () => listeners.delete(onChange)
    },
    cancel: () => ending.abort(),
  }
}

/** Bytes of the body that are kept: the last ones. */
export const KEPT_BYTES = 65_536

/** Number of events that are kept: the last ones. */
export const KEPT_EVENTS = 200

/** An event and when it came. */
export interface ReceivedEvent extends ServerEvent {
  /** From 1. */
  readonly number: number
  /** Time since the request. */
  readonly ms: number
}

/** An answer as far as it has arrived. */
export class StreamedAnswer {
  /** undefined before the answer has begun. */
  status: number | undefined
  headers: RouteAnswer['headers'] = {}
  trailers: RouteAnswer['headers'] = {}
  /** Why it ended early. */
  problem: string | undefined
  isOver = false
  /** Time from the request to the last news. */
  ms = 0
  /** Time from the request to the first byte of the body; undefined before. */
  firstByteMs: number | undefined
  /** Bytes of the request's body that were sent. */
  uploaded = 0
  /** Bytes of the answer's body that have arrived. */
  bytes = 0
  /** The last events, the oldest first; undefined if it is no stream of events. */
  events: readonly ReceivedEvent[] | undefined
  /** Number of events so far. */
  eventCount = 0
  readonly #eventStream = new EventStream()
  readonly #decoder = new TextDecoder()
  #pieces: Uint8Array<ArrayBuffer>[] = []
  #keptBytes = 0

  add({ ms, uploaded, status, headers, data, trailers, problem }: CallLine): void {
    this.ms = ms
    this.uploaded = uploaded ?? this.uploaded
    this.status = status ?? this.status
    if (headers) this.#begin(headers)
    if (data !== undefined) this.#addBytes(fromBase64(data) ?? new Uint8Array())
    this.trailers = trailers ?? this.trailers
    this.problem = problem
    this.isOver = trailers !== undefined || problem !== undefined
  }

  /** The last bytes of the body, {@link KEPT_BYTES} at most. */
  get tail(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.#keptBytes)
    let at = 0
    for (const piece of this.#pieces) {
      bytes.set(piece, at)
      at += piece.length
    }
    return bytes.subarray(-KEPT_BYTES)
  }

  #begin(headers: RouteAnswer['headers']): void {
    this.headers = headers
    if (String(headers['content-type']).startsWith('text/event-stream')) this.events = []
  }

  #addBytes(bytes: Uint8Array<ArrayBuffer>): void {
    this.firstByteMs ??= this.ms
    this.bytes += bytes.length
    if (this.events) {
      const events = this.#eventStream.add(this.#decoder.decode(bytes, { stream: true }))
      const received = events.map((event) => ({ ...event, ms: this.ms, number: ++this.eventCount }))
      this.events = [...this.events, ...received].slice(-KEPT_EVENTS)
    }
    this.#pieces.push(bytes)
    this.#keptBytes += bytes.length
    for (let first = this.#pieces[0]; first && this.#keptBytes - first.length >= KEPT_BYTES; ) {
      this.#pieces.shift()
      this.#keptBytes -= first.length
      first = this.#pieces[0]
    }
  }
}
