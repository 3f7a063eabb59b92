import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { openLog } from './observe/log/log.ts'
import { type CreateServerOptions, checkCreateServerOptions } from './options/options.ts'
import { createApp } from './server/app.ts'

/**
 * Makes a Fastify app that serves plug-ins and nothing else, hardened, with its engines open: ready for `listen` or
 * `inject`. Who calls it closes it.
 *
 * @param options - Those of the server, without what is for the command alone: where it listens, its admin listener,
 * `watch`, `drainMs` and `graceMs`.
 * @param log - Default: JSON lines on standard error.
 * @throws {@link OptionsError}, and what {@link loadPlugin} and the opening of instances throw.
 */
export async function createServer(
  options: CreateServerOptions,
  log?: FastifyBaseLogger,
): Promise<FastifyInstance> {
  const checked = checkCreateServerOptions(options)
  const { app } = await createApp(checked, log ?? openLog(checked.logLevel))
  return app
}
