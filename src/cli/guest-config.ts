import { readFile } from 'node:fs/promises'
import { loadOptions, sourceOptions } from '../deploy/loader.ts'
import { nameOfWord } from '../deploy/mounts.ts'
import { InputUnreadableError, UsageError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import { serviceUse } from '../guest/services/service.ts'
import { reasonsToWait } from '../guest/services/services.ts'
import { syncOf } from '../guest/store/store.ts'
import { atLocation, checkNode, withRoutes } from '../options/check-config.ts'
import { readConfig, refuseUnknownVariables } from '../options/config.ts'
import { type ConfigMap, fromWord, mergeMaps, toData } from '../options/config-node.ts'
import { optionsWhere } from '../options/facts.ts'
import { flags } from '../options/flags.ts'
import { mergeConfig } from '../options/merge.ts'
import { type CheckedRouteOptions, type CheckedServerOptions, checkLoadOptions } from '../options/options.ts'
import { resolveRoute } from '../options/resolved-route.ts'
import { fileProblem } from '../platform/system-errors.ts'
import type { LoadOptions, Plugin } from '../plugin/plugin.ts'
import { chooseEngine, type EngineChoice } from '../route/engine-choice.ts'
import type { Host } from './command.ts'
import { showTransfers } from './progress.ts'

const GUEST_OPTIONS = {
  route: optionsWhere('route', ({ guest = true }) => guest),
  load: optionsWhere('load', ({ guest = true }) => guest),
  server: optionsWhere('server', ({ guest = false }) => guest),
}

/** Flags of commands that run a guest without a server: those of `serve` except the ones about HTTP and concurrent requests. */
export const guestFlags = flags.filter(({ scope, option }) =>
  GUEST_OPTIONS[scope].has(option.split('.', 1).join()),
)

/** The options for one plug-in, from the command line and the environment. */
interface PluginConfig {
  readonly source: string
  readonly route: CheckedRouteOptions
  readonly server: CheckedServerOptions
  /** The options for loading. */
  readonly load: LoadOptions
  /** All options with their sources. */
  readonly node: ConfigMap
}

/**
 * Reads the command line and the environment like {@link readPluginConfig}, for a command that does not serve. It
 * ignores variables about HTTP, and rejects a port and flags about HTTP.
 */
export function readGuestConfig(
  argv: readonly string[],
  { environment, ...host }: Pick<Host, 'environment' | 'logTerminal' | 'logLines' | 'secrets'>,
  name: string,
): PluginConfig {
  const others = flags.filter((flag) => !guestFlags.includes(flag))
  const left = { ...environment, ...Object.fromEntries(others.map(({ variable }) => [variable, undefined])) }
  const config = readConfig(argv, left)
  const refused = others.find(({ scope, option }) => config.flags[scope].entries.has(option))
  if (refused?.option === 'port') throw new UsageError(`${name} takes no port: it does not serve`)
  if (refused) throw new UsageError(`--${refused.name}: not supported by ${name}, which does not serve`)
  return readPluginConfig(argv, { ...host, environment: left }, name)
}

/**
 * Reads the command line and the environment for a command about one plug-in. It ignores the variable that names a
 * config file, and rejects the flag.
 *
 * @param name - The command's name, for messages.
 * @throws {@link UsageError} also if no plug-in is named, and {@link OptionsError}.
 */
export function readPluginConfig(
  argv: readonly string[],
  { environment, ...host }: Pick<Host, 'environment' | 'logTerminal' | 'logLines' | 'secrets'>,
  name: string,
): PluginConfig {
  refuseUnknownVariables(environment)
  const config = readConfig(argv, { ...environment, WASM_SERVE_CONFIG_FILE: undefined })
  if (config.configFile !== undefined || config.printConfig)
    throw new UsageError(`${name} reads no config file: name a plug-in, and give options as flags`)
  const [source, exportName, tooMany] = config.words
  if (source === undefined) throw new UsageError(`name a plug-in, such as wasm-serve ${name} hello.wasm`)
  if (tooMany !== undefined)
    throw new UsageError(
      `unexpected "${tooMany}": a plug-in and a function are the only arguments; --input has the input of a guest`,
    )
  if (exportName !== undefined && config.flags.route.entries.has('function'))
    throw new UsageError('the function is given twice, as --function and as an argument')

  const merged = mergeConfig(config)
  const named = exportName === undefined ? [] : [fromWord('function', exportName)]
  const single = mergeMaps(merged.route, fromWord('plugin', source), ...named)
  const node = withRoutes(merged.server, [single])
  const server = checkNode(merged.server, [single])
  const loading = atLocation(merged.load, () => checkLoadOptions(toData(merged.load)))
  const [route] = server.routes
  if (!route) throw new UsageError(`name a plug-in, such as wasm-serve ${name} hello.wasm`)
  const sources = sourceOptions(loading, environment, showTransfers(host, 'pulled'))
  return {
    source,
    route,
    server,
    load: {
      ...loadOptions({ ...route, load: 'eager' }, { expected: 1, compiles: true }, loading, sources),
      name: nameOfWord(source),
    },
    node,
  }
}

/** Like {@link chooseEngine}, without opening the store. Problems name the flags or variables that cause them. */
export function chooseEngineOf(
  { route: options, node, server }: PluginConfig,
  plugin: Plugin,
  functions?: HostFunctions,
): EngineChoice {
  const route = resolveRoute(options, plugin)
  const waitsFor = reasonsToWait(serviceUse(route, plugin, functions, syncOf(server.store)))
  return atLocation(node, () => chooseEngine(route, plugin, ['routes', '0'], waitsFor))
}

/** The flags that select a guest's input. */
export const INPUT_FLAGS = {
  input: { kind: 'text', short: 'i', placeholder: 'text', description: 'The input. Default: none.' },
  'input-file': { kind: 'text', placeholder: 'path', description: 'Read the input from this file.' },
  stdin: { kind: 'switch', description: 'Read the input from standard input.' },
} as const

interface InputValues {
  readonly input: string | undefined
  readonly 'input-file': string | undefined
  readonly stdin: boolean
}

/**
 * Reads a guest's input from the source that the flags select.
 *
 * @throws {@link UsageError} if they select two sources, {@link InputUnreadableError} if a file cannot be read.
 */
export async function readInput(values: InputValues, host: Host): Promise<Uint8Array> {
  const { input, 'input-file': path, stdin } = values
  const present = [input !== undefined, path !== undefined, stdin].filter(Boolean)
  if (present.length > 1)
    throw new UsageError('the input is given twice: --input, --input-file and --stdin exclude each other')
  if (stdin) return host.readInput()
  if (path === undefined) return Buffer.from(input ?? '')
  try {
    return await readFile(path)
  } catch (error) {
    throw new InputUnreadableError(path, fileProblem(error), { cause: error })
  }
}
