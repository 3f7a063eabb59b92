import { EventEmitter, once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { COMMANDS, main } from '../../src/cli/cli.ts'
import type { Host, Keyboard } from '../../src/cli/command.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { linesOf } from '../../src/platform/lines.ts'
import { raiseMemoryCeiling } from '../../src/platform/node-workarounds.ts'
import type { RunningServer } from '../../src/server/server.ts'

/*
 * The command in this process, which takes a tenth of the time of a new process. Signals, exit codes and closed pipes
 * are tested with `cli-process.ts`.
 */

/** The built command. */
export const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))

/** The result of a run of the command. */
export interface Run {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Standard output as it came. */
  readonly bytes: Buffer
}

/** Inputs of a run besides words and variables. */
export interface RunInputs {
  readonly cwd?: string
  /** Standard input; default: empty. */
  readonly input?: string | Uint8Array
  /** Whether standard input is a terminal, on which nobody presses keys. Default: no. */
  readonly isInTerminal?: boolean
  /** Whether results go to a terminal. Default: no. */
  readonly isOutTerminal?: boolean
  /** How commands start this program. Default: the built one. */
  readonly program?: Host['program']
}

/** A command that runs. */
export interface Running {
  readonly ended: Promise<Run>
  /** Everything printed so far on standard error. */
  stderr(): string
  /** Waits until a text has appeared on standard output. */
  printed(text: string | RegExp): Promise<string>
  /** Waits until a text has appeared on standard error, so many times. */
  logged(text: string | RegExp, times?: number): Promise<string>
  /** Waits until it listens; resolves to the URL. */
  listening(): Promise<string>
  /** Asks it to end, or to reload. */
  kill(signal: 'SIGTERM' | 'SIGHUP'): void
}

// The first ceiling of a process would hold for all tests that share it.
raiseMemoryCeiling(65_536)

/** Runs the command until it ends. */
export async function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  surroundings: RunInputs = {},
): Promise<Run> {
  return launch(args, env, surroundings).ended
}

/** Starts a server, which is drained when the test ends, without the time that load balancers are given. */
export function start(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  surroundings: RunInputs = {},
): Running {
  return launch(args, { WASM_SERVE_DRAIN_MS: '0', WASM_SERVE_GRACE_MS: '1000', ...env }, surroundings)
}

function launch(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  {
    cwd,
    input = '',
    isInTerminal = false,
    isOutTerminal = false,
    program = [process.execPath, CLI],
  }: RunInputs,
): Running {
  const output = new Output()
  const server = new EventEmitter<{ begun: [RunningServer]; reload: []; drained: [] }>()
  const { npm_config_user_agent: _, ...inherited } = process.env
  const host: Host = {
    environment: { ...inherited, ...env },
    out: {
      write(text) {
        output.add('stdout', Buffer.from(text))
        return true // as a stream does
      },
      colours: false,
    },
    isOutTerminal,
    writeBytes: (bytes) => output.add('stdout', Buffer.from(bytes)),
    async sendBytes(bytes) {
      output.add('stdout', Buffer.from(bytes))
      return true
    },
    writeError: (text) => output.add('stderr', Buffer.from(text)),
    readInput: async () => Buffer.from(input),
    readChunks: () => Readable.from([Buffer.from(input)]),
    readLines: () => linesOf(Readable.from([Buffer.from(input).toString()])),
    program,
    logTerminal: undefined,
    logLines: { write: (line) => output.add('stderr', Buffer.from(line)) },
    secrets: new Secrets(),
    commands: COMMANDS,
    signals: {
      holdReload: () => () => false,
      atExit: () => undefined,
      endWith(running, _options, _log, reload) {
        server.on('reload', reload)
        server.emit('begun', running)
      },
    },
    keyboard: isInTerminal ? NO_KEYS : undefined,
  }
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)

  let running: RunningServer | undefined
  const drain = async () => {
    await running?.drain()
    server.emit('drained')
  }
  server.on('begun', (begun) => {
    running = begun
  })
  const drained = once(server, 'drained')
  const code = main(args, host)
  const ended = code.then(async (code) => {
    if (running) await drained
    else process.chdir(before)
    return { code, signal: null, ...output.texts(), bytes: output.bytes() }
  })
  onTestFinished(async () => {
    await code
    await drain()
    process.chdir(before)
  })
  return {
    ended,
    stderr: () => output.texts().stderr,
    printed: (text) => output.shown('stdout', text, 1, ended),
    logged: (text, times = 1) => output.shown('stderr', text, times, ended),
    async listening() {
      const shown = await output.shown('stdout', /listens on \S+\n/, 1, ended)
      return /listens on (\S+)/.exec(shown)?.[1] ?? ''
    },
    kill(signal) {
      if (signal === 'SIGHUP') server.emit('reload')
      else void drain()
    },
  }
}

const NO_KEYS: Keyboard = {
  listen: () => undefined,
  release: () => undefined,
  interrupt: () => undefined,
}

/** The printed text. */
export class Output extends EventEmitter<{ added: [] }> {
  readonly #chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] }

  add(stream: 'stdout' | 'stderr', bytes: Buffer): void {
    this.#chunks[stream].push(bytes)
    this.emit('added')
  }

  texts() {
    return { stdout: this.bytes().toString(), stderr: Buffer.concat(this.#chunks.stderr).toString() }
  }

  /** Of standard output. */
  bytes(): Buffer {
    return Buffer.concat(this.#chunks.stdout)
  }

  /** Waits until a text was printed so many times. */
  async shown(
    stream: 'stdout' | 'stderr',
    text: string | RegExp,
    times: number,
    ended: Promise<unknown>,
  ): Promise<string> {
    const count = (all: string) =>
      typeof text === 'string'
        ? all.split(text).length - 1
        : [...all.matchAll(new RegExp(text, `${text.flags}g`))].length
    const isShown = () => count(this.texts()[stream]) >= times
    let over = false
    while (!isShown()) {
      if (over) throw new Error(`ended without printing ${text}: ${this.texts().stderr}`)
      over = await Promise.race([once(this, 'added').then(() => false), ended.then(() => sleep(0, true))])
    }
    return this.texts()[stream]
  }
}
