import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RateLimitedError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import { requireApiKey } from './api-keys.ts'
import type { KeptKeys } from './jwt.ts'

/**
 * Adds to a server's app what stands before all routes. To be called before they are added. Browsers ask without a key
 * what they may do, and are told also that there were too many requests; and keys cannot be guessed without end.
 *
 * @param kept - What the apps of a server share.
 * @throws {@link PackageMissingError}, {@link JwtKeyInvalidError}, {@link StaticFolderError}
 */
export async function addEdge(
  app: FastifyInstance,
  options: CheckedServerOptions,
  kept: KeptKeys,
): Promise<void> {
  const { cors, rateLimit, apiKeys, jwt, etag, compress, static: folders } = options
  if (cors) await addCors(app, cors)
  if (rateLimit) await addRateLimit(app, rateLimit)
  if (apiKeys) app.addHook('onRequest', requireApiKey(apiKeys))
  if (jwt) {
    const { addJwt } = await loadPackage('the option jwt', 'jose', () => import('./jwt.ts'))
    addJwt(app, jwt, kept)
  }
  if (etag) await (await import('./etag.ts')).addEtag(app, compress !== undefined)
  if (compress) await addCompress(app, compress)
  if (folders) await (await import('./static.ts')).addStatic(app, folders)
}

type Given<Name extends keyof CheckedServerOptions> = NonNullable<CheckedServerOptions[Name]>

async function addCors(app: FastifyInstance, options: Given<'cors'>): Promise<void> {
  const { default: cors } = await loadPackage(
    'the option cors',
    '@fastify/cors',
    () => import('@fastify/cors'),
  )
  await app.register(cors, {
    // Other requests with OPTIONS go to their routes, or are told 405.
    delegator: (request: FastifyRequest, callback) =>
      callback(null, { ...options, preflight: isPreflight(request) }),
  })
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  const { origin, 'access-control-request-method': wanted } = headers
  return method === 'OPTIONS' && origin !== undefined && wanted !== undefined
}

async function addRateLimit(app: FastifyInstance, options: Given<'rateLimit'>): Promise<void> {
  const { max, timeWindowMs } = options
  const name = '@fastify/rate-limit'
  const load = () => import('@fastify/rate-limit')
  const { default: rateLimit, normalizeIP } = await loadPackage('the option rateLimit', name, load)
  await app.register(rateLimit, {
    global: false, // it would count at routes only, and after the hooks of the app
    max,
    timeWindow: timeWindowMs,
    keyGenerator: ({ ip }) => (ip ? normalizeIP(ip) : 'none'), // clients of a Unix socket have no addresses
    errorResponseBuilder: () => new RateLimitedError(max, timeWindowMs),
  })
  app.addHook('onRequest', app.rateLimit())
}

async function addCompress(app: FastifyInstance, options: Given<'compress'>): Promise<void> {
  const name = '@fastify/compress'
  const load = () => import('@fastify/compress')
  const { default: compress } = await loadPackage('the option compress', name, load)
  await app.register(compress, {
    globalDecompression: false, // guests get the bytes as they came
    ...(options.thresholdBytes !== undefined && { threshold: options.thresholdBytes }),
    ...(options.encodings && { encodings: options.encodings }),
  })
}
