import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { findHostFunction, type HostFunctions } from '../host-functions.ts'
import type { KvClient } from './kv.ts'
import { EXTISM_USER, KV, kvFunctions } from './kv-functions.ts'

/** A function of the store that a plug-in imports. */
export interface KvImport {
  readonly namespace: string
  readonly name: string
}

/** Those that a plug-in imports, and that are not among the host functions of the user: his win. */
export function kvImports(plugin: Pick<Plugin, 'imports' | 'linked'>, users: HostFunctions = {}): KvImport[] {
  return hostImports(plugin)
    .map(({ module: namespace, name }) => ({ namespace, name }))
    .filter(({ namespace, name }) => isKvName(namespace, name) && !findHostFunction(users, namespace, name))
}

/** In the namespace of Extism's example there may be others of the user. */
function isKvName(namespace: string, name: string): boolean {
  return namespace === KV || (namespace === EXTISM_USER && (name === 'kv_read' || name === 'kv_write'))
}

/** The host functions of the user with those of the store that are imported: one object for all instances of a route. */
export function withKv(
  users: HostFunctions | undefined,
  imports: readonly KvImport[],
  client: KvClient,
): HostFunctions {
  const ours = kvFunctions(client)
  const all: Record<string, HostFunctions[string]> = { ...users }
  for (const { namespace, name } of imports) {
    const found = new Map(Object.entries(ours[namespace] ?? {})).get(name)
    if (found) all[namespace] = { ...all[namespace], [name]: found }
  }
  return all
}

/** Whether a guest has to wait for one of them. */
export function waitsForKv(functions: HostFunctions, imports: readonly KvImport[]): boolean {
  return imports.some(({ namespace, name }) => findHostFunction(functions, namespace, name)?.isAsync)
}
