import { AsyncLocalStorage } from 'node:async_hooks'

/** The calls of a plug-in: one at a time, in the order in which they were made. */
export class CallQueue {
  readonly #canWait: boolean
  readonly #waiting: QueuedCall[] = []
  #running: QueuedCall | undefined

  /** @param canWait - Whether others can be made while a call runs. If not, these come from its own host functions. */
  constructor(canWait: boolean) {
    this.#canWait = canWait
  }

  get isActive(): boolean {
    return this.#running !== undefined
  }

  /**
   * Begins a call, which `end` ends.
   *
   * @returns a promise for its turn, if other calls are before it.
   * @throws Error if the call would wait for itself: a host function of the running call made it.
   */
  begin(): Promise<void> | undefined {
    const outer = innermost.getStore()
    if (!this.#running) {
      this.#running = new QueuedCall(this, outer)
      return undefined
    }
    if (!this.#canWait || (outer && this.#waitsFor(outer))) throw new Error('plugin is not reentrant')
    return new Promise((start) => this.#waiting.push(new QueuedCall(this, outer, start)))
  }

  end(): void {
    const ended = this.#running
    this.#running = this.#waiting.shift()
    this.#running?.start?.()
    if (!ended) return
    ended.outer?.inner?.delete(ended)
    if (hosting.delete(ended) && hosting.size === 0) innermost.disable()
  }

  /** Makes a function of the user one that runs within the running call, so that the calls that it makes are known. */
  within<Args extends unknown[], Result>(run: (...args: Args) => Result): (...args: Args) => Result {
    if (!this.#canWait) return run
    return (...args) => {
      if (this.#running) hosting.add(this.#running)
      return innermost.run(this.#running, run, ...args)
    }
  }

  /** Whether the running call is one of these, or its host functions wait for one. */
  #waitsFor(call: QueuedCall): boolean {
    for (let each: QueuedCall | undefined = call; each; each = each.outer)
      if (each === this.#running) return true
    return [...(this.#running?.inner ?? [])].some(({ queue }) => queue.#waitsFor(call))
  }
}

/** A call that runs, or waits for its turn. */
class QueuedCall {
  readonly queue: CallQueue
  /** The call whose host function made this one. */
  readonly outer: QueuedCall | undefined
  readonly start: (() => void) | undefined
  /** Calls that its host functions made. */
  inner: Set<QueuedCall> | undefined

  constructor(queue: CallQueue, outer: QueuedCall | undefined, start?: () => void) {
    this.queue = queue
    this.outer = outer
    this.start = start
    if (!outer) return
    outer.inner ??= new Set()
    outer.inner.add(this)
  }
}

/** The call whose host function runs. */
const innermost = new AsyncLocalStorage<QueuedCall | undefined>()

/** Calls that have run host functions. While there are none the storage is off: on Node 20 it makes each promise slower. */
const hosting = new Set<QueuedCall>()
