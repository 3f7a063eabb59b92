import { isAbsolute } from 'node:path'
import { configFileSchema, schemaAt } from '../../options/config-file-schema.ts'
import {
  type ConfigMap,
  type ConfigNode,
  type ConfigScalar,
  type Origin,
  renderOrigin,
} from '../../options/config-node.ts'
import { variablesIn } from '../../options/config-text.ts'
import { optionsWhere } from '../../options/facts.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import type { Schema } from '../../options/schema.ts'
import { isUrl } from '../../plugin/source/url.ts'
import { type DesiredRoute, sourceOf } from '../desired-state.ts'
import { SHARED_OPTIONS, type SharedConfiguration } from './shared-configuration.ts'

/** What a node lets the configuration of its fleet use, besides what the admin API may set: the option `fleet.allow`. */
export type Permissions = NonNullable<NonNullable<CheckedServerOptions['fleet']>['allow']>

/** Reasons in a message. */
const SHOWN_REASONS = 20

/** Characters of a value in a message. */
const SHOWN_VALUE = 200

/**
 * What a configuration of a fleet asks for, and a node does not allow. It may have been written by everyone who can write to
 * the store or the state folder.
 *
 * @param shared - With the variables of the node: paths may have some.
 * @returns reasons; empty: the node may serve it.
 */
export function forbiddenIn(shared: SharedConfiguration, permissions: Permissions): readonly string[] {
  const { server, defaults, routes } = shared
  const check = new Check(permissions)
  check.options(server, configFileSchema, SHARED_OPTIONS)
  for (const node of [
    defaults.route,
    ...defaults.plugins.values(),
    ...routes.map(({ configured }) => configured),
  ])
    check.options(node, ROUTE_SCHEMA, ROUTE_OPTIONS)
  for (const route of routes) check.folders(route)
  const all = [...check.reasons]
  const more = all.length - SHOWN_REASONS
  return more > 0 ? [...all.slice(0, SHOWN_REASONS), `and ${more} more`] : all
}

const ROUTE_SCHEMA = configFileSchema.properties?.routes?.items

/** Options that the admin API may set, the display of the plug-in, and options whose values a node may allow. */
const ROUTE_OPTIONS = optionsWhere('route', ({ edit, owner }) => edit || owner === 'fleet')

class Check {
  readonly reasons = new Set<string>()
  readonly #permissions: Permissions

  constructor(permissions: Permissions) {
    this.#permissions = permissions
  }

  options({ entries }: ConfigMap, schema: Schema | undefined, known: ReadonlySet<string>): void {
    for (const [name, { origin, configured }] of entries) {
      if (!known.has(name)) this.#refuse(origin, name, 'only a node sets it')
      else this.#value(name, configured, schemaAt(name, schema))
    }
  }

  /** Folders of a manifest. */
  folders({ from, version: { settings } }: DesiredRoute): void {
    for (const { host, readOnly } of settings?.allowedPaths ?? [])
      if (!permitsPath(this.#permissions, host, readOnly))
        this.reasons.add(`${from}: allowed_paths of the manifest: ${host} is not in fleet.allow.paths`)
  }

  /** @param name - Of the option. */
  #value(name: string, node: ConfigNode, schema: Schema | undefined): void {
    if (node.kind !== 'scalar' && schema?.type === 'string') {
      this.#refuse(node.origin, name, 'it must be text')
    } else if (node.kind === 'list') {
      for (const item of node.items) this.#value(name, item, schema?.items)
    } else if (node.kind === 'map') {
      for (const [key, entry] of node.entries) {
        if (schema?.holds === 'folders') this.#path(name, key, entry.origin)
        this.#value(name, entry.configured, schemaAt(key, schema))
      }
    } else {
      this.#scalar(name, node, schema)
    }
  }

  #scalar(name: string, { origin, template, ...scalar }: ConfigScalar, schema: Schema | undefined): void {
    const { env = [] } = this.#permissions
    const value = String(scalar.value)
    const { shown = value } = scalar
    const missing = variablesIn(template?.text ?? '').filter((variable) => !env.includes(variable))
    for (const variable of missing) this.#refuse(origin, name, `\${${variable}}`, 'env')
    if (missing.length > 0 || name === 'plugin') return
    const list = schema?.facts?.allow
    if (list !== undefined) {
      if (!this.#permissions[list]?.includes(value)) this.#refuse(origin, name, shown, list)
    } else if (schema?.holds && !permitsPath(this.#permissions, value, true)) {
      this.#refuse(origin, name, shown, 'paths')
    }
  }

  #path(name: string, key: string, origin: Origin): void {
    const isReadOnly = key.startsWith(READ_ONLY)
    const path = isReadOnly ? key.slice(READ_ONLY.length) : key
    if (!permitsPath(this.#permissions, path, isReadOnly)) this.#refuse(origin, name, key, 'paths')
  }

  /** @param list - The part of `fleet.allow` that would have to name the value. */
  #refuse(origin: Origin, option: string, value: string, list?: string): void {
    const where = list === undefined ? '' : ` is not in fleet.allow.${list}`
    this.reasons.add(`${renderOrigin(origin)}: ${option}: ${value.slice(0, SHOWN_VALUE)}${where}`)
  }
}

const READ_ONLY = 'ro:'

/** Whether a path or URL is named, exactly as it is. */
function permitsPath({ paths = [] }: Permissions, path: string, isReadOnly: boolean): boolean {
  if (!isAbsolute(path) && !isUrl(path)) return false
  return paths.includes(path) || (isReadOnly && paths.includes(READ_ONLY + path))
}

/**
 * Options of a route whose plug-in is named by a file or URL. Where the node does not allow this by name, it is only a name: no
 * schema is read beside the file, and credentials of the node are not sent to the server of the URL.
 */
export function withPermittedSource(node: ConfigMap, permissions: Permissions): ConfigMap {
  const entry = node.entries.get('plugin')
  if (entry?.configured.kind !== 'scalar' || permitsPath(permissions, sourceOf(node), true)) return node
  const plugin = { ...entry, configured: { ...entry.configured, value: `fleet://${sourceOf(node)}` } }
  return { ...node, entries: new Map([...node.entries, ['plugin', plugin]]) }
}
