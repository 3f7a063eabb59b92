import type { CheckedRouteOptions } from './config/options.ts'
import { varOperations } from './engine/workers/bridged-vars.ts'
import type { HostOperations } from './engine/workers/host-bridge.ts'
import type { HostPart } from './engine/workers/protocol.ts'
import type { Plugin } from './plugin/plugin.ts'
import type { InstanceSettings } from './runtime/runtime.ts'
import { outboundOptions, varMaxOf } from './settings.ts'
import type { SharedVars } from './shared-vars.ts'

/** What a route's guests reach beyond their instance. It lives on the main thread; threads ask for it. */
export interface HostParts {
  /** For instances on the main thread. */
  readonly direct: Pick<InstanceSettings, 'http' | 'vars'>
  /** For threads: the parts, and what answers them. */
  readonly bridged: { readonly names: readonly HostPart[]; readonly operations: HostOperations }
  close(): Promise<void>
}

/** How long an HTTP request may take where the call has no deadline. */
const HTTP_TIMEOUT_MS = 30_000

/** Opens what the route's options allow. */
export async function openHostParts(
  options: CheckedRouteOptions,
  plugin: Plugin,
  sharedVars: SharedVars,
): Promise<HostParts> {
  const http = await openHttp(options, plugin)
  const vars = options.vars === 'shared' ? sharedVars.of(plugin, varMaxOf(options, plugin)) : undefined
  return {
    direct: { ...(http && { http: http.direct }), ...(vars && { vars }) },
    bridged: {
      names: [...(http ? (['http'] as const) : []), ...(vars ? (['vars'] as const) : [])],
      operations: { ...http?.operations, ...(vars && varOperations(vars)) },
    },
    close: async () => http?.close(),
  }
}

/** Loaded by those who have an allowed host. */
async function openHttp(options: CheckedRouteOptions, plugin: Plugin) {
  const outboundOf = outboundOptions(options, plugin)
  if (!outboundOf) return undefined
  const [{ openOutbound }, { httpOperations, sendForGuest }] = await Promise.all([
    import('./outbound/outbound.ts'),
    import('./outbound/guest-http.ts'),
  ])
  const outbound = openOutbound(outboundOf)
  const limits = { timeoutMs: HTTP_TIMEOUT_MS }
  return {
    direct: {
      isAsync: true,
      // Copies: the guest's memory may move while it waits.
      send: (request: Uint8Array, body: Uint8Array) =>
        sendForGuest(outbound, request.slice(), body.slice(), limits),
    },
    operations: httpOperations(outbound),
    close: () => outbound.close(),
  }
}
