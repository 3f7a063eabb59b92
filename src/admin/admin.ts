import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { RecentLines } from '../observe/log/log.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { packageFile } from '../platform/packages.ts'
import { addApi } from './api/api.ts'
import { addStreamedCalls } from './api/streamed-calls.ts'
import type { AdminContext, AdminFeature, ServerView, ShownServer } from './feature.ts'
import { addHealth } from './health.ts'
import { answerHeaders, type OperatorListener, openListener, parseOperatorAddress } from './listener.ts'
import { addMetrics } from './metrics.ts'
import { openProbes } from './probes.ts'

/** The features of the admin listener. */
const FEATURES: readonly AdminFeature[] = [addHealth, addMetrics, addApi, addStreamedCalls, addConsole]

interface AdminOptions {
  /** The option `admin`. */
  readonly address: string
  /** The token that requests must carry. */
  readonly token: string
  /** Limits of its connections. */
  readonly server: CheckedServerOptions
}

/**
 * Opens the admin listener.
 *
 * @throws {@link ListenError} if it cannot listen on the address.
 */
export async function openAdmin(
  { address, token, server }: AdminOptions,
  context: AdminContext,
): Promise<OperatorListener> {
  const { log } = context
  const at = parseOperatorAddress(address)
  if (!at.isLocal)
    log.warn({ admin: address }, 'the admin listener is reachable from other machines without encryption')
  const hosts = at.socket === undefined ? [at.host, ...(server.adminHosts ?? [])] : undefined // browsers reach no Unix socket
  return openListener({ address: at, flag: '--admin', hosts, token, server, log }, (app) => {
    for (const addFeature of FEATURES) app.register(async (scope) => addFeature(scope, context))
  })
}

/** Sources serve the pages without their script, which is built. */
const FOLDER = packageFile(import.meta.url.endsWith('.ts') ? 'console/' : 'dist/console/')

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

/** The listeners for operators. They open before the server does. */
export interface StartedAdmin {
  /** The address of the admin listener; undefined without one. */
  readonly url: string | undefined
  /** The address of the listener for probes; undefined without one. */
  readonly probesUrl: string | undefined
  /** The token, if it was generated here: then it has to be shown to the operator. */
  readonly madeToken: string | undefined
  /** Attaches the running server. */
  show(server: ShownServer): void
  /** Marks the server as shutting down and not ready. */
  showEnd(): void
  /** Call this last, so that operators can watch the server shut down. */
  close(): Promise<void>
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
 * Opens the listeners that the options `admin` and `probes` ask for.
 *
 * @throws {@link ListenError} if one cannot listen on its address.
 */
export async function startAdmin(
  options: CheckedServerOptions,
  { log, meters, lines = new RecentLines(), secrets, processes, fleet }: AdminSources,
): Promise<StartedAdmin> {
  const served: { -readonly [Name in keyof ServerView]: ServerView[Name] } = {
    state: 'starting',
    server: { url: undefined, routes: [] },
    ...{ secrets, processes, fleet },
  }
  const context = { served, meters, log, lines, options, processes, fleet }
  const { admin: address, probes: probesAddress, adminToken } = options
  const madeToken = address !== undefined && adminToken === undefined ? makeToken() : undefined
  const token = adminToken ?? madeToken ?? ''
  const admin =
    address === undefined ? undefined : await openAdmin({ address, token, server: options }, context)
  let probes: OperatorListener | undefined
  const close = async () => {
    await Promise.all([admin?.close(), probes?.close()])
  }
  try {
    if (probesAddress !== undefined) probes = await openProbes(probesAddress, options, context)
  } catch (error) {
    await close()
    throw error
  }
  return {
    url: admin?.url,
    probesUrl: probes?.url,
    madeToken,
    close,
    show(server) {
      served.server = server
      served.state = 'serving'
    },
    showEnd() {
      served.state = 'draining'
    },
  }
}

/** Generates an unguessable token: 256 bits, in base64url. */
function makeToken(): string {
  return randomBytes(32).toString('base64url')
}
