/** A result, or a promise of one that is not there yet. */
export type MaybePromise<T> = T | Promise<T>

/**
 * Continues with a reply of the host. A thread that waits for the host has it at once; where the guest is suspended, it comes
 * later.
 */
export function thenMaybe<Reply, Next>(
  reply: MaybePromise<Reply>,
  next: (reply: Reply) => MaybePromise<Next>,
): MaybePromise<Next> {
  return reply instanceof Promise ? reply.then(next) : next(reply)
}
