import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Scenario } from './scenario.ts'

/** A scenario's server, in a process of its own. */
export interface ServerProcess {
  readonly url: string
  /** CPU time that the process has used so far, user and system, all its threads, in microseconds. */
  cpuMicros(): number
  /** Memory of the process that is in RAM, all its threads, in bytes. */
  memoryBytes(): number
  /** Waits until the process has nothing to do any more. */
  idle(): Promise<void>
  /** Ends it as its user would, and waits for that. */
  end(): Promise<void>
  stop(): void
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const START_TIMEOUT_MS = 10_000

/**
 * Starts the server of a scenario. Who starts it stops it; it does not outlive the bench.
 *
 * @throws when it ends, or does not say within 10 s where it listens.
 */
export async function startServer({ name, command, path }: Scenario): Promise<ServerProcess> {
  const [program, ...args] = command
  const child = spawn(program, args, { cwd: ROOT, env: environment(), stdio: ['ignore', 'pipe', 'pipe'] })
  const stop = () => child.kill('SIGKILL')
  process.once('exit', stop)
  child.once('close', () => process.off('exit', stop))
  try {
    const listening = await printedUrl(child)
    const cpuMicros = () => readCpuMicros(child.pid)
    return {
      url: new URL(path, listening).href,
      cpuMicros,
      memoryBytes: () => readMemoryBytes(child.pid),
      idle: () => idle(cpuMicros),
      async end() {
        const closed = once(child, 'close')
        child.kill('SIGTERM')
        await closed
      },
      stop,
    }
  } catch (error) {
    stop()
    throw new Error(`${name}: the server did not start`, { cause: error })
  }
}

/** Ours, less what would change the command's defaults; npm's variable makes it watch for the end of npm. */
function environment(): NodeJS.ProcessEnv {
  const isOurs = ([key]: [string, unknown]) => key !== 'npm_command' && !key.startsWith('WASM_SERVE_')
  return Object.fromEntries(Object.entries(process.env).filter(isOurs))
}

/** Reads on after that: a full pipe would stop the server. */
function printedUrl(child: ChildProcessByStdio<null, Readable, Readable>): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = ''
    const timer = setTimeout(() => reject(new Error(`it is silent: ${printed}`)), START_TIMEOUT_MS)
    const read = (text: string) => {
      if (printed.length < MAX_PRINTED) printed += text
      const url = /listens on (\S+)\n/.exec(printed)?.[1]
      if (url === undefined) return
      clearTimeout(timer)
      resolve(url)
    }
    child.stdout.setEncoding('utf8').on('data', read)
    child.stderr.setEncoding('utf8').on('data', read)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      reject(new Error(`it ended with ${signal ?? code}: ${printed}`))
    })
  })
}

const MAX_PRINTED = 10_000

async function idle(cpuMicros: () => number): Promise<void> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const before = cpuMicros()
    await sleep(ROUND_MS)
    if (cpuMicros() - before <= MICROS_PER_TICK) return
  }
  throw new Error(`the server is still busy ${(MAX_ROUNDS * ROUND_MS) / 1_000} s after its last request`)
}

const ROUND_MS = 200
const MAX_ROUNDS = 50

/** The kernel tells CPU time in ticks of 10 ms: `USER_HZ` is 100 wherever Node runs on Linux. */
const MICROS_PER_TICK = 10_000

function readCpuMicros(pid: number | undefined): number {
  const line = readProc(`/proc/${pid}/stat`)
  // proc(5): the command's name, in parentheses, may hold spaces; utime and stime are fields 14 and 15.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * MICROS_PER_TICK
}

function readMemoryBytes(pid: number | undefined): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readProc(`/proc/${pid}/status`)) ?? []
  return Number(kib) * 1_024
}

function readProc(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error('the server has ended, or this is not Linux', { cause: error })
  }
}
