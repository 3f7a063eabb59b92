import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchServerError } from '../../errors/errors.ts'
import { shellWord } from '../../platform/text.ts'
import type { Host } from '../command.ts'
import { applyLoad, askReference, type LoadResult, type loadAutocannon } from './load.ts'

/** How hard and how long. */
export interface Effort {
  readonly connections: number
  readonly seconds: number
}

/** The measurement of one way to serve. */
export interface Measurement extends LoadResult {
  /** How the answers were checked, as text. */
  readonly compared: string
  /** CPU time of the server process for each request, in microseconds. */
  readonly cpuMicrosPerRequest: number
}

/** Seconds of load that do not count: the compiler works, connections open. */
export function warmUpSeconds({ seconds }: Effort): number {
  return Math.min(seconds, 1)
}

/**
 * Serves a plug-in in a process of its own and loads it from this one.
 *
 * @param words - Of the command line of `serve`.
 * @throws {@link BenchServerError} if it does not start, or does not answer this input.
 */
export async function measure(
  cannon: Awaited<ReturnType<typeof loadAutocannon>>,
  words: readonly string[],
  input: Uint8Array,
  effort: Effort,
  host: Host,
): Promise<Measurement> {
  const server = await startMeasuredServer(words, host)
  try {
    const { url } = server
    const { connections, seconds } = effort
    const reference = await askReference(url, input, words.map(shellWord).join(' '))
    await applyLoad(cannon, { url, input, connections, seconds: warmUpSeconds(effort) }, reference)
    await server.idle()
    const before = await server.cpuMicros()
    const result = await applyLoad(cannon, { url, input, connections, seconds }, reference)
    await server.idle()
    const cpu = (await server.cpuMicros()) - before
    return { ...result, compared: reference.compared, cpuMicrosPerRequest: cpu / result.sent }
  } finally {
    await server.stop()
  }
}

/** The command, serving in a process of its own. */
interface MeasuredServer {
  readonly url: string
  /** CPU time that the process has used so far, in microseconds. */
  cpuMicros(): Promise<number>
  /** Waits until it has nothing to do any more. */
  idle(): Promise<void>
  /** Ends it. */
  stop(): Promise<void>
}

/**
 * Starts the server to measure, on a free port. The caller stops it; it does not outlive this process.
 *
 * @param words - Of the command line of `serve`.
 * @throws {@link BenchServerError} with what it said, if it ends before it listens.
 */
async function startMeasuredServer(
  words: readonly string[],
  { program: [node, ...script], environment }: Host,
): Promise<MeasuredServer> {
  const probe = new URL(`probe${extname(import.meta.url)}`, import.meta.url)
  // npm's variable would make the server look for an npm that runs it, and a bench reads no config file.
  const env = { ...environment, npm_command: undefined, WASM_SERVE_CONFIG_FILE: undefined }
  const child = spawn(node, ['--import', probe.href, ...script, 'serve', ...words, '--port', '0'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const said = words.map(shellWord).join(' ')
  const ended = once(child, 'close')
  const gone = ended.then(() => {
    throw new BenchServerError(said, 'it ended under load')
  })
  gone.catch(() => undefined) // who asks it something is told
  const cpuMicros = () => askCpu(child, gone)
  try {
    const url = await printedUrl(child.stdout as Readable, child.stderr as Readable, ended)
    return {
      url,
      cpuMicros,
      idle: () => idle(cpuMicros),
      async stop() {
        child.kill('SIGKILL')
        await ended
      },
    }
  } catch (error) {
    child.kill('SIGKILL')
    throw new BenchServerError(said, (error as Error).message)
  }
}

/** Reads on after that: a full pipe would stop the server. */
async function printedUrl(stdout: Readable, stderr: Readable, ended: Promise<unknown>): Promise<string> {
  let printed = ''
  let said = ''
  stderr.setEncoding('utf8').on('data', (text: string) => {
    if (said.length < MAX_SAID) said += text
  })
  const listens = new Promise<string>((resolve) => {
    stdout.setEncoding('utf8').on('data', (text: string) => {
      if (printed.length > MAX_SAID) return
      printed += text
      const url = /listens on (\S+)\n/.exec(printed)?.[1]
      if (url !== undefined) resolve(url)
    })
  })
  const url = await Promise.race([listens, ended])
  if (typeof url === 'string') return url
  throw new Error(said.replaceAll(/^wasm-serve: /gm, '').trim() || 'it ended without a word')
}

const MAX_SAID = 10_000

async function askCpu(child: ChildProcess, gone: Promise<never>): Promise<number> {
  const answer = once(child, 'message')
  child.send('cpu', () => undefined) // that it cannot be sent is told by `gone`
  const [micros] = await Promise.race([answer, gone])
  return micros as number
}

/** The last requests of a load get no answer that counts, but cost as much. */
async function idle(cpuMicros: () => Promise<number>): Promise<void> {
  let before = await cpuMicros()
  for (let round = 0; round < MAX_ROUNDS; round++) {
    await sleep(ROUND_MS)
    const now = await cpuMicros()
    if (now - before <= IDLE_MICROS) return
    before = now
  }
}

const ROUND_MS = 100
const MAX_ROUNDS = 50

/** CPU time that an idle server takes in a round, with its timers and to answer this question. */
const IDLE_MICROS = 5_000
