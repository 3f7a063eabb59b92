import { readFile } from 'node:fs/promises'
import { loadOptions, sourceOptions } from '../deploy/loader.ts'
import { InputUnreadableError, UsageError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import { checkGiven, locate, wholeOf } from '../options/check-config.ts'
import { type Environment, readConfig } from '../options/config.ts'
import { type ConfigMap, fromWord, mergeMaps, toData } from '../options/config-node.ts'
import { flags } from '../options/flags.ts'
import { mergeConfig } from '../options/merge.ts'
import { type CheckedRouteOptions, type CheckedServerOptions, checkLoadOptions } from '../options/options.ts'
import { resolveRoute } from '../options/resolved-route.ts'
import { fileProblem } from '../platform/system-errors.ts'
import type { LoadOptions, Plugin } from '../plugin/plugin.ts'
import { chooseEngine, type EngineChoice } from '../route/engine-choice.ts'
import { waitsForStore } from '../route/route-state.ts'
import type { Host } from './command.ts'

/** Options of a route that are about HTTP, or about requests that come at the same time. */
const HTTP_OPTIONS: ReadonlySet<string> = new Set([
  ...['method', 'url', 'contract', 'headers', 'errorStatus', 'bodyLimit', 'contentType', 'timing'],
  ...['maxQueue', 'maxQueueBytes', 'maxWaitMs', 'spareWorkers', 'idempotent'],
])

/** Options of a server that a guest may need all the same. */
const GUEST_SERVER_OPTIONS: ReadonlySet<string> = new Set(['logLevel', 'store', 'storeMax', 'storeTimeoutMs'])

/** Flags of a command that runs a guest without a server: those of `serve` without HTTP. */
export const guestFlags = flags.filter(
  ({ scope, option }) =>
    GUEST_SERVER_OPTIONS.has(option) ||
    (scope !== 'server' && !(scope === 'route' && HTTP_OPTIONS.has(option))),
)

/** The options of one plug-in, from the command line and the environment. */
export interface PluginConfig {
  readonly source: string
  readonly route: CheckedRouteOptions
  readonly server: CheckedServerOptions
  /** How it is loaded. */
  readonly load: LoadOptions
  /** All options, with where they were given. */
  readonly given: ConfigMap
}

/**
 * Reads the command line and the environment as {@link readPluginConfig} does, for a command that serves nothing.
 * Variables that are about HTTP are left unread; flags that are, and a port, are refused.
 */
export function readGuestConfig(
  argv: readonly string[],
  environment: Environment,
  name: string,
): PluginConfig {
  const others = flags.filter((flag) => !guestFlags.includes(flag))
  const left = { ...environment, ...Object.fromEntries(others.map(({ variable }) => [variable, undefined])) }
  const config = readConfig(argv, left)
  const refused = others.find(({ scope, option }) => config.flags[scope].entries.has(option))
  if (refused?.option === 'port') throw new UsageError(`${name} needs no port: nothing is served`)
  if (refused) throw new UsageError(`--${refused.name}: means nothing to ${name}, which serves nothing`)
  return readPluginConfig(argv, left, name)
}

/**
 * Reads the command line and the environment for a command that works on one plug-in. The variable that names a config
 * file is left unread; the flag is refused.
 *
 * @param name - The command's, for messages.
 * @throws {@link UsageError} also if no plug-in is named, and {@link OptionsError}.
 */
export function readPluginConfig(
  argv: readonly string[],
  environment: Environment,
  name: string,
): PluginConfig {
  const config = readConfig(argv, { ...environment, WASM_SERVE_CONFIG_FILE: undefined })
  if (config.configFile !== undefined || config.printConfig)
    throw new UsageError(`${name} reads no config file: name a plug-in, and give options as flags`)
  const [source, exportName, tooMany] = config.words
  if (source === undefined) throw new UsageError(`name a plug-in, such as wasm-serve ${name} hello.wasm`)
  if (tooMany !== undefined)
    throw new UsageError(`unexpected "${tooMany}": after the plug-in comes a function, no more`)
  if (exportName !== undefined && config.flags.route.entries.has('function'))
    throw new UsageError('the function is given twice, as --function and as a word')

  const merged = mergeConfig(config)
  const named = exportName === undefined ? [] : [fromWord('function', exportName)]
  const single = mergeMaps(merged.route, fromWord('plugin', source), ...named)
  const given = wholeOf(merged.server, [single])
  const server = checkGiven(merged.server, [single])
  const loading = locate(merged.load, () => checkLoadOptions(toData(merged.load)))
  const [route] = server.routes
  if (!route) throw new UsageError(`name a plug-in, such as wasm-serve ${name} hello.wasm`)
  return {
    source,
    route,
    server,
    load: loadOptions(route, loading, sourceOptions(loading, environment)),
    given,
  }
}

/** As {@link chooseEngine}, without opening the store. Its problems name the flags or variables that cause them. */
export function chooseEngineOf(
  { route: options, given, server }: PluginConfig,
  plugin: Plugin,
  functions?: HostFunctions,
): EngineChoice {
  const route = resolveRoute(options, plugin)
  const waits = waitsForStore(route, plugin, functions, server.store)
  return locate(given, () => chooseEngine(route, plugin, ['routes', '0'], waits))
}

/** The flags that say what a guest gets as its input. */
export const INPUT_FLAGS = {
  input: { kind: 'text', short: 'i', placeholder: 'text', description: 'The input. Default: none.' },
  'input-file': { kind: 'text', placeholder: 'path', description: 'The input is what is in this file.' },
  stdin: { kind: 'switch', description: 'The input is what comes on standard input.' },
} as const

interface InputValues {
  readonly input: string | undefined
  readonly 'input-file': string | undefined
  readonly stdin: boolean
}

/**
 * Reads a guest's input from where the flags say.
 *
 * @throws {@link UsageError} if they name two places, {@link InputUnreadableError} if a file cannot be read.
 */
export async function readInput(values: InputValues, host: Host): Promise<Uint8Array> {
  const { input, 'input-file': path, stdin } = values
  const given = [input !== undefined, path !== undefined, stdin].filter(Boolean)
  if (given.length > 1)
    throw new UsageError('the input is given twice: --input, --input-file and --stdin exclude each other')
  if (stdin) return host.readInput()
  if (path === undefined) return Buffer.from(input ?? '')
  try {
    return await readFile(path)
  } catch (error) {
    throw new InputUnreadableError(path, fileProblem(error), { cause: error })
  }
}
