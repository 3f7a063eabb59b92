import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fixedLoop } from './machine.ts'
import { median } from './statistics.ts'

/** A loop like {@link fixedLoop}, without an end. */
const BUSY = 'let x = 1; for (;;) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5 }'

const ROUNDS = 100

/**
 * Measures how much more CPU time a fixed loop takes while another process keeps a core busy: hardware threads of a core share its
 * parts.
 */
export async function measureSharedCore(): Promise<number> {
  const alone = loopMicros()
  const other = spawn(process.execPath, ['-e', BUSY], { stdio: 'ignore' })
  await once(other, 'spawn')
  try {
    return loopMicros() / alone
  } finally {
    other.kill('SIGKILL')
  }
}

/** CPU time of the loop: the median of some rounds. */
function loopMicros(): number {
  return median(
    Array.from({ length: ROUNDS }, () => {
      const begun = process.cpuUsage()
      fixedLoop()
      const { user, system } = process.cpuUsage(begun)
      return user + system
    }),
  )
}
