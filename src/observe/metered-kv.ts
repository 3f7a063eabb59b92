import type { KvClient, KvOperation, KvProblem, KvReply } from '../guest/store/kv.ts'
import type { MaybePromise } from '../guest/store/store.ts'
import type { Counts } from './counts.ts'

const OPERATIONS = [
  'get',
  'set',
  'delete',
  'list',
  'compareAndSwap',
] as const satisfies readonly KvOperation[]
const RESULTS = [
  'ok',
  'forbidden',
  'invalid',
  'too-large',
  'full',
  'unavailable',
] as const satisfies readonly ('ok' | KvProblem)[]

/** Operation and result, with a space between them. */
export type KvResult = `${KvOperation} ${'ok' | KvProblem}`

export const KV_RESULTS: readonly KvResult[] = OPERATIONS.flatMap((operation) =>
  RESULTS.map((result) => `${operation} ${result}` as const),
)

/** A store as a route's guests use it, with what they do counted. */
export function meterKv(client: KvClient, counts: Counts<KvResult>): KvClient {
  return {
    sync: client.sync,
    call(operation, ...args) {
      const reply = client.call(operation, ...args)
      const count = (reply: KvReply<unknown>) => {
        counts.count(`${operation} ${'problem' in reply ? reply.problem : 'ok'}`)
      }
      return withCount(reply, count)
    },
  }
}

function withCount<Reply extends KvReply<unknown>>(
  reply: MaybePromise<Reply>,
  count: (reply: Reply) => void,
): MaybePromise<Reply> {
  if (reply instanceof Promise) {
    return reply.then((settled) => {
      count(settled)
      return settled
    })
  }
  count(reply)
  return reply
}
