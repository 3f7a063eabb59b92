import { createApp } from '../app.ts'
import { readConfig } from '../config/config.ts'
import { openLog } from '../log/log.ts'
import { routesDocument } from '../openapi/routes-document.ts'
import { readXtpSchemas } from '../openapi/xtp-schema.ts'
import type { Command } from './command.ts'
import { renderHelp } from './help.ts'
import { planAll } from './problems.ts'

/** Prints what `serve` would serve, as an OpenAPI document. */
export const openapi: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    const { options, planned } = await planAll(config, host)
    const { app, routes } = await createApp(options, openLog('silent'))
    await app.close()
    const document = routesDocument(routes, await readXtpSchemas(planned))
    host.out.write(host.secrets.hideInJson(`${JSON.stringify(document, null, 2)}\n`))
  },
}
