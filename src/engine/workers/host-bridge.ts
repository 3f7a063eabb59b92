import type { MessagePort } from 'node:worker_threads'
import type { Caller } from '../../observe/observe.ts'
import type { HostAnswer, HostRequest } from './protocol.ts'
import type { Stamp } from './stamp.ts'

/** On whose behalf the host is asked. */
export interface HostCall {
  /** Whose call the guest runs; undefined while it starts. */
  readonly caller: Caller | undefined
  /** Whether something ends the call if it takes too long. */
  readonly hasDeadline: boolean
  /** Ends when the thread does, as it does at the call's deadline. */
  readonly signal: AbortSignal
}

/** Something that guests ask the host for, by the name of the operation. */
export interface HostOperations {
  readonly [operation: string]: (args: readonly unknown[], call: HostCall) => unknown
}

/** The main thread's end of the bridge: it answers, and never waits for a worker. */
export class HostBridge {
  readonly #operations: HostOperations

  readonly #hasDeadline: boolean

  /** @param hasDeadline - Of the calls whose guests ask. */
  constructor(operations: HostOperations, hasDeadline: boolean) {
    this.#operations = operations
    this.#hasDeadline = hasDeadline
  }

  /**
   * Answers what one thread asks.
   *
   * @param callerOf - Who made the call of a number.
   * @param onAsked - Called before anything is answered.
   */
  serve(
    port: MessagePort,
    stamp: Stamp,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    port.on('message', async (request: HostRequest) => {
      onAsked()
      const running = stamp.running()
      const caller = running && callerOf(running.call)
      const answer = await this.answer(request, caller, signal)
      if (signal.aborted) return
      port.postMessage(answer)
      stamp.hostAnswered()
    })
    port.unref()
  }

  /** @param caller - Whose call the guest runs that asks; undefined while it starts. @param signal - See {@link HostCall}. */
  async answer(
    { operation, args }: HostRequest,
    caller: Caller | undefined,
    signal: AbortSignal,
  ): Promise<HostAnswer> {
    try {
      const run = Object.hasOwn(this.#operations, operation) ? this.#operations[operation] : undefined
      return { value: await run?.(args, { caller, signal, hasDeadline: this.#hasDeadline }) }
    } catch (error) {
      return { failure: error instanceof Error ? error.message : String(error) }
    }
  }
}
