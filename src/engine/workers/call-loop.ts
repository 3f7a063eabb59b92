import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { Caller } from '../../observe/observe.ts'
import type { InlineEngine } from '../inline.ts'
import { CALL, type WorkerStart } from './protocol.ts'
import type { Reporter } from './reporter.ts'
import { Ring, type RingRecord } from './ring.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** After so long the thread's event loop has its turn: V8 and host functions have work for it. */
const TURN_MS = 4

/** How long to wait for the next call before the thread sleeps. */
const NAP_MS = 1

/** Runs the calls that were handed over, one after the other, those that the main thread did not take back. */
export class CallLoop {
  readonly #calls: Ring
  readonly #inputs: MessagePort
  readonly #engine: InlineEngine
  readonly #stamp: Stamp
  readonly #reporter: Reporter
  readonly #caller: Caller
  readonly #exportNames: string[] = []
  /** The changes of the engine that were told. */
  #told = 0
  /** A call is waited for. */
  #isWaiting = false

  constructor({ calls, inputs }: WorkerStart, engine: InlineEngine, stamp: Stamp, reporter: Reporter) {
    this.#calls = new Ring(calls)
    this.#inputs = inputs
    this.#engine = engine
    this.#stamp = stamp
    this.#reporter = reporter
    this.#caller = { log: reporter.log }
    this.#tell()
  }

  /** Runs all there is, then lets the thread sleep. */
  run(): void {
    if (this.#isWaiting) return
    this.#stamp.stayAwake()
    const until = performance.now() + TURN_MS
    do {
      const record = this.#calls.peek()
      if (record) {
        this.#take(record)
        if (this.#isWaiting) return
      } else {
        this.#stamp.beginNap()
        if (this.#calls.isEmpty) {
          if (!this.#stamp.nap(NAP_MS)) return
        } else this.#stamp.stayAwake() // written after the last look, by one who saw us awake
      }
    } while (performance.now() < until)
    setImmediate(() => this.run())
  }

  #take(record: RingRecord): void {
    const { kind, call, detail, payload } = record
    if (kind === CALL.name) {
      this.#exportNames[detail] = Buffer.from(payload).toString()
      this.#calls.release(record)
      return
    }
    const input = kind === CALL.posted ? this.#takeInput() : payload
    if (this.#stamp.claim(call)) this.#call(call, this.#exportNames[detail] ?? '', input, record)
    else this.#calls.release(record)
  }

  /** It was posted before the call was written. */
  #takeInput(): Uint8Array {
    return receiveMessageOnPort(this.#inputs)?.message as Uint8Array
  }

  #call(call: number, exportName: string, input: Uint8Array, record: RingRecord): void {
    const since = monotonicMs()
    const end = () => {
      this.#stamp.end()
      this.#calls.release(record) // not before: the input lies in the ring
    }
    this.#stamp.begin(call, since)
    this.#reporter.begin(call)
    try {
      const output = this.#engine.call(exportName, input, this.#caller)
      if (output instanceof Promise) {
        this.#isWaiting = true
        this.#wait(output, since, end)
        return
      }
      const ms = monotonicMs() - since
      this.#tell()
      this.#reporter.output(ms, output)
    } catch (error) {
      const ms = monotonicMs() - since
      this.#tell()
      this.#reporter.failure(ms, error)
    }
    end()
  }

  /** Before the answer: who has that may ask for the stats. */
  #tell(): void {
    if (this.#told === this.#engine.changes) return
    this.#told = this.#engine.changes
    this.#stamp.tell(this.#engine.stats)
  }

  async #wait(output: Promise<Uint8Array>, since: number, end: () => void): Promise<void> {
    try {
      const bytes = await output
      const ms = monotonicMs() - since
      this.#tell()
      this.#reporter.output(ms, bytes)
    } catch (error) {
      const ms = monotonicMs() - since
      this.#tell()
      this.#reporter.failure(ms, error)
    }
    end()
    this.#isWaiting = false
    this.run()
  }
}
