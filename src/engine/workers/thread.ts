import { MessageChannel, type Worker } from 'node:worker_threads'
import { fromFailure } from '../../errors/call-failure.ts'
import { ClientGoneError, DeadlineError, InstanceStartError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { takeBuffer } from '../../platform/buffer-pool.ts'
import { copyBytes } from '../../platform/chunks.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { terminateOrWriteOff, trackThread } from '../../platform/stuck-threads.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { type Engine, isCancelRequested, type PendingCall } from '../engine.ts'
import {
  type BlockedTime,
  failureOf,
  INTERRUPTION_MS,
  type Interruption,
  type Runner,
  type RunnerKind,
  type RunnerOwner,
  type RunnerStats,
  type RunningCall,
  unusedMs,
} from '../runners/runner.ts'
import { openRunners, type RunnersOptions } from '../runners/runners.ts'
import type { HostBridge } from './host-bridge.ts'
import {
  ANSWER,
  CALL,
  type FromWorker,
  type LogLine,
  PLACED_BYTES,
  type PostedRecord,
  RING_BYTES,
  RING_PAYLOAD,
  WAKE,
  type WorkerStart,
} from './protocol.ts'
import { Ring, type RingRecord } from './ring.ts'
import { HostBlocks } from './shared-blocks.ts'
import { newThread, takePrestartedThread } from './thread-start.ts'
import { SLOTS, slotOf, ThreadState } from './thread-state.ts'

/** The common settings of a route's threads. */
export type ThreadOptions = Omit<
  WorkerStart,
  'threadState' | 'calls' | 'answers' | 'inputs' | 'host' | 'suspended'
> & {
  readonly runtime: Runtime['name']
  /** Host and URL of its route. */
  readonly route?: string | undefined
  /** Whether its guests end when they are interrupted. Default: no. */
  readonly isInterruptible?: boolean
  /** Receives guests' log lines while no call runs. */
  readonly log: Log
  readonly bridge: HostBridge
}

/** An assigned call. */
interface AssignedCall {
  readonly number: number
  readonly call: PendingCall
  interruption?: Interruption
}

export interface WorkersOptions extends RunnersOptions, Omit<ThreadOptions, 'plugin' | 'log'> {
  readonly plugin: ThreadOptions['plugin']
}

/** Instances in threads: a guest that does not return is terminated with its thread. */
export function openWorkers(options: WorkersOptions): Engine {
  const { plugin, runtime, route, settings, functions, isolation, services, bridge, log } = options
  const { concurrent, timeoutMs, isInterruptible = false } = options
  const instances = { plugin, runtime, settings, functions, isolation, services }
  const threads = { ...instances, route, bridge, log, concurrent, timeoutMs, isInterruptible }
  return openRunners(threadKind(threads), options)
}

/** Threads for a route's instances. */
export function threadKind(options: ThreadOptions): RunnerKind {
  const start = (owner: RunnerOwner) => new WorkerThread(options, owner)
  const owner = { route: options.route, digest: options.plugin.digest }
  const { concurrent } = options
  return { name: 'workers', one: 'worker thread', many: 'worker threads', owner, concurrent, start }
}

/** The main thread's side of one worker thread. */
class WorkerThread implements Runner {
  readonly #options: ThreadOptions
  readonly #owner: RunnerOwner
  readonly #worker: Worker
  readonly #threadState = new ThreadState()
  readonly #calls: Ring
  readonly #answers: Ring
  readonly #blocks = new HostBlocks(this.#threadState)
  readonly #inputs = new MessageChannel()
  readonly #host = new MessageChannel()
  /** undefined if the thread runs calls in order. */
  readonly #suspended: MessageChannel | undefined
  /**
   * By slot. Not a `Map`: with many insertions and deletions, its abandoned tables keep their contents and each next table
   * from being collected in the young generation. The garbage of whole requests doubled the CPU time of a call.
   */
  readonly assigned: (AssignedCall | undefined)[] = Array.from({ length: SLOTS })
  readonly #freeSlots = Array.from({ length: SLOTS }, (_, slot) => slot)
  readonly #exportNumbers = new Map<string, number>()
  readonly #ended = new AbortController()
  #load = 0
  #lastRound = 0
  #failure: Error | undefined
  /** The time when it was woken or last answered, if answers are pending. */
  #silentSince: number | undefined
  /** Time by which that was moved, in ms. */
  #silentCreditMs = 0
  /** Time, in ms, that is not charged to the guests of calls. */
  readonly #credited = new WeakMap<AssignedCall, number>()
  /** The turn counter at the last check. */
  #lastTurn = 0
  #hasLeft = false
  #hasRun = false

  constructor(options: ThreadOptions, owner: RunnerOwner) {
    const { runtime, route, bridge, isInterruptible: _, log: _log, ...start } = options
    const [calls, answers] = [Ring.allocate(RING_BYTES), Ring.allocate(RING_BYTES)]
    const [inputs, host] = [this.#inputs.port2, this.#host.port2]
    this.#options = options
    this.#owner = owner
    this.#suspended = options.concurrent > 1 ? new MessageChannel() : undefined
    const suspended = this.#suspended?.port2
    this.#calls = new Ring(calls)
    this.#answers = new Ring(answers)
    this.#worker = takePrestartedThread(runtime) ?? newThread(runtime, `wasm-serve ${options.plugin.name}`)
    const threadState = this.#threadState.memory
    const data = { ...start, threadState, calls, answers, inputs, host, suspended } satisfies WorkerStart
    this.#worker.postMessage(data, [inputs, host, ...(suspended ? [suspended] : [])])
    const { name, digest } = options.plugin
    trackThread(this.#worker, { route, plugin: name, digest })
    this.#worker.on('message', (message: FromWorker) => this.#onMessage(message))
    this.#worker.on('error', (thrown: unknown) => {
      this.#failure = thrown instanceof Error ? thrown : new Error(String(thrown))
    })
    this.#worker.once('exit', (code) => this.#leave(new Error(`it exited with code ${code}`)))
    const callerOf = (number: number) => this.#find(number)?.call.caller
    const { signal } = this.#ended
    bridge.serve(this.#host.port1, this.#threadState, signal, callerOf, () => owner.asking())
    if (this.#suspended)
      bridge.serveSuspended(this.#suspended.port1, this.#threadState, signal, callerOf, () => owner.asking())
  }

  /** Number of assigned calls without an answer. */
  get load(): number {
    return this.#load
  }

  /** The latest stats of its engine. */
  get stats(): RunnerStats {
    return this.#threadState.readStats()
  }

  /** Whether it has answered a call. */
  get hasRun(): boolean {
    return this.#hasRun
  }

  /** Always true: the ring reports when it is full. */
  mayTake(): boolean {
    return true
  }

  /**
   * Time that it has been awake without running a guest or answering, on the main thread's clock. While its guests are
   * suspended, it need not do either.
   */
  silentMs(): number {
    if (this.#suspended) this.#noticeTurns()
    if (this.#silentSince === undefined || this.running()) return 0
    return performance.now() - this.#silentSince
  }

  /** The call that its guest is running. */
  running(): RunningCall | undefined {
    return this.#threadState.running()
  }

  /** The guest time of a call so far, in ms. */
  usedMs({ call, beforeMs }: RunningCall): number {
    const assigned = this.#find(call)
    return (
      beforeMs + this.#threadState.ranMs(monotonicMs()) - ((assigned && this.#credited.get(assigned)) ?? 0)
    )
  }

  /** Does not charge its guest for time in which the event loop was blocked, as far as the guest did not use it. */
  creditBlockedTime(blocked: BlockedTime, maxMs: number): void {
    if (this.#silentSince !== undefined && this.#silentCreditMs < maxMs) {
      const since = Math.min(this.#silentSince + blocked.to - blocked.from, performance.now())
      this.#silentCreditMs += since - this.#silentSince
      this.#silentSince = since
    }
    const running = this.running()
    const assigned = running && this.#find(running.call)
    if (!running || !assigned || this.#threadState.isPaused) return
    const before = this.#credited.get(assigned) ?? 0
    const ms = unusedMs(blocked, running, this.#threadState.waitsSince())
    if (before < maxMs) this.#credited.set(assigned, before + ms)
  }

  /**
   * Assigns a call; the thread sees it when it is woken. Large inputs are not assigned in advance of others: the copy would be
   * wasted if the call is taken back.
   *
   * @returns false if there is no space now, or the thread is ending.
   */
  give(call: PendingCall): boolean {
    if (this.#ended.signal.aborted) return false
    const { exportName, input } = call
    const isLarge = input.length > RING_PAYLOAD
    const slot = this.#freeSlots.at(-1)
    const isRoom = this.#calls.hasRoom(exportName.length * 3, isLarge ? 0 : input.length)
    if (slot === undefined || !isRoom || (isLarge && this.load > 0 && !this.#suspended)) return false

    this.#freeSlots.pop()
    const number = this.#nextNumber(slot)
    const detail = this.#exportNumber(exportName)
    const isPlaced = input.length >= PLACED_BYTES && this.load === 0 && this.#blocks.place(input)
    this.assigned[slot] = { number, call }
    this.#load++
    this.#threadState.offer(number)
    if (isPlaced) this.#calls.write(CALL.placed, number, detail, 0, NO_INPUT)
    else if (isLarge) {
      const own = new Uint8Array(input.length) // if the thread ends before the start, another one needs the input
      copyBytes(input, own)
      this.#inputs.port1.postMessage(own, [own.buffer])
      this.#calls.write(CALL.posted, number, detail, 0, NO_INPUT)
    } else {
      this.#calls.write(CALL.here, number, detail, 0, input)
    }
    return true
  }

  /** Wakes the thread if it sleeps. It need not notify now: the caller polls until {@link stopPolling}. */
  wake(): boolean {
    this.#silentSince ??= performance.now()
    this.#threadState.listen()
    if (this.#threadState.wake()) this.#worker.postMessage(WAKE)
    return true
  }

  /** Takes back calls that its guest has not started. @returns them, the oldest first. */
  takeBack(): PendingCall[] {
    const taken: PendingCall[] = []
    const inOrder = this.assigned.filter((given) => given !== undefined).sort((a, b) => a.number - b.number)
    for (const assigned of inOrder) {
      if (!this.#threadState.claim(assigned.number)) continue
      this.#forget(assigned)
      taken.push(assigned.call)
    }
    return taken
  }

  /** Drops calls whose clients disconnected before their guests started. */
  dropGone(): void {
    for (const assigned of this.assigned) {
      if (!assigned || !assigned.call.caller.isGone || !this.#threadState.claim(assigned.number)) continue
      this.#forget(assigned)
      assigned.call.reject(new ClientGoneError())
    }
  }

  isAbandoned({ call: number }: RunningCall): boolean {
    const assigned = this.#find(number)
    return assigned !== undefined && isCancelRequested(assigned.call)
  }

  get mayInterrupt(): boolean {
    return this.#options.isInterruptible === true && this.#threadState.waitsSince() === undefined
  }

  interrupt({ call: number }: RunningCall, reasonFor: (call: PendingCall) => Error): boolean {
    const assigned = this.#find(number)
    if (!assigned || !this.mayInterrupt) return false
    const now = performance.now()
    // Again if it was suspended before it looked.
    if (this.#threadState.interrupt(number))
      assigned.interruption = { reason: reasonFor(assigned.call), since: now }
    return now - (assigned.interruption?.since ?? now) < INTERRUPTION_MS
  }

  /** Detaches the running call, whose owner settles it instead of the thread. */
  drop({ call: number }: RunningCall): PendingCall | undefined {
    this.collect()
    const assigned = this.#find(number)
    if (assigned) this.#forget(assigned)
    return assigned?.call
  }

  /** Terminates the thread. @returns false if it does not end and is given up. */
  async end(): Promise<boolean> {
    this.#ended.abort()
    const hasEnded = await terminateOrWriteOff(this.#worker, this.#options.log)
    if (!hasEnded) this.#leave(new Error('it cannot be terminated'))
    return hasEnded
  }

  /** Terminates the thread and reports its end to the owner immediately. */
  abandon(): void {
    void this.end()
    this.#leave(new Error('it is not waited for'))
  }

  /** Sets the reason of its coming end. */
  fail(reason: Error): void {
    this.#failure ??= reason
  }

  /** Reads the available answers. @returns whether there were any. */
  collect(): boolean {
    if (this.#answers.isEmpty) return false
    for (let record = this.#answers.peek(); record; record = this.#answers.peek()) {
      const payload = this.#payloadOf(record)
      this.#answers.release(record) // first: the subscriber may re-enter this function
      this.#take(record, payload)
    }
    return true
  }

  #payloadOf({ kind, payload }: RingRecord): Uint8Array {
    if (kind === ANSWER.placed) return this.#blocks.takeOutput()
    const copy = takeBuffer(payload.length)
    copy.set(payload)
    return copy
  }

  /** Polling ends: from now on the thread notifies. */
  stopPolling(): void {
    this.#threadState.heard()
    this.collect() // written before notifications were enabled
  }

  #onMessage(message: FromWorker): void {
    this.stopPolling() // written earlier
    if (message === 'answers' || !isOurs(message)) return
    if ('isReady' in message) this.#becomeReady()
    else if ('blocks' in message) this.#blocks.receive(message)
    else if ('startFailure' in message) {
      this.fail(fromFailure(message.startFailure))
      void this.end()
    } else this.#take(message, message.payload)
  }

  /** Ignored after the start has timed out. */
  #becomeReady(): void {
    if (!this.#ended.signal.aborted) this.#owner.ready(this)
  }

  #take({ kind, call: number, ms }: Omit<PostedRecord, 'payload'>, payload: Uint8Array): void {
    const assigned = this.#find(number)
    if (kind === ANSWER.log) {
      const [level, fields, line] = JSON.parse(utf8.decode(payload)) as LogLine
      const log = assigned?.call.caller.log ?? this.#options.log
      log[level](fields, line)
      return
    }
    if (!assigned) return // already settled otherwise
    this.#forget(assigned)
    this.#hasRun = true
    this.#beginSilence(this.#load > 0 ? performance.now() : undefined)
    assigned.call.caller.observer?.ended(ms)
    if (kind !== ANSWER.failure) assigned.call.resolve(payload)
    else this.#fail(assigned, fromFailure(JSON.parse(utf8.decode(payload))))
    this.#owner.answered(this, ms)
  }

  #fail({ call, interruption }: AssignedCall, failure: Error): void {
    const error = failureOf(failure, interruption)
    call.reject(error)
    if (error instanceof DeadlineError) this.#owner.late()
    // Suspended guests continue.
    if (error instanceof InstanceStartError && (this.#load === 0 || !this.#suspended))
      this.#owner.broken(this, error)
  }

  #leave(reason: Error): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#ended.abort()
    this.collect()
    this.#blocks.leave()
    this.#inputs.port1.close()
    this.#host.port1.close()
    this.#suspended?.port1.close()
    const unbegun = this.takeBack()
    const lost = this.assigned.filter((assigned) => assigned !== undefined)
    for (const assigned of lost) this.#forget(assigned)
    this.#owner.ended(this, { unbegun, lost: lost.map(({ call }) => call) }, this.#failure ?? reason)
  }

  /** Resets the silence if guests take turns, or if no call and no reply waits for the thread. */
  #noticeTurns(): void {
    const { turn, hasReplies } = this.#threadState
    const hasTurned = turn !== this.#lastTurn
    this.#lastTurn = turn
    const isAwaited =
      hasReplies || this.assigned.some((assigned) => assigned && this.#threadState.isOffered(assigned.number))
    if (hasTurned || !isAwaited) this.#beginSilence(undefined)
    else this.#silentSince ??= performance.now()
  }

  #beginSilence(since: number | undefined): void {
    this.#silentSince = since
    this.#silentCreditMs = 0
  }

  #find(number: number): AssignedCall | undefined {
    const assigned = this.assigned[slotOf(number)]
    return assigned?.number === number ? assigned : undefined
  }

  #forget({ number }: AssignedCall): void {
    const slot = slotOf(number)
    this.assigned[slot] = undefined
    this.#freeSlots.push(slot)
    this.#load--
  }

  /** A positive Int32 that is not reused for many millions of calls. */
  #nextNumber(slot: number): number {
    this.#lastRound = (this.#lastRound % MAX_ROUND) + 1
    return this.#lastRound * SLOTS + slot
  }

  /** The thread knows an export by a number after its name was sent. */
  #exportNumber(name: string): number {
    const known = this.#exportNumbers.get(name)
    if (known !== undefined) return known
    const number = this.#exportNumbers.size
    this.#exportNumbers.set(name, number)
    this.#calls.write(CALL.name, 0, number, 0, Buffer.from(name))
    return number
  }
}

/** A library used by a host function may post messages to the parent of its thread. */
export function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null
}

const MAX_ROUND = Math.floor(0x7fff_ffff / SLOTS) - 1

const NO_INPUT = new Uint8Array()
const utf8 = new TextDecoder()
