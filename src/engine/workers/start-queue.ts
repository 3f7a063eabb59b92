import { availableParallelism } from 'node:os'

/** After so long a start waits more than it computes, and gives way: one that hangs holds up no other for longer. */
const SLOW_START_MS = 1_000

/** A thread that is to be started. */
export interface QueuedStart {
  /** Whether calls need it; else those go first that calls need. Asked again at each turn. */
  isUrgent(): boolean
  /** Its turn has come. @param leave - To be called when it has started, or failed. */
  begin(leave: () => void): void
}

/**
 * Starts few threads at a time: each takes a core for some 30 ms, and all at once would take so long that none were ready
 * in its time.
 */
export class StartQueue {
  readonly #limit: number
  readonly #slowMs: number
  #waiting: { isUrgent(): boolean; begin(): void }[] = []
  #running = 0

  constructor(limit: number, slowMs = SLOW_START_MS) {
    this.#limit = limit
    this.#slowMs = slowMs
  }

  /**
   * Begins a start when its turn comes, which may be at once.
   *
   * @returns a function that withdraws the start.
   */
  enter(start: QueuedStart): () => void {
    let timer: NodeJS.Timeout | undefined
    let isOver = false
    const leave = () => {
      if (isOver) return
      isOver = true
      this.#waiting = this.#waiting.filter((each) => each !== entry)
      if (timer === undefined) return
      clearTimeout(timer)
      this.#running--
      this.#next()
    }
    const entry = {
      isUrgent: () => start.isUrgent(),
      begin: () => {
        timer = setTimeout(leave, this.#slowMs).unref()
        start.begin(leave)
      },
    }
    this.#waiting.push(entry)
    this.#next()
    return leave
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const next = this.#waiting.find((each) => each.isUrgent()) ?? this.#waiting[0]
      if (!next) return
      this.#waiting = this.#waiting.filter((each) => each !== next)
      this.#running++
      next.begin()
    }
  }
}

/** Of the process, whose threads share its cores. */
export const processStarts = new StartQueue(Math.max(2, availableParallelism()))
