import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  LogController,
  type onRequestHookHandler,
} from 'fastify'
import type { Deployments } from '../deploy/deployments.ts'
import { RouteNotFoundError } from '../errors/errors.ts'
import { RecentLines } from '../observe/log/log.ts'
import { requestId, requestLogs } from '../observe/log/request-log.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { sendAnyError } from '../route/error-response.ts'
import { createHttpServer } from '../server/http-server.ts'
import { type ListenAddress, listenAt, urlOf } from '../server/listen.ts'
import { checkOrigin, makeToken, requireToken } from './access.ts'
import { addApi } from './api/api.ts'
import type { AdminContext, AdminFeature, ServerView } from './feature.ts'
import { addHealth } from './health.ts'
import { addMetrics } from './metrics.ts'

/** The features of the admin listener. */
const FEATURES: readonly AdminFeature[] = [addHealth, addMetrics, addApi, addConsole]

/** Time limit for open requests when the listener closes. */
const ADMIN_CLOSE_MS = 500

/** The admin listener. */
export interface Admin {
  /** The address: `http://127.0.0.1:9090`, or `unix:/run/admin.sock`. */
  readonly url: string
  /** Call this last, so that operators can watch the server shut down. */
  close(): Promise<void>
}

export interface AdminOptions {
  /** The option `admin`. */
  readonly address: string
  /** The token that requests must carry. */
  readonly token: string
  /** Limits of its connections. */
  readonly server: CheckedServerOptions
}

/**
 * Opens the admin listener. It has its own socket and app, separate from the listener of the routes.
 *
 * @throws {@link ListenError} if it cannot listen on the address.
 */
export async function openAdmin(
  { address, token, server: options }: AdminOptions,
  context: AdminContext,
): Promise<Admin> {
  const { log } = context
  const at = parseAdminAddress(address)
  if (!at.isLocal)
    log.warn({ admin: address }, 'the admin listener is reachable from other machines without encryption')

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
    }, ADMIN_CLOSE_MS)
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
    ajv: { customOptions: CHECK },
    // Fastify runs no hooks for a malformed URL.
    frameworkErrors: (error, request, reply) => sendAnyError(error, request, reply.headers(answerHeaders)),
  })
  app.log = log
  app.setErrorHandler(sendAnyError)
  app.setNotFoundHandler(({ method, url }) => {
    throw new RouteNotFoundError(method, url)
  })
  return app
}

/** The address of the admin listener. */
interface AdminAddress extends ListenAddress {
  /** Whether only programs on this machine can reach it. */
  readonly isLocal: boolean
}

/** Parses the option `admin`, which was validated. A port alone means the loopback interface. */
export function parseAdminAddress(text: string): AdminAddress {
  if (text.includes('/')) return { host: '', port: 0, socket: text, isLocal: true }
  const [, given = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(text) ?? []
  const host = given.replace(/^\[|\]$/g, '')
  return { host, port: Number(port), isLocal: isLoopbackName(host) }
}

function isLoopbackName(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d+){3}$/.test(host)
}

/** Headers of all answers: no caching, framing, type sniffing or loading of resources. A page may set its own policy. */
const answerHeaders = {
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

const FOLDER = new URL('console/', import.meta.url)

const CONSOLE_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Allows scripts, styles, the icon and requests of the same origin only. Text never becomes markup. */
const POLICY = `${answerHeaders['content-security-policy']}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; require-trusted-types-for 'script'`

/**
 * The console: a page at `/` and its files. They need no token, because a browser does not have one yet: the page sends
 * it with each API request.
 */
function addConsole(app: FastifyInstance): void {
  const config = { needsNoToken: true } as const
  for (const name of readdirSync(FOLDER)) {
    const type = CONSOLE_TYPES[extname(name)]
    if (type === undefined) continue
    const url = name === 'index.html' ? '/' : `/console/${name}`
    app.get(url, { config }, async (_request, reply) => {
      reply.headers({ 'content-type': type, 'content-security-policy': POLICY })
      return readFile(new URL(name, FOLDER))
    })
  }
}

/** The admin listener of a server. It opens before the server does. */
export interface StartedAdmin extends Pick<Admin, 'url'> {
  /** The token, if it was generated here: then it has to be shown to the operator. */
  readonly madeToken: string | undefined
  /** Attaches the running server. */
  show(server: ShownServer): void
  /** Marks the server as shutting down and not ready. */
  showEnd(): void
  /** Call this last, so that operators can watch the server shut down. */
  close(): Promise<void>
}

/** The running server. */
interface ShownServer {
  /** The URL for clients; undefined while the server does not listen. */
  readonly url: string | undefined
  /** The current routes. */
  readonly routes: readonly ServedRoute[]
  /** Applies changes. */
  readonly deployments?: Deployments | undefined
}

/** Data that an admin listener shows besides the server's. */
export interface AdminSources {
  readonly log: FastifyBaseLogger
  /** The call metrics. */
  readonly meters: Meters
  /** The last lines of the log. Default: none. */
  readonly lines?: RecentLines | undefined
  /** Masks secrets in answers. Default: no masking. */
  readonly secrets?: ServerView['secrets']
  readonly processes?: AdminContext['processes']
  readonly fleet?: AdminContext['fleet']
}

/**
 * Opens the admin listener if the options ask for one.
 *
 * @param address - The option `admin`.
 * @throws {@link ListenError} if it cannot listen on the address.
 */
export async function startAdmin(
  address: string,
  options: CheckedServerOptions,
  { log, meters, lines = new RecentLines(), secrets, processes, fleet }: AdminSources,
): Promise<StartedAdmin> {
  let shown: ShownServer = { url: undefined, routes: [] }
  let state: ServerView['state'] = 'starting'
  const served: ServerView = {
    get state() {
      return state
    },
    get url() {
      return shown.url
    },
    get routes() {
      return shown.routes
    },
    get deployments() {
      return shown.deployments
    },
    secrets,
    processes,
    fleet,
  }
  const madeToken = options.adminToken === undefined ? makeToken() : undefined
  const token = options.adminToken ?? madeToken ?? ''
  const admin = await openAdmin(
    { address, token, server: options },
    { served, meters, log, lines, options, processes, fleet },
  )
  return {
    url: admin.url,
    madeToken,
    close: () => admin.close(),
    show(server) {
      shown = server
      state = 'serving'
    },
    showEnd() {
      state = 'draining'
    },
  }
}
