import { type MessagePort, parentPort, receiveMessageOnPort } from 'node:worker_threads'
import { toFailure } from '../../errors/call-failure.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import type { Caller } from '../../observe/observe.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { useRunMemory } from '../../runtime/interrupts.ts'
import type { BlockMemories, Runtime } from '../../runtime/runtime.ts'
import type { InlineEngine } from '../inline.ts'
import { Instances } from '../instances.ts'
import { AnswerWriter, logTo, type Post } from './answer-writer.ts'
import { guestOptions, openGuest } from './guest-options.ts'
import { HostClient } from './host-bridge.ts'
import {
  CALL,
  type FromTrial,
  PLACED_BYTES,
  RING_PAYLOAD,
  type TrialStart,
  WAKE,
  type WorkerStart,
} from './protocol.ts'
import { Ring, type RingRecord } from './ring.ts'
import { GuestBlocks } from './shared-blocks.ts'
import { SuspendedCalls } from './suspended-calls.ts'
import { SuspendingLoop } from './suspending-loop.ts'
import { ThreadState } from './thread-state.ts'

/** Maximum time between turns of the thread's event loop, which V8 and host functions need. */
const TURN_MS = 4

/** How long to wait for the next call before the thread sleeps. */
const NAP_MS = 1

/** Runs the assigned calls in order, except those that the main thread took back. */
class CallLoop {
  readonly #calls: Ring
  readonly #inputs: MessagePort
  readonly #engine: InlineEngine
  readonly #threadState: ThreadState
  readonly #writer: AnswerWriter
  readonly #blocks: GuestBlocks
  readonly #caller: Caller
  readonly #exportNames: string[] = []
  /** The value of `changes` at the last report of stats. */
  #reportedChanges = 0
  /** Whether it is waiting for a call. */
  #isWaiting = false

  constructor(
    { calls, inputs }: WorkerStart,
    engine: InlineEngine,
    threadState: ThreadState,
    writer: AnswerWriter,
    blocks: GuestBlocks,
  ) {
    this.#calls = new Ring(calls)
    this.#inputs = inputs
    this.#engine = engine
    this.#threadState = threadState
    this.#writer = writer
    this.#blocks = blocks
    this.#caller = { log: writer.log }
    this.#reportStats()
    blocks.free()
  }

  /** Runs all assigned calls, then lets the thread sleep. */
  run(): void {
    if (this.#isWaiting) return
    this.#threadState.stayAwake()
    const until = performance.now() + TURN_MS
    do {
      const record = this.#calls.peek()
      if (record) {
        this.#take(record)
        if (this.#isWaiting) return
      } else {
        this.#threadState.beginNap()
        if (this.#calls.isEmpty) {
          if (!this.#threadState.nap(NAP_MS)) return
        } else this.#threadState.stayAwake() // written after the last look, when this thread still counted as awake
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
    if (this.#threadState.claim(call)) {
      this.#call(call, this.#exportNames[detail] ?? '', this.#takeInput(record), record)
      return
    }
    if (kind === CALL.posted) this.#takePosted()
    if (kind === CALL.placed) this.#blocks.free()
    this.#calls.release(record)
  }

  #takeInput({ kind, payload }: RingRecord): Uint8Array {
    if (kind === CALL.placed) return this.#blocks.takeInput(this.#engine.isOpen)
    this.#blocks.take()
    return kind === CALL.posted ? this.#takePosted() : payload
  }

  /** Takes the input, which was posted before the call was written. */
  #takePosted(): Uint8Array {
    return receiveMessageOnPort(this.#inputs)?.message
  }

  #call(call: number, exportName: string, input: Uint8Array, record: RingRecord): void {
    const since = monotonicMs()
    this.#threadState.begin(call, since)
    this.#writer.begin(call)
    let output: ReturnType<InlineEngine['call']>
    try {
      output = this.#engine.call(exportName, input, this.#caller)
    } catch (error) {
      this.#fail(since, error, record)
      return
    }
    if (output instanceof Uint8Array) this.#answer(since, output, record)
    else {
      this.#isWaiting = true
      void this.#wait(output, since, record)
    }
  }

  async #wait(output: PromiseLike<Uint8Array>, since: number, record: RingRecord): Promise<void> {
    await output.then(
      (bytes) => this.#answer(since, bytes, record),
      (error) => this.#fail(since, error, record),
    )
    this.#isWaiting = false
    this.run()
  }

  #answer(since: number, output: Uint8Array, record: RingRecord): void {
    const ms = monotonicMs() - since
    this.#reportStats()
    this.#calls.release(record) // only now: the input is in the ring's memory
    if (!this.#leaves(output) || !this.#writer.placed(ms)) {
      this.#writer.output(ms, output)
      this.#blocks.free()
    }
    this.#threadState.end()
  }

  /** Leaves a large output in the blocks, unless the next call waits for them and it can be copied at once. */
  #leaves(output: Uint8Array): boolean {
    const isLarge = output.length > RING_PAYLOAD || (output.length >= PLACED_BYTES && this.#calls.isEmpty)
    return isLarge && this.#blocks.leave(output)
  }

  #fail(since: number, error: unknown, record: RingRecord): void {
    const ms = monotonicMs() - since
    this.#reportStats()
    this.#calls.release(record)
    this.#writer.failure(ms, error)
    this.#blocks.free()
    this.#threadState.end()
  }

  /** Runs before each answer, so that stats read after an answer include it. */
  #reportStats(): void {
    if (this.#reportedChanges === this.#engine.changes) return
    this.#reportedChanges = this.#engine.changes
    this.#threadState.writeStats(this.#engine.stats)
  }
}

/**
 * The main function of a worker thread: an inline engine whose calls come from the main thread and whose answers go back
 * there; or trials of plug-ins. Its first message decides.
 */
export function runThread(runtime: Runtime): void {
  let loop: CallLoop | SuspendingLoop | undefined
  parentPort?.on('message', (message: typeof WAKE | WorkerStart | TrialStart) => {
    if (message === WAKE) loop?.run()
    else if ('calls' in message) void serveCalls(message, runtime, (opened) => (loop = opened))
    else void tryPlugin(message, runtime)
  })
}

const openEngine = (
  start: TrialStart,
  runtime: Runtime,
  threadState: ThreadState,
  log: Log,
  memories?: BlockMemories,
) => openGuest(start, start.plugin, runtime, new HostClient(start.host, threadState), log, memories)

async function serveCalls(
  start: WorkerStart,
  runtime: Runtime,
  opened: (loop: CallLoop | SuspendingLoop) => void,
): Promise<void> {
  const post: Post = (message, transfer = []) => parentPort?.postMessage(message, transfer)
  try {
    useRunMemory(start.threadState)
    const threadState = new ThreadState(start.threadState)
    const answers = new Ring(start.answers)
    const writer = new AnswerWriter(answers, threadState, post)
    const loop = start.suspended
      ? await openSuspendingLoop(start, start.suspended, runtime, threadState, answers, post)
      : await openLoop(start, runtime, threadState, writer, post)
    opened(loop)
    post({ isReady: true })
  } catch (error) {
    post({ startFailure: toFailure(error) })
  }
}

async function tryPlugin(trial: TrialStart, runtime: Runtime): Promise<void> {
  const post = (message: FromTrial) => parentPort?.postMessage(message)
  try {
    const log = logTo((line) => post({ line }))
    const { engine, startMs } = await openEngine(trial, runtime, new ThreadState(trial.threadState), log)
    await engine.close()
    trial.host.close()
    post({ startMs })
  } catch (error) {
    post({ startFailure: toFailure(error) })
  }
}

async function openLoop(
  start: WorkerStart,
  runtime: Runtime,
  threadState: ThreadState,
  writer: AnswerWriter,
  post: Post,
): Promise<CallLoop> {
  const blocks = new GuestBlocks(threadState, post)
  const { engine } = await openEngine(start, runtime, threadState, writer.log, blocks)
  return new CallLoop(start, engine, threadState, writer, blocks)
}

/** Guests are suspended while they wait for the host. */
async function openSuspendingLoop(
  start: WorkerStart,
  port: MessagePort,
  runtime: Runtime,
  threadState: ThreadState,
  answers: Ring,
  post: Post,
): Promise<SuspendingLoop> {
  const turns = new SuspendedCalls(
    port,
    threadState,
    new HostClient(start.host, threadState),
    start.timeoutMs,
  )
  const { log } = new AnswerWriter(answers, threadState, post)
  const instances = new Instances(await guestOptions(start, start.plugin, runtime, turns, log))
  await instances.openFirst()
  return new SuspendingLoop(start, instances, turns, () => new AnswerWriter(answers, threadState, post))
}
