import { type CallFailure, fromFailure } from '../../errors/call-failure.ts'
import { DeadlineError, InstanceStartError } from '../../errors/errors.ts'
import type { ServiceRequest } from '../../guest/services/service.ts'
import { findService } from '../../guest/services/services.ts'
import { LineRate, type Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { ChunkedBytes } from '../../platform/chunks.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { type Engine, isCancelRequested, type PendingCall } from '../engine.ts'
import {
  type BlockedTime,
  creditedMs,
  failureOf,
  INTERRUPTION_MS,
  type Interruption,
  type Runner,
  type RunnerKind,
  type RunnerOwner,
  type RunnerStats,
  type RunningCall,
} from '../runners/runner.ts'
import { openRunners, type RunnersOptions } from '../runners/runners.ts'
import { type HostBridge, startsAnew } from '../workers/host-bridge.ts'
import { FROM_CHILD, type Frame, TO_CHILD } from './frames.ts'
import type { GuestProcess, Tenant } from './guest-process.ts'
import { type ProcessStart, pack, readHostRequest, unpack, writeLine } from './packed.ts'
import type { ProcessGroup } from './process-group.ts'
import type { ProcessNeeds } from './sandbox.ts'

export interface SubprocessOptions extends Omit<RunnersOptions, 'plugin' | 'log'>, ProcessOptions {}

/**
 * Instances in processes. Whatever a guest does to its engine, memory or thread, the system terminates it with its
 * process.
 */
export function openSubprocess(options: SubprocessOptions): Engine {
  const { group, needs, bridge, plugin, settings, functions, isolation, services, log } = options
  const kind = processKind({ group, needs, bridge, plugin, settings, functions, isolation, services, log })
  return openRunners(kind, options)
}

/** The options of every process of a route. */
interface ProcessOptions extends ProcessStart {
  readonly group: ProcessGroup
  readonly needs: ProcessNeeds
  /** Receives the log lines of the guest while no call runs. */
  readonly log: Log
  readonly bridge: HostBridge
}

/** Processes for a route's instances. */
function processKind(options: ProcessOptions): RunnerKind {
  const { plugin, settings, functions, isolation, services } = options
  const route: ProcessRoute = {
    options,
    start: pack({ plugin, settings, functions, isolation, services } satisfies ProcessStart),
    maxFrameBytes: Math.max(4 * settings.outputLimit, 2 * settings.blockLimit) + FRAME_OVERHEAD_BYTES,
  }
  options.group.join(route, options.needs)
  return {
    ...{ name: 'subprocess', one: 'process', many: 'processes', concurrent: 1 },
    owner: {}, // SIGKILL ends them
    start: (owner) => new ProcessRunner(route, owner),
    close: () => options.group.leave(route),
  }
}

/** Bytes of a frame beyond the limits of the route, for a log line or a stack. */
const FRAME_OVERHEAD_BYTES = 1_048_576

/** Maximum number of calls sent to a process, including the running one. They cannot be taken back. */
const MAX_SENT_CALLS = 16

/** Calls with a larger input are not sent in advance. */
const MAX_QUEUED_INPUT_BYTES = 65_536

interface ProcessRoute {
  readonly options: ProcessOptions
  /** {@link ProcessStart}, packed. */
  readonly start: Buffer
  readonly maxFrameBytes: number
}

/** A call that was sent to the process. */
interface SentCall {
  readonly number: number
  readonly call: PendingCall
  interruption?: Interruption
}

const NO_RUNNER_STATS: RunnerStats = {
  guestBytes: 0,
  kernelBytes: 0,
  recycled: 0,
  restarted: 0,
  droppedLines: 0,
  checks: 0,
}

/** A route's instance in a process, which may have instances of other routes. */
class ProcessRunner implements Runner, Tenant {
  stats = NO_RUNNER_STATS
  hasRun = false
  readonly maxFrameBytes: number
  readonly #route: ProcessRoute
  readonly #owner: RunnerOwner
  readonly #lineRate: LineRate
  readonly #ended = new AbortController()
  #process: GuestProcess
  #number: number
  #state: 'waiting' | 'starting' | 'open' = 'waiting'
  /** Sent calls in the order in which the process runs them. */
  #sent: SentCall[] = []
  #lastCall = 0
  /** Start time of the first call, as known to the server. */
  #since = 0
  /** The time of the server's last look for answers. */
  #heardUntil = 0
  #isHearing = false
  /** Time of the first call that is not charged to its guest, in ms. */
  #creditedMs = 0
  /** The part of it in which the event loop was blocked. */
  #blockedMs = 0
  /** The running call was settled by `drop`; the answer of the process is still to come. */
  #isDropped = false
  #isAsking = false
  #isInterruptible = false
  /** When the running call began to wait for its client. This time is not charged to it. */
  #pausedAt: number | undefined
  #failure: Error | undefined
  #hasLeft = false

  constructor(route: ProcessRoute, owner: RunnerOwner) {
    this.maxFrameBytes = route.maxFrameBytes
    this.#route = route
    this.#owner = owner
    this.#lineRate = new LineRate(route.options.settings.logRate ?? Number.POSITIVE_INFINITY)
    this.#process = this.#chooseProcess()
    this.#number = this.#process.add(this)
    queueMicrotask(() => this.#open()) // after the owner has stored the runner
  }

  get load(): number {
    return this.#sent.length
  }

  get isBusy(): boolean {
    return this.#state === 'starting' || this.#sent.length > 0 || this.#isDropped
  }

  isOf(route: ProcessRoute): boolean {
    return this.#route === route
  }

  mayTake(): boolean {
    return !this.#ended.signal.aborted && this.#process.tryAssign(this)
  }

  give(call: PendingCall): boolean {
    const { exportName, input } = call
    const isFull = this.load >= MAX_SENT_CALLS || (this.load > 0 && input.length > MAX_QUEUED_INPUT_BYTES)
    if (isFull || this.#ended.signal.aborted) return false
    this.#lastCall = (this.#lastCall % 0xffff_fffe) + 1
    if (this.#sent.length === 0) this.#beginCall()
    this.#sent.push({ number: this.#lastCall, call })
    const name = Buffer.from(exportName)
    this.#process.send(this.#head(TO_CHILD.call, this.#lastCall, name.length), [
      name,
      ...(input instanceof ChunkedBytes ? input.list : [input]),
    ])
    return true
  }

  wake(): boolean {
    this.#process.flush()
    return false
  }

  /** Answers arrive as events. */
  collect(): boolean {
    return false
  }

  stopPolling(): void {
    // nothing is collected
  }

  /** A call that is the first starts as soon as it can. */
  silentMs(): number {
    return 0
  }

  running(): RunningCall | undefined {
    const [first] = this.#sent
    return first && { call: first.number, since: this.#since, beforeMs: 0 }
  }

  /**
   * Counts time up to the server's last look for answers: an answer that has arrived but is unread does not count as
   * running. So a call that has just completed is terminated only if its answer arrives after that look.
   */
  usedMs(): number {
    if (!this.#isHearing) {
      const now = monotonicMs()
      this.#isHearing = true
      setImmediate(() => {
        this.#isHearing = false
        this.#heardUntil = now
      })
    }
    const until = Math.min(this.#heardUntil, this.#pausedAt ?? Number.POSITIVE_INFINITY)
    return until - this.#since - this.#creditedMs
  }

  /** Excuses all of it: the server received nothing meanwhile, so the guest's CPU use is unknown. */
  creditBlockedTime({ from, to }: BlockedTime, maxMs: number): void {
    if (this.#sent.length === 0 || this.#pausedAt !== undefined || this.#blockedMs >= maxMs) return
    const ms = Math.max(to - Math.max(from, this.#since), 0)
    this.#blockedMs += ms
    this.#creditedMs += ms
  }

  /** Returns none: the process may have started any of them. If it ends, the calls after the first go to other runners. */
  takeBack(): PendingCall[] {
    return []
  }

  dropGone(): void {
    // see above
  }

  isAbandoned({ call: number }: RunningCall): boolean {
    const [first] = this.#sent
    return first?.number === number && isCancelRequested(first.call)
  }

  get mayInterrupt(): boolean {
    return this.#isInterruptible && !this.#isAsking
  }

  interrupt({ call: number }: RunningCall, reasonFor: (call: PendingCall) => Error): boolean {
    const [first] = this.#sent
    if (first?.number !== number || !this.mayInterrupt) return false
    const now = performance.now()
    if (!first.interruption) {
      first.interruption = { reason: reasonFor(first.call), since: now }
      this.#process.send(this.#head(TO_CHILD.interrupt, number, 0), [])
      this.#process.flush()
    }
    return now - first.interruption.since < INTERRUPTION_MS
  }

  drop({ call: number }: RunningCall): PendingCall | undefined {
    const [first] = this.#sent
    if (first?.number !== number) return undefined
    this.#sent.shift()
    this.#isDropped = true
    return first.call
  }

  /** Ends the process only if this guest runs: other routes may have instances in it. */
  async end(): Promise<boolean> {
    this.#ended.abort()
    if (this.#hasLeft) return this.#process.isEnding ? this.#process.kill() : true
    if (this.isBusy) {
      const hasEnded = await this.#process.kill(this)
      if (!hasEnded) this.#leave(new Error('it cannot be terminated'))
      return hasEnded
    }
    this.#process.leave(this.#number)
    this.#leave(new Error('it was closed'))
    return this.#process.isEnding ? this.#process.kill() : true
  }

  abandon(): void {
    void this.end()
    this.#leave(new Error('it is not waited for'))
  }

  fail(reason: Error): void {
    this.#failure ??= reason
  }

  free(): void {
    if (this.#state === 'waiting') this.#open()
    else this.#owner.free()
  }

  take({ kind, call: number, ms, payload }: Frame): void {
    switch (kind) {
      case FROM_CHILD.started:
        this.#started(payload)
        return
      case FROM_CHILD.startFailed:
        if (this.#state !== 'starting') throw new RangeError('nothing was starting')
        this.#state = 'open' // as far as the process is concerned
        this.fail(readFailure(payload))
        void this.end()
        return
      case FROM_CHILD.output:
      case FROM_CHILD.failure:
        this.#answered(number, Number.isFinite(ms) ? Math.max(ms, 0) : 0, kind, payload)
        return
      case FROM_CHILD.log:
        if (this.#lineRate.take()) writeLine(payload, this.#route.options.plugin.name, this.#logOf(number))
        return
      case FROM_CHILD.stats:
        this.stats = readStats(payload)
        return
      case FROM_CHILD.ask:
        this.#ask(number, payload)
        return
      default:
        throw new RangeError(`there is no kind ${kind}`)
    }
  }

  over(reason: Error, isFault: boolean): void {
    if (isFault || this.#ended.signal.aborted) this.#leave(reason)
    else if (this.#state === 'open') {
      this.hasRun = true // the end of the process is not its fault
      this.#leave(reason)
    } else {
      this.#process = this.#chooseProcess()
      this.#number = this.#process.add(this)
      this.#state = 'waiting'
      this.#open()
    }
  }

  #chooseProcess(): GuestProcess {
    const isOfRoute = (tenant: Tenant) => tenant instanceof ProcessRunner && tenant.isOf(this.#route)
    return this.#route.options.group.choose(this.#route, isOfRoute)
  }

  /** Starts on its turn: work for other tenants is not charged to it, nor its start to them. */
  #open(): void {
    if (this.#state !== 'waiting' || this.#ended.signal.aborted || !this.#process.tryAssign(this)) return
    this.#state = 'starting'
    this.#process.send(this.#head(TO_CHILD.start, 0, 0), [this.#route.start])
    this.#process.flush()
  }

  #started([isInterruptible]: Uint8Array): void {
    if (this.#state !== 'starting') throw new RangeError('nothing was starting')
    this.#state = 'open'
    this.#isInterruptible = isInterruptible === 1
    if (!this.#ended.signal.aborted) this.#owner.ready(this)
    if (!this.isBusy) this.#process.passOn()
  }

  #answered(number: number, ms: number, kind: number, payload: Uint8Array): void {
    const [first] = this.#sent
    if (this.#isDropped && first?.number !== number) {
      this.#isDropped = false // its answer came too late
      return
    }
    if (first?.number !== number) throw new RangeError(`call ${number} was not the next`)
    const limit = this.#route.options.settings.outputLimit
    if (kind === FROM_CHILD.output && payload.length > limit)
      throw new RangeError(`an output of more than ${limit} bytes`)
    const error =
      kind === FROM_CHILD.failure ? failureOf(readFailure(payload), first.interruption) : undefined
    this.#sent.shift()
    this.#beginCall()
    this.hasRun = true
    first.call.caller.observer?.ended(ms)
    if (error) first.call.reject(error)
    else first.call.resolve(payload)
    if (error instanceof DeadlineError && error === first.interruption?.reason) this.#owner.late()
    if (error instanceof InstanceStartError) this.#owner.broken(this, error)
    this.#owner.answered(this, ms)
    if (!this.isBusy) this.#process.passOn()
  }

  /** Restarts the time of the first call: when it is sent, and with each message that it gets. */
  #beginCall(): void {
    this.#since = monotonicMs()
    this.#creditedMs = 0
    this.#blockedMs = 0
  }

  #ask(call: number, payload: Uint8Array): void {
    if (this.#isAsking || !this.isBusy) throw new RangeError('no call waits for an answer')
    const request = readHostRequest(payload)
    this.#isAsking = true
    if (findService(request.service)?.isCounted === false) this.#pausedAt = monotonicMs()
    this.#owner.asking()
    const [first] = this.#sent
    const caller = first?.number === call ? first.call.caller : undefined
    void this.#answerHost(request, caller)
  }

  async #answerHost(request: ServiceRequest, caller: Caller | undefined): Promise<void> {
    const answer = await this.#route.options.bridge.answer(request, caller, this.#ended.signal)
    this.#isAsking = false
    if (this.#pausedAt !== undefined) this.#creditedMs += creditedMs(monotonicMs() - this.#pausedAt)
    this.#pausedAt = undefined
    if (startsAnew(findService(request.service), request.operation, answer)) this.#beginCall()
    if (!this.#ended.signal.aborted) this.#process.answerHost(this.#number, answer)
  }

  #logOf(number: number): Log {
    const [first] = this.#sent
    return first?.number === number ? first.call.caller.log : this.#route.options.log
  }

  #head(kind: number, call: number, nameBytes: number): Omit<Frame, 'payload'> {
    return { kind, instance: this.#number, call, nameBytes, ms: 0 }
  }

  /** The first unanswered call is the one that ran, unless an answered call was still running. */
  #leave(reason: Error): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#ended.abort()
    const calls = this.#sent.splice(0).map(({ call }) => call)
    const ran = this.#isDropped ? 0 : 1
    this.#isDropped = false
    this.#owner.ended(this, { lost: calls.slice(0, ran), unbegun: calls.slice(ran) }, this.#failure ?? reason)
  }
}

/** @throws RangeError if it is not a failure. */
function readFailure(packed: Uint8Array): Error {
  const failure = unpack(packed)
  if (!isFailure(failure)) throw new RangeError('it is not a failure')
  return fromFailure(failure)
}

function isFailure(value: unknown): value is CallFailure {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as Partial<CallFailure>
  return typeof code === 'string' && typeof message === 'string'
}

/** @throws RangeError if they are invalid. */
function readStats(bytes: Uint8Array): RunnerStats {
  if (bytes.length !== 6 * 8) throw new RangeError('wrong number of values')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const at = (index: number) => {
    const value = view.getFloat64(8 * index, true)
    if (!(value >= 0 && Number.isFinite(value))) throw new RangeError('a number is out of range')
    return value
  }
  const [guestBytes, kernelBytes, recycled] = [at(0), at(1), at(2)]
  return { guestBytes, kernelBytes, recycled, restarted: at(3), droppedLines: at(4), checks: at(5) }
}
