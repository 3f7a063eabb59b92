import { GUEST_LIMITS } from '../../platform/guest-limits.ts'
import { thenMaybe } from '../../platform/maybe-promise.ts'
import { blocksOf, type CallContext } from '../call-context.ts'
import { type HostFunction, waitsSometimes } from '../host-functions.ts'
import type { GuestStreams } from './guest-stream.ts'
import { codeOf, type RequestFunction, STREAM_CODES } from './stream-imports.ts'
import { PIECE_BYTES, readLimit } from './stream-protocol.ts'

/** The functions by which a guest streams requests to other servers. A block that a function returns belongs to the guest. */
export function requestFunctions(streams: GuestStreams): Readonly<Record<RequestFunction, HostFunction>> {
  const define = (run: HostFunction) => (streams.suspends ? waitsSometimes(run) : run)
  return {
    http_open: define((context: CallContext, request: bigint) => {
      const json = blocksOf(context).view(request)
      if (json.length > GUEST_LIMITS.httpJsonBytes) return STREAM_CODES['too-large']
      return thenMaybe(streams.of(context).request('httpOpen', json.slice()), (reply) =>
        'problem' in reply ? STREAM_CODES[reply.problem] : BigInt(reply.answer),
      )
    }),
    http_write: define((context: CallContext, handle: bigint, at: bigint) => {
      const blocks = blocksOf(context)
      const bytes = blocks.view(at)
      if (bytes.length > PIECE_BYTES) return STREAM_CODES['too-large']
      const stream = streams.of(context)
      return thenMaybe(stream.request('httpWrite', Number(handle), stream.copy(bytes)), (reply) => {
        if ('problem' in reply) return STREAM_CODES[reply.problem]
        if (!reply.answer) return READ_FIRST
        blocks.free(at)
        return 0n
      })
    }),
    http_response: define((context: CallContext, handle: bigint) =>
      thenMaybe(streams.of(context).request('httpResponse', Number(handle)), (reply) =>
        'problem' in reply ? STREAM_CODES[reply.problem] : context.store(reply.answer),
      ),
    ),
    http_read: define((context: CallContext, handle: bigint, max: bigint) => {
      if (!(max > 0n)) return STREAM_CODES.invalid
      const stream = streams.of(context)
      const size = Math.min(Number(max), readLimit(blocksOf(context).blockLimit))
      return thenMaybe(stream.request('httpRead', Number(handle), size), (reply) => {
        if ('problem' in reply) return STREAM_CODES[reply.problem]
        const at = context.store(reply.answer)
        stream.reuse(reply.answer)
        return at
      })
    }),
    http_close: define((context: CallContext, handle: bigint) =>
      thenMaybe(streams.of(context).request('httpClose', Number(handle)), codeOf),
    ),
  }
}

/** The block was not taken: the response has to be read first. */
const READ_FIRST = 1n
