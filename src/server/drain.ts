import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as NetServer, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { breakOff, deferIdleClose } from '../platform/node-workarounds.ts'
import type { Connections } from './connections.ts'
import type { RequestHandler } from './http-server.ts'
import type { Http2 } from './http2.ts'
import { isOver } from './node-response.ts'

/** The listener closes when no connection was opened for this long... */
const QUIET_MS = 20

/** ...or at the first opportunity after this long. */
const MAX_HOLD_MS = 250

/** Interval at which unused connections are closed after the listener has closed. */
const SWEEP_MS = 20

/** Time for a new connection to start a request after the listener has closed. A busy client may take a while after it has connected. */
const FIRST_REQUEST_MS = 1_000

/** Time for the last answers to be transmitted. */
const LAST_ANSWERS_MS = 100

export interface DrainOptions {
  readonly drainMs: number
  readonly graceMs: number
}

/** A server, its connections, and its HTTP/2 part. */
interface DrainTarget {
  readonly server: Server
  readonly connections: Connections
  readonly http2: Http2 | undefined
  /** Waits until no connection is about to arrive. Default: none has been opened for a while. */
  quiet?(): Promise<void>
}

/** Closes a server without resetting a connection that has carried a request. It wraps the app's request handler. */
export class Drain {
  readonly #handler: RequestHandler
  /** The last response of each connection. Set when the drain begins. */
  #last: WeakMap<Socket, ServerResponse> | undefined
  /** Requests answered after the listener has closed. */
  #held: [IncomingMessage, ServerResponse][] | undefined

  constructor(handler: RequestHandler) {
    this.#handler = handler
  }

  /** The handler for the HTTP server. */
  readonly handle: RequestHandler = (request, response) => {
    if (this.#last && request.httpVersionMajor === 1) makeLast(response, this.#last)
    if (this.#held) this.#held.push([request, response])
    else this.#handler(request, response)
  }

  /**
   * Resolves when the last connection has ended.
   *
   * @param endCalls - Ends calls that still run after `graceMs`: their clients get an error.
   * @returns the number of connections that were cut off after `graceMs`.
   */
  async run(
    { server, connections, http2, quiet = () => quietListener(server) }: DrainTarget,
    { drainMs, graceMs }: DrainOptions,
    endCalls: () => void,
  ): Promise<number> {
    this.#last = new WeakMap()
    http2?.announceEnd()
    for (const response of connections.values()) if (response) makeLast(response, this.#last)
    await sleep(drainMs)

    // Connections that the kernel has accepted and Node has not are reset when the listener closes. Clients that get
    // no answer open no new ones: hold the answers back until all have arrived.
    this.#held = []
    await quiet()
    const closeIdle = deferIdleClose(server)
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    const held = this.#held
    this.#held = undefined
    for (const [request, response] of held) this.#handler(request, response)
    http2?.end()

    const closedAt = performance.now()
    const sweep = () => {
      for (const response of connections.values()) if (response && !isOver(response)) return
      closeIdle()
      // Browsers open connections that they may never use.
      if (performance.now() - closedAt < FIRST_REQUEST_MS) return
      for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy()
    }
    // Right after the event loop has read pending data, so that an arrived request is seen.
    const sweeping = setInterval(() => setImmediate(sweep), SWEEP_MS)
    let cut = 0
    const grace = setTimeout(async () => {
      cut = connections.size
      endCalls()
      await sleep(LAST_ANSWERS_MS)
      for (const [socket, newest] of connections) breakOff(socket, newest) // includes TLS handshakes, which Node does not track
    }, graceMs)
    await closed
    clearInterval(sweeping)
    clearTimeout(grace)
    return cut
  }
}

/** Closes the connection after this response, not after an earlier one of a pipelining client. */
function makeLast(response: ServerResponse, last: WeakMap<Socket, ServerResponse>): void {
  if (response.headersSent) return
  const { socket } = response.req
  const before = last.get(socket)
  if (before && !before.headersSent) before.shouldKeepAlive = true
  response.shouldKeepAlive = false
  last.set(socket, response)
}

/** Waits until no connection was opened for a while, and returns when none can be waiting to be accepted. */
export async function quietListener(server: NetServer): Promise<void> {
  let opened = 0
  const onConnection = () => {
    opened++
  }
  server.on('connection', onConnection)
  const begun = performance.now()
  for (let before = -1; opened !== before && performance.now() - begun < 2 * MAX_HOLD_MS; ) {
    before = opened
    if (performance.now() - begun < MAX_HOLD_MS) await sleep(QUIET_MS)
    await new Promise(setImmediate) // right after the event loop has accepted connections
  }
  server.off('connection', onConnection)
}
