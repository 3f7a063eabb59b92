import { MessageChannel, Worker } from 'node:worker_threads'
import { fromFailure } from '../../errors/call-failure.ts'
import { ClientGoneError, InstanceStartError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { workerFile } from '../../platform/packages.ts'
import { terminateOrWriteOff, trackThread } from '../../platform/stuck-threads.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { PendingCall } from '../engine.ts'
import type { HostBridge } from './host-bridge.ts'
import {
  ANSWER,
  CALL,
  type FromWorker,
  type LogLine,
  type PostedRecord,
  RING_BYTES,
  RING_PAYLOAD,
  type WorkerStart,
} from './protocol.ts'
import { Ring } from './ring.ts'
import { type HeldTime, type Runner, type RunnerKind, type RunnerOwner, unusedMs } from './runner.ts'
import { MAX_AHEAD, monotonicMs, type RunningCall, Stamp, slotOf, type ThreadStats } from './stamp.ts'
import { isGone } from './waiting-calls.ts'

/** What every thread of a route is given. */
export type ThreadOptions = Omit<WorkerStart, 'stamp' | 'calls' | 'answers' | 'inputs' | 'host'> & {
  readonly runtime: Runtime['name']
  /** Host and URL of the route that it works for. */
  readonly route?: string | undefined
  /** Takes what the guest logs while no call runs. */
  readonly log: Log
  readonly bridge: HostBridge
}

/**
 * JavaScript's memory in a thread, which host functions use: what they allocate piece by piece ends the thread, not us.
 * V8 ends the process if a single piece goes far beyond the limit, such as an array of ten million elements that grows.
 */
const HEAP_MIB = 256

/** A call that was handed over. */
interface GivenCall {
  readonly number: number
  readonly call: PendingCall
}

/** Threads of their own for a route's instances. */
export function threadKind(options: ThreadOptions): RunnerKind {
  const start = (owner: RunnerOwner) => new WorkerThread(options, owner)
  const owner = { route: options.route, digest: options.plugin.digest }
  return { name: 'workers', one: 'worker thread', many: 'worker threads', owner, start }
}

/** The main thread's side of one worker thread. */
export class WorkerThread implements Runner {
  readonly #options: ThreadOptions
  readonly #owner: RunnerOwner
  readonly #worker: Worker
  readonly #stamp = new Stamp()
  readonly #calls: Ring
  readonly #answers: Ring
  readonly #inputs = new MessageChannel()
  readonly #host = new MessageChannel()
  /**
   * By slot. Not a `Map`: where much comes and goes, the tables that it has left behind keep what was in them, and
   * each next one, from being collected as young; the garbage of whole requests doubled the CPU of a call.
   */
  readonly #given: (GivenCall | undefined)[] = Array.from({ length: MAX_AHEAD })
  readonly #freeSlots = Array.from({ length: MAX_AHEAD }, (_, slot) => slot)
  readonly #exportNumbers = new Map<string, number>()
  readonly #ended = new AbortController()
  #load = 0
  #lastRound = 0
  #failure: Error | undefined
  /** When it was woken, or answered last, if there is something that it has not answered. */
  #silentSince: number | undefined
  /** Of the call that ran last, in ms: what is not charged to its guest. */
  #excused = { call: 0, ms: 0 }
  #hasLeft = false
  #hasRun = false
  #startMs = 0

  constructor(options: ThreadOptions, owner: RunnerOwner) {
    const { runtime, route, bridge, log: _log, ...start } = options
    const [calls, answers] = [Ring.allocate(RING_BYTES), Ring.allocate(RING_BYTES)]
    const [inputs, host] = [this.#inputs.port2, this.#host.port2]
    this.#options = options
    this.#owner = owner
    this.#calls = new Ring(calls)
    this.#answers = new Ring(answers)
    this.#worker = new Worker(workerFile(`${runtime}-thread`), {
      name: `wasm-serve ${options.plugin.name}`,
      workerData: { ...start, stamp: this.#stamp.buffer, calls, answers, inputs, host } satisfies WorkerStart,
      transferList: [inputs, host],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    })
    const { name, digest } = options.plugin
    trackThread(this.#worker, { route, plugin: name, digest })
    this.#worker.on('message', (message: FromWorker) => this.#onMessage(message))
    this.#worker.on('error', (thrown: unknown) => {
      this.#failure = thrown instanceof Error ? thrown : new Error(String(thrown))
    })
    this.#worker.once('exit', (code) => this.#leave(new Error(`it ended with exit code ${code}`)))
    const callerOf = (number: number) => this.#find(number)?.call.caller
    bridge.serve(this.#host.port1, this.#stamp, this.#ended.signal, callerOf, () => owner.asking())
  }

  /** Calls that were handed over and not answered. */
  get load(): number {
    return this.#load
  }

  /** What its engine has told last. */
  get stats(): ThreadStats {
    return this.#stamp.readStats()
  }

  /** How long its first instance took to open, in ms. */
  get startMs(): number {
    return this.#startMs
  }

  /** Whether it has answered a call. */
  get hasRun(): boolean {
    return this.#hasRun
  }

  /** Its ring says when it is full. */
  mayTake(): boolean {
    return true
  }

  /** How long it has been awake, on the main thread's clock, and has neither run a guest nor answered. */
  silentMs(): number {
    if (this.#silentSince === undefined || this.running()) return 0
    return performance.now() - this.#silentSince
  }

  /** The call that its guest runs at this moment. */
  running(): RunningCall | undefined {
    return this.#stamp.running()
  }

  /** How much of its time the guest of a call has used, in ms. */
  usedMs({ call, since }: RunningCall): number {
    return monotonicMs() - since - (this.#excused.call === call ? this.#excused.ms : 0)
  }

  /** Does not charge its guest for the time in which the event loop was held, as far as the guest did not use it. */
  excuse(held: HeldTime): void {
    if (this.#silentSince !== undefined)
      this.#silentSince = Math.min(this.#silentSince + held.to - held.from, performance.now())
    const running = this.running()
    if (!running) return
    const { call } = running
    const ms = unusedMs(held, running, this.#stamp.waitsSince())
    this.#excused = { call, ms: ms + (this.#excused.call === call ? this.#excused.ms : 0) }
  }

  /**
   * Hands a call over; the thread looks for it when it is woken. What has a large input is not handed over ahead: the
   * copy would be made in vain if the call is taken back.
   *
   * @returns false if there is no room now, or the thread ends.
   */
  give(call: PendingCall): boolean {
    if (this.#ended.signal.aborted) return false
    const { exportName, input } = call
    const isPosted = input.length > RING_PAYLOAD
    const slot = this.#freeSlots.at(-1)
    const isRoom = this.#calls.hasRoom(exportName.length * 3, isPosted ? 0 : input.length)
    if (slot === undefined || !isRoom || (isPosted && this.load > 0)) return false

    this.#freeSlots.pop()
    const number = this.#nextNumber(slot)
    const detail = this.#exportNumber(exportName)
    this.#given[slot] = { number, call }
    this.#load++
    this.#stamp.offer(number)
    if (isPosted) {
      const own = new Uint8Array(input) // the thread may end before it has begun: then another needs the input
      this.#inputs.port1.postMessage(own, [own.buffer])
      this.#calls.write(CALL.posted, number, detail, 0, NO_INPUT)
    } else {
      this.#calls.write(CALL.here, number, detail, 0, input)
    }
    return true
  }

  /** Wakes the thread, if it sleeps. It need not ring now: who has woken it collects, until {@link rest}. */
  wake(): boolean {
    this.#silentSince ??= performance.now()
    this.#stamp.listen()
    if (this.#stamp.wake()) this.#worker.postMessage(0)
    return true
  }

  /** Takes back what its guest has not begun. @returns the oldest first. */
  takeBack(): PendingCall[] {
    const taken: PendingCall[] = []
    const inOrder = this.#given.filter((given) => given !== undefined).sort((a, b) => a.number - b.number)
    for (const given of inOrder) {
      if (!this.#stamp.claim(given.number)) continue
      this.#forget(given)
      taken.push(given.call)
    }
    return taken
  }

  /** Lets those go whose clients went away before their guests began. */
  dropGone(): void {
    for (const given of this.#given) {
      if (!given || !isGone(given.call) || !this.#stamp.claim(given.number)) continue
      this.#forget(given)
      given.call.reject(new ClientGoneError())
    }
  }

  /** Takes the call that runs out of the thread's hands, to be told something else than its answer. */
  drop({ call: number }: RunningCall): PendingCall | undefined {
    this.collect()
    const given = this.#find(number)
    if (given) this.#forget(given)
    return given?.call
  }

  /** Ends the thread. @returns false if it does not end, and is written off. */
  async end(): Promise<boolean> {
    this.#ended.abort()
    const hasEnded = await terminateOrWriteOff(this.#worker, this.#options.log)
    if (!hasEnded) this.#leave(new Error('it does not end'))
    return hasEnded
  }

  /** Ends the thread, and tells its owner at once that it has: nobody waits for its answers. */
  abandon(): void {
    void this.end()
    this.#leave(new Error('it is not waited for'))
  }

  /** Says why it is going to be ended. */
  fail(reason: Error): void {
    this.#failure ??= reason
  }

  /** Takes the answers that are there. @returns whether there were any. */
  collect(): boolean {
    if (this.#answers.isEmpty) return false
    for (let record = this.#answers.peek(); record; record = this.#answers.peek()) {
      const payload = Buffer.from(record.payload)
      this.#answers.release(record) // first: who is told may come back here
      this.#take(record, payload)
    }
    return true
  }

  /** Nobody collects any more until the thread rings. */
  rest(): void {
    this.#stamp.heard()
    this.collect() // what was written when nobody had to ring
  }

  #onMessage(message: FromWorker): void {
    this.rest() // what was written before
    if (message === 'answers' || !isOurs(message)) return
    if ('startMs' in message) this.#becomeReady(message.startMs)
    else if ('startFailure' in message) {
      this.fail(fromFailure(message.startFailure))
      void this.end()
    } else this.#take(message, message.payload)
  }

  /** Unless it was too late, and is being ended. */
  #becomeReady(startMs: number): void {
    this.#startMs = startMs
    if (!this.#ended.signal.aborted) this.#owner.ready(this)
  }

  #take({ kind, call: number, ms }: Omit<PostedRecord, 'payload'>, payload: Uint8Array): void {
    const given = this.#find(number)
    if (kind === ANSWER.log) {
      const [level, fields, line] = JSON.parse(utf8.decode(payload)) as LogLine
      const log = given?.call.caller.log ?? this.#options.log
      log[level](fields, line)
      return
    }
    if (!given) return // it was told something else
    this.#forget(given)
    this.#hasRun = true
    this.#silentSince = this.#load > 0 ? performance.now() : undefined
    given.call.caller.observer?.ended(ms)
    if (kind === ANSWER.output) given.call.resolve(payload)
    else this.#fail(given.call, fromFailure(JSON.parse(utf8.decode(payload))))
    this.#owner.answered(this, ms)
  }

  #fail(call: PendingCall, error: Error): void {
    call.reject(error)
    if (error instanceof InstanceStartError) this.#owner.broken(this, error)
  }

  #leave(reason: Error): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#ended.abort()
    this.collect()
    this.#inputs.port1.close()
    this.#host.port1.close()
    const unbegun = this.takeBack()
    const lost = this.#given.filter((given) => given !== undefined)
    for (const given of lost) this.#forget(given)
    this.#owner.ended(this, { unbegun, lost: lost.map(({ call }) => call) }, this.#failure ?? reason)
  }

  #find(number: number): GivenCall | undefined {
    const given = this.#given[slotOf(number)]
    return given?.number === number ? given : undefined
  }

  #forget({ number }: GivenCall): void {
    const slot = slotOf(number)
    this.#given[slot] = undefined
    this.#freeSlots.push(slot)
    this.#load--
  }

  /** Above 0, within what an Int32 can hold, and no other's for many millions of calls. */
  #nextNumber(slot: number): number {
    this.#lastRound = (this.#lastRound % MAX_ROUND) + 1
    return this.#lastRound * MAX_AHEAD + slot
  }

  /** The thread knows an export by a number, once it was told its name. */
  #exportNumber(name: string): number {
    const known = this.#exportNumbers.get(name)
    if (known !== undefined) return known
    const number = this.#exportNumbers.size
    this.#exportNumbers.set(name, number)
    this.#calls.write(CALL.name, 0, number, 0, Buffer.from(name))
    return number
  }
}

/** A library that a host function uses may post things to whoever started its thread. */
function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null
}

const MAX_ROUND = Math.floor(0x7fff_ffff / MAX_AHEAD) - 1

const NO_INPUT = new Uint8Array()
const utf8 = new TextDecoder()
