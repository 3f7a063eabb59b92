import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { RouteNotFoundError } from '../errors/errors.ts'
import { openRequestLog, requestId } from '../observe/log/request-log.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { sendAnyError } from '../route/error-response.ts'
import { createHttpServer } from '../server/http-server.ts'
import { listenAt, urlOf } from '../server/listen.ts'
import { parseAdminAddress } from './address.ts'
import { addAnswerHeaders, answerHeaders } from './answer-headers.ts'
import { addApi } from './api/api.ts'
import { addConsole } from './console.ts'
import type { AdminContext, AdminFeature } from './feature.ts'
import { addHealth } from './health.ts'
import { addMetrics } from './metrics.ts'
import { checkOrigin } from './origin-check.ts'
import { requireToken } from './token.ts'

/** What the admin listener has. */
const FEATURES: readonly AdminFeature[] = [addHealth, addMetrics, addApi, addConsole]

/** How long a request of an operator may take to end, once the listener is closed. */
const CLOSE_MS = 500

/** The admin listener. */
export interface Admin {
  /** Where it listens: `http://127.0.0.1:9090`, or `unix:/run/admin.sock`. */
  readonly url: string
  /** To be called last: until then operators see how the server ends. */
  close(): Promise<void>
}

export interface AdminOptions {
  /** The option `admin`. */
  readonly address: string
  /** What requests have to carry. */
  readonly token: string
  /** Limits of its connections. */
  readonly server: CheckedServerOptions
}

/**
 * Opens the admin listener: apart from the one that serves the routes, with an app of its own.
 *
 * @throws {@link ListenError} if the address cannot be had.
 */
export async function openAdmin(
  { address, token, server: options }: AdminOptions,
  context: AdminContext,
): Promise<Admin> {
  const { log } = context
  const at = parseAdminAddress(address)
  if (!at.isLocal) log.warn({ admin: address }, 'the admin listener is open to other machines, unencrypted')

  const app = openApp(log)
  const names = at.socket === undefined ? [at.host, ...(options.adminHosts ?? [])] : undefined
  app.addHook('onRequest', addAnswerHeaders)
  app.addHook('onRequest', checkOrigin(names))
  app.addHook('onRequest', requireToken(token))
  for (const addFeature of FEATURES) app.register(async (scope) => addFeature(scope, context))

  const { tls: _, ...limits } = options
  const { server, connections } = createHttpServer(
    limits,
    (request, response) => app.routing(request, response),
    log,
  )
  try {
    await app.ready()
    await listenAt(server, at, '--admin')
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

/** Requests are checked as they are, and all that is wrong is told. */
const CHECK = {
  allErrors: true,
  coerceTypes: false,
  removeAdditional: false,
  strict: false,
  useDefaults: false,
} as const

function openApp(log: FastifyBaseLogger): FastifyInstance {
  const app = Fastify({
    childLoggerFactory: (_none, bindings, options) => openRequestLog(log, bindings, options),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: (request) => requestId(request as IncomingMessage),
    return503OnClosing: false,
    ajv: { customOptions: CHECK },
    // Fastify runs no hooks for a URL that it cannot read.
    frameworkErrors: (error, request, reply) => sendAnyError(error, request, reply.headers(answerHeaders)),
  })
  app.log = log
  app.setErrorHandler(sendAnyError)
  app.setNotFoundHandler(({ method, url }) => {
    throw new RouteNotFoundError(method, url)
  })
  return app
}
