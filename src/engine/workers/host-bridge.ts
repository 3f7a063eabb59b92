import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { GuestService, ServiceLink, ServiceRequest } from '../../guest/services/service.ts'
import { findService, type OpenServices } from '../../guest/services/services.ts'
import type { Caller } from '../../observe/observe.ts'
import { type MaybePromise, thenMaybe } from '../../platform/maybe-promise.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { isCancelRequested } from '../engine.ts'
import type { HostAnswer, SuspendedAnswer, SuspendedRequest } from './protocol.ts'
import type { ThreadState } from './thread-state.ts'

/** The main thread's end of the bridge: it answers, and never waits for a worker. */
export class HostBridge {
  readonly #services: Pick<OpenServices, 'run'>

  readonly #hasDeadline: boolean

  /** @param hasDeadline - Whether calls have a deadline. */
  constructor(services: Pick<OpenServices, 'run'>, hasDeadline: boolean) {
    this.#services = services
    this.#hasDeadline = hasDeadline
  }

  /**
   * Answers the requests of one thread.
   *
   * @param callerOf - Returns the caller of a call by its number.
   * @param onAsked - Called before anything is answered.
   */
  serve(
    port: MessagePort,
    threadState: ThreadState,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    const reply = (answer: HostAnswer, { service }: ServiceRequest) => {
      if (signal.aborted) return
      port.postMessage(answer, buffersOfReply(service, answer))
      threadState.hostAnswered()
    }
    port.on('message', (request: ServiceRequest) => {
      onAsked()
      const running = threadState.running()
      const caller = running && callerOf(running.call)
      void thenMaybe(this.answer(request, caller, signal), (answer) => reply(answer, request))
    })
    port.unref()
  }

  /**
   * Answers the requests of the suspended guests of one thread. A guest that continues after its client has gone, and is to be
   * ended then, gets no answer.
   *
   * @param callerOf - See {@link serve}.
   * @param onAsked - See {@link serve}.
   */
  serveSuspended(
    port: MessagePort,
    threadState: ThreadState,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    const reply = (answer: HostAnswer, service: string, call: number, caller: Caller | undefined) => {
      if (signal.aborted) return
      const isEnded = !caller || isCancelRequested({ caller })
      const message: SuspendedAnswer = { call, answer: isEnded ? undefined : answer }
      port.postMessage(message, isEnded ? [] : buffersOfReply(service, answer))
      threadState.replied()
    }
    port.on('message', ({ call, ...request }: SuspendedRequest) => {
      onAsked()
      const caller = callerOf(call)
      void thenMaybe(this.answer(request, caller, signal, false), (answer) =>
        reply(answer, request.service, call, caller),
      )
    })
    port.unref()
  }

  /**
   * Answers at once if the operation does: a thread that has its answer runs while this one writes to a client.
   *
   * @param caller - The caller of the running call; undefined while the guest starts.
   * @param signal - See `ServiceCall`.
   * @param hasDeadline - Whether a deadline ends the request. Default: that of calls does.
   */
  answer(
    request: ServiceRequest,
    caller: Caller | undefined,
    signal: AbortSignal,
    hasDeadline = this.#hasDeadline,
  ): MaybePromise<HostAnswer> {
    try {
      const value = this.#services.run(request, { caller, signal, hasDeadline })
      return value instanceof Promise ? value.then((later) => ({ value: later }), toHostFailure) : { value }
    } catch (error) {
      return toHostFailure(error)
    }
  }
}

function toHostFailure(error: unknown): HostAnswer {
  return { failure: error instanceof Error ? error.message : String(error) }
}

/** The worker's end of the bridge to services of the main thread. `ask` blocks the thread. */
export class HostClient implements ServiceLink {
  readonly #port: MessagePort
  readonly #threadState: ThreadState

  constructor(port: MessagePort, threadState: ThreadState) {
    this.#port = port
    this.#threadState = threadState
  }

  /**
   * Waits without a limit: the main thread terminates this thread at the deadline, and accounts for times when it was
   * blocked itself.
   */
  ask(service: GuestService, operation: string, args: readonly unknown[]): unknown {
    const request = { service: service.name, operation, args }
    return unwrapHostAnswer(
      service.isCounted ? this.#askCounted(service, request) : this.#askUncounted(service, request),
    )
  }

  #askCounted(service: GuestService, request: ServiceRequest): HostAnswer {
    this.#threadState.beginAsking(monotonicMs())
    const answer = this.#exchange(request, buffersOfRequest(service, request.args))
    this.#threadState.endAsking()
    return answer
  }

  #askUncounted(service: GuestService, request: ServiceRequest): HostAnswer {
    this.#threadState.beginPause(monotonicMs())
    const answer = this.#exchange(request, buffersOfRequest(service, request.args))
    this.#threadState.endPause(monotonicMs(), startsAnew(service, request.operation, answer))
    return answer
  }

  #exchange(request: ServiceRequest, moved: ArrayBuffer[]): HostAnswer {
    this.#port.postMessage(request, moved)
    for (;;) {
      const received = receiveMessageOnPort(this.#port)
      if (received) return received.message
      this.#threadState.waitForHost()
    }
  }
}

/** Whether the time limit of the call begins anew with an answer. */
export function startsAnew(
  service: GuestService | undefined,
  operation: string,
  answer: HostAnswer,
): boolean {
  return service !== undefined && 'value' in answer && service.startsAnew(operation, answer.value)
}

/** @throws Error with the message of the host if the operation failed. */
export function unwrapHostAnswer(answer: HostAnswer): unknown {
  if ('failure' in answer) throw new Error(answer.failure)
  return answer.value
}

/** The buffers that are moved with a request. */
export function buffersOfRequest({ movesBytes }: GuestService, args: readonly unknown[]): ArrayBuffer[] {
  return movesBytes ? args.flatMap(buffersOf) : []
}

function buffersOfReply(service: string, answer: HostAnswer): ArrayBuffer[] {
  if (!('value' in answer) || typeof answer.value !== 'object' || answer.value === null) return []
  return 'answer' in answer.value && findService(service)?.movesBytes ? buffersOf(answer.value.answer) : []
}

function buffersOf(value: unknown): ArrayBuffer[] {
  const isMoved = value instanceof Uint8Array && value.length > 0 && value.buffer instanceof ArrayBuffer
  return isMoved ? [value.buffer as ArrayBuffer] : []
}
