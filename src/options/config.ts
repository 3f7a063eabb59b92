import { parseArgs } from 'node:util'
import { UsageError } from '../errors/errors.ts'
import { didYouMean } from '../platform/text.ts'
import { AUTHORIZATION_VARIABLE } from '../plugin/source/url.ts'
import {
  COMMAND_LINE,
  type ConfigMap,
  type ConfigNode,
  type ConfigPath,
  fromData,
  mapOf,
  mergeMaps,
  nodeAt,
  type Origin,
  originAt,
  renderOrigin,
} from './config-node.ts'
import {
  type Flag,
  type FlagEntry,
  fileOptions,
  flagName,
  flags,
  isEntryKind,
  parseFlagEntries,
  parseFlagEntry,
  parseHosts,
  parseValue,
  variables,
} from './flags.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** The command line and the environment before the check of options. */
export interface Config {
  readonly help: boolean
  readonly version: boolean
  /** Whether to print the effective configuration instead of serving. */
  readonly printConfig: boolean
  /** Path of the config file, if one is given. */
  readonly configFile: string | undefined
  /** The plug-ins and, after a single one, possibly a function: only the plug-in's exports can decide. */
  readonly words: readonly string[]
  /** Options from flags and words. */
  readonly flags: ConfigLayer
  /** Options from the environment. */
  readonly variables: ConfigLayer
}

/** Options of one origin, by scope. */
type ConfigLayer = Readonly<Record<Flag['scope'], ConfigMap>>

type Options = Record<string, unknown>
type Scopes = Record<Flag['scope'], Options>

/**
 * Reads the command line and the environment. Precedence is applied when they are merged with the config file.
 *
 * @throws {@link UsageError} naming the invalid flag or variable, with a suggestion.
 */
export function readConfig(argv: readonly string[], environment: Environment): Config {
  const flagged: Scopes = { route: {}, load: {}, server: {} }
  const { words, manifest, configFile, ...asked } = readFlags(argv, flagged)
  const rest = readPort(words, argv, flagged.server)
  const [only = ''] = rest
  const isFile = rest.length === 1 && manifest === undefined && configFile === undefined && isConfigFile(only)
  return {
    ...asked,
    configFile: isFile ? only : (configFile ?? (environment.WASM_SERVE_CONFIG_FILE || undefined)),
    words: isFile ? [] : withManifest(rest, manifest, environment),
    flags: layerOf((scope) => fromFlags(scope, flagged[scope])),
    variables: layerOf((scope) => readVariables(scope, environment)),
  }
}

/** Whether a word is the path of a config file, and not of a plug-in. */
export function isConfigFile(word: string): boolean {
  return /\.ya?ml$|(?:^|[/\\])wasm-serve\.json$/i.test(word)
}

const PREFIX = 'WASM_SERVE_'

/** Variables that are read elsewhere. */
const OTHER_VARIABLES = [
  ...['CONFIG_FILE', 'MANIFEST', 'SET_CONFIG'].map((name) => PREFIX + name),
  AUTHORIZATION_VARIABLE,
]

/** Kubernetes sets such variables for a service of that name, and the Helm chart for its config file. */
const OF_OTHERS = /^WASM_SERVE_CHART_|_SERVICE_(?:HOST|PORT)|_PORT_\d+_/

/**
 * A variable with a wrong name would leave an option at its default, which may be no limit.
 *
 * @param used - Names of variables that the config file uses.
 * @throws {@link UsageError}
 */
export function refuseUnknownVariables(environment: Environment, used: readonly string[] = []): void {
  const known = [...variables.map(({ variable }) => variable), ...OTHER_VARIABLES, ...used]
  for (const [name, value] of Object.entries(environment)) {
    if (!name.startsWith(PREFIX) || !value || known.includes(name) || OF_OTHERS.test(name)) continue
    throw new UsageError(`unknown variable ${name}${didYouMean(name, known)}`)
  }
}

/** The plug-in is the first word, or the value of `--manifest`; the variable is used if there is neither. */
function withManifest(
  words: readonly string[],
  manifest: string | undefined,
  environment: Environment,
): readonly string[] {
  if (manifest === undefined)
    return words.length > 0 ? words : [environment.WASM_SERVE_MANIFEST || ''].filter(Boolean)
  if (words.some((word) => /\.(?:wasm|json)$/.test(word))) {
    throw new UsageError('the plug-in is given twice, as --manifest and as an argument')
  }
  return [manifest, ...words]
}

function layerOf(scoped: (scope: Flag['scope']) => ConfigMap): ConfigLayer {
  return { route: scoped('route'), load: scoped('load'), server: scoped('server') }
}

function fromFlags(scope: Flag['scope'], options: Options): ConfigMap {
  const maps = Object.entries(options).map(([option, value]) =>
    mapAt(
      option.split('.'),
      fromData(value, { kind: 'flag', name: `--${flagName(scope, option)}` }),
      COMMAND_LINE,
    ),
  )
  return mergeMaps(mapOf([], COMMAND_LINE), ...maps)
}

/** A value, nested in maps according to the dots in its option's name. */
function mapAt([key = '', ...rest]: readonly string[], node: ConfigNode, origin: Origin): ConfigMap {
  return mapOf([[key, rest.length === 0 ? node : mapAt(rest, node, origin)]], origin)
}

/** Values of variables may be secret: messages show their names instead. */
function readVariables(scope: Flag['scope'], environment: Environment): ConfigMap {
  const mapOfFlag = (flag: Flag, variable: string) => {
    const text = environment[variable]
    if (text === undefined || text === '') return []
    const origin = { kind: 'variable', name: variable } as const
    const value = fromData(readVariable(flag.kind, text, variable), origin, `\${${variable}}`)
    return [mapAt(flag.option.split('.'), value, origin)]
  }
  const maps = variables
    .filter((flag) => flag.scope === scope)
    .flatMap((flag) => [
      ...mapOfFlag(flag, flag.variable),
      ...(flag.option === 'config' ? mapOfFlag(flag, 'WASM_SERVE_SET_CONFIG') : []),
    ])
  return mergeMaps(mapOf([], { kind: 'variable', name: 'environment' }), ...maps)
}

function readVariable(kind: Flag['kind'], text: string, variable: string): unknown {
  if (kind === 'hosts') return parseHosts(text, variable)
  return isEntryKind(kind)
    ? Object.fromEntries(parseFlagEntries(kind, text, variable))
    : parseValue(kind, text, variable)
}

/** The flags, for `parseArgs`. */
export const PARSED_FLAGS: Readonly<Record<string, { type: 'boolean' | 'string'; short?: string }>> = {
  ...Object.fromEntries(
    flags.map(({ name, kind }) => [name, { type: kind === 'boolean' ? 'boolean' : 'string' } as const]),
  ),
  'set-config': { type: 'string' },
  manifest: { type: 'string', short: 'm' },
  'config-file': { type: 'string', short: 'c' },
  'print-config': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
}

function readFlags(argv: readonly string[], options: Scopes) {
  const { tokens } = parseArgs({
    args: [...argv],
    options: PARSED_FLAGS,
    strict: false, // our own messages, with suggestions
    tokens: true,
  })

  const words: string[] = []
  const asked = { help: false, version: false, printConfig: false }
  let manifest: string | undefined
  const lists = new Map<Flag, string[]>()
  const once = new GivenOnce()
  let configFile: string | undefined
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    else if (token.kind === 'option') {
      if (token.name === 'help' || token.name === 'version') asked[token.name] = true
      else if (token.name === 'print-config') asked.printConfig = true
      else if (token.name === 'manifest') manifest = once.take(token.name, pathValue(token))
      else if (token.name === 'config-file') configFile = once.take(token.name, pathValue(token))
      else if (token.name === 'set-config') {
        addEntries(options.route, 'config', parseFlagEntries('pairs', flagValue(token), token.rawName))
      } else readFlag(token, options, lists, once)
    }
  }
  // All uses of a list's flag together replace its variable: the variable must not add values that the flags omit.
  for (const [{ scope, option }, texts] of lists) options[scope][option] = texts
  return { words, manifest, configFile, ...asked }
}

/** Flags that have one value: with two, one would be lost. */
class GivenOnce {
  readonly #values = new Map<string, string>()

  /**
   * @param name - Of the flag, without dashes; for an entry, with its key.
   * @throws {@link UsageError} if it was given before with another value.
   */
  take<Value>(name: string, value: Value): Value {
    const text = JSON.stringify(value)
    if ((this.#values.get(name) ?? text) !== text)
      throw new UsageError(`--${name} is given twice, with different values: remove one of them`)
    this.#values.set(name, text)
    return value
  }
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
  once: GivenOnce,
): void {
  const negated = name.startsWith('no-')
  const flag = flags.find((flag) => flag.name === (negated ? name.slice(3) : name))
  if (!flag || (negated && flag.kind !== 'boolean')) throw new UsageError(unknownFlag(rawName))
  const options = scopes[flag.scope]

  if (flag.kind === 'boolean') {
    if (negated && inlineValue) throw new UsageError(`${rawName}: takes no value`)
    const isOn = inlineValue ? parseValue('boolean', value ?? '', rawName) : !negated
    options[flag.option] = once.take(flag.name, isOn)
    return
  }
  const text = flagValue({ name, rawName, value, inlineValue })
  if (flag.kind === 'hosts') lists.set(flag, [...(lists.get(flag) ?? []), text])
  else if (isEntryKind(flag.kind)) {
    const [key, entry] = parseFlagEntry(flag.kind, text, rawName)
    addEntries(options, flag.option, [[key, once.take(`${flag.name} ${key}`, entry)]])
  } else options[flag.option] = once.take(flag.name, parseValue(flag.kind, text, rawName))
}

function pathValue(token: FlagToken): string {
  const path = flagValue(token)
  if (path === '') throw new UsageError(`${token.rawName}: needs the path of a file`)
  return path
}

/** @throws {@link UsageError} if it is missing; a value that begins like a flag must be joined by `=`. */
function flagValue({ rawName, value, inlineValue }: FlagToken): string {
  if (value === undefined || (!inlineValue && value.startsWith('--'))) {
    throw new UsageError(`${rawName}: needs a value`)
  }
  return value
}

function addEntries(options: Options, option: string, entries: readonly FlagEntry[]): void {
  options[option] = { ...(options[option] as object | undefined), ...Object.fromEntries(entries) }
}

function unknownFlag(rawName: string): string {
  const name = rawName.replace(/^-+/, '')
  const option = fileOptions.get(name)
  if (option !== undefined) {
    const variable = variables.find((each) => each.option === option)?.variable
    const besides = variable === undefined ? '' : `, or the variable ${variable}`
    return `${rawName} is not a flag: set ${option} in a config file${besides}`
  }
  const meant = FLAGS_OF_OTHERS.get(rawName)
  if (meant !== undefined) return `unknown flag ${rawName}; did you mean "${meant}"?`
  const names = Object.entries(PARSED_FLAGS).flatMap(([name, { type }]) =>
    type === 'boolean' ? [`--${name}`, `--no-${name}`] : [`--${name}`],
  )
  return `unknown flag ${rawName}${didYouMean(rawName, names)}`
}

/** Flags that other tools have, and those that do the same here. */
const FLAGS_OF_OTHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '-p': '--port',
    '-w': '--watch',
    '-V': '--version',
    '--verbose': '--log-level debug',
    '-q': '--log-level silent',
    '--quiet': '--log-level silent',
  }),
)

/** A last word of digits is the port; a file of that name is `./8080`. */
function readPort(words: readonly string[], argv: readonly string[], server: Options): readonly string[] {
  const last = words.at(-1)
  if (last === undefined || !/^\d+$/.test(last)) return words
  refuseTwice('port', argv)
  server.port = parseValue('integer', last, 'port')
  return words.slice(0, -1)
}

function refuseTwice(name: string, argv: readonly string[]): void {
  if (argv.some((word) => word === `--${name}` || word.startsWith(`--${name}=`))) {
    throw new UsageError(`the ${name} is given twice, as --${name} and as an argument`)
  }
}

/** The input of {@link renderConfig}. */
interface EffectiveConfig {
  readonly file: string | undefined
  readonly node: ConfigNode
  /** Checked options: defaults are filled in. */
  readonly options: object
}

/**
 * Renders the effective configuration as JSON: the options, and the origin of each: a flag, a variable, a line of the
 * file, or `default`. Values from the environment are shown as `${NAME}`.
 */
export function renderConfig({ file, node, options }: EffectiveConfig): string {
  const from: Record<string, string> = {}
  const shown = showValue(options, [], node, from)
  return `${JSON.stringify({ file, options: shown, from }, null, 2)}\n`
}

function showValue(
  value: unknown,
  path: ConfigPath,
  node: ConfigNode,
  from: Record<string, string>,
): unknown {
  const found = path.length === 0 ? node : nodeAt(node, path)
  if (found?.kind !== 'scalar' && isContainer(value)) {
    if (Array.isArray(value)) return value.map((item, index) => showValue(item, [...path, index], node, from))
    const entries = Object.entries(value)
    if (entries.length === 0) from[renderPath(path)] = 'default'
    return Object.fromEntries(
      entries.map(([key, item]) => [key, showValue(item, [...path, key], node, from)]),
    )
  }
  from[renderPath(path)] = found ? renderOrigin(originAt(node, path)) : 'default'
  return withoutPassword(found?.kind === 'scalar' ? (found.shown ?? found.value) : value)
}

/** Hides the password of a URL. */
export function withoutPassword(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, '$1(secret)@')
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Renders a path, such as `routes[0].config["a key"]`. */
function renderPath(path: ConfigPath): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`
      if (!/^[\w$-]+$/.test(step)) return `[${JSON.stringify(step)}]`
      return index === 0 ? step : `.${step}`
    })
    .join('')
}
