import { ArtifactUnsupportedError, UsageError } from '../errors/errors.ts'
import { callableExports } from '../module/entry-points.ts'
import { atLocation, checkNode, checkRoute, withLocation } from '../options/check-config.ts'
import { type Config, isConfigFile } from '../options/config.ts'
import {
  COMMAND_LINE,
  type ConfigMap,
  fromWord,
  mapOf,
  mergeMaps,
  nodeAt,
  type Origin,
  originAt,
  renderOrigin,
  toData,
} from '../options/config-node.ts'
import type { Merged } from '../options/merge.ts'
import { type CheckedRouteOptions, type CheckedServerOptions, optionsError } from '../options/options.ts'
import { problemAt } from '../options/schema.ts'
import { mapWithYields } from '../platform/event-loop.ts'
import { parseJson } from '../platform/json-text.ts'
import { listed, nearest } from '../platform/text.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { nameOfSource } from '../plugin/source/url.ts'
import { type DesiredRoute, mapFromData, sourceOf } from './desired-state.ts'
import type { Version } from './edits.ts'
import type { LoadedVersion, Loader, ReadingOptions } from './loader.ts'
import {
  chosenRoutes,
  isFolder,
  isRoutable,
  isSource,
  type Mount,
  type Mounted,
  type MountedRoute,
  mountAt,
  mountsOf,
  nameOfWord,
  routesAt,
} from './mounts.ts'

/** The options of the search. */
interface FindLimits {
  /** Called with each folder before it is read. */
  readonly onFile: ReadingOptions['onFile'] | undefined
  /** The number of functions that are served when none is named. */
  readonly maxFunctions: number
}

/**
 * The routes of the config file, or of the plug-ins that the file or the command line names.
 *
 * @param commands - Command names, to suggest one for a misspelled argument.
 * @param failed - Called with the reason that a plug-in has no routes; the search continues with the others.
 * @throws `UsageError`, `OptionsError`
 */
export async function findRoutes(
  config: Config,
  merged: Merged,
  load: Loader,
  failed: (error: unknown) => void,
  commands: Iterable<string>,
  limits: FindLimits,
): Promise<FoundRoutes> {
  const finding = new Finding(config, merged, load, failed, commands, limits)
  const { leftOut, warnings } = finding
  return { routes: await finding.routes(), leftOut, warnings }
}

/** The result of {@link findRoutes}. */
interface FoundRoutes {
  readonly routes: readonly DesiredRoute[]
  /** Skipped plug-ins and functions, whose names cannot be routes. */
  readonly leftOut: readonly string[]
  /** Skipped items and reasons, as text. */
  readonly warnings: readonly string[]
}

/** One run of {@link findRoutes}. */
class Finding {
  readonly leftOut: string[] = []
  readonly warnings: string[] = []
  readonly #config: Config
  readonly #merged: Merged
  readonly #load: Loader
  readonly #failed: (error: unknown) => void
  readonly #commands: Iterable<string>
  readonly #onFile: ((path: string) => void) | undefined
  readonly #maxFunctions: number

  constructor(
    config: Config,
    merged: Merged,
    load: Loader,
    failed: (error: unknown) => void,
    commands: Iterable<string>,
    { onFile, maxFunctions }: FindLimits,
  ) {
    this.#maxFunctions = maxFunctions
    this.#commands = commands
    this.#config = config
    this.#merged = merged
    this.#load = load
    this.#failed = failed
    this.#onFile = onFile
  }

  async routes(): Promise<DesiredRoute[]> {
    const { words } = this.#config
    const { plugins, routes } = this.#merged
    refuseOddWords(words, this.#commands)
    if (words.length === 0 && !routes && plugins.size === 0)
      throw new UsageError('name a plug-in, such as hello.wasm, or a config file with --config-file')
    if (words.length > 0 && (routes || plugins.size > 0))
      throw new UsageError(`the config file already names plug-ins: remove "${words[0]}"`)
    if (routes) return this.#ofFile(routes)
    if (words.length === 0) return this.#ofPlugins()
    return this.#ofWords(words)
  }

  /** Routes that the file lists are taken as they are. A plug-in that fails does not hide problems of another. */
  async #ofFile(routes: readonly ConfigMap[]): Promise<DesiredRoute[]> {
    if (routes.length > 1) this.#refuseSingle()
    const { routePlugins } = this.#merged
    await this.#expect(routes)
    return this.#each(routes, async (node, index) => {
      const name = routePlugins[index] ?? nameOfSource(sourceOf(node))
      const { plugin, version } = await this.#loadFor(node, name)
      return [
        { configured: withSmoke(node, plugin, version), version, from: renderOrigin(urlOrigin(node)), name },
      ]
    })
  }

  async #ofPlugins(): Promise<DesiredRoute[]> {
    const { plugins } = this.#merged
    if (plugins.size > 1) this.#refuseSingle()
    await this.#expect([...plugins.values()])
    return this.#each([...plugins], ([name, plugin]) => {
      return this.#ofMount(mountAt(name, sourceOf(plugin)), plugin)
    })
  }

  async #ofWords(words: readonly string[]): Promise<DesiredRoute[]> {
    // Check flags before loading, so that their problems are not attributed to the plug-in.
    const [common] = this.#check([this.#routeOf(words[0] ?? '')]).routes
    const { sources, named } = await this.#splitWords(words)
    for (const source of sources) if (isFolder(source)) this.#onFile?.(source)
    const { items, leftOut } = await this.#mountsOf(sources)
    this.leftOut.push(...leftOut)
    if (items.length > 1) this.#refuseSingle()
    const checked = items.map(({ source }) => common && { ...common, plugin: source })
    await this.#load.expect(checked.flatMap((route) => route ?? []))
    return this.#each(items, (mount, index) => {
      const node = mergeMaps(this.#routeOf(mount.source), named)
      return this.#ofMount(mount, node, checked[index])
    })
  }

  async #mountsOf(sources: readonly string[]): ReturnType<typeof mountsOf> {
    try {
      return await mountsOf(sources)
    } catch (error) {
      this.#failed(error)
      return { items: [], leftOut: [] }
    }
  }

  /** Separates sources from the name of a function. After a single plug-in, the name of one of its exports is the function, even if a file has that name. */
  async #splitWords(words: readonly string[]): Promise<{ sources: readonly string[]; named: ConfigMap }> {
    const [first = '', second, third] = words
    const odd = words.slice(1).filter((word) => !isSource(word))
    if (second !== undefined && third === undefined && !isFolder(first)) {
      const { plugin } = await this.#loadFor(this.#routeOf(first), nameOfWord(first))
      if (UNIT.test(second) && !plugin.functions.some(({ name }) => name === second))
        throw new UsageError(
          `unexpected "${second}": a number and its unit are one word, such as 10${second}`,
        )
      if (odd.length > 0 || plugin.functions.some(({ name }) => name === second)) {
        if (this.#config.flags.route.entries.has('function'))
          throw new UsageError('the function is given twice, as --function and as an argument')
        return { sources: [first], named: fromWord('function', second) }
      }
    }
    const last = odd.at(-1)
    if (last !== undefined) throw new UsageError(`unexpected "${last}": ${reasonFor(last)}`)
    return { sources: words, named: mapOf([], COMMAND_LINE) }
  }

  /**
   * @param node - Options common to its routes.
   * @param checked - The same, checked.
   */
  async #ofMount(mount: Mount, node: ConfigMap, checked?: CheckedRouteOptions): Promise<DesiredRoute[]> {
    const { plugin: name } = mount
    const { plugin, version } = await this.#loadFor(node, name, checked)
    const has = (option: string) => nodeAt(node, [option]) !== undefined
    if (has('url'))
      return [{ configured: withSmoke(node, plugin, version), version, from: mount.source, name }]
    if (mount.path !== '' && !isRoutable(mount.path)) {
      const message = `no URL can be made from its name "${listed([name])}": give it another, or list it in "routes" with a "url"`
      atLocation(node, () => {
        throw optionsError([problemAt(['plugin'], message)])
      })
    }
    const isWhole = has('function') || toData(nodeAt(node, ['contract']) ?? node) === 'hyper-mcp'
    const { items, leftOut } = isWhole
      ? { items: [{ url: mount.path || '/' }], leftOut: [] }
      : this.#routesAt(mount, plugin, node)
    this.leftOut.push(...leftOut)
    return items.map((route) => {
      const own = Object.entries(route).map(([option, value]) => fromWord(option, value))
      const whole = withSmoke(mergeMaps(node, ...own), plugin, version)
      return { configured: whole, version, from: mount.source, name }
    })
  }

  #routesAt(mount: Mount, plugin: Plugin, node: ConfigMap): Mounted<MountedRoute> {
    const chosen = this.#merged.exports.get(mount.plugin)
    if (chosen) {
      const { items, missing } = chosenRoutes(mount, plugin, chosen)
      if (missing.length === 0) return { items, leftOut: [] }
      const message = `"exports" of the plug-in ${plugin.name} names functions that it does not export, or that have no URL: ${listed(missing)} (it has ${listed(callableExports(plugin))})`
      return atLocation(node, () => {
        throw optionsError([problemAt(['plugin'], message)])
      })
    }
    const count = callableExports(plugin).length
    const most = this.#maxFunctions
    if (count > most) {
      this.warnings.push(
        `plug-in ${plugin.name} has ${count} functions, of which only the first ${most} are served: name one after the plug-in, list several as routes of a config file, or raise --max-functions (option "maxFunctions")`,
      )
    }
    return routesAt(mount, plugin, most)
  }

  async #each<Item>(
    items: readonly Item[],
    plan: (item: Item, index: number) => Promise<DesiredRoute[]>,
  ): Promise<DesiredRoute[]> {
    const planned = await mapWithYields(items, async (item, index) => {
      try {
        return { routes: await plan(item, index) }
      } catch (error) {
        return { error }
      }
    })
    return planned.flatMap((result) => {
      if ('routes' in result) return result.routes
      this.#failed(result.error)
      return []
    })
  }

  /** Tells the loader which routes to expect. Invalid options are reported when the plug-in is loaded. */
  async #expect(nodes: readonly ConfigMap[]): Promise<void> {
    const routes = nodes.flatMap((node) => {
      try {
        return checkRoute(node) ?? []
      } catch {
        return []
      }
    })
    await this.#load.expect(routes)
  }

  #routeOf(source: string): ConfigMap {
    return mergeMaps(this.#merged.route, fromWord('plugin', source))
  }

  #check(routes: readonly ConfigMap[]): CheckedServerOptions {
    return checkNode(this.#merged.server, routes)
  }

  /** Problems of the server's options are not attributed to a plug-in. */
  async #loadFor(node: ConfigMap, name: string, route = checkRoute(node)): Promise<LoadedVersion> {
    if (!route) throw new UsageError('name a plug-in')
    try {
      return await this.#load.load(route, name)
    } catch (error) {
      throw withLocation(error, node, 'plugin')
    }
  }

  /** A function or URL option applies to one plug-in only. */
  #refuseSingle(): void {
    const { flags, variables } = this.#config
    for (const option of ['function', 'url']) {
      const entry = flags.route.entries.get(option) ?? variables.route.entries.get(option)
      if (entry)
        throw new UsageError(
          `${renderOrigin(entry.origin)} applies to a single plug-in, but there are several`,
        )
    }
  }
}

/** A unit of sizes or times. */
const UNIT = /^(?:[kmgt]i?b|bytes|ms|s|sec|min|h)$/i

function reasonFor(word: string): string {
  return /^\d+$/.test(word)
    ? 'only the last word is a port'
    : 'it is not a plug-in, and after a single plug-in only a function and a port may follow'
}

/** @throws UsageError for arguments that are not plug-ins. */
function refuseOddWords(words: readonly string[], commands: Iterable<string>): void {
  const file = words.find(isConfigFile)
  if (file !== undefined)
    throw new UsageError(`${file} is not a plug-in; as a config file it is served alone, or with -c ${file}`)
  const toml = words.find((word) => /\.toml$/i.test(word))
  if (toml !== undefined)
    throw new UsageError(`${toml} is not a plug-in, and config files are YAML or JSON: convert it to YAML`)
  const [first] = words
  if (first === undefined || isSource(first)) return
  const usual = WORDS_OF_OTHERS.get(first)
  const meant = nearest(first, commands)
  const advice =
    usual ?? (meant === undefined ? 'wasm-serve --help lists the commands' : `did you mean "${meant}"?`)
  throw new UsageError(`there is no plug-in and no command "${first}"${usual ? ':' : ';'} ${advice}`)
}

const LISTS = 'wasm-serve check lists the routes of a configuration, wasm-serve inspect PLUGIN its functions'
const CHECKS = 'wasm-serve check checks a configuration'
const CALLS = 'wasm-serve call PLUGIN FUNCTION calls it once'

/** Commands that other tools have, and what does the same here. */
const WORDS_OF_OTHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    watch: 'wasm-serve dev PLUGIN serves a plug-in again when it has changed',
    start: 'wasm-serve PLUGIN serves it',
    run: `wasm-serve PLUGIN serves it, and ${CALLS}`,
    up: 'wasm-serve PLUGIN serves it, and wasm-serve alone what wasm-serve.yaml lists',
    create: 'wasm-serve new makes a project',
    version: 'wasm-serve --version prints it',
    stop: 'Ctrl-C or SIGTERM ends a server',
    list: LISTS,
    ls: LISTS,
    test: CHECKS,
    validate: CHECKS,
    lint: CHECKS,
    exec: CALLS,
    invoke: CALLS,
    info: 'wasm-serve inspect PLUGIN describes it',
    publish: 'wasm-serve push PLUGIN oci://... pushes it to a registry',
    compile: 'wasm-serve build makes a plug-in of a script',
  }),
)

/**
 * Adds the smoke request that travels with an artifact for the function of a route. The configuration's own wins.
 *
 * @throws {@link ArtifactUnsupportedError} if it is not an object of requests by function.
 */
function withSmoke(node: ConfigMap, plugin: Plugin, { companions, name }: Version): ConfigMap {
  if (companions?.smoke === undefined || nodeAt(node, ['smoke'])) return node
  const own = nodeAt(node, ['function'])
  const exported = own ? toData(own) : callableExports(plugin)[0]
  const smoke = requestsOf(companions.smoke, name).get(String(exported))
  return smoke === undefined ? node : mergeMaps(mapFromData({ smoke }, ARTIFACT), node)
}

/** The origin of options of an artifact, for messages. */
const ARTIFACT: Origin = { kind: 'flag', name: 'the annotations of the artifact' }

function requestsOf(text: string, name: string): ReadonlyMap<string, unknown> {
  const parsed = parseJson(text)
  if ('value' in parsed && typeof parsed.value === 'object' && parsed.value !== null)
    return new Map(Object.entries(parsed.value))
  throw new ArtifactUnsupportedError(name, 'its smoke requests are not a JSON object by function')
}

function urlOrigin(node: ConfigMap): Origin {
  return originAt(node, [node.entries.has('url') ? 'url' : 'plugin'])
}
