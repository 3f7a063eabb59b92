import { loadFunctions } from '../../guest/host-functions.ts'
import type { ServiceLink } from '../../guest/services/service.ts'
import { connectServices } from '../../guest/services/services.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import { withCallHooks } from '../../runtime/call-hooks.ts'
import type { BlockMemories, Runtime } from '../../runtime/runtime.ts'
import { type InlineEngine, openInline } from '../inline.ts'
import type { InstancesOptions } from '../instances.ts'
import type { InstantiablePlugin, WorkerStart } from './protocol.ts'

/**
 * The options for opening instances in a thread or process, whose services are on the main thread of the server.
 *
 * @param link - Reaches the services.
 * @throws the errors of {@link loadFunctions}.
 */
export async function guestOptions(
  {
    settings,
    functions,
    isolation,
    services,
  }: Pick<WorkerStart, 'settings' | 'functions' | 'isolation' | 'services'>,
  plugin: InstantiablePlugin,
  runtime: Runtime,
  link: ServiceLink,
  log: Log,
  memories?: BlockMemories,
): Promise<InstancesOptions> {
  const parts = connectServices(services, plugin, await loadFunctions(functions), link)
  return {
    plugin: plugin as CompiledPlugin,
    runtime: withCallHooks(runtime, parts.calls),
    settings: { ...settings, ...parts.settings, log, logsAtOnce: true, memories },
    ...isolation,
  }
}

/**
 * The guest of a thread or process, which runs one call at a time.
 *
 * @throws the error of the start.
 */
export async function openGuest(
  ...guest: Parameters<typeof guestOptions>
): Promise<{ readonly engine: InlineEngine; readonly startMs: number }> {
  const options = await guestOptions(...guest)
  const begun = performance.now()
  const engine = openInline({ ...options, maxQueue: 1 })
  await engine.ready
  return { engine, startMs: performance.now() - begun }
}
