import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

/** The built command. */
export const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))

/** What a run of the command came to. */
export interface Run {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Standard output as it came. */
  readonly bytes: Buffer
}

/** What a run is given besides words and variables. */
export interface Surroundings {
  readonly cwd?: string
  /** What comes on standard input; default: nothing. */
  readonly input?: string | Uint8Array
  /** What runs the command, and words for it. Default: this Node.js. */
  readonly program?: readonly [string, ...string[]]
}

/** Runs the built command until it ends. */
export async function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  surroundings: Surroundings = {},
): Promise<Run> {
  return start(args, env, surroundings).ended
}

/** A command that runs. */
export interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<Run>
  /** Everything printed so far on standard error. */
  stderr(): string
  /** Waits until a text has appeared on standard output. */
  printed(text: string | RegExp): Promise<string>
  /** Waits until it listens; resolves to the URL. */
  listening(): Promise<string>
}

/** Starts the built command; ended when the test ends. */
export function start(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { cwd, input, program = [process.execPath] }: Surroundings = {},
): Running {
  const { npm_command: _, ...inherited } = process.env
  const [file, ...words] = program
  const child = spawn(file, [...words, CLI, ...args], {
    env: { ...inherited, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd,
  })
  child.stdin.on('error', () => undefined) // it may end without reading
  child.stdin.end(input)
  onTestFinished(() => {
    child.kill('SIGKILL')
  })

  const output = { stdout: '', stderr: '' }
  const chunks: Buffer[] = []
  const decoder = new TextDecoder()
  child.stdout.on('data', (bytes: Buffer) => {
    chunks.push(bytes)
    output.stdout += decoder.decode(bytes, { stream: true })
  })
  child.stderr.setEncoding('utf8').on('data', (text) => (output.stderr += text))
  const ended = once(child, 'close').then(([code, signal]) => ({
    code,
    signal,
    ...output,
    bytes: Buffer.concat(chunks),
  }))

  const printed = async (text: string | RegExp): Promise<string> => {
    while (!output.stdout.match(text)) {
      const over = await Promise.race([once(child.stdout, 'data').then(() => false), ended.then(() => true)])
      if (over && !output.stdout.match(text))
        throw new Error(`ended without printing ${text}: ${output.stderr}`)
    }
    return output.stdout
  }
  const listening = async () => /listens on (\S+)/.exec(await printed(/listens on \S+\n/))?.[1] ?? ''
  return { child, ended, printed, listening, stderr: () => output.stderr }
}
