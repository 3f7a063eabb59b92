import { createHash } from 'node:crypto'
import { AdminConflictError, AdminUnknownError } from '../errors/errors.ts'
import type { RoutePlace } from '../options/routes-table.ts'
import type { ManifestSettings } from '../plugin/source/manifest.ts'

/** What was changed since the configuration was written. Never changed itself: each change makes another. */
export interface Changes {
  /** By name: those that were added, and those of the configuration that have versions. */
  readonly plugins: ReadonlyMap<string, PluginChange>
  /** By id: routes that were put there, and those that were taken away. */
  readonly routes: ReadonlyMap<string, RouteChange>
}

export interface PluginChange {
  /** Whether it was added; else it is one of the configuration. */
  readonly added: boolean
  /** The newest first. */
  readonly versions: readonly Version[]
  /** Which get the calls; none: the configuration's. */
  readonly traffic: readonly Share[]
  /** The version that the configuration had when `traffic` was decided: another one wins. */
  readonly over?: string | undefined
}

/** The bytes of a plug-in at some time. */
export interface Version {
  /** Of a plug-in that is one module, the SHA-256 of its bytes; else of its modules and manifest. */
  readonly digest: string
  /** What the plug-in is called in logs; its namespace in the store. */
  readonly name: string
  readonly from: 'file' | 'url' | 'upload'
  readonly addedAt: string
  /** `main` and those that are linked to it. */
  readonly modules: readonly { readonly name: string; readonly digest: string; readonly bytes: number }[]
  readonly settings?: ManifestSettings | undefined
}

/** How many calls of 100 a version gets. */
export interface Share {
  readonly digest: string
  readonly percent: number
}

/** Options as a config file has them, but `plugin` is a name; undefined: the route was taken away. */
export interface RouteChange {
  readonly options: Readonly<Record<string, unknown>> | undefined
}

export const NO_CHANGES: Changes = { plugins: new Map(), routes: new Map() }

/** Versions of a plug-in that are kept. */
const KEPT_VERSIONS = 10

/** What a route is known by: where it answers. */
export function routeId({ url, host = '', method, contract }: RoutePlace): string {
  const methods = [method ?? (contract === 'simplism' ? '*' : 'POST')].flat().sort()
  return createHash('sha256').update(`${methods} ${host.toLowerCase()} ${url}`).digest('hex').slice(0, 12)
}

/** @throws {@link AdminUnknownError} */
export function pluginOf({ plugins }: Changes, name: string): PluginChange {
  const plugin = plugins.get(name)
  if (!plugin) throw new AdminUnknownError('plug-in', name)
  return plugin
}

/** @throws {@link AdminUnknownError} */
export function versionOf({ versions }: PluginChange, digest: string): Version {
  const version = versions.find((version) => version.digest === digest)
  if (!version) throw new AdminUnknownError('version', digest)
  return version
}

/** All calls to the configuration's version are what there is without a decision. */
export function withPlugin(changes: Changes, name: string, plugin: PluginChange): Changes {
  const [live, second] = plugin.traffic
  const isDecided = second !== undefined || live?.digest !== plugin.over
  const decided = isDecided ? plugin : { ...plugin, traffic: [] }
  return { ...changes, plugins: new Map([...changes.plugins, [name, decided]]) }
}

export function withoutPlugin(changes: Changes, name: string): Changes {
  return { ...changes, plugins: new Map([...changes.plugins].filter(([known]) => known !== name)) }
}

export function withRoute(changes: Changes, id: string, route: RouteChange | undefined): Changes {
  const others = [...changes.routes].filter(([known]) => known !== id)
  return { ...changes, routes: new Map(route ? [...others, [id, route]] : others) }
}

/** A version more, the newest; of many, the oldest without calls are forgotten. */
export function withVersion(plugin: PluginChange, version: Version): PluginChange {
  const others = plugin.versions.filter(({ digest }) => digest !== version.digest)
  const versions = [version, ...others]
  const used = new Set([version.digest, plugin.over, ...plugin.traffic.map(({ digest }) => digest)])
  const kept = versions.filter(({ digest }, index) => index < KEPT_VERSIONS || used.has(digest))
  return { ...plugin, versions: kept }
}

/** @throws {@link AdminUnknownError}, {@link AdminConflictError} */
export function withoutVersion(plugin: PluginChange, digest: string): PluginChange {
  versionOf(plugin, digest)
  if (plugin.over === digest || plugin.traffic.some((share) => share.digest === digest))
    throw new AdminConflictError('this version is in use')
  return { ...plugin, versions: plugin.versions.filter((version) => version.digest !== digest) }
}

/**
 * The versions that get the calls: those that were decided on, or that of the configuration.
 *
 * @returns nothing if the configuration's plug-in is gone.
 */
export function trafficOf({ traffic, over }: PluginChange): readonly Share[] {
  if (traffic.length > 0) return traffic
  return over === undefined ? [] : [{ digest: over, percent: 100 }]
}
