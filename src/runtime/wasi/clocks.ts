import { answer } from './answer.ts'
import { WasiError } from './errno.ts'
import type { GuestMemory } from './guest-memory.ts'

const REALTIME = 0
const THREAD_CPUTIME = 3

/** `clock_*`. */
export function openClocks(memory: GuestMemory) {
  return {
    clock_res_get: answer((id: number, pointer: number) => {
      checkClock(id)
      memory.setU64(pointer, id === REALTIME ? 1_000_000n : 1n)
    }),
    clock_time_get: answer((id: number, _precision: bigint, pointer: number) => {
      const at = memory.locate(pointer, 8)
      memory.view.setBigUint64(at, clockTime(id), true)
    }),
  }
}

/**
 * The time of a clock, in ns. Node tells the wall clock to the millisecond only. The clocks of CPU time are the
 * monotonic one, which the guest's own time never exceeds: what the rest of the server used is nobody's business.
 */
export function clockTime(id: number): bigint {
  checkClock(id)
  return id === REALTIME ? BigInt(Date.now()) * 1_000_000n : monotonicTime()
}

/** Nanoseconds since this thread began. */
export function monotonicTime(): bigint {
  return BigInt(Math.trunc(performance.now() * 1e6))
}

function checkClock(id: number): void {
  if (id >>> 0 > THREAD_CPUTIME) throw new WasiError('EINVAL')
}
