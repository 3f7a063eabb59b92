import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpus } from 'node:os'
import { extname } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchServerError } from '../../errors/errors.ts'
import { chooseExport } from '../../module/entry-points.ts'
import type { Terminal } from '../../observe/log/log.ts'
import { printable, shellWord } from '../../platform/text.ts'
import { compilePlugin } from '../../plugin/plugin.ts'
import { readSource } from '../../plugin/source/source.ts'
import { type Command, type Host, renderPage, takeOwnFlags } from '../command.ts'
import { INPUT_FLAGS, readInput, readPluginConfig } from '../guest-config.ts'
import { applyLoad, askReference, loadAutocannon } from './load.ts'
import {
  type ComparisonRow,
  type Measurement,
  refuseProblems,
  renderComparison,
  renderMeasurement,
  rowToJson,
  toJson,
} from './report.ts'

/** Flags of this command only. */
export const BENCH_FLAGS = {
  ...INPUT_FLAGS,
  connections: { kind: 'count', short: 'c', placeholder: 'n', description: 'Concurrent requests. [100]' },
  duration: {
    kind: 'seconds',
    short: 'd',
    placeholder: 's',
    description: 'Seconds, after up to one second of warm-up. [10]',
  },
  matrix: { kind: 'switch', description: 'Compare runtimes, isolations and threads.' },
  json: { kind: 'switch', description: 'Print JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve bench <plugin.wasm> [function] [flags]',
  about:
    'Serves a plug-in in a separate process and measures it under load. Requires the\npackage autocannon. Exits with 1 if a response was wrong.',
  examples: [
    'wasm-serve bench hello.wasm --input Bob -c 100 -d 2',
    'wasm-serve bench hello.wasm -d 1 --matrix',
    'wasm-serve bench hello.wasm -d 1 --json',
  ],
  flags: BENCH_FLAGS,
  more: 'Flags of serve work too. Without the package:\nnpx -y -p autocannon -p wasm-serve wasm-serve bench hello.wasm',
})

/** Measures a plug-in under load. */
export const bench: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, BENCH_FLAGS)
    if (values.help) return host.out.write(HELP)
    const { words, name } = await serveWords(rest, host)
    const input = await readInput(values, host)
    const cannon = await loadAutocannon()
    const effort = { connections: values.connections ?? 100, seconds: values.duration ?? 10 }
    const run = async (variant: Variant): Promise<Measurement> => {
      const end = showProgress(host.logTerminal, variant.name, effort.seconds + warmUpSeconds(effort))
      try {
        return await measure(cannon, [...words, ...variant.words], input, effort, host)
      } finally {
        end()
      }
    }
    const origin = { node: process.version, cpu: cpus()[0]?.model ?? 'unknown', ...effort }
    const title = `${name}: ${effort.connections} connections, ${effort.seconds} s, Node ${origin.node}, ${origin.cpu}\n\n`

    if (!values.matrix) {
      const measurement = await run({ name, words: [] })
      const text = () => title + renderMeasurement(measurement, host.isOutTerminal)
      host.out.write(values.json ? toLine({ ...origin, ...toJson(measurement) }) : text())
      refuseProblems([['', measurement]])
      return
    }
    const compared: ComparisonRow[] = []
    for (const variant of VARIANTS) compared.push([variant.name, await run(variant).catch(startProblem)])
    host.out.write(
      values.json
        ? toLine({ ...origin, variants: compared.map(rowToJson) })
        : title + renderComparison(compared),
    )
    refuseProblems(compared)
  },
}

/**
 * The arguments for `serve`: the user's, with the function that is mounted at `/`. Mistakes are reported here,
 * before a process starts.
 */
async function serveWords(argv: readonly string[], host: Host): Promise<{ words: string[]; name: string }> {
  const { source, route, load } = readPluginConfig([...argv, '--port', '0'], host, 'bench')
  const plugin = await compilePlugin(await readSource(source, load), load)
  const exportName = chooseExport(plugin, route.function)
  const words = route.function === undefined ? [...argv, '--function', exportName] : [...argv]
  return { words, name: `${printable(plugin.name)} ${printable(exportName)}` }
}

/** A variant that cannot be measured becomes a row of the table; any other error is thrown. */
function startProblem(error: unknown): string {
  if (error instanceof BenchServerError)
    return `not measured: ${error.message.split('cannot be measured: ').at(-1)}`
  throw error
}

function toLine(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** A variant of `serve` to compare. */
interface Variant {
  readonly name: string
  /** Arguments for `serve`, appended to the user's. */
  readonly words: readonly string[]
}

/** The variants of `--matrix`. The first is the baseline; add a line to compare more. */
const VARIANTS: readonly Variant[] = [
  { name: 'kernel', words: ['--runtime', 'kernel'] },
  { name: 'kernel, fresh instances', words: ['--runtime', 'kernel', '--isolation', 'fresh'] },
  { name: 'sdk', words: ['--runtime', 'sdk'] },
  { name: 'kernel, 1 worker', words: ['--runtime', 'kernel', '--workers', '1'] },
  { name: 'kernel, 2 workers', words: ['--runtime', 'kernel', '--workers', '2'] },
]

const WIDTH = 30
const TICK_MS = 100

/**
 * Shows the progress of work of known duration, in a line that is cleared at the end.
 *
 * @param terminal - undefined: nothing is shown.
 * @returns a function that stops it.
 */
function showProgress(terminal: Terminal | undefined, name: string, seconds: number): () => void {
  if (!terminal) return () => undefined
  const begun = performance.now()
  const draw = () => {
    const share = Math.min(1, (performance.now() - begun) / (seconds * 1_000))
    const full = Math.round(share * WIDTH)
    terminal.write(`\r${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${Math.round(share * 100)}% ${name}`)
  }
  draw()
  const timer = setInterval(draw, TICK_MS)
  return () => {
    clearInterval(timer)
    terminal.write(CLEAR_LINE)
  }
}

const CLEAR_LINE = '\r\x1b[K'

/** Concurrency and duration of the load. */
interface Effort {
  readonly connections: number
  readonly seconds: number
}

/** Warm-up in seconds, not measured: code is compiled and connections are opened. */
function warmUpSeconds({ seconds }: Effort): number {
  return Math.min(seconds, 1)
}

/**
 * Serves a plug-in in a child process and puts it under load from this one.
 *
 * @param words - Arguments for `serve`.
 * @throws {@link BenchServerError} if the server does not start or does not answer this input.
 */
async function measure(
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

/** The server under test, in a child process. */
interface MeasuredServer {
  readonly url: string
  /** CPU time of the process so far, in microseconds. */
  cpuMicros(): Promise<number>
  /** Waits until the server is idle. */
  idle(): Promise<void>
  /** Terminates the server. */
  stop(): Promise<void>
}

/**
 * Starts the server under test on a free port. The caller stops it; it does not outlive this process.
 *
 * @param words - Arguments for `serve`.
 * @throws {@link BenchServerError} with its standard error, if it exits before it listens.
 */
async function startMeasuredServer(
  words: readonly string[],
  { program: [node, ...script], environment }: Host,
): Promise<MeasuredServer> {
  const probe = new URL(`probe${extname(import.meta.url)}`, import.meta.url)
  // With npm's variable the server would look for a parent npm process. A bench reads no config file.
  const env = { ...environment, npm_config_user_agent: undefined, WASM_SERVE_CONFIG_FILE: undefined }
  const child = spawn(node, ['--import', probe.href, ...script, 'serve', ...words, '--port', '0'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const said = words.map(shellWord).join(' ')
  const ended = once(child, 'close')
  const gone = ended.then(() => {
    throw new BenchServerError(said, 'it exited under load')
  })
  gone.catch(() => undefined) // callers get the rejection through askCpu
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

/** Resolves with the URL and keeps reading: a full pipe would block the server. */
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
  throw new Error(said.replaceAll(/^wasm-serve: /gm, '').trim() || 'it exited without an error message')
}

const MAX_SAID = 10_000

async function askCpu(child: ChildProcess, gone: Promise<never>): Promise<number> {
  const answer = once(child, 'message')
  child.send('cpu', () => undefined) // a failed send is reported by `gone`
  const [micros] = await Promise.race([answer, gone])
  return micros as number
}

/** The last requests of a load get no counted answer but cost as much CPU time. */
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

/** CPU time per round of an idle server, for its timers and for this query. */
const IDLE_MICROS = 5_000
