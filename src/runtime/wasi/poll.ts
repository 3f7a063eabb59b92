import { isInterrupted } from '../interrupts.ts'
import { type DescriptorTable, FILETYPE, RIGHT_READ, RIGHT_WRITE } from './descriptor.ts'
import { type ErrnoName, errno, WasiError, wasiFunction } from './errno.ts'
import type { GuestMemory } from './guest-memory.ts'

const SUBSCRIPTION_SIZE = 48
const EVENT_SIZE = 32

/** Types of events. */
const CLOCK = 0
const FD_READ = 1
const FD_WRITE = 2

/** The flag of a clock subscription with an absolute time. */
const ABSOLUTE = 1

/** The flag of an event: the stream has ended. */
const HANGUP = 1

/** The reported number of writable bytes. All descriptors accept any number. */
const WRITABLE_BYTES = 65_536n

/** `poll_oneoff`: descriptors are always ready, so only clocks make it wait. */
export function openPoll(
  memory: GuestMemory,
  table: DescriptorTable,
  { isInterrupted: isOver = isInterrupted }: { readonly isInterrupted?: (() => boolean) | undefined },
) {
  const poll = new Poll(memory, table, isOver)
  return {
    poll_oneoff: wasiFunction((subscriptions: number, events: number, count: number, result: number) => {
      const wanted = count >>> 0
      if (wanted === 0) throw new WasiError('EINVAL')
      const first = memory.locate(subscriptions, wanted * SUBSCRIPTION_SIZE)
      const target = memory.locate(events, wanted * EVENT_SIZE)
      const at = memory.locate(result, 4)
      memory.view.setUint32(at, poll.run(first, wanted, target), true)
    }),
  }
}

class Poll {
  readonly #memory: GuestMemory
  readonly #table: DescriptorTable
  #realtimeAtStart = 0n
  readonly #isInterrupted: () => boolean
  #startedAt = 0n

  constructor(memory: GuestMemory, table: DescriptorTable, isInterrupted: () => boolean) {
    this.#memory = memory
    this.#table = table
    this.#isInterrupted = isInterrupted
  }

  /** Waits for the first of `count` subscriptions, and writes the events that are due. @returns their number. */
  run(first: number, count: number, target: number): number {
    this.#startedAt = monotonicTime()
    this.#realtimeAtStart = clockTime(0)
    const last = first + count * SUBSCRIPTION_SIZE
    let earliest = this.#delay(first)
    for (let at = first; at < last && earliest > 0n; at += SUBSCRIPTION_SIZE) {
      const delay = this.#delay(at)
      if (delay < earliest) earliest = delay
    }
    const elapsed = waitUntil(this.#startedAt + earliest, this.#isInterrupted) - this.#startedAt

    let event = target
    for (let at = first; at < last; at += SUBSCRIPTION_SIZE) {
      if (this.#delay(at) > elapsed) continue
      this.#write(event, at)
      event += EVENT_SIZE // events are smaller than subscriptions: even if they overlap, none is overwritten unread
    }
    return (event - target) / EVENT_SIZE
  }

  /** The time after the start, in ns, at which a subscription is due. */
  #delay(at: number): bigint {
    const { view } = this.#memory
    const clock = view.getUint32(at + 16, true)
    if (view.getUint8(at + 8) !== CLOCK || !isClock(clock)) return 0n
    const timeout = view.getBigUint64(at + 24, true)
    if ((view.getUint16(at + 40, true) & ABSOLUTE) === 0) return timeout
    return timeout - (clock === 0 ? this.#realtimeAtStart : this.#startedAt)
  }

  #write(event: number, at: number): void {
    const { view } = this.#memory
    const type = view.getUint8(at + 8)
    const fd = view.getUint32(at + 16, true)
    const userdata = view.getBigUint64(at, true)
    const error = type === CLOCK ? clockError(fd) : this.#fdError(fd, type)
    const source = error === 'SUCCESS' && type === FD_READ ? this.#table.get(fd) : undefined
    const isOver = source?.filetype === FILETYPE.characterDevice && source.readable === 0
    view.setBigUint64(event, userdata, true)
    view.setUint16(event + 8, errno(error), true)
    view.setUint32(event + 10, type, true)
    view.setBigUint64(event + 16, this.#available(fd, error === 'SUCCESS' ? type : CLOCK), true)
    view.setBigUint64(event + 24, isOver ? BigInt(HANGUP) : 0n, true)
  }

  #fdError(fd: number, type: number): ErrnoName {
    if (type > FD_WRITE) return 'EINVAL'
    if (!this.#table.has(fd)) return 'EBADF'
    return (this.#table.get(fd).rights & (type === FD_READ ? RIGHT_READ : RIGHT_WRITE)) === 0n
      ? 'EBADF'
      : 'SUCCESS'
  }

  #available(fd: number, type: number): bigint {
    if (type !== FD_READ) return type === FD_WRITE ? WRITABLE_BYTES : 0n
    const file = this.#table.get(fd)
    const size = file.stat()?.size
    if (size === undefined) return BigInt(file.readable)
    const left = size - BigInt(file.seek(0n, 1))
    return left > 0n ? left : 0n
  }
}

/** How often a sleeping guest looks whether it was interrupted. */
const LOOK_MS = 10

const bell = new Int32Array(new SharedArrayBuffer(4))

/**
 * Waits until the monotonic clock shows `deadline`. The word is never notified: `Atomics.wait` is used because
 * `terminate()` interrupts it at once.
 *
 * @returns the time at the end.
 * @throws Error if the guest was interrupted.
 */
function waitUntil(deadline: bigint, isInterrupted: () => boolean): bigint {
  for (;;) {
    const now = monotonicTime()
    if (now >= deadline) return now
    if (isInterrupted()) throw new Error('the guest was interrupted')
    Atomics.wait(bell, 0, 0, Math.min(Number(deadline - now) / 1e6, LOOK_MS))
  }
}

function isClock(id: number): boolean {
  return id <= 3
}

function clockError(id: number): ErrnoName {
  return isClock(id) ? 'SUCCESS' : 'EINVAL'
}

const REALTIME = 0
const THREAD_CPUTIME = 3

/** `clock_*`. */
export function openClocks(memory: GuestMemory) {
  return {
    clock_res_get: wasiFunction((id: number, pointer: number) => {
      checkClock(id)
      memory.setU64(pointer, id === REALTIME ? 1_000_000n : 1n)
    }),
    clock_time_get: wasiFunction((id: number, _precision: bigint, pointer: number) => {
      const at = memory.locate(pointer, 8)
      memory.view.setBigUint64(at, clockTime(id), true)
    }),
  }
}

/**
 * The time of a clock, in ns. Node's wall clock has a resolution of milliseconds. The CPU-time clocks return the monotonic
 * clock, an upper bound of the guest's own time: the CPU time of the server is not disclosed.
 */
function clockTime(id: number): bigint {
  checkClock(id)
  return id === REALTIME ? BigInt(Date.now()) * 1_000_000n : monotonicTime()
}

/** Nanoseconds since the start of this thread. */
function monotonicTime(): bigint {
  return BigInt(Math.trunc(performance.now() * 1e6))
}

function checkClock(id: number): void {
  if (id >>> 0 > THREAD_CPUTIME) throw new WasiError('EINVAL')
}
