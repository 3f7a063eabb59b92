import { type CallFailure, fromFailure, toFailure } from '../../errors/call-failure.ts'

/** Messages both ways: the IPC channel of a child process, or another pair of ports. */
export interface Channel {
  send(message: LinkMessage): void
  /** Called with each message of the other end. */
  onMessage(listener: (message: LinkMessage) => void): void
}

/** Requests by name, with their content and answer. Both are plain data. */
export type Requests = { readonly [name: string]: readonly [sent: unknown, answer: unknown] }

/** The functions that answer requests. @see {@link Link.ask} for `signal`. */
export type Answers<Asked extends Requests> = {
  readonly [Name in keyof Asked]: (sent: Asked[Name][0], signal: AbortSignal) => Answer<Asked[Name][1]>
}

type Answer<Value> = Value | Promise<Value>

/** Asks the other end of a channel. */
export interface Link<Asked extends Requests> {
  /**
   * @param signal - Aborts the signal that the other end sees. The answer is still awaited.
   * @throws the error that the other end has thrown, with its class; the reason of {@link Link.close}.
   */
  ask<Name extends keyof Asked & string>(
    name: Name,
    sent: Asked[Name][0],
    signal?: AbortSignal,
  ): Promise<Asked[Name][1]>
  /** Call it when the other end is gone: ends pending and later requests. */
  close(reason: Error): void
}

/** The only messages. */
export type LinkMessage =
  | { readonly ask: string; readonly id: number; readonly sent: unknown }
  | { readonly stop: number }
  | { readonly answered: number; readonly value: unknown }
  | { readonly answered: number; readonly failure: CallFailure }

/** Opens an end of a channel, which asks and answers. Neither end trusts the order of answers. */
export function openLink<Asked extends Requests, Answered extends Requests>(
  channel: Channel,
  answers: Answers<Answered>,
): Link<Asked> {
  const asked = new Map<number, { resolve(value: unknown): void; reject(reason: Error): void }>()
  const running = new Map<number, AbortController>()
  let last = 0
  let closed: Error | undefined

  const answer = async (name: string, id: number, sent: unknown) => {
    const stop = new AbortController()
    running.set(id, stop)
    try {
      channel.send({ answered: id, value: await answers[name]?.(sent, stop.signal) })
    } catch (error) {
      channel.send({ answered: id, failure: toFailure(error) })
    } finally {
      running.delete(id)
    }
  }

  channel.onMessage((message) => {
    if ('ask' in message) void answer(message.ask, message.id, message.sent)
    else if ('stop' in message) running.get(message.stop)?.abort()
    else {
      const waiting = asked.get(message.answered)
      asked.delete(message.answered)
      if ('failure' in message) waiting?.reject(fromFailure(message.failure))
      else waiting?.resolve(message.value)
    }
  })

  return {
    async ask<Name extends keyof Asked & string>(name: Name, sent: Asked[Name][0], signal?: AbortSignal) {
      if (closed) throw closed
      const id = ++last
      const answered = new Promise<unknown>((resolve, reject) => asked.set(id, { resolve, reject }))
      const stop = () => channel.send({ stop: id })
      try {
        channel.send({ ask: name, id, sent })
        if (signal?.aborted) stop()
        else signal?.addEventListener('abort', stop)
        return (await answered) as Asked[Name][1]
      } finally {
        asked.delete(id)
        signal?.removeEventListener('abort', stop)
      }
    },
    close(reason) {
      closed = reason
      for (const { reject } of asked.values()) reject(reason)
      asked.clear()
      for (const stop of running.values()) stop.abort(reason)
    },
  }
}
