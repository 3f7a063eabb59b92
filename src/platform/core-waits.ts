import { readdirSync, readFileSync } from 'node:fs'

/** Waits for a core, in milliseconds since the start: by id of a thread of this process, or `quota`. */
export type CoreWaits = ReadonlyMap<string, number>

/** Reads how long threads could have run but got no core. Empty where the system does not tell: only Linux does. */
export function readCoreWaits(): CoreWaits {
  const waits = new Map<string, number>()
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const [, delayNs] = read(`/proc/self/task/${thread}/schedstat`).split(' ')
      waits.set(thread, Number(delayNs ?? 0) / 1e6)
    }
  } catch {
    return waits // without descriptors, or not on Linux
  }
  // The CPU limit of a container stops all its threads at a time.
  const [, throttledUs = 0] = /^throttled_usec (\d+)$/m.exec(read('/sys/fs/cgroup/cpu.stat')) ?? []
  return waits.set('quota', Number(throttledUs) / 1e3)
}

/** The longest wait between two readings. */
export function longestWait(before: CoreWaits, now: CoreWaits): number {
  return Math.max(0, ...[...now].map(([thread, ms]) => ms - (before.get(thread) ?? 0)))
}

/** A thread may end meanwhile, and a system may lack the file. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
