import type { FastifyBaseLogger, FastifyInstance, FastifyListenOptions } from 'fastify'
import Fastify from 'fastify'
import type { CheckedServerOptions } from '../options/options.ts'
import { NO_SCHEMAS } from './app.ts'
import { listenAt, urlOf } from './listen.ts'
import { type AppServer, openServer } from './server.ts'

/** A Fastify app that stays the same while the app behind it is replaced. */
interface Front {
  readonly app: FastifyInstance
  readonly server: Pick<AppServer, 'replace'>
  /** The URL; undefined while it does not listen. */
  readonly url: string | undefined
}

/** Lifecycle of the app behind a front. */
export interface AppSource {
  /** The current app. */
  readonly app: FastifyInstance
  /** Called when the front begins to close: no replacements from now on. */
  end(): void
  /** Called when the sockets are closed. */
  close(): Promise<void>
}

/**
 * Opens a front. `listen()` uses the address in the options; with its own address it behaves like Fastify's. `close()`
 * closes the sockets without losing a request: see {@link AppServer.drain}.
 */
export async function openSwappableApp(
  options: CheckedServerOptions,
  behind: AppSource,
  log: FastifyBaseLogger,
): Promise<Front> {
  // The process may have other servers: their calls must not be ended here.
  const server = openServer(options, behind.app, log, () => undefined)
  const sockets = [server.http].values()
  const app = Fastify({
    serverFactory: () => sockets.next().value ?? server.addHttp(),
    clientErrorHandler: () => undefined, // handled by the HTTP server
    schemaController: NO_SCHEMAS,
  })
  app.log = log
  app.addHook('preClose', async () => {
    behind.end()
    await server.drain()
  })
  app.addHook('onClose', async () => {
    await server.closeApps()
    await behind.close()
  })
  const listen = app.listen.bind(app)
  const own = async () => {
    await app.ready()
    await listenAt(server.http, options, 'the option port')
    return urlOf(server.http, options.tls ? 'https' : 'http')
  }
  type Listening = (error: Error | null, address: string) => void
  Object.assign(app, {
    listen(address?: FastifyListenOptions | Listening, callback?: Listening) {
      const done = typeof address === 'function' ? address : callback
      const { port, host, path } = typeof address === 'object' ? address : {}
      const isOwn = [port, host, path].every((part) => part === undefined)
      const listening = isOwn ? own() : listen(typeof address === 'object' ? address : {})
      if (!done) return listening
      return void listening.then(
        (address) => done(null, address),
        (error) => done(error, ''),
      )
    },
    inject: (...asked: Parameters<FastifyInstance['inject']>) => behind.app.inject(...asked),
    routing: (...exchange: Parameters<FastifyInstance['routing']>) => behind.app.routing(...exchange),
    printRoutes: (...how: Parameters<FastifyInstance['printRoutes']>) => behind.app.printRoutes(...how),
    hasRoute: (...route: Parameters<FastifyInstance['hasRoute']>) => behind.app.hasRoute(...route),
    findRoute: (...route: Parameters<FastifyInstance['findRoute']>) => behind.app.findRoute(...route),
  })
  await app.ready()
  return {
    app,
    server,
    get url() {
      return server.http.listening ? urlOf(server.http, options.tls ? 'https' : 'http') : undefined
    },
  }
}
