import { GUEST_LIMITS } from '../../platform/guest-limits.ts'
import type { CallContext } from '../call-context.ts'
import type { HostFunction, HostFunctions } from '../host-functions.ts'
import { blocksOf, codeOf, type GuestStream, PIECE_BYTES, STREAM_CODES, STREAMS } from './streams.ts'

/**
 * The host functions of the user with those by which a guest streams requests to other servers. The user's take precedence.
 * A block that a function returns belongs to the guest.
 */
export function withRequests(users: HostFunctions | undefined, stream: GuestStream): HostFunctions {
  return { ...users, [STREAMS]: { ...requestFunctions(stream), ...users?.[STREAMS] } }
}

function requestFunctions(stream: GuestStream): Readonly<Record<string, HostFunction>> {
  return {
    http_open: (context: CallContext, request: bigint) => {
      const json = blocksOf(context).view(request)
      if (json.length > GUEST_LIMITS.httpJsonBytes) return STREAM_CODES['too-large']
      const reply = stream.request('httpOpen', json.slice())
      return 'problem' in reply ? STREAM_CODES[reply.problem] : BigInt(reply.answer)
    },
    http_write: (context: CallContext, handle: bigint, at: bigint) => {
      const blocks = blocksOf(context)
      const bytes = blocks.view(at)
      if (bytes.length > PIECE_BYTES) return STREAM_CODES['too-large']
      const reply = stream.request('httpWrite', Number(handle), stream.copy(bytes))
      if ('problem' in reply) return STREAM_CODES[reply.problem]
      if (!reply.answer) return READ_FIRST
      blocks.free(at)
      return 0n
    },
    http_response: (context: CallContext, handle: bigint) => {
      const reply = stream.request('httpResponse', Number(handle))
      return 'problem' in reply ? STREAM_CODES[reply.problem] : context.store(reply.answer)
    },
    http_read: (context: CallContext, handle: bigint, max: bigint) => {
      if (!(max > 0n)) return STREAM_CODES.invalid
      const reply = stream.request('httpRead', Number(handle), Math.min(Number(max), PIECE_BYTES))
      if ('problem' in reply) return STREAM_CODES[reply.problem]
      const at = context.store(reply.answer)
      stream.reuse(reply.answer)
      return at
    },
    http_close: (_context: CallContext, handle: bigint) =>
      codeOf(stream.request('httpClose', Number(handle))),
  }
}

/** The block was not taken: the response has to be read first. */
const READ_FIRST = 1n
