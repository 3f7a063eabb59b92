import { createHash } from 'node:crypto'
import { AdminConflictError, AdminUnknownError } from '../errors/errors.ts'
import { optionsWhere } from '../options/facts.ts'
import { routeSchema } from '../options/options-schema.ts'
import { type RouteIdentity, requestedMethods } from '../options/served-route.ts'
import { didYouMean } from '../platform/text.ts'
import { sha256 } from '../plugin/source/digest.ts'
import type { ManifestSettings } from '../plugin/source/manifest.ts'
import { type Companions, renderSigner } from '../plugin/source/origin.ts'
import type { Source, SourceModule } from '../plugin/source/source.ts'

/**
 * The changes that the admin API has made to the configuration, and the versions of all plug-ins: plain data, stored in
 * a state folder. Immutable: each edit creates a new object.
 */
export interface Edits {
  /** Plug-ins by name: added ones, and those of the configuration. */
  readonly plugins: ReadonlyMap<string, PluginVersions>
  /** Added, replaced and removed routes, by id. */
  readonly routes: ReadonlyMap<string, RouteEdit>
}

/** The versions of a plug-in and their shares of its calls. */
export interface PluginVersions {
  /** Whether the admin API added it; else it comes from the configuration. */
  readonly added: boolean
  /** Versions, the newest first. */
  readonly versions: readonly Version[]
  /** The split of calls; empty: the configuration's version gets all. */
  readonly traffic: readonly Share[]
  /** The configuration's version when `traffic` was set. A newer one overrides it. */
  readonly over?: string | undefined
}

/** A version: the bytes of a plug-in at some time. */
export interface Version {
  /** The SHA-256 of the bytes if the plug-in is one module; otherwise that of its modules and manifest. */
  readonly digest: string
  /** The file's name, for display: see `Plugin.file`. */
  readonly name: string
  readonly from: 'file' | 'url' | 'upload'
  readonly addedAt: string
  /** `main` and those that are linked to it. */
  readonly modules: readonly VersionModule[]
  readonly settings?: ManifestSettings | undefined
  /** What travels with an artifact of a registry. */
  readonly companions?: Companions | undefined
}

export interface VersionModule {
  readonly name: string
  readonly digest: string
  readonly bytes: number
  /** See `ModuleOrigin`; undefined if it is neither from a registry nor signed. */
  readonly place?: string | undefined
  /** The digest of its detached signature, which is stored like a module. */
  readonly bundle?: string | undefined
  /** The verified signer, for people. */
  readonly signer?: string | undefined
  /** Predicate types of its verified attestations. */
  readonly attestations?: readonly string[] | undefined
}

/** How many calls of 100 a version gets. */
export interface Share {
  readonly digest: string
  readonly percent: number
}

/** Options as a config file has them, but `plugin` is a name; undefined: the route was taken away. */
export interface RouteEdit {
  readonly options: Readonly<Record<string, unknown>> | undefined
}

export const NO_EDITS: Edits = { plugins: new Map(), routes: new Map() }

/** Versions of a plug-in that are kept. */
const KEPT_VERSIONS = 10

/**
 * Options of a route that may come from the admin API, from a state folder, or from a fleet. Only the configuration of this machine
 * sets the others: they refer to its code or files, or weaken the protection of the process against guests. A new option is not
 * among them until it has been reviewed for all three sources. `plugin` is the name of an existing plug-in, never a path.
 */
export const EDITABLE_OPTIONS = optionsWhere('route', ({ edit }) => edit)

/**
 * The first option that an edit may not set; undefined if there is none. Unknown names are left to the validation of
 * options, which suggests the intended name.
 */
export function forbiddenOption(options: object): string | undefined {
  return Object.entries(options).find(
    ([name, value]) =>
      value !== undefined &&
      name !== 'plugin' &&
      !EDITABLE_OPTIONS.has(name) &&
      Object.hasOwn(routeSchema.properties, name),
  )?.[0]
}

/** What a version records of a plug-in. */
interface VersionSource extends Pick<Source, 'file' | 'settings' | 'companions'> {
  readonly modules: readonly (Pick<SourceModule, 'name' | 'digest' | 'origin'> & {
    readonly bytes: { readonly length: number }
  })[]
}

/** The version for a loaded plug-in. */
export function toVersion(
  { file, modules, settings, companions }: VersionSource,
  from: Version['from'],
): Version {
  const all = modules.map(({ name, digest, bytes }) => ({ name, digest, bytes: bytes.length }))
  const [main] = all
  const isPlain = all.length === 1 && settings === undefined && companions === undefined
  const identity = companions === undefined ? [all, settings] : [all, settings, companions]
  const digest = isPlain && main ? main.digest : sha256(JSON.stringify(identity))
  return {
    ...{ digest, name: file, from, addedAt: new Date().toISOString(), settings },
    modules: all.map((module, index) => {
      const { place, bundle, signed } = modules[index]?.origin ?? {}
      return {
        ...module,
        ...(place !== undefined && { place }),
        ...(bundle && { bundle: sha256(bundle) }),
        ...(signed && { signer: renderSigner(signed), attestations: signed.predicateTypes }),
      }
    }),
    ...(companions && { companions }),
  }
}

export function mainModuleOf({ modules }: Version): VersionModule | undefined {
  return modules.find(({ name }) => name === 'main')
}

/** The bytes to store for the modules of a plug-in, by digest: theirs and those of their detached signatures. */
export function storedBytes(modules: readonly SourceModule[]): Map<string, Uint8Array> {
  return new Map(
    modules.flatMap(({ digest, bytes, origin }) => [
      [digest, bytes],
      ...(origin?.bundle ? [[sha256(origin.bundle), origin.bundle] as const] : []),
    ]),
  )
}

/** The id of a route: a digest of its method, host and URL. */
export function routeId(route: RouteIdentity): string {
  const { url, host = '' } = route
  const methods = [...requestedMethods(route)].sort()
  return createHash('sha256').update(`${methods} ${host.toLowerCase()} ${url}`).digest('hex').slice(0, 12)
}

/** @throws {@link AdminUnknownError} */
export function pluginOf({ plugins }: Edits, name: string): PluginVersions {
  const plugin = plugins.get(name)
  if (!plugin) throw new AdminUnknownError('plug-in', name, didYouMean(name, plugins.keys()))
  return plugin
}

/**
 * The version of a digest, or of its first digits: that of the version, or of its main module, which is in metrics.
 *
 * @throws {@link AdminUnknownError}, {@link AdminConflictError} if several versions begin so.
 */
export function versionOf({ versions }: PluginVersions, digest: string): Version {
  const exact = versions.find((version) => version.digest === digest)
  if (exact) return exact
  const [found, other] = versions.filter((version) =>
    [version.digest, mainModuleOf(version)?.digest].some((each) => each?.startsWith(digest)),
  )
  if (!found || digest === '') throw new AdminUnknownError('version', digest, '')
  if (other) throw new AdminConflictError(`several versions begin with ${digest}: give more digits`)
  return found
}

export function withPlugins(
  edits: Edits,
  changed: Iterable<readonly [name: string, plugin: PluginVersions]>,
): Edits {
  const plugins = new Map(edits.plugins)
  for (const [name, plugin] of changed) {
    const [live, second] = plugin.traffic
    // Sending all calls to the configuration's version equals having no split.
    const isDecided = second !== undefined || live?.digest !== plugin.over
    plugins.set(name, isDecided ? plugin : { ...plugin, traffic: [] })
  }
  return { ...edits, plugins }
}

export function withoutPlugins(edits: Edits, names: readonly string[]): Edits {
  const plugins = new Map(edits.plugins)
  for (const name of names) plugins.delete(name)
  return { ...edits, plugins }
}

export function withRoute(edits: Edits, id: string, route: RouteEdit | undefined): Edits {
  const others = [...edits.routes].filter(([known]) => known !== id)
  return { ...edits, routes: new Map(route ? [...others, [id, route]] : others) }
}

/** Adds a version as the newest. Above the maximum, the oldest versions without calls are removed. */
export function withVersion(plugin: PluginVersions, version: Version): PluginVersions {
  const others = plugin.versions.filter(({ digest }) => digest !== version.digest)
  const versions = [version, ...others]
  const used = new Set([version.digest, plugin.over, ...plugin.traffic.map(({ digest }) => digest)])
  const kept = versions.filter(({ digest }, index) => index < KEPT_VERSIONS || used.has(digest))
  return { ...plugin, versions: kept }
}

/** @throws {@link AdminUnknownError}, {@link AdminConflictError} */
export function withoutVersion(plugin: PluginVersions, digest: string): PluginVersions {
  const gone = versionOf(plugin, digest)
  if (plugin.over === gone.digest || plugin.traffic.some((share) => share.digest === gone.digest))
    throw new AdminConflictError('this version is in use')
  return { ...plugin, versions: plugin.versions.filter((version) => version !== gone) }
}

/**
 * The versions that get the calls: the split that was set, or the configuration's version.
 *
 * @returns an empty list if the plug-in left the configuration.
 */
export function trafficOf({ traffic, over }: PluginVersions): readonly Share[] {
  if (traffic.length > 0) return traffic
  return over === undefined ? [] : [{ digest: over, percent: 100 }]
}
