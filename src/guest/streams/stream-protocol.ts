import type { Caller } from '../../observe/observe.ts'
import { type MaybePromise, thenMaybe } from '../../platform/maybe-promise.ts'

/** Maximum bytes of a piece, and the size of its memory. A round trip between threads costs more than copying 64 KiB. */
export const PIECE_BYTES = 262_144

/** Maximum bytes of a piece that a guest reads. What it passes on then fits into one piece, even with a line that was unfinished. */
export const READ_BYTES = 245_760

/**
 * Maximum bytes of a piece for a guest whose blocks have this limit. Released blocks are used again only for others of
 * about their size: those of all sizes of pieces take some 12 times the largest, and those of what is written as much.
 */
export function readLimit(blockLimit: number): number {
  return Math.max(1, Math.min(READ_BYTES, Math.floor(blockLimit / 32)))
}

/** The HTTP exchange of a call as its guest sees it. It lives on the main thread. */
interface StreamOperations {
  /**
   * The next piece of the request's body.
   *
   * @param max - Maximum bytes.
   * @param memory - Of an earlier piece, to be used again: new memory is filled with zeros, and is garbage soon.
   * @returns no bytes at the end.
   */
  read(max: number, memory?: Uint8Array): Uint8Array
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
interface RequestOperations {
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

export type Operations = StreamOperations & RequestOperations

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
  /**
   * @param written - Bytes of the answer that are sent before. They come along: each request takes a turn of two threads.
   * @returns a promise only if the host {@link StreamHost.suspends}.
   */
  call<Name extends StreamOperation>(
    operation: Name,
    written: Uint8Array | undefined,
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
 * @param written - See {@link StreamClient.call}. The operation does not run if they cannot be sent.
 */
export function callStream<Name extends StreamOperation>(
  operation: Name,
  args: Parameters<Operations[Name]>,
  caller: Caller | undefined,
  written?: Uint8Array,
): MaybePromise<StreamReply<ReturnType<Operations[Name]>>> {
  if (!caller) return UNAVAILABLE
  if (written) {
    return thenMaybe(callStream('write', [written], caller), (reply) =>
      'problem' in reply ? reply : callStream(operation, args, caller),
    )
  }
  const exchange: Partial<Answering<StreamOperation>> | undefined = exchangeOf(caller)
  const requests: Partial<Answering<StreamOperation>> | undefined = callRequests.get(caller)
  const end = exchange?.[operation] ? exchange : requests
  return end?.[operation]?.(...args) ?? UNAVAILABLE
}

const UNAVAILABLE = { problem: 'unavailable' } as const

function exchangeOf({ host }: Caller): StreamExchange | undefined {
  return typeof host === 'object' && host !== null ? exchanges.get(host) : undefined
}
