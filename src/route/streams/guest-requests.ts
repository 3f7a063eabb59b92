import { headerProblem } from '../../contract/answer-headers.ts'
import type { Engine } from '../../engine/engine.ts'
import { HTTP_NOT_ALLOWED } from '../../guest/outbound/guest-http.ts'
import { parseGuestStreamRequest } from '../../guest/outbound/guest-request.ts'
import type { Outbound } from '../../guest/outbound/outbound.ts'
import type { OutboundStream, StreamedResponse, StreamLimits } from '../../guest/outbound/outbound-stream.ts'
import {
  connectRequests,
  PIECE_BYTES,
  type StreamProblem,
  type StreamReply,
  type StreamRequests,
} from '../../guest/streams/stream-protocol.ts'
import type { Caller } from '../../observe/observe.ts'
import { GUEST_LIMITS } from '../../platform/guest-limits.ts'
import { withHeaders } from '../guest-http.ts'

/** The parts of a route by which its guests stream requests to other servers. */
interface GuestRequestParts {
  /** undefined: no host is allowed. */
  readonly outbound: Outbound | undefined
  readonly limits: StreamLimits
}

/** An engine whose guests stream requests to other servers: those of a call are closed when it ends, however it ends. */
export function withGuestRequests(engine: Engine, parts: GuestRequestParts): Engine {
  return new RequestingEngine(engine, parts)
}

class RequestingEngine implements Engine {
  readonly name: Engine['name']
  readonly #engine: Engine
  readonly #parts: GuestRequestParts

  constructor(engine: Engine, parts: GuestRequestParts) {
    this.name = engine.name
    this.#engine = engine
    this.#parts = parts
  }

  get trouble(): string | undefined {
    return this.#engine.trouble
  }

  get stats(): Engine['stats'] {
    return this.#engine.stats
  }

  get ready(): Promise<void> {
    return this.#engine.ready
  }

  async call(...call: Parameters<Engine['call']>): Promise<Uint8Array> {
    const [, , caller] = call
    const requests = new GuestRequests(this.#parts, caller)
    connectRequests(caller, requests)
    try {
      return await this.#engine.call(...call)
    } finally {
      requests.close()
    }
  }

  close(): Promise<void> {
    return this.#engine.close()
  }
}

/** How often a client is checked while its guest waits for another server. */
const CHECK_MS = 200

const { httpStreams: MAX_OPEN, httpStreamsTotal: MAX_TOTAL } = GUEST_LIMITS

/** The streamed requests of one call to other servers. */
class GuestRequests implements StreamRequests {
  readonly #outbound: Outbound | undefined
  readonly #caller: Caller
  readonly #limits: StreamLimits
  readonly #streams = new Map<number, OutboundStream>()
  #opened = 0
  #hasFailed = false
  #isClosed = false

  constructor({ outbound, limits }: GuestRequestParts, caller: Caller) {
    this.#outbound = outbound
    this.#caller = caller
    this.#limits = limits
  }

  httpOpen(json: Uint8Array): StreamReply<number> {
    if (this.#isClosed) return { problem: 'gone' }
    if (this.#streams.size >= MAX_OPEN || this.#opened >= MAX_TOTAL) return { problem: 'full' }
    this.#opened++
    if (!this.#outbound) {
      this.#log(HTTP_NOT_ALLOWED)
      return { problem: 'forbidden' }
    }
    try {
      const request = withHeaders(parseGuestStreamRequest(json), this.#caller.observer?.outboundHeaders?.())
      this.#streams.set(this.#opened, this.#outbound.open(request, this.#limits))
      return { answer: this.#opened }
    } catch (error) {
      return this.#failed(error)
    }
  }

  httpWrite(handle: number, bytes: Uint8Array): Promise<StreamReply<boolean>> {
    return this.#run(handle, async (stream) => {
      if (bytes.length > PIECE_BYTES) return { problem: 'too-large' }
      const outcome = await stream.write(bytes)
      return outcome === 'refused' ? { problem: 'order' } : { answer: outcome === 'taken' }
    })
  }

  httpResponse(handle: number): Promise<StreamReply<Uint8Array>> {
    return this.#run(handle, async (stream) => ({ answer: encodeHead(await stream.response()) }))
  }

  httpRead(handle: number, max: number): Promise<StreamReply<Uint8Array>> {
    return this.#run(handle, async (stream) => {
      if (!(max >= 1)) return { problem: 'invalid' }
      return { answer: await stream.read(Math.floor(max)) }
    })
  }

  httpClose(handle: number): StreamReply<undefined> {
    const stream = this.#streams.get(handle)
    if (!stream) return { problem: 'invalid' }
    this.#streams.delete(handle)
    stream.close()
    return { answer: undefined }
  }

  /** The call has ended, or its client has gone. Operations that wait return. */
  close(): void {
    this.#isClosed = true
    for (const stream of this.#streams.values()) stream.close()
    this.#streams.clear()
  }

  async #run<Answer>(
    handle: number,
    operation: (stream: OutboundStream) => Promise<StreamReply<Answer>>,
  ): Promise<StreamReply<Answer>> {
    const stream = this.#streams.get(handle)
    if (!stream) return { problem: this.#isClosed ? 'gone' : 'invalid' }
    const check = setInterval(() => {
      if (this.#caller.isGone) this.close()
    }, CHECK_MS)
    try {
      return await operation(stream)
    } catch (error) {
      return this.#isClosed ? { problem: 'gone' } : this.#failed(error)
    } finally {
      clearInterval(check)
    }
  }

  #failed(error: unknown): { readonly problem: StreamProblem } {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    this.#log(error instanceof Error ? error.message : String(error))
    return { problem: PROBLEM_OF[code] ?? 'failed' }
  }

  /** Logs a call's first failure as a warning and later ones at debug level: a guest can fail often. */
  #log(reason: string): void {
    const { log } = this.#caller
    if (this.#hasFailed) log.debug({ reason }, FAILED)
    else log.warn({ reason }, FAILED)
    this.#hasFailed = true
  }
}

const FAILED = 'a streamed HTTP request of a guest failed'

/** Problems by error code. */
const PROBLEM_OF: Readonly<Record<string, StreamProblem>> = {
  WASM_SERVE_OUTBOUND_REQUEST_INVALID: 'invalid',
  WASM_SERVE_OUTBOUND_REFUSED: 'forbidden',
  WASM_SERVE_OUTBOUND_TOO_LARGE: 'too-large',
}

/**
 * Encodes a head as JSON that is also one of an answer: several values of a name are joined by a comma, except cookies.
 * Headers that an answer cannot have are left out.
 */
export function encodeHead({ status, rawHeaders }: StreamedResponse): Uint8Array {
  const headers = new Map<string, string | string[]>()
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    const value = rawHeaders[at + 1] ?? ''
    const before = headers.get(name)
    if (name === 'set-cookie') headers.set(name, [before ?? [], value].flat())
    else headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  const named = String(headers.get('connection') ?? '').toLowerCase()
  const ofConnection = new Set(named.split(',').map((name) => name.trim()))
  const kept = [...headers].filter(([name, value]) => isPassedOn(name, value) && !ofConnection.has(name))
  return new TextEncoder().encode(JSON.stringify({ status, headers: Object.fromEntries(kept) }))
}

function isPassedOn(name: string, value: string | readonly string[]): boolean {
  return !name.startsWith('proxy-') && [value].flat().every((each) => headerProblem(name, each) === undefined)
}
