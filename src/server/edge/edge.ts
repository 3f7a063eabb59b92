import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { ApiKeyRefusedError, RateLimitedError } from '../../errors/errors.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { networkOf } from '../../platform/client-network.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import type { RateCounter } from '../../platform/rate-counts.ts'
import { isPreflight } from '../../platform/web-origin.ts'
import { KnownKeys } from '../../route/client.ts'
import type { JwtKeyCache } from './jwt.ts'
import type { AnswerUnrouted } from './static.ts'

/**
 * Adds the checks before all routes to a server's app. Call it before the routes are added. CORS comes first, because
 * browsers send preflight requests without a key and need its headers on a 429. The rate limit comes before the keys,
 * so that guessing keys is limited too.
 *
 * @param kept - Keys shared by the successive apps of a server.
 * @param counter - Counts for the rate limit.
 * @returns what answers requests that no route answers, if there are static files.
 * @throws {@link PackageMissingError}, {@link JwtKeyInvalidError}, {@link StaticFolderError}
 */
export async function addEdge(
  app: FastifyInstance,
  options: CheckedServerOptions,
  kept: JwtKeyCache,
  counter: RateCounter,
): Promise<AnswerUnrouted | undefined> {
  const { cors, rateLimit, apiKeys, jwt, etag, compress, static: folders } = options
  if (cors) await addCors(app, cors)
  if (rateLimit) await addRateLimit(app, rateLimit, counter)
  if (apiKeys) app.addHook('onRequest', requireApiKey(apiKeys))
  if (jwt) {
    const { addJwt } = await loadPackage('the option jwt', 'jose', () => import('./jwt.ts'))
    addJwt(app, jwt, kept)
  }
  if (etag) (await import('./etag.ts')).addEtag(app, compress !== undefined)
  if (compress) await addCompress(app, compress)
  return folders && (await import('./static.ts')).addStatic(app, folders, !apiKeys && !jwt)
}

type OptionsOf<Name extends keyof CheckedServerOptions> = NonNullable<CheckedServerOptions[Name]>

async function addCors(app: FastifyInstance, options: OptionsOf<'cors'>): Promise<void> {
  const { default: cors } = await loadPackage(
    'the option cors',
    '@fastify/cors',
    () => import('@fastify/cors'),
  )
  await app.register(cors, {
    // Other OPTIONS requests go to their routes, or get a 405.
    delegator: (request: FastifyRequest, callback) =>
      callback(null, { ...options, preflight: isPreflight(request) }),
  })
}

async function addRateLimit(
  app: FastifyInstance,
  options: OptionsOf<'rateLimit'>,
  counter: RateCounter,
): Promise<void> {
  const { max, timeWindowMs } = options
  const name = '@fastify/rate-limit'
  const load = () => import('@fastify/rate-limit')
  const { default: rateLimit } = await loadPackage('the option rateLimit', name, load)
  await app.register(rateLimit, {
    global: false, // else it would count only at routes, after the app's hooks
    max,
    timeWindow: timeWindowMs,
    keyGenerator: ({ ip }) => networkOf(ip),
    errorResponseBuilder: () => new RateLimitedError(max, timeWindowMs),
    store: storeOf(counter),
  })
  app.addHook('onRequest', app.rateLimit())
}

/** The store of the package for a counter. */
function storeOf(counter: RateCounter): FastifyRateLimitStoreCtor {
  return class implements FastifyRateLimitStore {
    incr(...[client, done, timeWindowMs]: Parameters<FastifyRateLimitStore['incr']>): void {
      const count = counter.count('request', client, timeWindowMs)
      if (count instanceof Promise) count.then((each) => done(null, { ...each }), done)
      else done(null, { ...count })
    }

    child(): FastifyRateLimitStore {
      return this
    }
  }
}

async function addCompress(app: FastifyInstance, options: OptionsOf<'compress'>): Promise<void> {
  const name = '@fastify/compress'
  const load = () => import('@fastify/compress')
  const { default: compress } = await loadPackage('the option compress', name, load)
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isCompressible(reply)) describeEncodings(reply)
    done(null, payload)
  })
  await app.register(compress, {
    globalDecompression: false, // guests get the original bytes
    customTypes: COMPRESSIBLE,
    ...(options.thresholdBytes !== undefined && { threshold: options.thresholdBytes }),
    ...(options.encodings && { encodings: options.encodings }),
  })
}

/**
 * Content types that are compressed; the package adds rarer ones of its own list. Events are not, because each has to leave
 * at once.
 */
const COMPRESSIBLE =
  /^text\/(?!event-stream)|[+/](?:json|text|xml)(?:;|$)|^application\/(?:javascript|octet-stream|wasm)/i

/** Whether clients may get an answer in several encodings. A 304 of a guest need not say its type. */
function isCompressible(reply: FastifyReply): boolean {
  const type = reply.getHeader('content-type')
  if (type === undefined) return reply.statusCode === 304
  return COMPRESSIBLE.test(String(type)) && !reply.hasHeader('content-encoding')
}

/**
 * An answer that is not compressed says it too: a cache would give it to all clients. A tag for several encodings is a weak
 * one. (RFC 9110, section 8.8.1)
 */
function describeEncodings(reply: FastifyReply): void {
  const present = [reply.getHeader('vary') ?? []].flat().join(', ')
  if (!/(?:^|,)\s*(?:\*|accept-encoding)\s*(?:,|$)/i.test(present))
    reply.header('vary', present === '' ? 'accept-encoding' : `${present}, accept-encoding`)
  const tag = String(reply.getHeader('etag') ?? '')
  if (tag.startsWith('"')) reply.header('etag', `W/${tag}`)
}

/**
 * Makes the hook that accepts requests with one of these keys, as `Authorization: Bearer KEY` or `x-api-key`. Others
 * are answered before their body is read.
 */
function requireApiKey(keys: readonly string[]): onRequestHookHandler {
  const known = new KnownKeys(keys)
  return ({ headers, routeOptions }, reply, done) => {
    const { isPublic, challenge } = routeOptions.config ?? {}
    if (isPublic) return done()
    if (known.areIn(headers)) return done()
    reply.header('www-authenticate', challenge === undefined ? 'Bearer' : `Bearer ${challenge}`)
    const { authorization, 'x-api-key': key } = headers
    const isGiven = authorization !== undefined || key !== undefined
    done(
      new ApiKeyRefusedError(
        isGiven ? 'The API key of the request is not valid here' : 'This server needs an API key',
      ),
    )
  }
}
