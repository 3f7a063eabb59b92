import { ClientGoneError, EngineClosedError, QueueFullError, QueueSlowError } from '../errors/errors.ts'
import type { GuestService, ServiceLink } from '../guest/services/service.ts'
import type { OpenServices } from '../guest/services/services.ts'
import type { EngineStats } from '../observe/metrics.ts'
import type { Caller } from '../observe/observe.ts'
import { nextTurn, Pace } from '../platform/async-work.ts'
import type { CopiedBytes } from '../platform/pieces.ts'
import { withCallHooks } from '../runtime/call-hooks.ts'
import { type Engine, PendingCall } from './engine.ts'
import { type GuestPool, openInstancePool, type PoolOptions } from './instance-pool.ts'
import { isGone, isToBeEnded } from './workers/runner.ts'

interface SuspendingOptions extends PoolOptions {
  readonly services: Pick<OpenServices, 'run' | 'onEventLoop'>
  /** Maximum number of calls at a time. */
  readonly concurrent: number
  /** Maximum number of calls that wait. */
  readonly maxQueue: number
  /** Maximum time that a call waits. */
  readonly maxWaitMs: number
}

/**
 * Many instances on the event loop, for guests with streams: a guest is suspended while it waits for its exchange. A guest that
 * does not return cannot be stopped. The runtime must be the kernel, with a Node.js that can suspend guests.
 */
export function openSuspending(options: SuspendingOptions): Engine {
  return new SuspendingEngine(options)
}

class SuspendingEngine implements Engine, ServiceLink {
  readonly name = 'inline'
  readonly trouble = undefined
  readonly ready: Promise<void>
  readonly #options: SuspendingOptions
  readonly #pool: GuestPool
  /** Queued calls and their timeout timers. */
  readonly #waiting = new Map<PendingCall, NodeJS.Timeout>()
  /** Yields for guests whose reads and writes never block, such as answers to HEAD. */
  readonly #pace = new Pace()
  #running = 0
  #isClosed = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: SuspendingOptions) {
    const { settings, services } = options
    const guest = services.onEventLoop(settings.functions, this)
    this.#options = options
    this.#pool = openInstancePool({
      ...options,
      runtime: withCallHooks(options.runtime, guest.calls),
      settings: { ...settings, ...guest.settings },
    })
    this.ready = this.#pool.ready
  }

  get stats(): EngineStats {
    return { ...this.#pool.stats, waiting: this.#waiting.size }
  }

  call(exportName: string, input: CopiedBytes, caller: Caller): Promise<Uint8Array> | PendingCall {
    const { concurrent, maxQueue, maxWaitMs } = this.#options
    if (this.#isClosed) throw new EngineClosedError()
    if (this.#running < concurrent) return this.#run(exportName, input, caller)
    caller.observer?.queued()
    if (this.#waiting.size >= maxQueue) throw new QueueFullError(`${maxQueue} calls`)
    const call = new PendingCall(exportName, input, caller)
    const onLate = () => {
      this.#waiting.delete(call)
      call.reject(new QueueSlowError(maxWaitMs))
    }
    this.#waiting.set(call, setTimeout(onLate, maxWaitMs))
    return call
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.#pool.close()
  }

  async #run(exportName: string, input: CopiedBytes, caller: Caller): Promise<Uint8Array> {
    this.#running++
    try {
      return await this.#pool.call(exportName, input, caller)
    } finally {
      this.#running--
      this.#next()
    }
  }

  /** Runs the first call that waits and whose client is still there. */
  #next(): void {
    for (const [call, timer] of this.#waiting) {
      clearTimeout(timer)
      this.#waiting.delete(call)
      if (isGone(call)) {
        call.reject(new ClientGoneError())
        continue
      }
      this.#run(call.exportName, call.input, call.caller).then(
        (output) => call.resolve(output),
        (error) => call.reject(error),
      )
      return
    }
    if (this.#running === 0) this.#onIdle?.()
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
    if (isToBeEnded({ caller })) throw new ClientGoneError()
    return reply
  }
}

/** Nothing ends a guest on the event loop. */
const NEVER = new AbortController().signal

function isProblem(reply: unknown): boolean {
  return typeof reply === 'object' && reply !== null && 'problem' in reply
}
