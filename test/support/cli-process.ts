import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import { CLI, type RunInputs as ConfigNode, Output, type Run, type Running as RunningHere } from './cli.ts'

export { CLI } from './cli.ts'

/** Inputs of a process besides words and variables. */
export interface ProcessInputs extends ConfigNode {
  /** The program that runs the command, with its arguments. Default: this Node.js. */
  readonly program?: readonly [string, ...string[]]
  /** The file of the command. Default: that of `dist`. */
  readonly cli?: string
}

/** A process that runs the command. */
export interface Running extends Omit<RunningHere, 'kill'> {
  readonly child: ChildProcess
  kill(signal: NodeJS.Signals): void
}

/** Runs the built command in a new process until it ends. */
export async function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  surroundings: ProcessInputs = {},
): Promise<Run> {
  return start(args, env, surroundings).ended
}

/** Starts the built command in a new process; killed when the test ends. */
export function start(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { cwd, input, program = [process.execPath], cli = CLI }: ProcessInputs = {},
): Running {
  const { npm_config_user_agent: _, ...inherited } = process.env
  const [file, ...words] = program
  const child = spawn(file, [...words, cli, ...args], {
    env: { ...inherited, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd,
  })
  child.stdin.on('error', () => undefined) // it may end without reading
  child.stdin.end(input)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })

  const output = new Output()
  child.stdout.on('data', (bytes: Buffer) => output.add('stdout', bytes))
  child.stderr.on('data', (bytes: Buffer) => output.add('stderr', bytes))
  const ended = once(child, 'close').then(([code, signal]) => ({
    code,
    signal,
    ...output.texts(),
    bytes: output.bytes(),
  }))
  return {
    child,
    ended,
    stderr: () => output.texts().stderr,
    printed: (text) => output.shown('stdout', text, 1, ended),
    logged: (text, times = 1) => output.shown('stderr', text, times, ended),
    async listening() {
      const shown = await output.shown('stdout', /listens on \S+\n/, 1, ended)
      return /listens on (\S+)/.exec(shown)?.[1] ?? ''
    },
    kill: (signal) => void child.kill(signal),
  }
}
