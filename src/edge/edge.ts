import type { FastifyInstance } from 'fastify'
import type { CheckedServerOptions } from '../config/options.ts'
import { requireApiKey } from './api-keys.ts'

/** Adds to a server's app what stands before all routes. To be called before they are added. */
export async function addEdge(app: FastifyInstance, { apiKeys }: CheckedServerOptions): Promise<void> {
  if (apiKeys) app.addHook('onRequest', requireApiKey(apiKeys))
}
