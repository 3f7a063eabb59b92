import type { FastifyInstance } from 'fastify'
import { NamespaceSharedError, PluginNameSharedError } from '../errors/errors.ts'
import { importsKv } from '../guest/services/kv.ts'
import type { CheckedRouteOptions } from '../options/options.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { placeKey } from '../plugin/source/url.ts'
import { outermost } from './method-guard.ts'

/** A route with its loaded plug-in. */
export interface NamedRoute {
  readonly plugin: Plugin
  /** What the route names: by a path or URL, the plug-in is told from others of its name. */
  readonly source: CheckedRouteOptions['plugin']
  readonly options: Pick<CheckedRouteOptions, 'kv'>
  /** Where the plug-in is named, for messages. */
  place(): string
}

/**
 * The first conflict of each pair of plug-ins. Everything about a plug-in is kept by its name, so two plug-ins must not
 * have the same; and one reads what the other has stored only if both set the namespace.
 */
export function nameConflicts(routes: readonly NamedRoute[]): Error[] {
  const conflicts = new Map<string, Error>()
  const plugins = new Map<string, NamedRoute>()
  /** Routes without an option for the namespace, which is then the name of their plug-in. */
  const owners = new Map<string, NamedRoute>()
  for (const route of routes) {
    const { name } = route.plugin
    const { kv } = route.options
    const first = plugins.get(name)
    if (!first) plugins.set(name, route)
    else if (!isSameSource(first, route))
      conflicts.set(name, new PluginNameSharedError(name, first.place(), route.place()))
    const isOwner = kv?.access !== 'none' && kv?.namespace === undefined
    if (isOwner && !owners.has(name)) owners.set(name, route)
  }
  for (const route of routes) {
    const { access, namespace } = route.options.kv ?? {}
    const { name } = route.plugin
    if (access === 'none' || namespace === undefined || namespace === name) continue
    const owner = owners.get(namespace)
    if (!owner || !importsKv(owner.plugin) || !importsKv(route.plugin)) continue
    const pair = JSON.stringify([namespace, name])
    if (!conflicts.has(pair))
      conflicts.set(pair, new NamespaceSharedError(namespace, owner.place(), name, route.place(), namespace))
  }
  return [...conflicts.values()]
}

function isSameSource(one: NamedRoute, other: NamedRoute): boolean {
  const [first, second] = [placeOf(one), placeOf(other)]
  return first && second ? first === second : one.plugin.digest === other.plugin.digest
}

function placeOf({ source }: NamedRoute): string | undefined {
  return typeof source === 'string' || source instanceof URL ? placeKey(String(source)) : undefined
}

/** The routes of each mount, by the outermost scope: the mounts of an app may use one store. */
const mounted = new WeakMap<FastifyInstance, Set<readonly NamedRoute[]>>()

/**
 * Claims the names of a mount's plug-ins in its app.
 *
 * @returns gives them up.
 * @throws the first of {@link nameConflicts}, also with other mounts of the app.
 */
export function claimNames(app: FastifyInstance, routes: readonly NamedRoute[]): () => void {
  const root = outermost(app)
  const mounts = mounted.get(root) ?? new Set()
  const [conflict] = nameConflicts([...mounts, routes].flat())
  if (conflict) throw conflict
  mounted.set(root, mounts.add(routes))
  return () => mounts.delete(routes)
}
