import { InstanceStartError } from '../errors/errors.ts'
import { describeTrap } from '../guest/host-functions.ts'
import { openVars } from '../guest/vars.ts'
import { GuestLog } from '../observe/log/guest-log.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import { HttpCalls, refuseHttp } from './kernel-host.ts'
import { type InstanceParts, LinkedInstance } from './kernel-instance.ts'
import { linkModules } from './kernel-link.ts'
import { openKernelMemory } from './kernel-memory.ts'
import { type LinkPlan, planLinks } from './link-plan.ts'
import { CallContexts } from './linked-call-context.ts'
import { type InitialStates, MemoryReusePolicy } from './renewal.ts'
import { type Instance, type InstanceSettings, type Runtime, startGuest } from './runtime.ts'
import { ProgramStreams } from './wasi/wasi.ts'

/**
 * The Extism host of wasm-serve: the guest is linked to `kernel.wasm`, and calls are synchronous. Only with an async host
 * function does `call` return a promise.
 */
export const kernel = { name: 'kernel', open: openInstance } as const satisfies Runtime

function openInstance(plugin: CompiledPlugin, settings: InstanceSettings): Instance {
  const plan = planLinks(plugin, settings)
  const place = spareSlotFor(plan, settings)
  const parts = takeSpare(place) ?? linkParts(plugin, plan, settings, place.origins)
  return new LinkedInstance(parts, () => leaveSpare(place, parts))
}

function linkParts(
  plugin: CompiledPlugin,
  plan: LinkPlan,
  settings: InstanceSettings,
  origins: InitialStates,
): InstanceParts {
  const { config, blockLimit, varMax, wasi, onResume, outputLimit, command } = settings
  const log = new GuestLog(settings.log, { plugin: plugin.name }, settings.logsAtOnce, settings)
  return starting(plugin.name, log, () => {
    const memory = openKernelMemory(blockLimit)
    const ownVars = openVars(varMax)
    const vars = settings.vars ?? ownVars
    const http = new HttpCalls(settings.http ?? refuseHttp, memory, log, settings.httpErrors)
    const contexts = new CallContexts({ memory, vars })
    const streams = command ? new ProgramStreams(outputLimit, (line) => log.write('info', line)) : undefined
    const host = { memory, config, vars, log, http, wasi, streams, contexts, origins, onResume }
    const linked = linkModules(plan, host)
    const parts = {
      name: plugin.name,
      outputLimit,
      linked,
      memory,
      memoryReuse: new MemoryReusePolicy(memory.size),
      ownVars,
      log,
      http: plan.usesHttp ? http : undefined,
      contexts: plan.hostFunctions.length > 0 ? contexts : undefined,
      suspending: plan.suspending,
      streams,
      functions: new Map(),
    }
    endStart(parts)
    return parts
  })
}

/** @throws {@link InstanceStartError} */
function starting<Result>(name: string, log: GuestLog, start: () => Result): Result {
  try {
    return start()
  } catch (error) {
    log.end()
    throw new InstanceStartError(name, describeTrap(error).reason, { cause: error })
  }
}

function endStart({ linked, log, contexts, http, memory }: InstanceParts): void {
  for (const wasi of linked.wasis) wasi.flush()
  log.end()
  contexts?.end()
  http?.end()
  memory.reset()
}

/** Shared by the instances with the same settings. */
interface SpareSlot {
  readonly plan: LinkPlan
  readonly origins: InitialStates
  /** The parts of the last closed instance: the inline engine opens instances one after another. */
  spare: InstanceParts | undefined
}

const spareSlots = new WeakMap<InstanceSettings, SpareSlot>()

function spareSlotFor(plan: LinkPlan, settings: InstanceSettings): SpareSlot {
  const known = spareSlots.get(settings)
  if (known?.plan === plan) return known
  const place = { plan, origins: {}, spare: undefined }
  spareSlots.set(settings, place)
  return place
}

/** Restores the initial state, if possible. No guest may be running in the parts or have been interrupted. */
function leaveSpare(place: SpareSlot, parts: InstanceParts): void {
  if (!parts.linked.renewal || !parts.memoryReuse.isKept(parts.memory.size)) return
  if (!parts.linked.renewal.renew()) return
  parts.ownVars.clear()
  place.spare = parts
}

/**
 * Reuses parts in the state of newly linked and started ones.
 *
 * @throws {@link InstanceStartError}
 */
function takeSpare(place: SpareSlot): InstanceParts | undefined {
  const parts = place.spare
  if (!parts) return undefined
  place.spare = undefined
  if (parts.linked.wasis.length > 0 || parts.linked.renewal?.needsStart) startAgain(parts, place.plan)
  return parts
}

function startAgain(parts: InstanceParts, { initialisers }: LinkPlan): void {
  const { exports, wasis, renewal } = parts.linked
  starting(parts.name, parts.log, () => {
    try {
      for (const wasi of wasis) wasi.reopen()
      if (!renewal?.needsStart) return
      startGuest(exports, initialisers)
      endStart(parts)
    } catch (error) {
      for (const wasi of wasis) wasi.close()
      throw error
    }
  })
}
