import { planCommand } from '../deploy/plan.ts'
import { openLog } from '../observe/log/log.ts'
import { readConfig } from '../options/config.ts'
import { routesDocument } from '../route/openapi/routes-document.ts'
import { readXtpSchemas } from '../route/openapi/xtp-schema.ts'
import { createApp } from '../server/app.ts'
import { type Command, renderPage, TAKES_SERVE_FLAGS } from './command.ts'

const HELP = renderPage({
  usage: 'wasm-serve openapi [plugin.wasm | folder | config file]... [flags]',
  about: 'Prints an OpenAPI document of the routes that serve would serve.',
  examples: ['wasm-serve openapi hello.wasm', 'wasm-serve openapi routes.yaml > openapi.json'],
  flags: {},
  more: TAKES_SERVE_FLAGS,
})

/** Prints the routes that `serve` would serve as an OpenAPI document. */
export const openapi: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(HELP)
    const plan = await planCommand(config, host)
    const { app, routes } = await createApp(plan.options, openLog('silent'))
    await app.close()
    const document = routesDocument(routes, await readXtpSchemas(plan.routes.map(({ target }) => target)))
    host.out.write(host.secrets.hideInJson(`${JSON.stringify(document, null, 2)}\n`))
  },
}
