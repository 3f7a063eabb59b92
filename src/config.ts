import { parseArgs } from 'node:util'
import { UsageError } from './errors.ts'
import { type Flag, flags, parsePair, parsePairs, parseValue } from './flags.ts'
import { didYouMean } from './nearest.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What a user asked for, before it is checked as options. */
export interface Config {
  readonly help: boolean
  readonly version: boolean
  /** The plug-in. */
  readonly source: string | undefined
  readonly route: Record<string, unknown>
  readonly server: Record<string, unknown>
}

/**
 * Reads the command line and the environment: flags win over variables, which win over defaults.
 *
 * @throws {@link UsageError} naming the flag or variable that cannot be understood, and the one that was meant.
 */
export function readConfig(argv: readonly string[], environment: Environment): Config {
  const options = { route: {}, server: {} }
  for (const flag of flags) readVariable(flag, environment[flag.variable], options[flag.scope])
  const { words, help, version } = readFlags(argv, options)
  const [source, ...rest] = words
  readWords(rest, argv, options)
  return { help, version, source, ...options }
}

type Options = Record<string, unknown>

function readVariable({ kind, option, variable }: Flag, text: string | undefined, options: Options): void {
  if (text === undefined || text === '') return
  options[option] =
    kind === 'pairs' ? Object.fromEntries(parsePairs(text, variable)) : parseValue(kind, text, variable)
}

function readFlags(argv: readonly string[], options: { route: Options; server: Options }) {
  const known = Object.fromEntries(
    flags.map(({ name, kind }) => [name, { type: kind === 'boolean' ? 'boolean' : 'string' } as const]),
  )
  const { tokens } = parseArgs({
    args: [...argv],
    options: { ...known, help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'v' } },
    strict: false, // our own messages, with suggestions
    tokens: true,
  })

  const words: string[] = []
  const asked = { help: false, version: false }
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    else if (token.kind === 'option') {
      if (token.name === 'help' || token.name === 'version') asked[token.name] = true
      else readFlag(token, options)
    }
  }
  return { words, ...asked }
}

interface FlagToken {
  readonly name: string
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

function readFlag(
  { name, rawName, value, inlineValue }: FlagToken,
  scopes: { route: Options; server: Options },
): void {
  const negated = name.startsWith('no-')
  const flag = flags.find((flag) => flag.name === (negated ? name.slice(3) : name))
  if (!flag || (negated && flag.kind !== 'boolean')) throw new UsageError(unknownFlag(rawName))
  const options = scopes[flag.scope]

  if (flag.kind === 'boolean') {
    if (negated && inlineValue) throw new UsageError(`${rawName}: takes no value`)
    options[flag.option] = inlineValue ? parseValue('boolean', value ?? '', rawName) : !negated
    return
  }
  if (value === undefined || (!inlineValue && value.startsWith('--')))
    throw new UsageError(`${rawName}: needs a value`)
  if (flag.kind === 'pairs') {
    options[flag.option] = {
      ...(options[flag.option] as object),
      ...Object.fromEntries([parsePair(value, rawName)]),
    }
  } else options[flag.option] = parseValue(flag.kind, value, rawName)
}

function unknownFlag(rawName: string): string {
  const names = flags.flatMap(({ name, kind }) =>
    kind === 'boolean' ? [`--${name}`, `--no-${name}`] : [`--${name}`],
  )
  return `unknown flag ${rawName}${didYouMean(rawName, [...names, '--help', '--version'])}`
}

/** After the plug-in: the function, the port. */
function readWords(
  words: readonly string[],
  argv: readonly string[],
  { route, server }: { route: Options; server: Options },
): void {
  const rest = [...words]
  const last = rest.at(-1)
  if (last !== undefined && /^\d+$/.test(last)) {
    rest.pop()
    refuseTwice('port', argv)
    server.port = parseValue('integer', last, 'port')
  }
  const [exportName, tooMany] = rest
  if (tooMany !== undefined) {
    throw new UsageError(`unexpected "${tooMany}": after the plug-in come a function and a port, no more`)
  }
  if (exportName !== undefined) {
    refuseTwice('function', argv)
    route.function = exportName
  }
}

function refuseTwice(name: string, argv: readonly string[]): void {
  if (argv.some((word) => word === `--${name}` || word.startsWith(`--${name}=`))) {
    throw new UsageError(`the ${name} is given twice, as --${name} and as a word`)
  }
}
