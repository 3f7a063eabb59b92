import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  McpContentTypeError,
  McpNotAcceptableError,
  McpOriginRefusedError,
  MethodNotAllowedError,
  RouteInvalidError,
} from '../errors/errors.ts'
import { printable } from '../platform/text.ts'
import { type ForeignSign, isPreflight, webOriginCheck } from '../platform/web-origin.ts'
import { batched } from '../route/request-batches.ts'
import { serveRoute } from '../route/route.ts'
import { Answer } from './answer.ts'
import { allowRequest, letPageRead } from './cross-origin.ts'
import { answerPost, endWithError, type McpService } from './post.ts'
import { challengeOf, UNLISTED } from './protected-resource.ts'

/** Where the endpoint is, and which requests it accepts. */
interface EndpointOptions {
  readonly url: string
  readonly hosts: readonly string[]
  readonly origins: readonly string[]
  /** In bytes. */
  readonly bodyLimit: number
  /** The URL of the endpoint, if clients can find the issuer of tokens. */
  readonly resource: string | undefined
  /** All scopes that give access to tools. */
  readonly scopes: readonly string[]
  /** Whether no hook of the app reads its answers. */
  readonly isUnwatched: boolean
}

/**
 * Adds the endpoint to an app: one URL that answers POST, each request by itself and without sessions.
 *
 * @throws {@link RouteInvalidError} if the app has a route there.
 */
export function addEndpoint(app: FastifyInstance, options: EndpointOptions, service: McpService): void {
  const { url, hosts, origins, bodyLimit, resource, scopes, isUnwatched } = options
  const foreignSign = webOriginCheck({ hosts, origins, allowsLocalPages: true })
  const problemWithOrigin = (request: FastifyRequest) => {
    const sign = foreignSign(request)
    return sign && new McpOriginRefusedError(PROBLEMS[sign])
  }
  const answerNow = (request: FastifyRequest, reply: FastifyReply) => {
    const isDirect = isUnwatched && request.headers.origin === undefined // a page reads more headers
    void answerPost(request, new Answer(reply, isDirect), service)
  }
  const letKnownPageRead = (request: FastifyRequest, reply: FastifyReply) => {
    const { origin } = request.headers
    if (origin !== undefined && !problemWithOrigin(request)) letPageRead(origin, reply)
  }
  const refuseMethod = (request: FastifyRequest, reply: FastifyReply) => {
    reply.header('allow', 'POST')
    return problemWithOrigin(request) ?? new MethodNotAllowedError(request.method, 'POST')
  }
  const run = batched(answerNow, { name: 'inline' }) // some tools may be
  const serve = serveRoute(run, bodyLimit, false)
  const refuse = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    letKnownPageRead(request, reply)
    endWithError(error, undefined, request, new Answer(reply, false))
  }
  const found = resource === undefined ? {} : { resource, challenge: challengeOf(resource, scopes) }
  try {
    app.route({
      method: 'POST',
      url,
      exposeHeadRoute: false,
      schema: UNLISTED,
      bodyLimit,
      config: { ...found, cors: false },
      errorHandler: refuse,
      handler(request, reply) {
        const problem = problemWithOrigin(request) ?? problemWithTypes(request.headers)
        if (problem) return void reply.send(problem)
        letKnownPageRead(request, reply)
        serve.call(this, request, reply)
      },
    })
    app.route({
      method: app.supportedMethods.filter((method) => method !== 'POST' && method !== 'OPTIONS'),
      url,
      exposeHeadRoute: false,
      schema: UNLISTED,
      config: { ...found, cors: false },
      errorHandler: refuse,
      onRequest: (request, reply, done) => done(refuseMethod(request, reply)),
      handler: () => undefined, // never called
    })
    app.route({
      method: 'OPTIONS',
      url,
      schema: UNLISTED,
      config: { isPublic: true, cors: false }, // browsers ask without a key
      errorHandler: refuse,
      onRequest(request, reply, done) {
        if (problemWithOrigin(request) || !isPreflight(request)) return done(refuseMethod(request, reply))
        letKnownPageRead(request, reply)
        allowRequest(request.headers, reply)
      },
      handler: () => undefined, // never called
    })
  } catch (error) {
    throw new RouteInvalidError(url, (error as Error).message, { cause: error })
  }
}

const PROBLEMS: Readonly<Record<ForeignSign, string>> = {
  host: 'the name in its Host header is not one of mcp.hosts',
  origin: 'it comes from a web page whose origin is not one of mcp.origins',
  site: 'it comes from a web page of another site',
}

const JSON_TYPE = 'application/json'
const ACCEPTED = 'application/json, text/event-stream'

function problemWithTypes(headers: IncomingHttpHeaders): Error | undefined {
  const { accept = '*/*', 'content-type': type = 'none' } = headers
  if (type === JSON_TYPE && accept === ACCEPTED) return undefined // as official clients send it
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    return new McpContentTypeError(printable(type.slice(0, 100)))
  const ranges = new Set(acceptedRanges(accept))
  const accepts = (...wanted: readonly string[]) => ['*/*', ...wanted].some((range) => ranges.has(range))
  const isAcceptable = accepts('application/*', JSON_TYPE) && accepts('text/*', 'text/event-stream')
  return isAcceptable ? undefined : new McpNotAcceptableError()
}

/** Media ranges, without those of quality 0, which a client refuses. */
function acceptedRanges(accept: string): string[] {
  return accept
    .toLowerCase()
    .split(',')
    .flatMap((part) => {
      const [range = '', ...parameters] = part.split(';').map((each) => each.trim())
      return parameters.some((each) => /^q=0(?:\.0*)?$/.test(each)) ? [] : [range]
    })
}
