import { InstanceStartError } from '../errors.ts'
import { GuestLog } from '../log/guest-log.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { HttpCalls, refuseHttp } from './kernel-http.ts'
import { LinkedInstance } from './kernel-instance.ts'
import { linkModules } from './kernel-link.ts'
import { takeMemories } from './kernel-memories.ts'
import { openVars } from './kernel-vars.ts'
import { planLinks } from './link-plan.ts'
import { CallContexts } from './linked-call-context.ts'
import type { Instance, InstanceSettings, Runtime } from './runtime.ts'
import { describeTrap } from './trap.ts'

/**
 * Our own Extism host: the guest is linked to `kernel.wasm`, and a call is over when `call` returns. Only where the
 * plug-in imports an async host function does it return a promise.
 */
export const kernel = { name: 'kernel', open: openInstance } as const satisfies Runtime

function openInstance(plugin: Plugin, settings: InstanceSettings): Instance {
  const { config, blockLimit, varMax, wasi, onResume } = settings
  const plan = planLinks(plugin, settings)
  const log = new GuestLog(settings.log, { plugin: plugin.name }, settings.logsAtOnce, settings)
  try {
    const memories = takeMemories(plan, blockLimit)
    const memory = memories.kernel
    const vars = settings.vars ?? openVars(varMax)
    const http = new HttpCalls(settings.http ?? refuseHttp, memory, log)
    const contexts = new CallContexts({ memory, vars })
    const linked = linkModules(plan, {
      memory,
      config,
      vars,
      log,
      http,
      wasi,
      contexts,
      memories,
      onResume,
    })
    for (const each of linked.wasis) each.flush()
    log.end()
    contexts.end()
    http.end()
    memory.reset()
    return new LinkedInstance({
      name: plugin.name,
      outputLimit: settings.outputLimit,
      linked,
      memories,
      log,
      http: plan.usesHttp ? http : undefined,
      contexts: plan.hostFunctions.length > 0 ? contexts : undefined,
      suspending: plan.suspending,
    })
  } catch (error) {
    log.end()
    throw new InstanceStartError(plugin.name, describeTrap(error).reason, { cause: error })
  }
}
