import { parseArgs } from 'node:util'
import { UsageError } from '../errors.ts'
import { didYouMean } from '../nearest.ts'
import { type Flag, flags, isEntryKind, parseEntries, parseEntry, parseHosts, parseValue } from './flags.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What a user asked for, before it is checked as options. */
export interface Config {
  readonly help: boolean
  readonly version: boolean
  /** The plug-in. */
  readonly source: string | undefined
  readonly route: Record<string, unknown>
  readonly load: Record<string, unknown>
  readonly server: Record<string, unknown>
}

type Options = Record<string, unknown>
type Scopes = Record<Flag['scope'], Options>

/**
 * Reads the command line and the environment: flags win over variables, which win over defaults.
 *
 * @throws {@link UsageError} naming the flag or variable that cannot be understood, and the one that was meant.
 */
export function readConfig(argv: readonly string[], environment: Environment): Config {
  const options: Scopes = { route: {}, load: {}, server: {} }
  for (const flag of flags) readVariable(flag, environment[flag.variable], options[flag.scope])
  const setConfig = environment.WASM_SERVE_SET_CONFIG
  if (setConfig)
    addEntries(options.route, 'config', parseEntries('pairs', setConfig, 'WASM_SERVE_SET_CONFIG'))
  const { words, manifest, help, version } = readFlags(argv, options)
  const [source, ...rest] = sourceFirst(words, manifest, environment)
  readWords(rest, argv, options)
  return { help, version, source, ...options }
}

/** The plug-in is the first word, or what `--manifest` names; the variable counts if there is neither. */
function sourceFirst(
  words: readonly string[],
  manifest: string | undefined,
  environment: Environment,
): string[] {
  if (manifest === undefined)
    return words.length > 0 ? [...words] : [environment.WASM_SERVE_MANIFEST || ''].filter(Boolean)
  if (words.some((word) => /\.(?:wasm|json)$/.test(word))) {
    throw new UsageError('the plug-in is given twice, as --manifest and as a word')
  }
  return [manifest, ...words]
}

function readVariable({ kind, option, variable }: Flag, text: string | undefined, options: Options): void {
  if (text === undefined || text === '') return
  if (kind === 'hosts') options[option] = parseHosts(text, variable)
  else if (isEntryKind(kind)) options[option] = Object.fromEntries(parseEntries(kind, text, variable))
  else options[option] = parseValue(kind, text, variable)
}

/** What `parseArgs` has to know of the flags. */
export const PARSED_FLAGS = {
  ...Object.fromEntries(
    flags.map(({ name, kind }) => [name, { type: kind === 'boolean' ? 'boolean' : 'string' } as const]),
  ),
  'set-config': { type: 'string' },
  manifest: { type: 'string', short: 'm' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const

function readFlags(argv: readonly string[], options: Scopes) {
  const { tokens } = parseArgs({
    args: [...argv],
    options: PARSED_FLAGS,
    strict: false, // our own messages, with suggestions
    tokens: true,
  })

  const words: string[] = []
  const lists = new Map<Flag, string[]>()
  const asked = { help: false, version: false }
  let manifest: string | undefined
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    else if (token.kind === 'option') {
      if (token.name === 'help' || token.name === 'version') asked[token.name] = true
      else if (token.name === 'manifest') manifest = textOf(token)
      else if (token.name === 'set-config') {
        addEntries(options.route, 'config', parseEntries('pairs', textOf(token), token.rawName))
      } else readFlag(token, options, lists)
    }
  }
  // All of a list's flags together win over its variable: what one says is allowed, the other may not.
  for (const [{ scope, option }, texts] of lists) options[scope][option] = texts
  return { words, manifest, ...asked }
}

interface FlagToken {
  readonly name: string
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

function readFlag(
  { name, rawName, value, inlineValue }: FlagToken,
  scopes: Scopes,
  lists: Map<Flag, string[]>,
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
  const text = textOf({ name, rawName, value, inlineValue })
  if (flag.kind === 'hosts') lists.set(flag, [...(lists.get(flag) ?? []), text])
  else if (isEntryKind(flag.kind)) addEntries(options, flag.option, [parseEntry(flag.kind, text, rawName)])
  else options[flag.option] = parseValue(flag.kind, text, rawName)
}

/** @throws {@link UsageError} if there is none; what begins like a flag has to be joined by `=`. */
function textOf({ rawName, value, inlineValue }: FlagToken): string {
  if (value === undefined || (!inlineValue && value.startsWith('--'))) {
    throw new UsageError(`${rawName}: needs a value`)
  }
  return value
}

function addEntries(
  options: Options,
  option: string,
  entries: readonly [key: string, value: string][],
): void {
  options[option] = { ...(options[option] as object | undefined), ...Object.fromEntries(entries) }
}

function unknownFlag(rawName: string): string {
  const names = flags.flatMap(({ name, kind }) =>
    kind === 'boolean' ? [`--${name}`, `--no-${name}`] : [`--${name}`],
  )
  return `unknown flag ${rawName}${didYouMean(rawName, [...names, '--set-config', '--manifest', '--help', '--version'])}`
}

/** After the plug-in: the function, the port. */
function readWords(words: readonly string[], argv: readonly string[], { route, server }: Scopes): void {
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
