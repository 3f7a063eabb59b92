import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { GuestStreams } from '../streams/guest-stream.ts'
import { requestFunctions } from '../streams/request-functions.ts'
import { exchangeFunctions } from '../streams/stream-functions.ts'
import { EXCHANGE_FUNCTIONS, importsExchange, REQUEST_FUNCTIONS, STREAMS } from '../streams/stream-imports.ts'
import {
  callStream,
  type StreamOperation,
  type Operations as StreamOperations,
  type StreamReply,
} from '../streams/stream-protocol.ts'
import { defineService, type OpenDefinition, type Operation } from './define-service.ts'
import { type GuestService, importsOf } from './service.ts'

/** `written`: bytes of the answer that are sent before. */
type Operations = {
  readonly [Name in StreamOperation]: Operation<
    [written: Uint8Array | undefined, ...args: Parameters<StreamOperations[Name]>],
    MaybePromise<StreamReply<ReturnType<StreamOperations[Name]>>>
  >
}

/** The HTTP exchange of a call, piece by piece, and requests that are streamed to other servers. */
export const stream: GuestService = defineService<Operations, GuestStreams>({
  name: 'stream',
  imports: { [STREAMS]: [...EXCHANGE_FUNCTIONS, ...REQUEST_FUNCTIONS] },
  operations: {
    read: ['bytes?', 'number', 'bytes?'],
    start: ['bytes?', 'bytes'],
    write: ['bytes?', 'bytes'],
    trailers: ['bytes?', 'bytes'],
    wait: ['bytes?', 'number'],
    isGone: ['bytes?'],
    receiveMessage: ['bytes?'],
    sendMessage: ['bytes?', 'bytes', 'text'],
    closeSocket: ['bytes?', 'number', 'bytes'],
    httpOpen: ['bytes?', 'bytes'],
    httpWrite: ['bytes?', 'number', 'bytes'],
    httpResponse: ['bytes?', 'number'],
    httpRead: ['bytes?', 'number', 'number'],
    httpClose: ['bytes?', 'number'],
  },
  paced: ['read', 'write'],
  isCounted: false,
  movesBytes: true,
  /** A call for a connection may last as long as a message comes in time. */
  startsAnew: (operation, reply) =>
    operation === 'receiveMessage' && typeof reply === 'object' && reply !== null && 'answer' in reply,
  isOffered: () => true,
  waitsFor(use) {
    const names = importsOf(stream, use)
    if (names.length === 0) return undefined
    return importsExchange(names) ? EXCHANGES : REQUESTS
  },
  needsKernel: (use) => (importsOf(stream, use).length > 0 ? 'streams' : undefined),
  open: (use) => (importsOf(stream, use).length > 0 ? openStream : undefined),
  clientOf: ({ suspends, ask }) =>
    new GuestStreams({
      suspends,
      clientOf: (caller) => ({
        call: (operation, written, ...args) => ask[operation](caller, written, ...args),
      }),
    }),
  serve: (streams) => ({
    functions: { [STREAMS]: { ...exchangeFunctions(streams), ...requestFunctions(streams) } },
    calls: streams,
  }),
})

const openStream: OpenDefinition<Operations, GuestStreams> = {
  run: (operation, [written, ...args], { caller }) => callStream(operation, args, caller, written),
  forTrial: () => openStream,
}

/** What guests wait for that read bodies and write answers piece by piece. */
export const EXCHANGES = 'streams'

/** What guests wait for that only stream requests to other servers. */
export const REQUESTS = 'streams of requests'
