import { ClientGoneError, EngineClosedError } from '../errors/errors.ts'
import type { GuestService, ServiceLink } from '../guest/services/service.ts'
import type { OpenServices } from '../guest/services/services.ts'
import type { EngineStats } from '../observe/engine-stats.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { EventLoopYielder, nextTurn } from '../platform/event-loop.ts'
import { withCallHooks } from '../runtime/call-hooks.ts'
import { type Engine, isCancelRequested, PendingCall, settleWith } from './engine.ts'
import { Instances, type InstancesOptions } from './instances.ts'
import { type QueueLimits, WaitingCalls } from './queue.ts'

export interface SuspendingOptions extends InstancesOptions, QueueLimits {
  readonly services: Pick<OpenServices, 'run' | 'onEventLoop'>
  /** Maximum number of calls at a time. */
  readonly concurrent: number
}

/**
 * Many instances on the event loop, for guests with streams: a guest is suspended while it waits for its exchange. The runtime
 * must be the kernel, with a Node.js that can suspend guests.
 */
export function openSuspending(options: SuspendingOptions): Engine {
  return new SuspendingEngine(options)
}

class SuspendingEngine implements Engine, ServiceLink {
  readonly name = 'inline'
  readonly trouble = undefined
  readonly ready: Promise<void>
  readonly #options: SuspendingOptions
  readonly #instances: Instances
  readonly #waiting: WaitingCalls
  /** Runs while calls wait. */
  #timer: NodeJS.Timeout | undefined
  /** Yields for guests whose reads and writes never block, such as answers to HEAD. */
  readonly #pace = new EventLoopYielder()
  #running = 0
  #isClosed = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: SuspendingOptions) {
    const { settings, services } = options
    const guest = services.onEventLoop(settings.functions, this)
    this.#options = options
    this.#waiting = new WaitingCalls(options)
    this.#instances = new Instances({
      ...options,
      runtime: withCallHooks(options.runtime, guest.calls),
      settings: { ...settings, ...guest.settings },
    })
    this.ready = this.#instances.openFirst()
    this.ready.catch(() => undefined) // the rejection also reaches `ready`
  }

  get stats(): EngineStats {
    return { ...this.#instances.stats, waiting: this.#waiting.length }
  }

  call(exportName: string, input: ByteSource, caller: Caller): Promise<Uint8Array> | PendingCall {
    if (this.#isClosed) throw new EngineClosedError()
    if (this.#running < this.#options.concurrent) return this.#run(exportName, input, caller)
    caller.observer?.queued()
    const call = new PendingCall(exportName, input, caller)
    this.#waiting.push(call)
    this.#watch()
    return call
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.ready.catch(() => undefined)
    await this.#instances.close()
  }

  async #run(exportName: string, input: ByteSource, caller: Caller): Promise<Uint8Array> {
    this.#running++
    try {
      return await this.#instances.call(exportName, input, caller)
    } finally {
      this.#running--
      this.#next()
    }
  }

  /** Runs the first call that waits and whose client is still there. */
  #next(): void {
    for (let call = this.#waiting.shift(); call; call = this.#waiting.shift()) {
      if (call.caller.isGone) {
        call.reject(new ClientGoneError())
        continue
      }
      settleWith(call, this.#run(call.exportName, call.input, call.caller))
      return
    }
    if (this.#running === 0) this.#onIdle?.()
  }

  /** Rejects calls when they have waited too long. */
  #watch(): void {
    const { first } = this.#waiting
    const { maxWaitMs } = this.#options
    if (this.#timer || !first || maxWaitMs === undefined) return
    const late = first.madeAt + maxWaitMs
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#waiting.dropLate(performance.now())
        this.#watch()
      },
      Math.max(late - performance.now(), 0) + 1,
    )
  }

  ask({ name }: GuestService): never {
    throw new Error(`a guest on the event loop cannot wait for the service ${name} while it starts`)
  }

  /** @throws {@link ClientGoneError} if the client has gone and the guest is to be ended: V8 never frees one that stays suspended. */
  async askLater(
    caller: Caller,
    service: GuestService,
    operation: string,
    args: readonly unknown[],
  ): Promise<unknown> {
    const request = { service: service.name, operation, args }
    const reply = await this.#options.services.run(request, { caller, hasDeadline: false, signal: NEVER })
    // Yield to the event loop even if a guest polls. Not for each read or write: those usually yield anyway.
    if (isProblem(reply) || !service.isPaced(operation)) await nextTurn()
    else await this.#pace.step()
    if (isCancelRequested({ caller })) throw new ClientGoneError()
    return reply
  }
}

/** Nothing ends a guest on the event loop. */
const NEVER = new AbortController().signal

function isProblem(reply: unknown): boolean {
  return typeof reply === 'object' && reply !== null && 'problem' in reply
}
