import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Running, start } from './cli-process.ts'

/** A line of the log. */
export interface LogLine {
  readonly level: string
  readonly msg: string
  readonly process?: number
  readonly [field: string]: unknown
}

/** The command with serving processes. */
export interface RunningProcesses extends Running {
  readonly url: string
  /** The ids of the serving processes. */
  pids(): number[]
  /** The lines of the log with this message. */
  lines(message: string): LogLine[]
}

/** Starts the command with serving processes on a free port. */
export async function startProcesses(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd?: string,
): Promise<RunningProcesses> {
  const running = start([...args, '--port', '0'], env, cwd === undefined ? {} : { cwd })
  const url = await running.listening()
  return {
    ...running,
    url,
    pids: () => childrenOf(running.child.pid ?? 0),
    lines: (message) => linesOf(running, message),
  }
}

/** The lines of a process's log with a message. */
export function linesOf({ stderr }: Pick<Running, 'stderr'>, message: string): LogLine[] {
  return stderr()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line): LogLine => JSON.parse(line))
    .filter(({ msg }) => msg === message)
}

/** The serving processes of a primary, from `/proc`. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const isChild = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent
      const isServing = isChild && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes('serving-process')
      return isServing ? [Number(name)] : []
    } catch {
      return [] // it has ended
    }
  })
}

/** Waits until something holds. The test's own limit ends it. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(20)
}
