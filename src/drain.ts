import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Connections } from './connections.ts'
import type { RequestHandler } from './http-server.ts'

/** The listener closes once no connection was opened for this long... */
const QUIET_MS = 20

/** ...or after this long. */
const MAX_HOLD_MS = 250

export interface DrainOptions {
  readonly drainMs: number
  readonly graceMs: number
}

/** Stands between the sockets and the app, and ends a server without resetting a connection that carried a request. */
export class Drain {
  readonly #handler: RequestHandler
  #draining = false
  /** Requests that are answered once the listener is closed. */
  #held: [IncomingMessage, ServerResponse][] | undefined

  constructor(handler: RequestHandler) {
    this.#handler = handler
  }

  /** To be given to the HTTP server. */
  readonly handle: RequestHandler = (request, response) => {
    if (this.#draining) response.shouldKeepAlive = false
    if (this.#held) this.#held.push([request, response])
    else this.#handler(request, response)
  }

  /** Ends when the last connection has. */
  async run(server: Server, connections: Connections, { drainMs, graceMs }: DrainOptions): Promise<void> {
    this.#draining = true
    for (const response of connections.values()) {
      if (response && !response.headersSent) response.shouldKeepAlive = false
    }
    await sleep(drainMs)

    // Connections that the kernel has accepted and Node has not are reset when the listener closes. Clients that get
    // no answer open no new ones: hold the answers back until all have arrived.
    this.#held = []
    await quiet(server)
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    const held = this.#held
    this.#held = undefined
    for (const [request, response] of held) this.#handler(request, response)

    // Browsers open connections that they may never use; Node would wait for them.
    const silent = setTimeout(() => {
      for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy()
    }, drainMs)
    const grace = setTimeout(() => server.closeAllConnections(), graceMs)
    await closed
    clearTimeout(silent)
    clearTimeout(grace)
  }
}

/** Waits until no connection has been opened for a while. */
function quiet(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(atLast)
      server.off('connection', onConnection)
      setImmediate(resolve) // right after the event loop has looked for connections
    }
    let timer = setTimeout(done, QUIET_MS)
    const atLast = setTimeout(() => {
      clearTimeout(timer)
      done()
    }, MAX_HOLD_MS)
    const onConnection = () => {
      clearTimeout(timer)
      timer = setTimeout(done, QUIET_MS)
    }
    server.on('connection', onConnection)
  })
}
