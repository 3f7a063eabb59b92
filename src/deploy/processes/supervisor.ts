import type { FastifyBaseLogger } from 'fastify'
import { ChangeRefusedError, InternalError, ProcessesFailingError } from '../../errors/errors.ts'
import { errorFields, hasOwnCode } from '../../errors/failure.ts'
import { backoffMs } from '../../platform/event-loop.ts'
import type { PreparedRoutes } from '../replica.ts'
import type { Clock } from './clock.ts'
import { type ProcessEnd, renderEnd, type ServingProcess } from './serving-process.ts'
import type { Silence } from './silence.ts'

/** The minimum time between two starts in a slot. */
const START_INTERVAL_MS = 500

/** Failed starts in a row, of all slots together, that open the breaker. */
const BREAKER_FAILURES = 5

/** Delays after failed starts: the first and the longest. It doubles. */
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 30_000

/** How long a process serves before its memory is looked at: a limit that is too small must not cost all CPU time. */
const MEMORY_INTERVAL_MS = 10_000

/** A serving process, for operators. */
export interface ProcessInfo {
  readonly number: number
  /** undefined while there is none. */
  readonly pid: number | undefined
  /** `silent`: it gives no sign of life. `waiting`: it has ended, and its replacement starts later. */
  readonly state: 'starting' | 'serving' | 'silent' | 'waiting'
  /** Time since its last sign of life, in milliseconds. */
  readonly silentMs: number | undefined
  /** How long it has served, in milliseconds. */
  readonly servingMs: number | undefined
  /** The revision in the last report. */
  readonly revision: number | undefined
  /** Resident memory, in bytes. */
  readonly memoryBytes: number | undefined
  readonly connections: number
  /** How often a process of this number was lost. */
  readonly lost: number
  /** How the last one that was lost has ended. */
  readonly lastEnd: string | undefined
  /** The code of the reason that its replacement could not be started, while there is none. */
  readonly problem: string | undefined
  /** A problem of the process that serves, and not of a route, as text. */
  readonly trouble: string | undefined
}

/** What the slots share. */
export interface SupervisorOwner {
  readonly log: FastifyBaseLogger
  readonly clock: Clock
  /** Aborted at the end: nothing is replaced any more. */
  readonly ending: AbortSignal
  readonly failures: StartFailures
  readonly silence: Pick<Silence, 'ms' | 'isSilent' | 'waitForStart'>
  /** Starts a process. @param storeMayBeAway - See `Boot.storeMayBeAway`. */
  start(number: number, storeMayBeAway: boolean): ServingProcess
  /** Whether a change, which this waits for, has made the state obsolete that a process was started with. */
  isOutdated(process: ServingProcess): Promise<boolean>
  /** Brings a started process up to date, and calls `join` when it is. */
  admit(process: ServingProcess, join: () => void): Promise<void>
  /** Ends a process, which gets no more connections. */
  dismiss(process: ServingProcess): void
}

/** Failed starts in a row, of all slots. */
export class StartFailures {
  count = 0
  /** Called when the breaker opens. */
  onOpen: () => void = () => undefined

  get isBreakerOpen(): boolean {
    return this.count >= BREAKER_FAILURES
  }

  /** @returns the delay before the next attempt. */
  add(): number {
    this.count++
    return backoffMs(this.count, FIRST_RETRY_MS, LONGEST_RETRY_MS)
  }
}

/** Keeps one serving process running. */
export class ProcessSupervisor {
  readonly number: number
  readonly #owner: SupervisorOwner
  #starting: ServingProcess | undefined
  #serving: ServingProcess | undefined
  #startedAt = 0
  #servingSince = 0
  #lost = 0
  #lastEnd: string | undefined
  #problem: string | undefined

  constructor(number: number, owner: SupervisorOwner) {
    this.number = number
    this.#owner = owner
  }

  /** The process that serves. */
  get serving(): ServingProcess | undefined {
    return this.#serving
  }

  /** The process that will serve. */
  get starting(): ServingProcess | undefined {
    return this.#starting
  }

  get info(): ProcessInfo {
    const [serving, starting] = [this.#serving, this.#starting]
    const { silence } = this.#owner
    const process = serving ?? starting
    const isSilent = process !== undefined && silence.isSilent(process)
    return {
      number: this.number,
      pid: process?.pid,
      state: isSilent ? 'silent' : serving ? 'serving' : starting ? 'starting' : 'waiting',
      silentMs: process && silence.ms(process),
      servingMs: serving && Math.round(performance.now() - this.#servingSince),
      revision: serving?.beat?.revision,
      memoryBytes: serving?.beat?.memoryBytes,
      connections: serving?.connections ?? 0,
      lost: this.#lost,
      lastEnd: this.#lastEnd,
      problem: this.#problem,
      trouble: serving?.beat?.trouble,
    }
  }

  /**
   * Starts a process, which then takes the place of the one that serves.
   *
   * @param isReplacement - Whether the one that served was lost.
   * @throws the reason that it cannot serve; the other one stays.
   */
  async start(isReplacement = false): Promise<PreparedRoutes> {
    const process = this.#owner.start(this.number, isReplacement)
    this.#starting = process
    this.#startedAt = performance.now()
    try {
      const routes = await this.#owner.silence.waitForStart(process, process.ready)
      await this.#owner.admit(process, () => this.#join(process))
      void process.ended.then((end) => this.#onEnd(process, end))
      return routes
    } catch (error) {
      process.kill()
      if (await this.#owner.isOutdated(process)) return this.start(isReplacement) // what it was loading may have been removed
      throw error
    } finally {
      if (this.#starting === process) this.#starting = undefined
    }
  }

  /** Replaces the process without losing a request. @throws as {@link ProcessSupervisor.start}. */
  async swap(reason: string): Promise<void> {
    if (this.#owner.ending.aborted) throw new ChangeRefusedError('the server is shutting down')
    const old = this.#serving
    await this.start()
    this.#owner.log.info(
      { process: this.number, reason, pid: this.#serving?.pid },
      'a serving process was replaced',
    )
    await old?.ended
  }

  /** A process that is about to end by itself, such as one whose threads are stuck, is replaced at once. */
  retire(process: ServingProcess): void {
    if (this.#serving === process) this.#lose(process, 'it ends by itself')
  }

  /** Whether its memory is above a limit, and it may be replaced for that. */
  isAbove(memoryMax: number): boolean {
    const { memoryBytes = 0, servingMs = 0 } = this.info
    return memoryBytes > memoryMax && servingMs >= MEMORY_INTERVAL_MS && !this.#starting
  }

  #join(process: ServingProcess): void {
    const old = this.#serving
    this.#serving = process
    this.#servingSince = performance.now()
    this.#owner.failures.count = 0
    this.#problem = undefined
    if (!old) return
    this.#owner.dismiss(old)
    old.drain()
  }

  #onEnd(process: ServingProcess, end: ProcessEnd): void {
    const { log } = this.#owner
    this.#owner.dismiss(process)
    if (this.#serving === process) this.#lose(process, renderEnd(end))
    else if (end.code !== 0)
      log.error(
        { process: this.number, pid: process.pid, end: renderEnd(end) },
        'a serving process was lost while it drained',
      )
  }

  #lose(process: ServingProcess, end: string): void {
    const { log, ending } = this.#owner
    this.#serving = undefined
    this.#lastEnd = end
    if (ending.aborted) return
    this.#lost++
    const servedMs = Math.round(performance.now() - this.#servingSince)
    log.error({ process: this.number, pid: process.pid, end, servedMs }, 'a serving process was lost')
    void this.#replace()
  }

  async #replace(): Promise<void> {
    const { log, clock, ending, failures } = this.#owner
    let delayMs = Math.max(0, this.#startedAt + START_INTERVAL_MS - performance.now())
    for (;;) {
      await clock.sleep(delayMs, ending)
      if (ending.aborted || this.#serving) return
      try {
        await this.start(true)
        log.info({ process: this.number, pid: this.info.pid }, 'a serving process was started')
        return
      } catch (error) {
        if (ending.aborted) return
        const wasOpen = failures.isBreakerOpen
        delayMs = failures.add()
        this.#problem = hasOwnCode(error) ? error.code : new InternalError().code
        log.error({ process: this.number, ...errorFields(error) }, 'a serving process could not be started')
        if (wasOpen || !failures.isBreakerOpen) continue
        const { code: failing, message } = new ProcessesFailingError(failures.count, delayMs)
        log.error({ code: failing }, message)
        failures.onOpen()
      }
    }
  }
}
