import type { Config } from '../../options/config.ts'
import { type ConfigMap, mapOf, mergeMaps } from '../../options/config-node.ts'
import type { OwnOptions } from '../configuration.ts'
import type { Configuration } from '../desired-state.ts'
import { type Permissions, withPermittedSource } from './permissions.ts'
import { SHARED_OPTIONS, type SharedConfiguration, sharedOptions } from './shared-configuration.ts'

/*
 * The config file of a fleet is shared. What flags and variables of a node say stays with the node, and applies to all
 * routes there; so do the options of its sockets and folders, and those of loading, which decide whose code it runs.
 */

const NOTHING = mapOf([], { kind: 'flag', name: 'command line' })

/** A command line without the flags and variables that do not travel. */
export function withoutOwnLayers(config: Config): Config {
  const { flags, variables } = config
  const layer = (load: ConfigMap) => ({ route: NOTHING, server: NOTHING, load })
  return { ...config, flags: layer(flags.load), variables: layer(variables.load) }
}

/**
 * The configuration of a node: what is shared, with its own options.
 *
 * @param shared - It asks for nothing that the node does not allow.
 */
export function withOwnOptions(
  { server, defaults, routes, ...shared }: SharedConfiguration,
  own: OwnOptions,
  { flags, variables }: Config,
  permissions: Permissions,
): Configuration {
  const isPlain = flags.route.entries.size === 0 && variables.route.entries.size === 0
  const ofRoute = (node: ConfigMap) => {
    const permitted = withPermittedSource(node, permissions)
    return isPlain ? permitted : mergeMaps(permitted, variables.route, flags.route)
  }
  const entries = new Map(sharedOptions(mergeMaps(server, variables.server, flags.server)).entries)
  for (const [name, entry] of own.server.entries) if (!SHARED_OPTIONS.has(name)) entries.set(name, entry)
  return {
    ...shared,
    server: { ...server, entries },
    load: own.load,
    defaults: {
      route: ofRoute(defaults.route),
      plugins: new Map([...defaults.plugins].map(([name, plugin]) => [name, ofRoute(plugin)])),
    },
    routes: routes.map((route) => ({ ...route, configured: ofRoute(route.configured) })),
  }
}
