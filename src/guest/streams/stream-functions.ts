import { thenMaybe } from '../../platform/maybe-promise.ts'
import { blocksOf, type CallContext } from '../call-context.ts'
import { type HostFunction, waitsSometimes } from '../host-functions.ts'
import type { GuestStreams } from './guest-stream.ts'
import { codeOf, type ExchangeFunction, STREAM_CODES } from './stream-imports.ts'
import { readLimit } from './stream-protocol.ts'

/** The functions by which a guest reads its request and writes its answer. */
export function exchangeFunctions(streams: GuestStreams): Readonly<Record<ExchangeFunction, HostFunction>> {
  const define = (run: HostFunction) => (streams.suspends ? waitsSometimes(run) : run)
  return {
    request_read: define((context: CallContext, max: bigint) => {
      const stream = streams.of(context)
      const blocks = blocksOf(context)
      return thenMaybe(stream.read(Number(max), readLimit(blocks.blockLimit)), (reply) => {
        if ('problem' in reply) return STREAM_CODES[reply.problem]
        const at = blocks.replaceInput(reply.answer)
        stream.reuse(reply.answer)
        return at
      })
    }),
    response_start: define((context: CallContext, head: bigint) =>
      thenMaybe(streams.of(context).start(blocksOf(context).view(head)), codeOf),
    ),
    response_write: define((context: CallContext, at: bigint) => {
      const blocks = blocksOf(context)
      return thenMaybe(streams.of(context).write(blocks.view(at)), (reply) => {
        blocks.free(at)
        return codeOf(reply)
      })
    }),
    response_flush: define((context: CallContext) => thenMaybe(streams.of(context).flush(), codeOf)),
    response_trailers: define((context: CallContext, trailers: bigint) =>
      thenMaybe(streams.of(context).trailers(blocksOf(context).view(trailers)), codeOf),
    ),
    sse: define((context: CallContext, event: bigint) =>
      thenMaybe(streams.of(context).event(blocksOf(context).view(event)), codeOf),
    ),
    wait: define((context: CallContext, ms: bigint) =>
      thenMaybe(streams.of(context).wait(Number(ms)), codeOf),
    ),
    client_gone: define((context: CallContext) =>
      thenMaybe(streams.of(context).isGone(), (isGone) => (isGone ? 1 : 0)),
    ),
    ws_receive: define((context: CallContext) =>
      thenMaybe(streams.of(context).receive(), (reply) =>
        'problem' in reply ? STREAM_CODES[reply.problem] : blocksOf(context).replaceInput(reply.answer),
      ),
    ),
    ws_kind: (context: CallContext) => (streams.of(context).kind === 'text' ? 1 : 2),
    ws_send: define((context: CallContext, at: bigint, kind: number) => {
      const blocks = blocksOf(context)
      return thenMaybe(streams.of(context).send(blocks.view(at), kind), (reply) => {
        blocks.free(at)
        return codeOf(reply)
      })
    }),
    ws_close: define((context: CallContext, code: number, reason: bigint) =>
      thenMaybe(streams.of(context).close(code, blocksOf(context).view(reason)), codeOf),
    ),
  }
}
