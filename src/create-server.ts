import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { createApp } from './app.ts'
import { checkServerOptions, type ServerOptions } from './config/options.ts'
import { openLog } from './log/log.ts'

/**
 * Makes a Fastify app that serves plug-ins and nothing else, hardened, with its engines open: ready for `listen` or
 * `inject`. Who calls it closes it.
 *
 * @param log - Default: JSON lines on standard error.
 * @throws {@link OptionsError}, and what {@link loadPlugin} and the opening of instances throw.
 */
export async function createServer(
  options: ServerOptions,
  log?: FastifyBaseLogger,
): Promise<FastifyInstance> {
  const checked = checkServerOptions(options)
  const { app } = await createApp(checked, log ?? openLog(checked.logLevel))
  return app
}
