import { randomFillSync } from 'node:crypto'
import { answer } from './answer.ts'
import type { GuestMemory } from './guest-memory.ts'

/** Bytes made at a time. Between two chunks, `terminate()` can stop the thread. */
const CHUNK = 65_536

/** Random bytes made in advance: asking for a few costs nearly as much as asking for these. */
const POOL_SIZE = 1_024

const pool = Buffer.alloc(POOL_SIZE)
let used = POOL_SIZE

/** `random_get`: bytes fit for keys. All guests draw from one pool, each byte once. */
export function openRandom(memory: GuestMemory) {
  return {
    random_get: answer((pointer: number, size: number) => {
      const length = size >>> 0
      const start = memory.locate(pointer, length)
      if (length <= POOL_SIZE / 8) {
        fillFromPool(memory, start, length)
        return
      }
      for (let done = 0; done < length; done += CHUNK) {
        randomFillSync(memory.bytes, start + done, Math.min(CHUNK, length - done))
      }
    }),
  }
}

function fillFromPool(memory: GuestMemory, start: number, length: number): void {
  if (used + length > POOL_SIZE) {
    randomFillSync(pool)
    used = 0
  }
  memory.bytes.set(pool.subarray(used, used + length), start)
  pool.fill(0, used, used + length) // nobody can learn later what was given
  used += length
}
