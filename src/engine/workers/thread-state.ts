import { interruptRun, newRunMemory } from '../../runtime/interrupts.ts'
import { creditedMs, type RunnerStats, type RunningCall } from '../runners/runner.ts'

/*
 * Shared memory of the main thread and a worker: the running call and its start time, the calls that the worker may still
 * start, and whether either thread has to be woken.
 */

/** Maximum number of calls assigned to a thread, including the running or suspended ones. */
export const SLOTS = 256

/** The slot of an assigned call; its number ends with the slot. */
export function slotOf(call: number): number {
  return call % SLOTS
}

/** Words of 4 bytes. The first is the number of the run: below zero if the call is interrupted. */
const RUNNING = 0
const WORKER_STATE = 1
const MAIN_RUNG = 2
const HOST_ANSWERED = 3
const WAITS_FOR_HOST = 4
/** Odd during a pause of the running call. Changes with each turn of a suspended one. */
const PAUSES = 5
/** Number of replies that the worker has not taken. */
const REPLIES = 6
/** Who may use the blocks that both threads share: {@link WORKERS}, {@link MAINS}, or nobody: then it is their number, from 1. */
const BLOCKS = 7
/** The number of the latest blocks that the main thread has received. */
const KNOWN_BLOCKS = 8
/** One word per assigned call: its number until a thread claims it. */
const CLAIMS = 9
const WORD_COUNT = CLAIMS + SLOTS

/**
 * 8-byte numbers: the start of the running call or turn, {@link RunnerStats}, since when it waits for the host, the start of
 * its last pause, and the time that it ran in earlier turns.
 */
const SINCE = 0
const GUEST_BYTES = 1
const KERNEL_BYTES = 2
const RECYCLED = 3
const RESTARTED = 4
const DROPPED_LINES = 5
const WAITS_SINCE = 6
const PAUSED_AT = 7
const BEFORE_MS = 8
const CHECKS = 9
const NUMBER_COUNT = 10
/** The numbers are behind the words. */
const NUMBERS_AT = Math.ceil((WORD_COUNT * 4) / 8) * 8

/** States of a worker. Asleep: its event loop waits for a message. Napping: the thread waits on a word of this memory. */
const ASLEEP = 0
const AWAKE = 1
const NAPPING = 2

/** Owners of the blocks. */
const WORKERS = 0
const MAINS = -1

/** The shared memory of one worker thread and the main thread. */
export class ThreadState {
  readonly memory: WebAssembly.Memory
  readonly #words: Int32Array
  readonly #numbers: Float64Array

  /** @param memory - The run memory of the worker. */
  constructor(memory = newRunMemory()) {
    this.memory = memory
    this.#words = new Int32Array(memory.buffer, 0, WORD_COUNT)
    this.#numbers = new Float64Array(memory.buffer, NUMBERS_AT, NUMBER_COUNT)
  }

  /** Worker: a guest starts. */
  begin(call: number, now: number): void {
    this.#numbers[SINCE] = now
    Atomics.store(this.#words, RUNNING, call)
  }

  /** Worker: the answer is stored safely, or the guest is suspended. */
  end(): void {
    Atomics.store(this.#words, RUNNING, 0)
  }

  /** Worker: a guest starts, or continues after it was suspended. @param beforeMs - Time that it ran in earlier turns. */
  beginTurn(call: number, now: number, beforeMs: number): void {
    Atomics.add(this.#words, PAUSES, 2)
    this.#numbers[BEFORE_MS] = beforeMs
    this.begin(call, now)
  }

  /** The running call; undefined if it is suspended. */
  running(): RunningCall | undefined {
    const call = Math.abs(Atomics.load(this.#words, RUNNING))
    const turn = Atomics.load(this.#words, PAUSES)
    const since = this.#numbers[SINCE] ?? 0
    const beforeMs = this.#numbers[BEFORE_MS] ?? 0
    // Another call, or another turn of the same, may have started in between.
    if (call === 0 || Math.abs(Atomics.load(this.#words, RUNNING)) !== call) return undefined
    return Atomics.load(this.#words, PAUSES) === turn ? { call, since, beforeMs } : undefined
  }

  /** Main thread: lets the guest of a call trap. @returns false if it does not run, or is interrupted already. */
  interrupt(call: number): boolean {
    return interruptRun(this.#words, call)
  }

  /** Worker: publishes the engine's stats. */
  writeStats({ guestBytes, kernelBytes, recycled, restarted, droppedLines, checks }: RunnerStats): void {
    const numbers = this.#numbers
    numbers[GUEST_BYTES] = guestBytes
    numbers[KERNEL_BYTES] = kernelBytes
    numbers[RECYCLED] = recycled
    numbers[RESTARTED] = restarted
    numbers[DROPPED_LINES] = droppedLines
    numbers[CHECKS] = checks
  }

  /** Main thread: reads the worker's latest stats. */
  readStats(): RunnerStats {
    const numbers = this.#numbers
    return {
      guestBytes: numbers[GUEST_BYTES] ?? 0,
      kernelBytes: numbers[KERNEL_BYTES] ?? 0,
      recycled: numbers[RECYCLED] ?? 0,
      restarted: numbers[RESTARTED] ?? 0,
      droppedLines: numbers[DROPPED_LINES] ?? 0,
      checks: numbers[CHECKS] ?? 0,
    }
  }

  /** Main thread: from now on a call can be claimed. */
  offer(call: number): void {
    Atomics.store(this.#words, CLAIMS + slotOf(call), call)
  }

  /** Changes when a suspended guest continues. */
  get turn(): number {
    return Atomics.load(this.#words, PAUSES)
  }

  /** Main thread: whether no thread has claimed a call yet. */
  isOffered(call: number): boolean {
    return Atomics.load(this.#words, CLAIMS + slotOf(call)) === call
  }

  /** Either thread: the worker claims a call to run it, the main thread to take it back. Only one succeeds. */
  claim(call: number): boolean {
    return Atomics.compareExchange(this.#words, CLAIMS + slotOf(call), call, 0) === call
  }

  /** Either thread: has wiped the blocks. @param number - Theirs. */
  freeBlocks(number: number): void {
    Atomics.store(this.#words, BLOCKS, number)
    Atomics.notify(this.#words, BLOCKS)
  }

  /** Worker: waits until the main thread does not use the blocks, and takes them. */
  takeBlocks(number: number): void {
    while (Atomics.compareExchange(this.#words, BLOCKS, number, WORKERS) === MAINS)
      Atomics.wait(this.#words, BLOCKS, MAINS)
  }

  /** Worker: takes the blocks, in which the main thread has written the input of a call. */
  receiveBlocks(): void {
    Atomics.store(this.#words, BLOCKS, WORKERS)
  }

  /** Main thread: has received blocks. */
  knowBlocks(number: number): void {
    Atomics.store(this.#words, KNOWN_BLOCKS, number)
  }

  /**
   * Worker: the output stays in the blocks until the main thread has read it.
   *
   * @returns false if the main thread has not received these blocks yet.
   */
  leaveBlocks(number: number): boolean {
    if (Atomics.load(this.#words, KNOWN_BLOCKS) !== number) return false
    Atomics.store(this.#words, BLOCKS, MAINS)
    return true
  }

  /** Main thread: takes the blocks if nobody uses them. */
  borrowBlocks(number: number): boolean {
    return Atomics.compareExchange(this.#words, BLOCKS, number, MAINS) === number
  }

  /** Worker: it polls and need not be woken. */
  stayAwake(): void {
    Atomics.store(this.#words, WORKER_STATE, AWAKE)
  }

  /** Worker, before its last look: from now on a writer has to wake it. */
  beginNap(): void {
    Atomics.store(this.#words, WORKER_STATE, NAPPING)
  }

  /**
   * Worker: blocks the thread until it is woken, which takes a tenth of the time of a message to its event loop.
   *
   * @returns false if it was not woken in time: then it sleeps and needs a message.
   */
  nap(ms: number): boolean {
    Atomics.wait(this.#words, WORKER_STATE, NAPPING, ms)
    return Atomics.compareExchange(this.#words, WORKER_STATE, NAPPING, ASLEEP) !== NAPPING
  }

  /** Main thread. @returns whether the worker was asleep and needs a message. */
  wake(): boolean {
    const before = Atomics.exchange(this.#words, WORKER_STATE, AWAKE)
    if (before === NAPPING) Atomics.notify(this.#words, WORKER_STATE)
    return before === ASLEEP
  }

  /** Worker. @returns whether the main thread needs a message to look for answers. */
  ring(): boolean {
    return Atomics.exchange(this.#words, MAIN_RUNG, 1) === 0
  }

  /** Main thread: it will poll for answers and needs no message. */
  listen(): void {
    Atomics.store(this.#words, MAIN_RUNG, 1)
  }

  /** Main thread, before its last look for answers. */
  heard(): void {
    Atomics.store(this.#words, MAIN_RUNG, 0)
  }

  /** Worker: sends a request to the host and is about to wait. */
  beginAsking(now: number): void {
    this.#numbers[WAITS_SINCE] = now
    Atomics.store(this.#words, WAITS_FOR_HOST, 1)
  }

  /** Worker: waits until the host has answered or the thread is terminated. */
  waitForHost(): void {
    Atomics.wait(this.#words, HOST_ANSWERED, 0)
    Atomics.store(this.#words, HOST_ANSWERED, 0)
  }

  /** Worker: received the host's answer. */
  endAsking(): void {
    Atomics.store(this.#words, WAITS_FOR_HOST, 0)
  }

  /** Worker: the running call is about to wait for something that is not charged to it. */
  beginPause(now: number): void {
    this.#numbers[PAUSED_AT] = now
    Atomics.add(this.#words, PAUSES, 1)
  }

  /** Worker: the wait is over. The call counts as started later. @param isAnew - Whether it counts as started now. */
  endPause(now: number, isAnew = false): void {
    const numbers = this.#numbers
    const since = (numbers[SINCE] ?? 0) + creditedMs(now - (numbers[PAUSED_AT] ?? now))
    numbers[SINCE] = isAnew ? now : since
    Atomics.add(this.#words, PAUSES, 1)
  }

  get isPaused(): boolean {
    return Atomics.load(this.#words, PAUSES) % 2 === 1
  }

  /** How long the latest call has run so far, without its pauses. */
  ranMs(now: number): number {
    for (;;) {
      const pauses = Atomics.load(this.#words, PAUSES)
      const since = this.#numbers[SINCE] ?? 0
      const pausedAt = this.#numbers[PAUSED_AT] ?? 0
      // A pause that began or ended in between has changed both.
      if (Atomics.load(this.#words, PAUSES) === pauses) return (pauses % 2 === 1 ? pausedAt : now) - since
    }
  }

  /** When the worker began to wait for the host; undefined if it does not. */
  waitsSince(): number | undefined {
    return Atomics.load(this.#words, WAITS_FOR_HOST) === 1 ? this.#numbers[WAITS_SINCE] : undefined
  }

  /** Main thread: has posted a reply for a suspended guest. A worker that is asleep is woken by the message. */
  replied(): void {
    Atomics.add(this.#words, REPLIES, 1)
    if (Atomics.compareExchange(this.#words, WORKER_STATE, NAPPING, AWAKE) !== NAPPING) return
    Atomics.notify(this.#words, WORKER_STATE)
  }

  /** Worker: lets a suspended guest continue with its reply. */
  tookReply(): void {
    Atomics.sub(this.#words, REPLIES, 1)
  }

  /** Whether the worker has not taken all replies. */
  get hasReplies(): boolean {
    return Atomics.load(this.#words, REPLIES) > 0
  }

  /** Main thread: the answer is available. */
  hostAnswered(): void {
    Atomics.store(this.#words, HOST_ANSWERED, 1)
    Atomics.notify(this.#words, HOST_ANSWERED)
  }
}
