import type { MaybePromise } from '../store/store.ts'

/**
 * Continues with a reply of the host. A thread that waits for the host has it at once; where the guest is suspended, it comes
 * later.
 */
export function after<Reply, Next>(
  reply: MaybePromise<Reply>,
  next: (reply: Reply) => MaybePromise<Next>,
): MaybePromise<Next> {
  return reply instanceof Promise ? reply.then(next) : next(reply)
}
