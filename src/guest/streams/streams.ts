import type { Caller } from '../../observe/observe.ts'
import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { BlockContext, CallContext } from '../call-context.ts'
import { findHostFunction, type HostFunction, type HostFunctions } from '../host-functions.ts'
import type { MaybePromise } from '../store/store.ts'
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

/**
 * How the host functions of a thread or process reach the exchange of the running call. It waits for the reply. Bytes
 * change their owner with their whole buffer.
 */
export interface StreamClient {
  call<Name extends StreamOperation>(
    operation: Name,
    ...args: Parameters<Operations[Name]>
  ): StreamReply<ReturnType<Operations[Name]>>
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

/** The host functions of the user with those of streams. The user's take precedence. */
export function withStreams(users: HostFunctions | undefined, stream: GuestStream): HostFunctions {
  return { ...users, [STREAMS]: { ...streamFunctions(stream), ...users?.[STREAMS] } }
}

/** Maximum bytes of a piece. Small writes are collected up to it: sending each of them would take a turn of two threads. */
export const PIECE_BYTES = 65_536

/** Maximum bytes of the JSON of an answer's head, and of its trailers. */
export const HEAD_JSON_MAX = 131_072

/** The running call of a thread's guest: whether it has started its answer, and the bytes that it has written since the last send. */
export class GuestStream {
  readonly #client: StreamClient
  #buffer = new Uint8Array(PIECE_BYTES)
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

  read(max: number): StreamReply<Uint8Array> {
    if (!(max > 0)) return INVALID
    const failed = this.flush()
    return failed ?? this.#client.call('read', Math.min(max, PIECE_BYTES))
  }

  start(head: Uint8Array): StreamReply<undefined> {
    if (head.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    const reply = this.#client.call('start', head.slice())
    if (!('problem' in reply)) this.#isStarted = true
    return reply
  }

  /** @param bytes - Read before it returns. */
  write(bytes: Uint8Array): StreamReply<undefined> {
    if (!this.#isStarted) return { problem: 'order' }
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + PIECE_BYTES - this.#used)
      this.#buffer.set(part, this.#used)
      this.#used += part.length
      at += part.length
      const failed = this.#used === PIECE_BYTES ? this.flush() : undefined
      if (failed) return failed
    }
    return DONE
  }

  /** Sends what was written. @returns the problem, if there is one. */
  flush(): { readonly problem: StreamProblem } | undefined {
    if (this.#used === 0) return undefined
    const bytes = this.#buffer.subarray(0, this.#used)
    this.#used = 0
    this.#buffer = this.#spare ?? new Uint8Array(PIECE_BYTES)
    this.#spare = undefined
    const reply = this.#client.call('write', bytes)
    return 'problem' in reply ? reply : undefined
  }

  /** Keeps the memory of a piece that was read, for writes: memory for each would be 64 KiB of garbage. */
  reuse({ buffer }: Uint8Array): void {
    if (buffer.byteLength === PIECE_BYTES && buffer instanceof ArrayBuffer)
      this.#spare = new Uint8Array(buffer)
  }

  /** A copy, which has its buffer for itself. @param bytes - At most {@link PIECE_BYTES}. */
  copy(bytes: Uint8Array): Uint8Array {
    if (bytes.length < PIECE_BYTES / 4) return bytes.slice()
    const whole = this.#spare ?? new Uint8Array(PIECE_BYTES)
    this.#spare = undefined
    whole.set(bytes)
    return whole.subarray(0, bytes.length)
  }

  /** Runs an operation of a request to another server, which may wait. Before, it sends what was written. */
  request<Name extends RequestOperation>(
    operation: Name,
    ...args: Parameters<Operations[Name]>
  ): StreamReply<ReturnType<Operations[Name]>> {
    return this.flush() ?? this.#client.call(operation, ...args)
  }

  trailers(json: Uint8Array): StreamReply<undefined> {
    if (json.length > HEAD_JSON_MAX) return { problem: 'too-large' }
    if (!this.#isStarted) return { problem: 'order' }
    return this.flush() ?? this.#client.call('trailers', json.slice())
  }

  /** Sends an event at once. The first one starts the answer, if the guest has not. */
  event(json: Uint8Array): StreamReply<undefined> {
    if (json.length > EVENT_JSON_MAX) return { problem: 'too-large' }
    const event = renderEvent(json)
    if (!event) return INVALID
    if (!this.#isStarted) {
      const started = this.start(EVENT_STREAM)
      if ('problem' in started) return started
    }
    const written = this.write(event)
    return 'problem' in written ? written : (this.flush() ?? DONE)
  }

  wait(ms: number): StreamReply<undefined> {
    if (!(ms >= 0)) return INVALID
    return this.flush() ?? this.#client.call('wait', Math.min(ms, MAX_WAIT_MS))
  }

  isGone(): boolean {
    const reply = this.#client.call('isGone')
    return 'problem' in reply || reply.answer
  }

  /** The kind of the last message. Default: text. */
  get kind(): MessageKind {
    return this.#kind
  }

  receive(): StreamReply<Uint8Array> {
    const reply = this.#client.call('receiveMessage')
    if ('problem' in reply) return reply
    this.#kind = reply.answer.isText ? 'text' : 'binary'
    return { answer: reply.answer.bytes }
  }

  /** @param kind - 1: text, 2: binary, 0: that of the last message. */
  send(bytes: Uint8Array, kind: number): StreamReply<undefined> {
    const chosen = kind === 0 ? this.#kind : KINDS[kind]
    return chosen ? this.#client.call('sendMessage', bytes.slice(), chosen) : INVALID
  }

  close(code: number, reason: Uint8Array): StreamReply<undefined> {
    return this.#client.call('closeSocket', code, reason.slice())
  }
}

/** By the number of the opcode. (RFC 6455, section 5.2) */
const KINDS: Readonly<Record<number, MessageKind | undefined>> = { 1: 'text', 2: 'binary' }

const INVALID = { problem: 'invalid' } as const
const DONE = { answer: undefined } as const

/** The maximum of a timer. */
const MAX_WAIT_MS = 2_147_483_647

const EVENT_STREAM = new TextEncoder().encode(
  JSON.stringify({ headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } }),
)

/** The functions by which a guest reads its request and writes its answer. */
function streamFunctions(stream: GuestStream): Readonly<Record<string, HostFunction>> {
  return {
    request_read: (context: CallContext, max: bigint) => {
      const reply = stream.read(Number(max))
      if ('problem' in reply) return STREAM_CODES[reply.problem]
      const at = blocksOf(context).replaceInput(reply.answer)
      stream.reuse(reply.answer)
      return at
    },
    response_start: (context: CallContext, head: bigint) =>
      codeOf(stream.start(blocksOf(context).view(head))),
    response_write: (context: CallContext, at: bigint) => {
      const blocks = blocksOf(context)
      const reply = stream.write(blocks.view(at))
      blocks.free(at)
      return codeOf(reply)
    },
    response_flush: () => codeOf(stream.flush() ?? DONE),
    response_trailers: (context: CallContext, trailers: bigint) =>
      codeOf(stream.trailers(blocksOf(context).view(trailers))),
    sse: (context: CallContext, event: bigint) => codeOf(stream.event(blocksOf(context).view(event))),
    wait: (_context: CallContext, ms: bigint) => codeOf(stream.wait(Number(ms))),
    client_gone: () => (stream.isGone() ? 1 : 0),
    ws_receive: (context: CallContext) => {
      const reply = stream.receive()
      return 'problem' in reply ? STREAM_CODES[reply.problem] : blocksOf(context).replaceInput(reply.answer)
    },
    ws_kind: () => (stream.kind === 'text' ? 1 : 2),
    ws_send: (context: CallContext, at: bigint, kind: number) => {
      const blocks = blocksOf(context)
      const reply = stream.send(blocks.view(at), kind)
      blocks.free(at)
      return codeOf(reply)
    },
    ws_close: (context: CallContext, code: number, reason: bigint) =>
      codeOf(stream.close(code, blocksOf(context).view(reason))),
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
