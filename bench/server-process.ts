import { type ChildProcess, spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  MICROS_PER_TICK,
  noteOrphans,
  type ThreadTimes,
  threadsOf,
  treeCpuMicros,
  treeMemoryBytes,
} from './processes.ts'
import type { Scenario } from './scenario.ts'
import { longestTurns, type PROBE_FLAGS, type Turns } from './turns.ts'

/** A scenario's server, in its own process. */
export interface ServerProcess {
  readonly url: string
  /** CPU time that the process and all that it started have used so far, user and system, in microseconds. */
  cpuMicros(): number
  /** The threads of the process and of all that it started, by their ids; first that of its event loop. */
  threads(): Map<number, ThreadTimes>
  /** Memory of the process and all that it started that is in RAM, in bytes. */
  memoryBytes(): number
  /** Waits until the process has nothing to do any more. */
  idle(): Promise<void>
  /** Ends it as its user would, and waits for that. */
  end(): Promise<void>
  stop(): void
  /** The first that it has printed. */
  printed(): string
  /** The longest turns of its event loop since the last call, or since it started. It has to have {@link PROBE_FLAGS}. */
  longestTurns(): Promise<Turns>
  /** Settles when the process has ended, however that came. */
  readonly ended: Promise<Ending>
}

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** The first that it printed. */
  readonly printed: string
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const START_TIMEOUT_MS = 60_000

/**
 * Starts the server of a scenario. Who starts it stops it; it does not outlive the bench.
 *
 * @param isProbed - Whether it has {@link PROBE_FLAGS}.
 * @throws when it ends, or does not say within a minute where it listens.
 */
export async function startServer(
  { name, command, path }: Pick<Scenario, 'name' | 'command' | 'path'>,
  isProbed = false,
): Promise<ServerProcess> {
  const [program, ...args] = command
  const channel = isProbed ? (['ipc'] as const) : []
  const child: ChildProcess = spawn(program, args, {
    cwd: ROOT,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe', ...channel],
  })
  const stop = () => {
    if (child.exitCode === null && child.signalCode === null) noteOrphans(child.pid)
    child.kill('SIGKILL')
  }
  process.once('exit', stop)
  const printed = collect(child)
  const ended = new Promise<Ending>((resolve) => {
    child.once('close', (code, signal) => {
      process.off('exit', stop)
      resolve({ code, signal, printed: printed.text })
    })
  })
  try {
    const listening = await printedUrl(child, printed)
    const cpuMicros = () => treeCpuMicros(child.pid)
    return {
      url: new URL(path, listening).href,
      cpuMicros,
      threads: () => threadsOf(child.pid),
      memoryBytes: () => treeMemoryBytes(child.pid),
      idle: () => idle(cpuMicros),
      async end() {
        child.kill('SIGTERM')
        await ended
      },
      stop,
      printed: () => printed.text,
      longestTurns: () => longestTurns(child),
      ended,
    }
  } catch (error) {
    stop()
    throw new Error(`${name}: the server did not start`, { cause: error })
  }
}

/**
 * The environment without variables that change the command's defaults; npm's variable makes it watch for the end of
 * npm.
 */
function environment(): NodeJS.ProcessEnv {
  const isOurs = ([key]: [string, unknown]) =>
    key !== 'npm_config_user_agent' && !key.startsWith('WASM_SERVE_')
  return Object.fromEntries(Object.entries(process.env).filter(isOurs))
}

interface ChildOutput {
  text: string
}

/** Reads on when that is too long: a full pipe would stop the server. */
function collect(child: ChildProcess): ChildOutput {
  const printed = { text: '' }
  const read = (text: string) => {
    if (printed.text.length < MAX_PRINTED) printed.text += text
  }
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', read)
  return printed
}

function printedUrl(child: ChildProcess, printed: ChildOutput): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`it is silent: ${printed.text}`)), START_TIMEOUT_MS)
    const look = () => {
      const url = /listens on (\S+)\n/.exec(printed.text)?.[1]
      if (url === undefined) return
      clearTimeout(timer)
      for (const stream of [child.stdout, child.stderr]) stream?.off('data', look)
      resolve(url)
    }
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', look)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      reject(new Error(`it ended with ${signal ?? code}: ${printed.text}`))
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
const MAX_ROUNDS = 150
