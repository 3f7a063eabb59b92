import type { HostFunctions } from '../../src/guest/host-functions.ts'
import type { ServiceOptions, ServiceResources } from '../../src/guest/services/service.ts'
import { serviceUse } from '../../src/guest/services/service.ts'
import { type OpenServices, openServices } from '../../src/guest/services/services.ts'
import { shareStore } from '../../src/guest/store/shared-store.ts'
import { openSharedVars } from '../../src/guest/vars.ts'
import type { CompiledPlugin } from '../../src/plugin/plugin.ts'
import { keepLog } from './instance.ts'

/** The options of a route that offers the store and streams. */
export const SERVICE_OPTIONS: ServiceOptions = {
  kv: { access: 'readwrite', namespace: 'a' },
  vars: 'own',
  varMax: 1_000,
  outbound: undefined,
  contract: 'raw',
}

/** What services share: a store in memory, and variables. */
export function serviceResources(): ServiceResources {
  const store = shareStore('memory:', { maxBytes: 100_000, timeoutMs: 1_000, log: keepLog() })
  return { store, vars: openSharedVars(), http: undefined, meter: undefined }
}

/** The services that a plug-in uses. */
export function openServicesOf(
  plugin: CompiledPlugin,
  options: Partial<ServiceOptions> = {},
  resources: ServiceResources = serviceResources(),
  users?: HostFunctions,
): Promise<OpenServices> {
  return openServices(serviceUse({ ...SERVICE_OPTIONS, ...options }, plugin, users), resources)
}
