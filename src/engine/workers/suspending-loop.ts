import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { Instances } from '../instances.ts'
import type { AnswerWriter } from './answer-writer.ts'
import { CALL, type WorkerStart } from './protocol.ts'
import { Ring, type RingRecord } from './ring.ts'
import { SuspendedCall, type SuspendedCalls, type SuspendedCallsOwner } from './suspended-calls.ts'
import { ThreadState } from './thread-state.ts'

/** Maximum time between turns of the thread's event loop, which V8 and host functions need. */
const TURN_MS = 4

/** How long to wait for the next answer or call before the thread sleeps. */
const NAP_MS = 1

/**
 * Runs the assigned calls of a thread at the same time, each on an instance of its own: while a guest is suspended, others
 * run. Calls that the main thread took back are left out.
 */
export class SuspendingLoop implements SuspendedCallsOwner {
  readonly #calls: Ring
  readonly #inputs: MessagePort
  readonly #threadState: ThreadState
  readonly #instances: Instances
  readonly #turns: SuspendedCalls
  readonly #report: () => AnswerWriter
  readonly #exportNames: string[] = []
  /** The value of `changes` at the last report of stats. */
  #reportedChanges = -1
  /** When the event loop has to turn. */
  #until = 0
  #isPlanned = false
  /** Whether a new call comes before a suspended guest. They take turns. */
  #isForCalls = false

  /** @param report - Opens a writer for a call. */
  constructor(
    { calls, inputs, threadState }: WorkerStart,
    instances: Instances,
    turns: SuspendedCalls,
    report: () => AnswerWriter,
  ) {
    this.#calls = new Ring(calls)
    this.#inputs = inputs
    this.#threadState = new ThreadState(threadState)
    this.#instances = instances
    this.#turns = turns
    this.#report = report
    this.#reportStats()
    turns.open(this)
  }

  /** Begins a turn of the event loop. */
  run(): void {
    this.#until = performance.now() + TURN_MS
    this.#continue()
  }

  answered(): void {
    this.run()
  }

  free(): void {
    queueMicrotask(() => this.#continue())
  }

  /** Runs guests until all are suspended, then lets the thread sleep. A guest that runs calls back when it does not. */
  #continue(): void {
    this.#threadState.stayAwake()
    while (this.#turns.isFree) {
      if (!this.#next()) {
        this.#threadState.beginNap()
        // Written after the last look, when this thread still counted as awake.
        const isNews = !this.#calls.isEmpty || this.#threadState.hasReplies
        if (!isNews && !this.#threadState.nap(NAP_MS)) return
        this.#threadState.stayAwake()
      }
      if (performance.now() >= this.#until) {
        this.#plan()
        return
      }
    }
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.run()
    })
  }

  #next(): boolean {
    this.#isForCalls = !this.#isForCalls
    return this.#isForCalls ? this.#takeCall() || this.#turns.next() : this.#turns.next() || this.#takeCall()
  }

  #takeCall(): boolean {
    const record = this.#calls.peek()
    if (!record) return false
    if (record.kind === CALL.name) this.#exportNames[record.detail] = Buffer.from(record.payload).toString()
    else this.#start(record)
    this.#calls.release(record)
    return true
  }

  #start({ kind, call: number, detail, payload }: RingRecord): void {
    // A posted input comes before its call is written. The ring's memory is released before the guest ends.
    const input = kind === CALL.posted ? receiveMessageOnPort(this.#inputs)?.message : payload.slice()
    if (!this.#threadState.claim(number)) return
    const call = new SuspendedCall(number, this.#exportNames[detail] ?? '', this.#report())
    this.#turns.begin(call)
    void this.#run(call, input)
  }

  async #run(call: SuspendedCall, input: Uint8Array): Promise<void> {
    const { exportName, writer } = call
    try {
      const output = await this.#instances.call(exportName, input, call)
      if (call.endReason) throw call.endReason
      this.#reportStats()
      writer.output(this.#turns.ranMs(call), output)
    } catch (error) {
      this.#reportStats()
      writer.failure(this.#turns.ranMs(call), call.endReason ?? error)
    }
    this.#turns.end(call)
  }

  /** Runs before each answer, so that stats read after an answer include it. */
  #reportStats(): void {
    if (this.#reportedChanges === this.#instances.changes) return
    this.#reportedChanges = this.#instances.changes
    this.#threadState.writeStats(this.#instances.stats)
  }
}
