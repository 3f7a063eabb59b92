import type { Caller } from '../../observe/observe.ts'
import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { BlockContext, CallContext } from '../call-context.ts'
import { findHostFunction, type HostFunction, type HostFunctions, waitsSometimes } from '../host-functions.ts'
import type { MaybePromise } from '../store/store.ts'
import { after } from './after.ts'
import { EVENT_JSON_MAX, renderEvent } from './sse.ts'

/** The HTTP exchange of a call as its guest sees it. It lives on the main thread. */
export interface StreamOperations {
  /** The next piece of the request's body. @param max - Maximum bytes. @returns no bytes at the end. */
  read(max: number): Uint8Array
  /** Starts the answer. @param head - JSON: `{ "status", "headers", "trailers" }`. */
  start(head: Uint8Array): undefined
  /** Sends bytes of the answer's body. Waits while the client reads more slowly. */
  write(bytes: Uint8Array): undefined
  /** @param trailers - JSON: an object of announced names. */
  trailers(trailers: Uint8Array): undefined
  /** Waits, for this time at most, for the end of the exchange. */
  wait(ms: number): undefined
  isGone(): boolean
  /** The next message of a WebSocket. `gone` at its end. */
  receiveMessage(): StreamMessage
  /** Sends a message of a WebSocket. Waits while the client reads more slowly. */
  sendMessage(bytes: Uint8Array, kind: MessageKind): undefined
  /** Closes a WebSocket. @param reason - A text of up to 123 bytes. */
  closeSocket(code: number, reason: Uint8Array): undefined
}

export type MessageKind = 'text' | 'binary'

/** A message of a WebSocket. */
export interface StreamMessage {
  readonly bytes: Uint8Array
  readonly isText: boolean
}

/** The requests of a call to other servers as its guest sees them. They live on the main thread. */
export interface RequestOperations {
  /** @param request - JSON: see `parseGuestStreamRequest`. @returns its handle, a positive number. */
  httpOpen(request: Uint8Array): number
  /** Sends a piece of the body; no bytes end it. @returns false if the response has to be read before they are taken. */
  httpWrite(handle: number, bytes: Uint8Array): boolean
  /** @returns JSON: `{ "status", "headers" }`, which {@link StreamOperations.start} accepts. */
  httpResponse(handle: number): Uint8Array
  /** The next piece of the response. @param max - Maximum bytes. @returns no bytes at the end. */
  httpRead(handle: number, max: number): Uint8Array
  httpClose(handle: number): undefined
}

export type RequestOperation = keyof RequestOperations

type Operations = StreamOperations & RequestOperations

export type StreamOperation = keyof Operations

/** The kinds of failures that a guest can distinguish. */
export type StreamProblem =
  | 'gone'
  | 'order'
  | 'forbidden'
  | 'invalid'
  | 'too-large'
  | 'full'
  | 'unavailable'
  | 'failed'

/** A result or a failure, as plain data: errors lose their class between threads. */
export type StreamReply<Answer> = { readonly answer: Answer } | { readonly problem: StreamProblem }

/** The main thread's end of these operations. */
type Answering<Names extends StreamOperation> = {
  readonly [Name in Names]: (
    ...args: Parameters<Operations[Name]>
  ) => MaybePromise<StreamReply<ReturnType<Operations[Name]>>>
}

/** The main thread's end of an exchange. An operation that it does not have is `unavailable`. */
export type StreamExchange = Partial<Answering<keyof StreamOperations>>

/** The main thread's end of a call's requests to other servers. */
export type StreamRequests = Answering<RequestOperation>

/** How host functions reach the exchange of a call. Bytes change their owner with their whole buffer. */
export interface StreamClient {
  /** @returns a promise only if the host {@link StreamHost.suspends}. */
  call<Name extends StreamOperation>(
    operation: Name,
    ...args: Parameters<Operations[Name]>
  ): MaybePromise<StreamReply<ReturnType<Operations[Name]>>>
}

/** Where the guests of an engine find the exchanges of their calls. */
export interface StreamHost {
  /** Whether a guest is suspended until a reply comes. Otherwise its thread or process waits. */
  readonly suspends: boolean
  clientOf(caller: Caller): StreamClient
}

/** The exchanges of running calls, by the host of their callers. */
const exchanges = new WeakMap<object, StreamExchange>()

/** Sets the exchange of the calls of a host, which is the request that they answer. */
export function connectStream(host: object, exchange: StreamExchange): void {
  exchanges.set(host, exchange)
}

/** The requests of running calls to other servers, by caller. */
const callRequests = new WeakMap<Caller, StreamRequests>()

/** Sets the requests of a caller's call to other servers. */
export function connectRequests(caller: Caller, requests: StreamRequests): void {
  callRequests.set(caller, requests)
}

/**
 * Runs an operation of a guest on the exchange of its caller, or on its requests.
 *
 * @param caller - One without an exchange, such as an agent, makes its operations `unavailable`. undefined while the guest
 * starts.
 */
export function callStream(
  operation: StreamOperation,
  args: readonly unknown[],
  caller: Caller | undefined,
): MaybePromise<StreamReply<unknown>> {
  if (!caller || !Object.hasOwn(OPERATIONS, operation)) return { problem: 'unavailable' }
  const end: Partial<StreamExchange & StreamRequests> | undefined =
    OPERATIONS[operation] === 'exchange' ? exchangeOf(caller) : callRequests.get(caller)
  const run: ((...args: never[]) => MaybePromise<StreamReply<unknown>>) | undefined = end?.[operation]
  return run ? Reflect.apply(run, end, args) : { problem: 'unavailable' }
}

function exchangeOf({ host }: Caller): StreamExchange | undefined {
  return typeof host === 'object' && host !== null ? exchanges.get(host) : undefined
}

const OPERATIONS: Readonly<Record<StreamOperation, 'exchange' | 'requests'>> = {
  read: 'exchange',
  start: 'exchange',
  write: 'exchange',
  trailers: 'exchange',
  wait: 'exchange',
  isGone: 'exchange',
  receiveMessage: 'exchange',
  sendMessage: 'exchange',
  closeSocket: 'exchange',
  httpOpen: 'requests',
  httpWrite: 'requests',
  httpResponse: 'requests',
  httpRead: 'requests',
  httpClose: 'requests',
}

/**
 * Whether a reply is a message, with which the time limit of the call begins anew: a call for a connection may last as
 * long as that.
 */
export function isNextMessage(operation: unknown, reply: unknown): boolean {
  return operation === 'receiveMessage' && typeof reply === 'object' && reply !== null && 'answer' in reply
}

/** The namespace of the functions for streams. */
export const STREAMS = 'wasm-serve:http'

/** Return values of failed functions of {@link STREAMS}; see `docs/guide/streams.md`. Failures that the store has too have its codes. */
export const STREAM_CODES = {
  gone: -1n,
  order: -2n,
  forbidden: -3n,
  invalid: -4n,
  'too-large': -5n,
  full: -6n,
  unavailable: -7n,
  failed: -8n,
} as const satisfies Record<StreamProblem, bigint>

/** Whether it is a function of streams. */
export function isStreamFunction(namespace: string, name: string): boolean {
  return namespace === STREAMS && (EXCHANGE_FUNCTIONS.has(name) || REQUEST_FUNCTIONS.has(name))
}

const EXCHANGE_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['request_read', 'response_start', 'response_write', 'response_flush', 'response_trailers'],
  ...['sse', 'wait', 'client_gone'],
  ...['ws_receive', 'ws_kind', 'ws_send', 'ws_close'],
])

const REQUEST_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['http_open', 'http_write', 'http_response', 'http_read', 'http_close'],
])

/** Whether a plug-in takes the messages of a WebSocket itself: a call of it serves a connection. */
export function takesMessages(plugin: Pick<Plugin, 'imports' | 'linked'>): boolean {
  return hostImports(plugin).some(({ module, name }) => module === STREAMS && name === 'ws_receive')
}

/** The functions of streams that a plug-in imports, except those that the user's host functions override. */
export function streamImports(
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users: HostFunctions = {},
): readonly string[] {
  return hostImports(plugin)
    .filter(({ module, name }) => isStreamFunction(module, name) && !findHostFunction(users, module, name))
    .map(({ name }) => name)
}

/** Whether guests with these imports read bodies and write answers piece by piece. */
export function importsExchange(imports: readonly string[]): boolean {
  return imports.some((name) => EXCHANGE_FUNCTIONS.has(name))
}

/** Whether guests with these imports stream requests to other servers. */
export function importsRequests(imports: readonly string[]): boolean {
  return imports.some((name) => REQUEST_FUNCTIONS.has(name))
}

/** The host functions of the user with those of streams: one object for all instances. The user's take precedence. */
export function withStreams(users: HostFunctions | undefined, streams: GuestStreams): HostFunctions {
  return { ...users, [STREAMS]: { ...streamFunctions(streams), ...users?.[STREAMS] } }
}

/**
 * Maximum bytes of a piece. Small writes are collected up to it. Each piece takes a turn of two threads, which costs more than
 * to copy 64 KiB.
 */
export const PIECE_BYTES = 262_144

/** Maximum bytes of the JSON of an answer's head, and of its trailers. */
export const HEAD_JSON_MAX = 131_072

/** The streams of the running calls of an engine. */
export class GuestStreams {
  readonly suspends: boolean
  readonly #host: StreamHost
  readonly #streams = new WeakMap<object, GuestStream>()

  constructor(host: StreamHost) {
    this.suspends = host.suspends
    this.#host = host
  }

  /** A call begins. A caller has one call at a time. */
  begin(caller: Caller): void {
    const key = contextOf(caller)
    const known = this.#streams.get(key)
    if (known) known.begin()
    else this.#streams.set(key, new GuestStream(this.#host.clientOf(caller)))
  }

  /** The stream of a host function's call. While a guest starts, there is none. */
  of(context: CallContext): GuestStream {
    const key = context.hostContext<object>()
    return (key && this.#streams.get(key)) ?? new GuestStream(UNAVAILABLE)
  }

  /** Sends what a guest has written before its call ended. */
  end(caller: Caller): MaybePromise<unknown> {
    return this.#streams.get(contextOf(caller))?.flush()
  }
}

/** The value of `hostContext()`. */
function contextOf(caller: Caller): object {
  return typeof caller.host === 'object' && caller.host !== null ? caller.host : caller
}

const UNAVAILABLE: StreamClient = { call: () => ({ problem: 'unavailable' }) }

/** The stream of a call: whether its guest has started the answer, and the bytes that it has written since the last send. */
class GuestStream {
  readonly #client: StreamClient
  #buffer: Uint8Array<ArrayBuffer> | undefined
  #spare: Uint8Array<ArrayBuffer> | undefined
  #used = 0
  #isStarted = false
  #kind: MessageKind = 'text'

  constructor(client: StreamClient) {
    this.#client = client
  }

  /** Forgets the previous call. */
  begin(): void {
    this.#used = 0
    this.#isStarted = false
    this.#kind = 'text'
  }

  read(max: number): MaybePromise<StreamReply<Uint8Array>> {
    if (!(max > 0)) return INVALID
    return this.#flushed(() => this.#client.call('read', Math.min(max, PIECE_BYTES)))
  }

  start(head: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (head.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    return after(this.#client.call('start', head.slice()), (reply) => {
      if (!('problem' in reply)) this.#isStarted = true
      return reply
    })
  }

  /** @param bytes - Read before the reply. */
  write(bytes: Uint8Array, from = 0): MaybePromise<StreamReply<undefined>> {
    if (!this.#isStarted) return { problem: 'order' }
    for (let at = from; at < bytes.length; ) {
      const buffer = this.#roomFor(bytes.length - at)
      const part = bytes.subarray(at, at + PIECE_BYTES - this.#used)
      buffer.set(part, this.#used)
      this.#used += part.length
      at += part.length
      if (this.#used < PIECE_BYTES) break
      const reply = this.flush()
      if (reply instanceof Promise)
        return reply.then((later) => ('problem' in later ? later : this.write(bytes, at)))
      if ('problem' in reply) return reply
    }
    return DONE
  }

  /** Sends what was written. */
  flush(): MaybePromise<StreamReply<undefined>> {
    if (this.#used === 0 || !this.#buffer) return DONE
    const bytes = this.#buffer.subarray(0, this.#used)
    this.#used = 0
    if (bytes.length <= COPIED_BYTES) return this.#client.call('write', bytes.slice())
    this.#buffer = undefined
    return this.#client.call('write', bytes)
  }

  /** Continues after what was written is sent. */
  #flushed<Answer>(next: () => MaybePromise<StreamReply<Answer>>): MaybePromise<StreamReply<Answer>> {
    if (this.#used === 0) return next()
    return after(this.flush(), (reply) => ('problem' in reply ? reply : next()))
  }

  /** The buffer for writes. It grows: most streams write little at a time. */
  #roomFor(bytes: number): Uint8Array<ArrayBuffer> {
    const needed = Math.min(this.#used + bytes, PIECE_BYTES)
    if (this.#buffer && this.#buffer.length >= needed) return this.#buffer
    const larger = needed > MIN_BUFFER_BYTES ? this.#takeSpare() : new Uint8Array(MIN_BUFFER_BYTES)
    if (this.#buffer) larger.set(this.#buffer.subarray(0, this.#used))
    this.#buffer = larger
    return larger
  }

  #takeSpare(): Uint8Array<ArrayBuffer> {
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
    if (bytes.length < PIECE_BYTES / 4) return bytes.slice()
    const whole = this.#takeSpare()
    whole.set(bytes)
    return whole.subarray(0, bytes.length)
  }

  /** Runs an operation of a request to another server, which may wait. Before, it sends what was written. */
  request<Name extends RequestOperation>(
    operation: Name,
    ...args: Parameters<Operations[Name]>
  ): MaybePromise<StreamReply<ReturnType<Operations[Name]>>> {
    return this.#flushed(() => this.#client.call(operation, ...args))
  }

  trailers(json: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (json.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    if (!this.#isStarted) return { problem: 'order' }
    const own = json.slice()
    return this.#flushed(() => this.#client.call('trailers', own))
  }

  /** Sends an event at once. The first one starts the answer, if the guest has not. */
  event(json: Uint8Array): MaybePromise<StreamReply<undefined>> {
    if (json.length > EVENT_JSON_MAX) return { problem: 'too-large' }
    const event = renderEvent(json)
    if (!event) return INVALID
    const send = () => after(this.write(event), (reply) => ('problem' in reply ? reply : this.flush()))
    if (this.#isStarted) return send()
    return after(this.start(EVENT_STREAM), (reply) => ('problem' in reply ? reply : send()))
  }

  wait(ms: number): MaybePromise<StreamReply<undefined>> {
    if (!(ms >= 0)) return INVALID
    return this.#flushed(() => this.#client.call('wait', Math.min(ms, MAX_WAIT_MS)))
  }

  isGone(): MaybePromise<boolean> {
    return after(this.#client.call('isGone'), (reply) => 'problem' in reply || reply.answer)
  }

  /** The kind of the last message. Default: text. */
  get kind(): MessageKind {
    return this.#kind
  }

  receive(): MaybePromise<StreamReply<Uint8Array>> {
    return after(this.#client.call('receiveMessage'), (reply) => {
      if ('problem' in reply) return reply
      this.#kind = reply.answer.isText ? 'text' : 'binary'
      return { answer: reply.answer.bytes }
    })
  }

  /** @param kind - 1: text, 2: binary, 0: that of the last message. */
  send(bytes: Uint8Array, kind: number): MaybePromise<StreamReply<undefined>> {
    const chosen = kind === 0 ? this.#kind : KINDS[kind]
    return chosen ? this.#client.call('sendMessage', bytes.slice(), chosen) : INVALID
  }

  close(code: number, reason: Uint8Array): MaybePromise<StreamReply<undefined>> {
    return this.#client.call('closeSocket', code, reason.slice())
  }
}

/** By the number of the opcode. (RFC 6455, section 5.2) */
const KINDS: Readonly<Record<number, MessageKind | undefined>> = { 1: 'text', 2: 'binary' }

/** The size of a buffer for writes that has never held more. */
const MIN_BUFFER_BYTES = 16_384

/** Fewer bytes are copied into memory of their own: the buffer stays for the next ones. */
const COPIED_BYTES = PIECE_BYTES / 4

const INVALID = { problem: 'invalid' } as const
const DONE = { answer: undefined } as const

/** The maximum of a timer. */
const MAX_WAIT_MS = 2_147_483_647

const EVENT_STREAM = new TextEncoder().encode(
  JSON.stringify({ headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } }),
)

/** The functions by which a guest reads its request and writes its answer. */
function streamFunctions(streams: GuestStreams): Readonly<Record<string, HostFunction>> {
  const define = (run: HostFunction) => (streams.suspends ? waitsSometimes(run) : run)
  return {
    request_read: define((context: CallContext, max: bigint) => {
      const stream = streams.of(context)
      return after(stream.read(Number(max)), (reply) => {
        if ('problem' in reply) return STREAM_CODES[reply.problem]
        const at = blocksOf(context).replaceInput(reply.answer)
        stream.reuse(reply.answer)
        return at
      })
    }),
    response_start: define((context: CallContext, head: bigint) =>
      after(streams.of(context).start(blocksOf(context).view(head)), codeOf),
    ),
    response_write: define((context: CallContext, at: bigint) => {
      const blocks = blocksOf(context)
      return after(streams.of(context).write(blocks.view(at)), (reply) => {
        blocks.free(at)
        return codeOf(reply)
      })
    }),
    response_flush: define((context: CallContext) => after(streams.of(context).flush(), codeOf)),
    response_trailers: define((context: CallContext, trailers: bigint) =>
      after(streams.of(context).trailers(blocksOf(context).view(trailers)), codeOf),
    ),
    sse: define((context: CallContext, event: bigint) =>
      after(streams.of(context).event(blocksOf(context).view(event)), codeOf),
    ),
    wait: define((context: CallContext, ms: bigint) => after(streams.of(context).wait(Number(ms)), codeOf)),
    client_gone: define((context: CallContext) =>
      after(streams.of(context).isGone(), (isGone) => (isGone ? 1 : 0)),
    ),
    ws_receive: define((context: CallContext) =>
      after(streams.of(context).receive(), (reply) =>
        'problem' in reply ? STREAM_CODES[reply.problem] : blocksOf(context).replaceInput(reply.answer),
      ),
    ),
    ws_kind: (context: CallContext) => (streams.of(context).kind === 'text' ? 1 : 2),
    ws_send: define((context: CallContext, at: bigint, kind: number) => {
      const blocks = blocksOf(context)
      return after(streams.of(context).send(blocks.view(at), kind), (reply) => {
        blocks.free(at)
        return codeOf(reply)
      })
    }),
    ws_close: define((context: CallContext, code: number, reason: bigint) =>
      after(streams.of(context).close(code, blocksOf(context).view(reason)), codeOf),
    ),
  }
}

/** @returns 0, or the code of the problem. */
export function codeOf(reply: StreamReply<undefined>): bigint {
  return 'problem' in reply ? STREAM_CODES[reply.problem] : 0n
}

/** Only routes with the kernel have streams. */
export function blocksOf(context: CallContext): BlockContext {
  if (isBlockContext(context)) return context
  throw new Error('streams need the kernel runtime')
}

function isBlockContext(context: CallContext): context is BlockContext {
  return 'replaceInput' in context
}
