import { ProcessesNotSharedError } from '../../errors/errors.ts'
import { kvImports } from '../../guest/store/kv.ts'
import type { Resolved } from '../resolve.ts'

/**
 * Refuses routes whose guests keep something in the memory of one process: each serving process would have its own, and
 * a client would meet another value with each connection. The primary does not keep it for them: each access would
 * wait for another process, and guests on the event loop cannot wait.
 *
 * @throws {@link ProcessesNotSharedError}
 */
export function refuseUnshared({ options, routes }: Pick<Resolved, 'options' | 'routes'>): void {
  const isInMemory = options.store === 'memory:'
  for (const { options: route, plugin } of routes) {
    if (route.vars === 'shared')
      throw new ProcessesNotSharedError(
        route.url,
        'vars: shared',
        'use the store, lmdb: or redis:, or set vars to own',
      )
    if (isInMemory && route.kv?.access !== 'none' && kvImports(plugin).length > 0)
      throw new ProcessesNotSharedError(
        route.url,
        'the store memory:',
        'set store to lmdb:FOLDER or redis://HOST, or kv.access to none',
      )
  }
}
