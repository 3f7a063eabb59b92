import { commandConfiguration } from '../deploy/configuration.ts'
import { openEach, openTogether, planServer } from '../deploy/plan.ts'
import { listOf } from '../deploy/resolve.ts'
import { checkState } from '../deploy/start.ts'
import { CheckFailedError } from '../errors/errors.ts'
import { openLog } from '../observe/log/log.ts'
import { readConfig } from '../options/config.ts'
import { printable, renderTable } from '../platform/text.ts'
import { renderEngine } from './banner.ts'
import { type Command, renderPage, TAKES_SERVE_FLAGS } from './command.ts'

const HELP = renderPage({
  usage: 'wasm-serve check [plugin.wasm | folder | config file]... [flags]',
  about:
    'Loads and starts each plug-in as serve would, without listening. Lists the\nroutes, or all problems with file and line.',
  examples: [
    'wasm-serve check                  the config file of the working folder',
    'wasm-serve check hello.wasm --workers 2',
    'wasm-serve check routes.yaml',
  ],
  flags: {},
  more: TAKES_SERVE_FLAGS,
})

/** Runs every step of `serve` up to listening, and lists all problems that would prevent a start. */
export const checkCommand: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(HELP)
    const failures: unknown[] = []
    const failed = (error: unknown) => failures.push(error)
    const plan = await planServer(commandConfiguration(config, host), failed)
    const routes = plan ? await openEach(plan, failed) : []
    if (plan) await checkState(plan.desired.configuration).catch(failed)
    if (plan && failures.length === 0)
      await openTogether(
        plan,
        openLog('warn', { terminal: host.logTerminal, lines: host.logLines, secrets: host.secrets }),
      )
    if (failures.length > 0) throw new CheckFailedError(listOf(failures))
    const rows = routes.map((route) => {
      const { methods, host: name = '', url, plugin, function: exported } = route
      return [methods.join(','), name + url, plugin, exported, renderEngine(route)].map(printable)
    })
    const table = renderTable([['METHOD', 'URL', 'PLUGIN', 'FUNCTION', 'ENGINE'], ...rows])
    host.out.write(host.secrets.hide(`${table.join('\n')}\n`))
  },
}
