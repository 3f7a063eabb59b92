import type { Config } from '../../options/config.ts'
import { type CommandContext, commandConfiguration } from '../configuration.ts'
import { desiredState, refuseEdit } from '../desired-state.ts'
import { PluginTable } from '../loader.ts'
import { openEach, openTogether, planAll } from '../plan.ts'
import { combineErrors } from '../resolve.ts'
import type { Configuring } from './apply-configuration.ts'
import { readShared } from './open-fleet.ts'
import { withoutOwnLayers } from './own-options.ts'

/** Reads the config file of a fleet with its plug-ins, and runs none of them. */
export function filesConfiguration(config: Config, context: CommandContext): Configuring['read'] {
  return async (edits) => {
    const plugins = new PluginTable()
    const desired = await readShared(config, context, plugins, edits)
    return { desired, modules: plugins.modules }
  }
}

/** Reads the config file of a fleet and checks it: its routes and those of the edits are opened here as on a node, tried and closed. */
export function checkedConfiguration(config: Config, context: CommandContext): Configuring['read'] {
  return async (edits, module) => {
    const plugins = new PluginTable()
    const plan = await planAll(commandConfiguration(withoutOwnLayers(config), context), {
      reading: { plugins },
      desire: async (configuration) => ({
        desired: desiredState(configuration, edits, 1),
        resolving: { plugins, module, refuse: refuseEdit },
      }),
    })
    const failures: unknown[] = []
    await openEach(plan, (error) => failures.push(error))
    if (failures.length > 0) throw combineErrors(failures)
    await openTogether(plan)
    const { desired, edits: left } = plan
    return {
      desired: { ...desired, edits: left, warnings: [...desired.warnings, ...plan.warnings] },
      modules: plugins.modules,
    }
  }
}
