import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { ClientGoneError, DeadlineError } from '../../errors/errors.ts'
import type { GuestService, ServiceLink } from '../../guest/services/service.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { creditedMs } from '../runners/runner.ts'
import type { AnswerWriter } from './answer-writer.ts'
import { buffersOfRequest, startsAnew, unwrapHostAnswer } from './host-bridge.ts'
import type { SuspendedAnswer, SuspendedRequest } from './protocol.ts'
import type { ThreadState } from './thread-state.ts'

/** A call of a thread that has several: it runs in turns, between which its guest is suspended. */
export class SuspendedCall implements Caller {
  readonly number: number
  readonly exportName: string
  readonly log: Log
  /** The caller, for host functions. */
  readonly host: Pick<Caller, 'log'>
  readonly writer: AnswerWriter
  /** Guest time of its turns that are over, in ms. */
  ranMs = 0
  /** The start of its current turn, or of its current wait. */
  since = 0
  /** The reason that its guest must end. */
  endReason: Error | undefined

  constructor(number: number, exportName: string, writer: AnswerWriter) {
    this.number = number
    this.exportName = exportName
    this.log = writer.log
    this.host = { log: writer.log }
    this.writer = writer
    writer.begin(number)
  }
}

/** The owner of a thread's turns. */
export interface SuspendedCallsOwner {
  /** No guest runs any more. The guest of the last turn may not be suspended yet: continue in another job. */
  free(): void
  /** An answer has come, or several. */
  answered(): void
}

/** A suspended guest. */
interface SuspendedGuest {
  readonly call: SuspendedCall
  readonly service: GuestService
  readonly operation: string
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

/** The guests of one thread, of which one runs at a time. The others are suspended until the host has answered. */
export class SuspendedCalls implements ServiceLink {
  readonly #port: MessagePort
  readonly #threadState: ThreadState
  readonly #blocking: ServiceLink
  readonly #timeoutMs: number
  readonly #suspended = new Map<number, SuspendedGuest>()
  readonly #answers: SuspendedAnswer[] = []
  #owner: SuspendedCallsOwner | undefined
  #running: SuspendedCall | undefined

  /**
   * @param blocking - For services for which the whole thread waits.
   * @param timeoutMs - Maximum guest time of a call.
   */
  constructor(port: MessagePort, threadState: ThreadState, blocking: ServiceLink, timeoutMs: number) {
    this.#port = port
    this.#blocking = blocking
    this.#timeoutMs = timeoutMs
    this.#threadState = threadState
  }

  /** Begins to receive answers. */
  open(owner: SuspendedCallsOwner): void {
    this.#owner = owner
    this.#port.on('message', (answer: SuspendedAnswer) => {
      this.#answers.push(answer)
      owner.answered()
    })
  }

  /** Whether no guest runs. Only then the next one may begin. */
  get isFree(): boolean {
    return this.#running === undefined
  }

  begin(call: SuspendedCall): void {
    this.#running = call
    call.since = monotonicMs()
    this.#threadState.beginTurn(call.number, call.since, call.ranMs)
  }

  /** Lets a guest continue that has its answer. @returns false if there is none. */
  next(): boolean {
    const reply = this.#answers.shift() ?? this.#receive()
    if (!reply) return false
    this.#threadState.tookReply()
    const guest = this.#suspended.get(reply.call)
    if (!guest) return true
    this.#resume(guest, reply)
    return true
  }

  /** Guest time of a call so far, in ms. */
  ranMs(call: SuspendedCall): number {
    return call.ranMs + (this.#running === call ? monotonicMs() - call.since : 0)
  }

  /** A call is over. */
  end(call: SuspendedCall): void {
    this.#suspended.delete(call.number)
    if (this.#running === call) this.#leave()
  }

  ask(service: GuestService, operation: string, args: readonly unknown[]): unknown {
    return this.#blocking.ask(service, operation, args)
  }

  askLater(
    caller: Caller,
    service: GuestService,
    operation: string,
    args: readonly unknown[],
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (!(caller instanceof SuspendedCall) || this.#running !== caller)
        throw new Error('the call does not run')
      if (caller.endReason) throw caller.endReason
      const request: SuspendedRequest = { call: caller.number, service: service.name, operation, args }
      this.#port.postMessage(request, buffersOfRequest(service, args))
      this.#suspended.set(caller.number, { call: caller, service, operation, resolve, reject })
      this.#pause(caller)
    })
  }

  #pause(call: SuspendedCall): void {
    const now = monotonicMs()
    call.ranMs += now - call.since
    call.since = now
    this.#leave()
  }

  #leave(): void {
    this.#running = undefined
    this.#threadState.end()
    this.#owner?.free()
  }

  /** A message that the event loop has not brought yet. */
  #receive(): SuspendedAnswer | undefined {
    return this.#threadState.hasReplies ? receiveMessageOnPort(this.#port)?.message : undefined
  }

  /**
   * A guest that must end gets an exception, which ends it: V8 never frees one that stays suspended. If it catches that, it runs
   * like any other, until the main thread terminates this thread.
   */
  #resume({ call, service, operation, resolve, reject }: SuspendedGuest, { answer }: SuspendedAnswer): void {
    this.#suspended.delete(call.number)
    const waitedMs = monotonicMs() - call.since
    const isAnew = answer && startsAnew(service, operation, answer)
    call.ranMs = isAnew ? 0 : call.ranMs + waitedMs - creditedMs(waitedMs)
    if (call.ranMs >= this.#timeoutMs) call.endReason = new DeadlineError(call.exportName, this.#timeoutMs)
    else if (!answer) call.endReason = new ClientGoneError()
    this.begin(call)
    try {
      if (call.endReason || !answer) throw call.endReason
      resolve(unwrapHostAnswer(answer))
    } catch (error) {
      reject(error)
    }
  }
}
