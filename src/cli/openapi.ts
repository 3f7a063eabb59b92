import { planCommand } from '../deploy/plan.ts'
import { openLog } from '../observe/log/log.ts'
import { readConfig } from '../options/config.ts'
import { routesDocument } from '../route/openapi/routes-document.ts'
import { readXtpSchemas } from '../route/openapi/xtp-schema.ts'
import { createApp } from '../server/app.ts'
import type { Command } from './command.ts'
import { renderHelp } from './help.ts'

/** Prints the routes that `serve` would serve as an OpenAPI document. */
export const openapi: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    const plan = await planCommand(config, host)
    const { app, routes } = await createApp(plan.options, openLog('silent'))
    await app.close()
    const document = routesDocument(routes, await readXtpSchemas(plan.routes.map(({ target }) => target)))
    host.out.write(host.secrets.hideInJson(`${JSON.stringify(document, null, 2)}\n`))
  },
}
