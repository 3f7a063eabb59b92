import { ProcessesNotSharedError } from '../../errors/errors.ts'
import { importsKv } from '../../guest/services/kv.ts'
import { withLocation } from '../../options/check-config.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { VersionedRoute } from '../../route/open-routes.ts'
import type { RouteTarget } from '../desired-state.ts'

/**
 * Refuses routes whose guests keep something in the memory of one process: each serving process would have its own, and
 * a client would meet another value with each connection. The primary does not keep it for them: each access would
 * wait for another process, and guests on the event loop cannot wait.
 *
 * @param failed - Called with a {@link ProcessesNotSharedError} for each of them.
 */
export function refuseUnshared(
  { store }: Pick<CheckedServerOptions, 'store'>,
  routes: readonly RouteToShare[],
  failed: (error: unknown) => void,
): void {
  for (const { options, plugin, target } of routes) {
    const { url, vars, kv } = options
    if (vars === 'shared') {
      const remedy = 'use the store, lmdb: or redis:, or set vars to own'
      failed(
        withLocation(
          new ProcessesNotSharedError(url, 'vars: shared', remedy),
          target.configured,
          'vars',
          'plugin',
        ),
      )
    } else if (store === 'memory:' && kv?.access !== 'none' && importsKv(plugin)) {
      const remedy = 'set store to lmdb:FOLDER or redis://HOST, or kv.access to none'
      failed(
        withLocation(
          new ProcessesNotSharedError(url, 'the store memory:', remedy),
          target.configured,
          'plugin',
        ),
      )
    }
  }
}

/** A route with its plug-in, and its origins for messages. */
interface RouteToShare {
  readonly options: VersionedRoute
  readonly plugin: Plugin
  readonly target: Pick<RouteTarget, 'configured'>
}
