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
  readonly place: string
}

/**
 * The first conflict of each pair of plug-ins. Everything about a plug-in is kept by its name, so two plug-ins must not
 * have the same; and one reads what the other has stored only if both set the namespace.
 */
export function nameConflicts(routes: readonly NamedRoute[]): Error[] {
  const conflicts = new Map<string, Error>()
  const plugins = new Map<string, NamedRoute>()
  const namespaces = new Map<string, NamespaceUser[]>()
  for (const route of routes) {
    const { plugin, options } = route
    const first = plugins.get(plugin.name) ?? route
    plugins.set(plugin.name, first)
    if (!isSameSource(first, route))
      conflicts.set(plugin.name, new PluginNameSharedError(plugin.name, first.place, route.place))
    if (options.kv?.access === 'none' || !importsKv(plugin)) continue
    const { namespace = plugin.name } = options.kv ?? {}
    const user = { ...route, isSet: options.kv?.namespace !== undefined }
    const users = namespaces.get(namespace) ?? []
    namespaces.set(namespace, users)
    if (users.some((other) => other.plugin.name === plugin.name && other.isSet === user.isSet)) continue
    const other = users.find((other) => other.plugin.name !== plugin.name && !(other.isSet && user.isSet))
    users.push(user)
    if (other)
      conflicts.set(
        JSON.stringify([other.plugin.name, plugin.name]),
        new NamespaceSharedError(other.plugin.name, other.place, plugin.name, route.place, namespace),
      )
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

/** A route whose guests use the store. */
interface NamespaceUser extends NamedRoute {
  /** Whether an option sets the namespace. */
  readonly isSet: boolean
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
