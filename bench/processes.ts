import { readdirSync, readFileSync } from 'node:fs'

/*
 * Linux's data about a process and its children.
 */

/** The kernel reports CPU time in ticks of 10 ms: `USER_HZ` is 100 wherever Node runs on Linux. */
export const MICROS_PER_TICK = 10_000

/** CPU time that a process and all that it started have used so far, user and system, in microseconds. */
export function treeCpuMicros(pid: number | undefined): number {
  const ticks = tree(pid).map((pid) => {
    const { own, endedChildren } = processTimes(readProc(`/proc/${pid}/stat`))
    return own + endedChildren
  })
  return sum(ticks) * MICROS_PER_TICK
}

let orphaned = 0

/** Call before a process is killed: nobody waits for its children then, so that their times are added to none of ours. */
export function noteOrphans(pid: number | undefined): void {
  for (const child of tree(pid).slice(1)) {
    const { own, endedChildren } = processTimes(readProc(`/proc/${child}/stat`))
    orphaned += own + endedChildren
  }
}

/** The CPU time of all that was noted, in ticks. */
export function orphanedTicks(): number {
  return orphaned
}

/** Memory of a process and all that it started that is in RAM, in bytes. What they share counts twice. */
export function treeMemoryBytes(pid: number | undefined): number {
  return sum(
    tree(pid).map((pid) => {
      const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readProc(`/proc/${pid}/status`)) ?? []
      return Number(kib) * 1_024
    }),
  )
}

/** Times in ticks, from the text of `/proc/PID/stat`. */
export function processTimes(stat: string): { readonly own: number; readonly endedChildren: number } {
  // proc(5): the command's name, in parentheses, may hold spaces; utime and stime are fields 14 and 15, then come
  // those of children that were waited for.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map(Number)
  return { own: sum([user, system]), endedChildren: sum([childrenUser, childrenSystem]) }
}

/** What a thread has used since it started. */
export interface ThreadTimes {
  readonly cpuMicros: number
  /** Time in which it was ready to run and had no core. */
  readonly waitedMicros: number
  /** How often it slept until something woke it. */
  readonly sleeps: number
}

/** The threads of a process and of all that it started, by their ids. The id of a process is that of its first thread. */
export function threadsOf(pid: number | undefined): Map<number, ThreadTimes> {
  const folders = tree(pid).flatMap((pid) =>
    readdirSync(`/proc/${pid}/task`).map(
      (thread) => [Number(thread), `/proc/${pid}/task/${thread}`] as const,
    ),
  )
  return new Map(folders.map(([thread, folder]) => [thread, readThread(folder)]))
}

function readThread(folder: string): ThreadTimes {
  // Linux, Documentation/scheduler/sched-stats.rst: nanoseconds.
  const [cpu, waited] = readProc(`${folder}/schedstat`).split(' ').map(Number)
  const [, sleeps] = /^voluntary_ctxt_switches:\s+(\d+)$/m.exec(readProc(`${folder}/status`)) ?? []
  return { cpuMicros: sum([cpu]) / 1_000, waitedMicros: sum([waited]) / 1_000, sleeps: Number(sleeps) }
}

/** A process and all that it started. */
function tree(pid: number | undefined): number[] {
  if (pid === undefined) throw new Error('the server did not start')
  const threads = readdirSync(`/proc/${pid}/task`)
  const children = threads.flatMap((thread) =>
    readProc(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean).map(Number),
  )
  return [pid, ...children.flatMap(tree)]
}

function readProc(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error('the server has ended, or this is not Linux', { cause: error })
  }
}

function sum(values: readonly (number | undefined)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? Number.NaN), 0)
}
