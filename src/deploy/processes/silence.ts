import type { FastifyBaseLogger } from 'fastify'
import { ProcessSilentError } from '../../errors/errors.ts'
import type { Clock } from './clock.ts'
import type { ServingProcess } from './serving-process.ts'

/** Interval of the measurements. */
const TICK_MS = 1_000

/** Silence after which operators see it. */
const SILENT_MS = 5_000

/** Silence after which a process is killed if the primary waits for it. */
const PATIENCE_MS = 10_000

/** Silence after which a starting process is killed: on a busy machine it may take long to load its program. */
const START_PATIENCE_MS = 30_000

/** What the measurement of silence needs. */
interface SilenceOptions {
  readonly log: FastifyBaseLogger
  /** Silence after which a process that serves is killed, in milliseconds. Default: none. */
  readonly maxMs?: number | undefined
  /** Called when a process becomes silent, and when it is heard again. */
  onChange(process: ServingProcess, isSilent: boolean): void
  readonly clock: Pick<Clock, 'every'>
}

/**
 * How long processes have given no sign of life, and the end of the primary's patience: a process that is stopped, or
 * does not turn its event loop, answers nothing. It is killed if the primary waits for it, so that no wait is endless.
 *
 * Time in which the primary itself was stopped does not count.
 */
export class Silence {
  readonly #options: SilenceOptions
  readonly #pulses = new Map<ServingProcess, Pulse>()
  readonly #stop: () => void

  constructor(options: SilenceOptions) {
    this.#options = options
    this.#stop = options.clock.every(TICK_MS, (ms) => this.#pass(ms))
  }

  /** Ends the measurements. */
  close(): void {
    this.#stop()
  }

  /** Measures it until the process ends. */
  add(process: ServingProcess): void {
    this.#pulses.set(process, {
      silentMs: 0,
      isSilent: false,
      isKilled: false,
      waits: [],
      answers: new Set(),
    })
    void process.ended.then(() => this.#pulses.delete(process))
  }

  /** The process has given a sign of life. */
  hear(process: ServingProcess): void {
    const pulse = this.#pulses.get(process)
    if (!pulse) return
    const { silentMs, isSilent } = pulse
    pulse.silentMs = 0
    pulse.isSilent = false
    if (!isSilent) return
    this.#options.log.info({ ...names(process), silentMs }, 'a serving process responds again')
    this.#options.onChange(process, false)
  }

  /** Milliseconds without a sign of life; 0 after the end. */
  ms(process: ServingProcess): number {
    return Math.round(this.#pulses.get(process)?.silentMs ?? 0)
  }

  /** Whether operators should know. */
  isSilent(process: ServingProcess): boolean {
    return this.#pulses.get(process)?.isSilent ?? false
  }

  /** Waits for something that a process does. A process that is silent for too long meanwhile is killed. */
  wait<Result>(process: ServingProcess, work: Promise<Result>): Promise<Result> {
    return this.#wait(process, work, PATIENCE_MS)
  }

  /** Waits for a process that starts, with more patience. */
  waitForStart<Result>(process: ServingProcess, work: Promise<Result>): Promise<Result> {
    return this.#wait(process, work, START_PATIENCE_MS)
  }

  /** Waits for the answer of a guest, which may take its time, until its process becomes silent. @throws {@link ProcessSilentError} */
  async answer<Result>(process: ServingProcess, work: Promise<Result>): Promise<Result> {
    const pulse = this.#pulses.get(process)
    if (!pulse) return work // it has ended
    let giveUp: () => void = () => undefined
    const silent = new Promise<never>((_, reject) => {
      giveUp = () => reject(new ProcessSilentError(process.number))
    })
    pulse.answers.add(giveUp)
    try {
      return await Promise.race([work, silent])
    } finally {
      pulse.answers.delete(giveUp)
    }
  }

  #pass(ms: number): void {
    for (const [process, pulse] of this.#pulses) {
      pulse.silentMs += Math.min(ms, 2 * TICK_MS)
      this.#look(process, pulse)
    }
  }

  #look(process: ServingProcess, pulse: Pulse): void {
    const { log, maxMs = Number.POSITIVE_INFINITY, onChange } = this.#options
    const { silentMs, isSilent, isKilled, waits } = pulse
    const fields = { ...names(process), silentMs: Math.round(silentMs) }
    if (silentMs >= SILENT_MS && !isSilent) {
      pulse.isSilent = true
      log.warn(fields, 'a serving process is silent')
      onChange(process, true)
      for (const giveUp of pulse.answers) giveUp()
    }
    const limitMs = Math.min(process.beat ? maxMs : Number.POSITIVE_INFINITY, ...waits)
    if (silentMs < limitMs || isKilled) return
    pulse.isKilled = true
    log.error(fields, 'a serving process is silent for too long: killing it')
    process.kill()
  }

  async #wait<Result>(process: ServingProcess, work: Promise<Result>, limitMs: number): Promise<Result> {
    const pulse = this.#pulses.get(process)
    if (!pulse) return work // it has ended
    pulse.waits.push(limitMs)
    this.#look(process, pulse)
    try {
      return await work
    } finally {
      pulse.waits.splice(pulse.waits.indexOf(limitMs), 1)
    }
  }
}

interface Pulse {
  silentMs: number
  isSilent: boolean
  isKilled: boolean
  /** The limits of those that wait for the process. */
  readonly waits: number[]
  /** Give up the answers that are waited for. */
  readonly answers: Set<() => void>
}

function names({ number, pid }: ServingProcess) {
  return { process: number, pid }
}
