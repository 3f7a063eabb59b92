import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { toFailure } from '../../errors/call-failure.ts'
import { withAgent } from '../../guest/agent.ts'
import { loadFunctions } from '../../guest/host-functions.ts'
import { kvImports, withKv } from '../../guest/store/kv.ts'
import { withRequests } from '../../guest/streams/requests.ts'
import { GuestStream, withStreams } from '../../guest/streams/streams.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { giveBack } from '../../platform/buffer-pool.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { streamingRuntime } from '../../runtime/streaming.ts'
import { type InlineEngine, openInline } from '../inline.ts'
import {
  bridgedAgent,
  bridgedHttp,
  bridgedKv,
  bridgedStream,
  bridgedVars,
  HostClient,
} from './host-bridge.ts'
import {
  ANSWER,
  CALL,
  FOR_TRIALS,
  type FromTrial,
  type FromWorker,
  type LogLine,
  RING_PAYLOAD,
  type TrialStart,
  type WorkerStart,
} from './protocol.ts'
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

/** A log that passes on each line. */
function logTo(send: (line: LogLine) => void): Log {
  return {
    trace: (fields, message) => send(['trace', fields, message]),
    debug: (fields, message) => send(['debug', fields, message]),
    info: (fields, message) => send(['info', fields, message]),
    warn: (fields, message) => send(['warn', fields, message]),
    error: (fields, message) => send(['error', fields, message]),
  } satisfies Record<GuestLogLevel, Log[GuestLogLevel]>
}

/** Reports answers and log lines to the main thread. A report arrives even if the thread is killed right after it. */
class Reporter {
  /** Sends log lines immediately, with the number of the running call. */
  readonly log = logTo((line) => this.#report(ANSWER.log, 0, Buffer.from(JSON.stringify(line))))
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

  #report(kind: number, ms: number, payload: Uint8Array): void {
    const isSmall = payload.length <= RING_PAYLOAD && !this.#isPosting
    if (isSmall && this.#answers.write(kind, this.#call, 0, ms, payload)) {
      giveBack(payload)
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

/**
 * The main function of a worker thread: an inline engine whose calls come from the main thread and whose answers go back
 * there; or trials of plug-ins.
 */
export function runThread(runtime: Runtime): void {
  const start = workerData as WorkerStart | typeof FOR_TRIALS
  if (start === FOR_TRIALS) parentPort?.on('message', (trial: TrialStart) => void tryPlugin(trial, runtime))
  else void serveCalls(start, runtime)
}

async function serveCalls(start: WorkerStart, runtime: Runtime): Promise<void> {
  const post: Post = (message, transfer = []) => parentPort?.postMessage(message, transfer)
  try {
    const stamp = new Stamp(start.stamp)
    const reporter = new Reporter(start.answers, stamp, post)
    const { engine } = await openEngine(start, runtime, stamp, reporter.log)
    const loop = new CallLoop(start, engine, stamp, reporter)
    parentPort?.on('message', () => loop.run())
    post({ isReady: true })
  } catch (error) {
    post({ startFailure: toFailure(error) })
  }
}

async function tryPlugin(trial: TrialStart, runtime: Runtime): Promise<void> {
  const post = (message: FromTrial) => parentPort?.postMessage(message)
  try {
    const log = logTo((line) => post({ line }))
    const { engine, startMs } = await openEngine(trial, runtime, new Stamp(trial.stamp), log)
    await engine.close()
    trial.host.close()
    post({ startMs })
  } catch (error) {
    post({ startFailure: toFailure(error) })
  }
}

async function openEngine(
  start: TrialStart,
  runtime: Runtime,
  stamp: Stamp,
  log: Log,
): Promise<{ engine: InlineEngine; startMs: number }> {
  const { plugin, settings, functions, isolation, host, hostParts } = start
  const client = new HostClient(host, stamp)
  const users = await loadFunctions(functions)
  const stored = hostParts.includes('kv') ? withKv(users, kvImports(plugin, users), bridgedKv(client)) : users
  const agentic = hostParts.includes('agent') ? withAgent(stored, bridgedAgent(client)) : stored
  const stream = hostParts.includes('stream') ? new GuestStream(bridgedStream(client)) : undefined
  const options = {
    plugin: plugin as CompiledPlugin,
    runtime: stream ? streamingRuntime(runtime, stream) : runtime,
    settings: {
      ...settings,
      functions: stream ? withRequests(withStreams(agentic, stream), stream) : agentic,
      log,
      logsAtOnce: true,
      ...(hostParts.includes('http') && { http: bridgedHttp(client) }),
      ...(hostParts.includes('vars') && { vars: bridgedVars(client) }),
    },
    maxQueue: 1,
    ...isolation,
  }
  const begun = performance.now()
  const engine = openInline(options)
  await engine.ready
  return { engine, startMs: performance.now() - begun }
}
