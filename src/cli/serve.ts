import { prestartThread } from '../engine/workers/thread-start.ts'
import { type Config, readConfig, renderConfig } from '../options/config.ts'
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
    if (hasThreads(config)) prestartThread('kernel')
    const { startServing } = await import('./serving.ts')
    await startServing(config, host)
  },
}

/** Whether flags and variables ask for threads in this process. The config file is not read yet. */
function hasThreads({ flags, variables }: Config): boolean {
  const workers = flags.route.entries.get('workers') ?? variables.route.entries.get('workers')
  const isElsewhere = [flags, variables].some(
    ({ server, route }) => server.entries.has('processes') || route.entries.has('runtime'),
  )
  return workers?.configured.kind === 'scalar' && Number(workers.configured.value) > 0 && !isElsewhere
}
