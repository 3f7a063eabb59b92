import type { MessagePort } from 'node:worker_threads'
import type { Caller } from '../../runtime/runtime.ts'
import type { HostAnswer, HostRequest } from './protocol.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** On whose behalf the host is asked. */
export interface HostCall {
  /** How long the answer may take: what is left of the call's deadline, and a little more, so that the deadline comes first. */
  readonly timeLeftMs: number
  /** Whose call the guest runs; undefined while it starts. */
  readonly caller: Caller | undefined
  /** Ends when the thread does. */
  readonly signal: AbortSignal
}

/** Something that guests ask the host for, by the name of the operation. */
export interface HostOperations {
  readonly [operation: string]: (args: readonly unknown[], call: HostCall) => unknown
}

/** The main thread's end of the bridge: it answers, and never waits for a worker. */
export class HostBridge {
  readonly #operations: HostOperations
  readonly #waitMs: number

  /** @param waitMs - How long a guest waits for the host, from when it has begun: the deadline of a call, and a little more. */
  constructor(operations: HostOperations, waitMs: number) {
    this.#operations = operations
    this.#waitMs = waitMs
  }

  /**
   * Answers what one thread asks.
   *
   * @param callerOf - Who made the call of a number.
   */
  serve(
    port: MessagePort,
    stamp: Stamp,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
  ): void {
    port.on('message', async (request: HostRequest) => {
      const running = stamp.running()
      const timeLeftMs = this.#waitMs - (running ? monotonicMs() - running.since : 0)
      const caller = running && callerOf(running.call)
      const answer = await this.#answer(request, { timeLeftMs, caller, signal })
      if (signal.aborted) return
      port.postMessage(answer)
      stamp.hostAnswered()
    })
    port.unref()
  }

  async #answer({ id, operation, args }: HostRequest, call: HostCall): Promise<HostAnswer> {
    try {
      return { id, value: await this.#operations[operation]?.(args, call) }
    } catch (error) {
      return { id, failure: error instanceof Error ? error.message : String(error) }
    }
  }
}
