import { hash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  LogController,
  type onRequestHookHandler,
} from 'fastify'
import { AdminOriginRefusedError, AdminTokenRefusedError } from '../errors/errors.ts'
import { requestId, requestLogs } from '../observe/log/request-log.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { type ForeignSign, webOriginCheck } from '../platform/web-origin.ts'
import { sendAnyError } from '../route/error-response.ts'
import { guardMethods, refusedMethod } from '../route/method-guard.ts'
import { routeNotFound } from '../route/route-error.ts'
import { createHttpServer } from '../server/http-server.ts'
import { type ListenAddress, listenAt, urlOf } from '../server/listen.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether a route of the admin listener needs no token. */
    needsNoToken?: true
  }
}

/** A listener for operators, with its own socket and app, separate from the listener of the routes. */
export interface OperatorListener {
  /** The address: `http://127.0.0.1:9090`, or `unix:/run/admin.sock`. */
  readonly url: string
  /** Call this last, so that operators can watch the server shut down. */
  close(): Promise<void>
}

/** The input of {@link openListener}. */
interface ListenerOptions {
  readonly address: OperatorAddress
  /** The command-line flag of the address. */
  readonly flag: string
  /** Known names of its host. undefined: the name is not checked. */
  readonly hosts: readonly string[] | undefined
  /** The token that requests must carry. Default: none. */
  readonly token?: string
  /** Limits of its connections. */
  readonly server: CheckedServerOptions
  readonly log: FastifyBaseLogger
}

/**
 * Opens a listener for operators.
 *
 * @param addRoutes - Adds hooks and routes.
 * @throws {@link ListenError} if it cannot listen on the address.
 */
export async function openListener(
  { address, flag, hosts, token, server: options, log }: ListenerOptions,
  addRoutes: (app: FastifyInstance) => void,
): Promise<OperatorListener> {
  const app = openApp(log)
  app.addHook('onRequest', addAnswerHeaders)
  app.addHook('onRequest', checkOrigin(hosts))
  if (token !== undefined) app.addHook('onRequest', requireToken(token))
  addRoutes(app)
  const { tls: _, ...limits } = options
  const { server, connections } = createHttpServer(
    limits,
    (request, response) => app.routing(request, response),
    log,
  )
  try {
    await app.ready()
    await listenAt(server, address, flag)
  } catch (error) {
    await app.close()
    throw error
  }
  const end = async () => {
    const closed = once(server, 'close')
    server.close()
    const cut = setTimeout(() => {
      for (const socket of connections.keys()) socket.destroy()
    }, CLOSE_MS)
    await closed
    clearTimeout(cut)
    await app.close()
  }
  let ended: Promise<void> | undefined

  return {
    url: urlOf(server, 'http'),
    close() {
      ended ??= end()
      return ended
    },
  }
}

/** Time limit for open requests when a listener closes. */
const CLOSE_MS = 500

/** Encoded bytes of a plug-in's name in a URL: a path or the reference of a registry may be long. */
const MAX_NAME = 1_024

/** Requests are validated without coercion, and all problems are reported. */
const CHECK = {
  allErrors: true,
  coerceTypes: false,
  removeAdditional: false,
  strict: false,
  useDefaults: false,
} as const

function openApp(log: FastifyBaseLogger): FastifyInstance {
  const app = Fastify({
    childLoggerFactory: requestLogs(log),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestId,
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_NAME },
    ajv: { customOptions: CHECK },
    // Fastify runs no hooks for a malformed URL.
    frameworkErrors: (error, request, reply) => sendAnyError(error, request, reply.headers(answerHeaders)),
  })
  app.log = log
  app.setErrorHandler(sendAnyError)
  app.addHook('onRoute', ({ url }) => guardMethods(app, [{ url }], true))
  app.setNotFoundHandler((request) => {
    throw (
      refusedMethod(app, request) ??
      routeNotFound(request.method, request.url, ': GET /openapi.json lists the requests')
    )
  })
  return app
}

/** Headers of all answers: no caching, framing, type sniffing or loading of resources. A page may set its own policy. */
export const answerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

const addAnswerHeaders: onRequestHookHandler = (_request, reply, done) => {
  reply.headers(answerHeaders)
  done()
}

/**
 * Makes the hook that rejects requests which a foreign web page makes a browser send: see {@link webOriginCheck}.
 */
function checkOrigin(hosts: readonly string[] | undefined): onRequestHookHandler {
  const foreignSign = webOriginCheck({ hosts })
  return (request, _reply, done) => {
    const sign = foreignSign(request)
    done(sign && new AdminOriginRefusedError(PROBLEMS[sign]))
  }
}

const PROBLEMS: Readonly<Record<ForeignSign, string>> = {
  host: 'the name in its Host header is not one of adminHosts',
  origin: 'it comes from a page of another origin',
  site: 'it comes from a page of another site',
}

/**
 * Makes the hook that requires `Authorization: Bearer TOKEN`, except for routes with `needsNoToken`. Unknown URLs
 * require the token too, so that a client without it cannot find out which routes exist.
 */
function requireToken(token: string): onRequestHookHandler {
  const known = hash('sha256', token, 'buffer') // digests have one length, so the comparison leaks nothing through timing
  return ({ headers: { authorization = '' }, routeOptions }, reply, done) => {
    if (routeOptions.config?.needsNoToken) return done()
    const [, sent = ''] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (timingSafeEqual(known, hash('sha256', sent, 'buffer'))) return done()
    reply.header('www-authenticate', 'Bearer')
    done(new AdminTokenRefusedError())
  }
}

/** The address of a listener for operators. */
interface OperatorAddress extends ListenAddress {
  /** Whether only programs on this machine can reach it. */
  readonly isLocal: boolean
}

/** Parses the option `admin` or `probes`, which was validated. A port alone means the loopback interface. */
export function parseOperatorAddress(text: string): OperatorAddress {
  if (text.includes('/')) return { host: '', port: 0, socket: text, isLocal: true }
  const [, name = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(text) ?? []
  const host = name.replace(/^\[|\]$/g, '')
  return { host, port: Number(port), isLocal: isLoopbackName(host) }
}

function isLoopbackName(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d+){3}$/.test(host)
}
