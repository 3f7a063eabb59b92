import type { FastifyBaseLogger } from 'fastify'
import { StoreUnavailableError } from '../errors/errors.ts'
import { importsKv } from '../guest/services/kv.ts'
import type { SharedStore } from '../guest/store/shared-store.ts'
import { NAMESPACE_MAX, type Store } from '../guest/store/store.ts'
import { shellWord } from '../platform/text.ts'
import type { ChosenRoute } from './open-route.ts'

/**
 * Warns of keys that earlier versions have stored under the name of a plug-in's file, if it has none under its own name
 * and no other plug-in uses that namespace.
 *
 * @param routes - All routes.
 * @param fresh - Those that are not served yet.
 */
export async function reportFormerKeys(
  routes: readonly StatefulRoute[],
  fresh: ReadonlySet<StatefulRoute>,
  shared: SharedStore,
  log: FastifyBaseLogger,
): Promise<void> {
  const used = new Set(routes.map(({ options }) => options.kv.namespace))
  const former = new Map<string, string>()
  /** The plug-ins of a former name. */
  const owners = new Map<string, Set<string>>()
  for (const route of routes) {
    const { options, plugin } = route
    const { name, file } = plugin
    const { access, namespace } = options.kv
    if (access === 'none' || namespace !== name || used.has(file)) continue
    if (Buffer.byteLength(file) > NAMESPACE_MAX || !importsKv(plugin)) continue
    owners.set(file, (owners.get(file) ?? new Set()).add(name))
    if (fresh.has(route)) former.set(name, file)
  }
  if (former.size === 0 || !shared.isUsed) return // host functions may take the place of the store's
  try {
    const store = await shared.open()
    if (store.kind === 'memory') return
    for (const [plugin, file] of former) {
      if ((await hasKeys(store, plugin)) || !(await hasKeys(store, file))) continue
      const command = ['wasm-serve', 'store', 'rename', file, plugin].map(shellWord).join(' ')
      const others = [...(owners.get(file) ?? [])].filter((other) => other !== plugin)
      log.warn(
        { plugin, namespace: file, ...(others.length > 0 && { others: others.slice(0, MAX_OTHERS) }) },
        `the store has keys under the plug-in's former name, ${file}, and none under ${plugin}: move them by "${command} STORE" before its first call, or later with --replace, or set kv.namespace to continue to use them${others.length > 0 ? SHARED : ''}`,
      )
    }
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error // calls report it
  }
}

/** Most other plug-ins in a line of the log. */
const MAX_OTHERS = 10

const SHARED =
  '; other plug-ins had this name too: only one of them can have the keys, unless all set kv.namespace to it'

type StatefulRoute = Pick<ChosenRoute, 'options' | 'plugin'>

async function hasKeys(store: Store, namespace: string): Promise<boolean> {
  let cursor: string | undefined
  do {
    const page = await store.list(namespace, '', 1, cursor)
    if (page.keys.length > 0) return true
    cursor = page.cursor
  } while (cursor !== undefined)
  return false
}
