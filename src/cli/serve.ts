import { readConfig, renderConfig } from '../options/config.ts'
import { packageVersion } from '../platform/packages.ts'
import type { Command } from './command.ts'
import { renderHelp } from './help.ts'

/** Serves plug-ins until a signal ends it. */
export const serve: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    if (config.version) return host.out.write(`${packageVersion()}\n`)
    if (config.printConfig) {
      const { planCommand } = await import('../deploy/plan.ts')
      return host.out.write(renderConfig(await planCommand(config, host)))
    }
    const { startServing } = await import('./serving.ts')
    await startServing(config, host)
  },
}
