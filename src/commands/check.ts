import { createApp } from '../app.ts'
import { readConfig } from '../config/config.ts'
import { CheckFailedError } from '../errors.ts'
import { openLog } from '../log/log.ts'
import { printable } from '../log/printable.ts'
import type { ServedRoute } from '../route/served-route.ts'
import { renderTable } from '../table.ts'
import type { Command } from './command.ts'
import { renderHelp } from './help.ts'
import { type Plan, planServer } from './plan.ts'

/** Does all that `serve` does before it listens, and lists every plug-in that would keep it from starting. */
export const check: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    const problems: string[] = []
    const failed = (error: unknown) => problems.push(messageOf(error))
    const plan = await planServer(config, host, failed)
    const routes = await openEach(plan, failed)
    if (problems.length === 0) await openAll(plan)
    if (problems.length > 0) throw new CheckFailedError([...new Set(problems)].join('\n'))
    const rows = routes.map(({ methods, host: name = '', url, plugin, function: exported }) =>
      [methods.join(','), name + url, plugin, exported].map(printable),
    )
    const table = renderTable([['METHOD', 'URL', 'PLUGIN', 'FUNCTION'], ...rows])
    host.out.write(host.secrets.hide(`${table.join('\n')}\n`))
  },
}

/** One app for each route, so that one which fails does not hide another. */
async function openEach(
  { options }: Plan,
  failed: (error: unknown) => void,
): Promise<readonly ServedRoute[]> {
  const opened: ServedRoute[] = []
  for (const route of options.routes) {
    try {
      const { app, routes } = await createApp({ ...options, routes: [route] }, openLog('silent'))
      opened.push(...routes)
      await app.close()
    } catch (error) {
      failed(error)
    }
  }
  return opened
}

/** What only shows when the routes meet. */
async function openAll({ options }: Plan): Promise<void> {
  const { app } = await createApp(options, openLog('silent'))
  await app.close()
}

function messageOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_'))
    return error.message
  throw error
}
