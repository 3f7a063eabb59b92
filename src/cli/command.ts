import { parseArgs } from 'node:util'
import { UsageError } from '../errors/errors.ts'
import type { LineStream, Terminal } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { type Environment, PARSED_FLAGS } from '../options/config.ts'
import { didYouMean } from '../platform/text.ts'
import type { ProcessSignals } from '../server/shutdown.ts'

/** 0: success; 1: failure; 2: a user's mistake; 3: not yet. */
export type ExitCode = 0 | 1 | 2 | 3

/** A command of the command line. */
export interface Command {
  /**
   * @param argv - The arguments after the program's name.
   * @returns when the work is done or a server is running: the exit code, if it is not 0.
   */
  run(argv: readonly string[], host: Host): Promise<ExitCode | undefined> | Promise<void>
}

/** The parts of the process that a command may use. */
export interface Host {
  readonly environment: Environment
  /** Writes results. */
  readonly out: Terminal
  /** Whether results go to a terminal. */
  readonly isOutTerminal: boolean
  /** Writes binary results, unbuffered. */
  writeBytes(bytes: Uint8Array): void
  /** Writes binary results and waits until they are accepted. @returns false if the reader has closed its end. */
  sendBytes(bytes: Uint8Array): Promise<boolean>
  /** Writes messages other than results. */
  writeError(text: string): void
  /** Reads standard input to its end. */
  readInput(): Promise<Uint8Array>
  /** Reads standard input piece by piece, as it arrives. */
  readChunks(): AsyncIterable<Uint8Array>
  /** Reads standard input line by line, as it arrives. */
  readLines(): AsyncIterable<string>
  /** The terminal for a human-readable log; undefined if there is none. */
  readonly logTerminal: Terminal | undefined
  /** The destination of the log otherwise; undefined for standard error. */
  readonly logLines: LineStream | undefined
  /** Secrets to mask in all output; commands add to them. */
  readonly secrets: Secrets
  /** The available commands by name, with their summaries. */
  readonly commands: Readonly<Record<string, { readonly summary: string }>>
  /** How to restart this program: its path, and the words before its arguments. */
  readonly program: readonly [path: string, ...words: string[]]
  /** Signals to end and to reload a server. */
  readonly signals: ProcessSignals
  /** The keyboard; undefined if standard input is no terminal. */
  readonly keyboard: Keyboard | undefined
}

/** The keys of a terminal, without waiting for Enter. */
export interface Keyboard {
  /** Calls back with each key, but for Ctrl-C, which stays a signal. */
  listen(press: (key: string) => void): void
  /** Gives the terminal back as it was. */
  release(): void
  /** What Ctrl-C does. */
  interrupt(): void
}

/** A command's help page. It fits a screen of 80 x 24. */
interface HelpPage {
  readonly usage: string
  /** One or two lines. */
  readonly about: string
  readonly examples: readonly string[]
  readonly flags: Readonly<Record<string, OwnFlag>>
  /** A last line. */
  readonly more?: string
}

/** The last line of the page of a command that takes the flags of `serve`. */
export const TAKES_SERVE_FLAGS = 'Takes all flags of serve: see wasm-serve help flags.'

/** Renders a help page. */
export function renderPage({ usage, about, examples, flags, more }: HelpPage): string {
  const rows = Object.entries(flags).map(
    ([name, flag]) => [renderFlag(name, flag), flag.description] as const,
  )
  const parts = [
    usage,
    about,
    ['Examples:', ...examples.map((example) => `  ${example}`)].join('\n'),
    ...(rows.length > 0 ? [['Flags:', ...renderRows(rows)].join('\n')] : []),
    ...(more === undefined ? [] : [more]),
  ]
  return `${parts.join('\n\n')}\n`
}

/** Columns of a help page: those of a small terminal. */
const HELP_COLUMNS = 80

/** Longer names have their description on the next line. */
const MAX_NAME_COLUMNS = 28

/** Renders names and their descriptions in two columns, which fit {@link HELP_COLUMNS}. */
export function renderRows(rows: readonly (readonly [name: string, description: string])[]): string[] {
  const width = Math.min(MAX_NAME_COLUMNS, Math.max(...rows.map(([name]) => name.length)))
  return rows.flatMap(([name, description]) => {
    const lines = wrapText(description, HELP_COLUMNS - width - 4)
    const [first = '', ...rest] = name.length > width ? ['', ...lines] : lines
    return [`  ${name.padEnd(width)}  ${first}`, ...rest.map((line) => ' '.repeat(width + 4) + line)]
  })
}

/** Breaks a text into lines at its spaces. */
function wrapText(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function renderFlag(name: string, { short, placeholder }: OwnFlag): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${placeholder === undefined ? '' : ` <${placeholder}>`}`
}

/** A flag of one command, in addition to those of `serve`. */
export interface OwnFlag {
  readonly kind: 'switch' | 'text' | 'count' | 'seconds'
  /** A single letter. */
  readonly short?: string
  /** The placeholder of the value on help pages. */
  readonly placeholder?: string
  readonly description: string
}

/** The values of a command's own flags; undefined for flags that were not set. */
export type OwnValues<Own extends Readonly<Record<string, OwnFlag>>> = {
  readonly [Name in keyof Own]: Own[Name]['kind'] extends 'switch'
    ? boolean
    : (Own[Name]['kind'] extends 'count' | 'seconds' ? number : string) | undefined
}

/**
 * Separates a command's own flags from the other arguments.
 *
 * @param own - By name. Each hides a flag of `serve` with the same name.
 * @returns their values, and the remaining arguments for `readConfig`.
 * @throws {@link UsageError} if a flag is neither one of these nor one of `serve`, or its value is missing or invalid.
 */
export function takeOwnFlags<Own extends Readonly<Record<string, OwnFlag>>>(
  argv: readonly string[],
  own: Own,
): { values: OwnValues<Own>; rest: string[] } {
  const values = new Map<string, unknown>()
  const taken = new Set<number>()
  for (const token of parseOwnFlags(argv, own)) {
    if (token.kind !== 'option') continue
    const flag = Object.hasOwn(own, token.name) ? own[token.name] : undefined
    if (!flag) {
      refuseUnknownFlags(token.name, token.rawName, own)
      continue
    }
    const isJoined = token.inlineValue === true
    values.set(token.name, readValue(flag, token.rawName, token.value, isJoined))
    taken.add(token.index)
    if (flag.kind !== 'switch' && !isJoined) taken.add(token.index + 1)
  }
  for (const [name, { kind }] of Object.entries(own)) {
    if (kind === 'switch' && !values.has(name)) values.set(name, false)
  }
  return {
    values: Object.fromEntries(values) as OwnValues<Own>,
    rest: argv.filter((_word, index) => !taken.has(index)),
  }
}

function parseOwnFlags(argv: readonly string[], own: Readonly<Record<string, OwnFlag>>) {
  const taken = Object.values(own).map(({ short }) => short)
  const shared = Object.entries(PARSED_FLAGS).map(([name, { short, ...flag }]) => {
    return [name, short === undefined || taken.includes(short) ? flag : { ...flag, short }] as const
  })
  const options = Object.entries(own).map(([name, { kind, short }]) => {
    const type = kind === 'switch' ? ('boolean' as const) : ('string' as const)
    return [name, short === undefined ? { type } : { type, short }] as const
  })
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries([...shared, ...options]),
    strict: false, // unknown flags are reported below, with suggestions
    tokens: true,
  })
  return tokens
}

function refuseUnknownFlags(name: string, rawName: string, own: Readonly<Record<string, OwnFlag>>): void {
  const known = Object.keys(PARSED_FLAGS)
  if (known.includes(name) || known.includes(name.replace(/^no-/, ''))) return
  const names = [...Object.keys(own), ...known].map((each) => `--${each}`)
  throw new UsageError(`unknown flag ${rawName}${didYouMean(rawName, names)}`)
}

function readValue(
  { kind }: OwnFlag,
  rawName: string,
  value: string | undefined,
  isJoined: boolean,
): string | number | true {
  if (kind === 'switch') {
    if (isJoined) throw new UsageError(`${rawName}: takes no value`)
    return true
  }
  if (value === undefined || (!isJoined && value.startsWith('--'))) {
    throw new UsageError(`${rawName}: needs a value`)
  }
  if (kind === 'text') return value
  if (kind === 'seconds') {
    if (/^\d{1,8}(?:\.\d{1,3})?$/.test(value) && Number(value) > 0) return Number(value)
    throw new UsageError(`${rawName}: must be a number of seconds above 0, not "${value}"`)
  }
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value)
  throw new UsageError(`${rawName}: must be a whole number above 0, not "${value}"`)
}
