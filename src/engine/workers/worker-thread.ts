import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { toFailure } from '../../errors/call-failure.ts'
import { loadFunctions } from '../../guest/host-functions.ts'
import { kvImports, withKv } from '../../guest/store/kv.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import type { InstanceSettings, Runtime } from '../../runtime/runtime.ts'
import { type InlineEngine, openInline } from '../inline.ts'
import { bridgedHttp, bridgedKv, bridgedVars, HostClient } from './host-bridge.ts'
import { ANSWER, CALL, type FromWorker, type LogLine, RING_PAYLOAD, type WorkerStart } from './protocol.ts'
import { Ring, type RingRecord } from './ring.ts'
import { monotonicMs, Stamp } from './stamp.ts'

/** Maximum time between turns of the thread's event loop, which V8 and host functions need. */
const TURN_MS = 4

/** How long to wait for the next call before the thread sleeps. */
const NAP_MS = 1

/** Runs the assigned calls in order, except those that the main thread took back. */
class CallLoop {
  readonly #calls: Ring
  readonly #inputs: MessagePort
  readonly #engine: InlineEngine
  readonly #stamp: Stamp
  readonly #reporter: Reporter
  readonly #caller: Caller
  readonly #exportNames: string[] = []
  /** The value of `changes` at the last report of stats. */
  #reportedChanges = 0
  /** Whether it is waiting for a call. */
  #isWaiting = false

  constructor({ calls, inputs }: WorkerStart, engine: InlineEngine, stamp: Stamp, reporter: Reporter) {
    this.#calls = new Ring(calls)
    this.#inputs = inputs
    this.#engine = engine
    this.#stamp = stamp
    this.#reporter = reporter
    this.#caller = { log: reporter.log }
    this.#reportStats()
  }

  /** Runs all assigned calls, then lets the thread sleep. */
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
        } else this.#stamp.stayAwake() // written after the last look, when this thread still counted as awake
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
    return receiveMessageOnPort(this.#inputs)?.message
  }

  #call(call: number, exportName: string, input: Uint8Array, record: RingRecord): void {
    const since = monotonicMs()
    const end = () => {
      this.#stamp.end()
      this.#calls.release(record) // only now: the input is in the ring's memory
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
      this.#reportStats()
      this.#reporter.output(ms, output)
    } catch (error) {
      const ms = monotonicMs() - since
      this.#reportStats()
      this.#reporter.failure(ms, error)
    }
    end()
  }

  /** Written before the answer, so that stats read after an answer include it. */
  #reportStats(): void {
    if (this.#reportedChanges === this.#engine.changes) return
    this.#reportedChanges = this.#engine.changes
    this.#stamp.writeStats(this.#engine.stats)
  }

  async #wait(output: Promise<Uint8Array>, since: number, end: () => void): Promise<void> {
    try {
      const bytes = await output
      const ms = monotonicMs() - since
      this.#reportStats()
      this.#reporter.output(ms, bytes)
    } catch (error) {
      const ms = monotonicMs() - since
      this.#reportStats()
      this.#reporter.failure(ms, error)
    }
    end()
    this.#isWaiting = false
    this.run()
  }
}

type Post = (message: FromWorker, transfer?: ArrayBuffer[]) => void

/** Reports answers and log lines to the main thread. A report arrives even if the thread is killed right after it. */
class Reporter {
  /** Sends log lines immediately, with the number of the running call. */
  readonly log: Log = {
    trace: (fields, message) => this.#line(['trace', fields, message]),
    debug: (fields, message) => this.#line(['debug', fields, message]),
    info: (fields, message) => this.#line(['info', fields, message]),
    warn: (fields, message) => this.#line(['warn', fields, message]),
    error: (fields, message) => this.#line(['error', fields, message]),
  } satisfies Record<GuestLogLevel, Log[GuestLogLevel]>

  readonly #answers: Ring
  readonly #stamp: Stamp
  readonly #post: Post
  #call = 0
  /** A message of this call was posted: later ones must not overtake it in the ring. */
  #isPosting = false

  constructor(answers: SharedArrayBuffer, stamp: Stamp, post: Post) {
    this.#answers = new Ring(answers)
    this.#stamp = stamp
    this.#post = post
  }

  begin(call: number): void {
    this.#call = call
    this.#isPosting = false
  }

  /** @param ms - Guest time. */
  output(ms: number, output: Uint8Array): void {
    this.#report(ANSWER.output, ms, output)
    this.#call = 0
  }

  failure(ms: number, error: unknown): void {
    this.#report(ANSWER.failure, ms, Buffer.from(JSON.stringify(toFailure(error))))
    this.#call = 0
  }

  #line(line: LogLine): void {
    this.#report(ANSWER.log, 0, Buffer.from(JSON.stringify(line)))
  }

  #report(kind: number, ms: number, payload: Uint8Array): void {
    const isSmall = payload.length <= RING_PAYLOAD && !this.#isPosting
    if (isSmall && this.#answers.write(kind, this.#call, 0, ms, payload)) {
      if (this.#stamp.ring()) this.#post('answers')
      return
    }
    this.#isPosting = true
    const own = ownBuffer(payload)
    this.#post({ kind, call: this.#call, detail: 0, ms, payload: own }, [own.buffer])
  }
}

/** Bytes with their own buffer, which can be transferred. */
function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  return isWhole ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes)
}

const threadStart = workerData as WorkerStart
const stamp = new Stamp(threadStart.stamp)
const post = (message: FromWorker, transfer: ArrayBuffer[] = []) => parentPort?.postMessage(message, transfer)
const reporter = new Reporter(threadStart.answers, stamp, post)

/**
 * The main function of a worker thread: an inline engine whose calls come from the main thread and whose answers go back
 * there.
 */
export function runThread(runtime: Runtime): void {
  openThreadEngine(runtime).catch((error) => post({ startFailure: toFailure(error) }))
}

async function openThreadEngine(runtime: Runtime): Promise<void> {
  const options = {
    plugin: threadStart.plugin as CompiledPlugin,
    runtime,
    settings: await settingsOf(threadStart),
    maxQueue: 1,
    ...threadStart.isolation,
  }
  const begun = performance.now()
  const engine = openInline(options)
  await engine.ready
  const startMs = performance.now() - begun
  const loop = new CallLoop(threadStart, engine, stamp, reporter)
  parentPort?.on('message', () => loop.run())
  post({ startMs })
}

async function settingsOf({
  plugin,
  settings,
  functions,
  host,
  hostParts,
}: WorkerStart): Promise<InstanceSettings> {
  const client = new HostClient(host, stamp)
  const users = await loadFunctions(functions)
  return {
    ...settings,
    functions: hostParts.includes('kv') ? withKv(users, kvImports(plugin, users), bridgedKv(client)) : users,
    log: reporter.log,
    logsAtOnce: true,
    ...(hostParts.includes('http') && { http: bridgedHttp(client) }),
    ...(hostParts.includes('vars') && { vars: bridgedVars(client) }),
  }
}
