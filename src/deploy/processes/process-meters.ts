import { ReportedMeters } from '../../observe/meter-report.ts'
import { Meters } from '../../observe/metrics.ts'
import type { ServingProcess } from './serving-process.ts'

/** How long a process may take to report. The counts of one that holds its event loop are those of its last report. */
const REPORT_MS = 300

/** The interval of reports without a request for metrics: a killed process loses the counts of at most this time. */
const REPORT_INTERVAL_MS = 5_000

/** The counts of all processes: their sum, and by number. They continue when a process is replaced. */
export class ProcessMeters {
  readonly byNumber = new Map<number, Meters>()
  readonly #total: Meters
  readonly #reported = new Map<ServingProcess, ReportedMeters>()
  readonly #processes: () => readonly ServingProcess[]
  readonly #timer: NodeJS.Timeout
  #refreshing: Promise<void> | undefined

  /** @param total - Gets the sum. @param processes - Those that can report. */
  constructor(total: Meters, processes: () => readonly ServingProcess[]) {
    this.#total = total
    this.#processes = processes
    this.#timer = setInterval(() => void this.refresh(), REPORT_INTERVAL_MS).unref()
  }

  /** Reads no more counts by itself. */
  close(): void {
    clearInterval(this.#timer)
  }

  /** Reads the counts. Requests that come meanwhile share one reading. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  /** The process has ended: its counts stay. */
  end(process: ServingProcess): void {
    this.#reported.get(process)?.end()
    this.#reported.delete(process)
  }

  async #refresh(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, REPORT_MS)
    })
    const all = this.#processes().map(async (process) => {
      const reports = await process.meters().catch(() => undefined) // it has ended
      if (reports) this.#reportedOf(process).add(reports)
    })
    await Promise.race([Promise.all(all), late])
    clearTimeout(timer)
  }

  #reportedOf(process: ServingProcess): ReportedMeters {
    const own = this.byNumber.get(process.number) ?? new Meters()
    this.byNumber.set(process.number, own)
    const reported = this.#reported.get(process) ?? new ReportedMeters(this.#total, own)
    this.#reported.set(process, reported)
    return reported
  }
}
