import type { onRequestHookHandler } from 'fastify'
import { MethodNotAllowedError } from '../errors/errors.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ProbeContext } from './feature.ts'
import { addHealth } from './health.ts'
import { type OperatorListener, openListener, parseOperatorAddress } from './listener.ts'
import { addMetrics } from './metrics.ts'

/**
 * Opens the listener for supervisors and Prometheus: `/healthz`, `/readyz` and `/metrics`, without a token. Nothing of it
 * changes the server. It refuses pages of other origins. On an address of this machine it also refuses unknown host
 * names; on others it accepts any, such as that of a Kubernetes service: whoever reaches the address may read it.
 *
 * @param address - The option `probes`.
 * @param server - Limits of its connections.
 * @throws {@link ListenError} if it cannot listen on the address.
 */
export async function openProbes(
  address: string,
  server: CheckedServerOptions,
  context: ProbeContext,
): Promise<OperatorListener> {
  const at = parseOperatorAddress(address)
  const hosts = at.isLocal && at.socket === undefined ? [] : undefined
  const options = { address: at, flag: '--probes', hosts, server, log: context.log }
  return openListener(options, (app) => {
    app.addHook('onRequest', refuseWrites)
    for (const addFeature of [addHealth, addMetrics])
      app.register(async (scope) => addFeature(scope, context))
  })
}

/** Refuses other methods before the body is read. */
const refuseWrites: onRequestHookHandler = ({ method }, _reply, done) => {
  if (method === 'GET' || method === 'HEAD') return done()
  done(new MethodNotAllowedError(method, 'GET, HEAD'))
}
