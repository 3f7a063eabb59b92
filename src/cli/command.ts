import { parseArgs } from 'node:util'
import { UsageError } from '../errors/errors.ts'
import type { LineStream, Terminal } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { type Environment, PARSED_FLAGS } from '../options/config.ts'
import { didYouMean } from '../platform/text.ts'
import type { ProcessSignals } from '../server/shutdown.ts'

/** A command of the command line. */
export interface Command {
  /**
   * @param argv - The words after the program's name.
   * @returns once its work is done or, for a server, begun.
   */
  run(argv: readonly string[], host: Host): Promise<void>
}

/** The process, as far as a command may touch it. */
export interface Host {
  readonly environment: Environment
  /** Writes the results. */
  readonly out: Terminal
  /** Whether a person reads the results as they come. */
  readonly isOutTerminal: boolean
  /** Writes results that are bytes, unbuffered. */
  writeBytes(bytes: Uint8Array): void
  /** Writes messages that are not results. */
  writeError(text: string): void
  /** Reads the standard input to its end. */
  readInput(): Promise<Uint8Array>
  /** Where the log is read by a person; undefined if it is not. */
  readonly logTerminal: Terminal | undefined
  /** Where the log goes otherwise; undefined for standard error. */
  readonly logLines: LineStream | undefined
  /** Values that are never shown; commands add to them. */
  readonly secrets: Secrets
  /** The commands that there are, by name, with what they do. */
  readonly commands: Readonly<Record<string, { readonly summary: string }>>
  /** How to start this program again: its path, and the words before its arguments. */
  readonly program: readonly [path: string, ...words: string[]]
  /** Ends and reloads a server. */
  readonly signals: ProcessSignals
}

/** A command's help page; it fits a screen of 80 x 24. */
interface HelpPage {
  readonly usage: string
  /** A line or two. */
  readonly about: string
  readonly examples: readonly string[]
  readonly flags: Readonly<Record<string, OwnFlag>>
  /** A last line. */
  readonly more?: string
}

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

/** Renders names and what they mean, in two columns. */
export function renderRows(rows: readonly (readonly [name: string, description: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, description]) => `  ${name.padEnd(width)}  ${description}`)
}

function renderFlag(name: string, { short, placeholder }: OwnFlag): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${placeholder === undefined ? '' : ` <${placeholder}>`}`
}

/** A flag that one command has besides those of `serve`. */
export interface OwnFlag {
  readonly kind: 'switch' | 'text' | 'count' | 'seconds'
  /** One letter. */
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
 * Takes a command's own flags out of its words.
 *
 * @param own - By name. A flag of `serve` that has the same name is hidden.
 * @returns their values, and the words that are left for `readConfig`.
 * @throws {@link UsageError} if a flag is neither one of these nor one of `serve`, or has no value that it could have.
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
    strict: false, // our own messages, with suggestions
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
