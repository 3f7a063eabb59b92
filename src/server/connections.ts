import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { breakOff, bytesTaken, closeAfterRequest, keepRecordsOfPaused } from '../platform/node-workarounds.ts'
import { isOver } from './node-response.ts'

/*
 * The connections of a server, and limits for clients that do not read, are gone, or take much memory. All of them poll,
 * so that requests have no overhead.
 */

/** The open connections of a server, each with its latest response if it has carried a request. */
export type Connections = Map<Socket, ServerResponse | undefined>

/** Tracks the connections of a server. The request listener records each response. */
export function trackConnections(server: Server): Connections {
  const connections: Connections = new Map()
  server.on('connection', (socket: Socket) => add(connections, socket))
  return connections
}

/**
 * The same for TLS, where requests arrive on a TLS socket and not on the accepted one. The accepted socket is tracked
 * until the handshake is complete.
 */
export function trackTlsConnections(server: Server): Connections {
  keepRecordsOfPaused(server)
  const connections: Connections = new Map()
  const accepted = new Map<string, Socket>()
  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket)
    add(connections, socket)
    accepted.set(peer, socket)
    socket.once('close', () => {
      if (accepted.get(peer) === socket) accepted.delete(peer)
    })
  })
  server.on('secureConnection', (socket: Socket) => {
    const before = accepted.get(peerOf(socket))
    if (before) connections.delete(before)
    add(connections, socket)
  })
  return connections
}

function add(connections: Connections, socket: Socket): void {
  connections.set(socket, undefined)
  closeAfterRequest(socket, () => connections.get(socket)?.req)
  socket.once('close', () => connections.delete(socket))
}

/** Names a peer, which has one connection at a time. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

/** Node closes connections beyond the limit. One log line per second has their number. */
export function logDrops(server: Server, limit: number, log: FastifyBaseLogger): void {
  let dropped = 0
  server.on('drop', () => {
    if (dropped++ > 0) return
    setTimeout(() => {
      log.warn({ dropped, limit }, 'connections beyond the limit were closed')
      dropped = 0
    }, 1_000).unref()
  })
}

/** How often half-closed clients are probed. It takes two probes: the system rejects data after the first. */
const PROBE_MS = 1_000

/**
 * Answers clients that close their side of the connection after their request, such as `nc -N`, even if the answer
 * takes time. Node would close the connection unless the answer was sent immediately.
 *
 * A client that is gone looks the same. So while a request has no answer, the server sends `102 Processing`, which
 * HTTP/1.1 clients skip (RFC 9110, section 15.2). The system of a client that is gone rejects it: the connection is then
 * destroyed, and a call that waits for an instance is not run.
 *
 * @param probeMs - Maximum interval between two probes.
 */
export function answerHalfClosed(server: Server, connections: Connections, probeMs: number): void {
  Object.assign(server, { httpAllowHalfOpen: true }) // an undocumented property of Node's http and https servers

  const probe = () => {
    for (const [socket, newest] of connections) {
      const isWaiting = newest?.socket === socket && !newest.headersSent && newest.req.httpVersion === '1.1'
      if (isWaiting && socket.readableEnded && socket.writable) newest.writeProcessing()
    }
  }
  server.on('listening', () => {
    const timer = setInterval(probe, Math.min(PROBE_MS, probeMs)).unref()
    server.once('close', () => clearInterval(timer))
  })
}

/**
 * Closes connections of clients that do not read their answers; Node would wait forever.
 *
 * @param timeoutMs - Maximum time without progress on a connection that has bytes to send.
 */
export function cutUnread(
  server: Server,
  connections: Connections,
  timeoutMs: number,
  log: FastifyBaseLogger,
): void {
  const behind = new WeakMap<Socket, { taken: number; since: number }>()

  const sweep = () => {
    const now = performance.now()
    for (const [socket, newest] of connections) {
      if (socket.writableLength === 0) {
        behind.delete(socket)
        continue
      }
      const taken = bytesTaken(socket)
      const last = behind.get(socket)
      if (!last) log.debug({ bytes: socket.writableLength }, 'a client reads its response slowly')
      if (last?.taken !== taken) behind.set(socket, { taken, since: now })
      else if (now - last.since >= timeoutMs) breakOff(socket, newest)
    }
  }

  server.on('listening', () => {
    // After the event loop has written: it may have been blocked.
    const timer = setInterval(() => setImmediate(sweep), Math.min(1_000, timeoutMs / 2)).unref()
    server.once('close', () => clearInterval(timer))
  })
}

/** A connection with requests that have not ended. */
export interface BusyConnection {
  /** Memory that it takes: what its client has not read, what nobody has read of its client, and its requests. */
  readonly bytes: number
  end(): void
}

/** Responses that have to wait for their client to read an earlier one. Each entry lasts until a sweep and becomes old. */
export class Pipelined {
  readonly #ofSockets = new WeakMap<Socket, ServerResponse[]>()

  /** @param response - Another one of its connection follows. */
  add(response: ServerResponse): void {
    // Whether the connection has all of it. With TLS, its client has often read it before it is finished.
    if (response.writableFinished || (response.writableEnded && response.socket !== null)) return
    const { socket } = response.req
    const others = this.#ofSockets.get(socket)
    if (others) others.push(response)
    else this.#ofSockets.set(socket, [response])
  }

  /** The responses of a connection that have not ended, without the last one. */
  of(socket: Socket): readonly ServerResponse[] {
    const all = this.#ofSockets.get(socket)
    if (!all) return []
    const left = all.filter((response) => !isOver(response))
    this.#ofSockets.set(socket, left)
    return left
  }
}

/** Those of HTTP/1. */
export function* busyOf(connections: Connections, pipelined: Pipelined): Generator<BusyConnection> {
  for (const [socket, newest] of connections) {
    if (!newest) continue
    let bytes = socket.writableLength + socket.readableLength
    for (const response of [...pipelined.of(socket), newest]) {
      if (isOver(response)) continue
      bytes += REQUEST_BYTES + response.req.readableLength
      if (!response.socket) bytes += response.writableLength // it waits for an earlier one
    }
    if (bytes > 0) yield { bytes, end: () => breakOff(socket, newest) }
  }
}

/** Default maximum. */
const MAX_BYTES = 2 ** 30

/** Interval between two sweeps. A guest makes some 100 MiB of answers in this time. */
const SWEEP_MS = 100

/** A sweep of many requests waits longer for the next one, so that sweeps take a twentieth of the time. */
const SHARE = 20

/** Memory of a request that waits, without its body and its headers. */
export const REQUEST_BYTES = 8_192

/**
 * Limits the memory that clients take by not reading their answers, or with bodies that nobody reads. Beyond the limit the
 * connections that take most are ended: an attacker has to use as many as the server permits to affect others.
 *
 * @param busy - The connections at this moment.
 */
export function limitUnread(
  server: Server,
  busy: () => Iterable<BusyConnection>,
  log: FastifyBaseLogger,
  max: number = MAX_BYTES,
): void {
  const sweep = () => {
    const connections = [...busy()]
    let bytes = connections.reduce((sum, connection) => sum + connection.bytes, 0)
    if (bytes <= max) return
    connections.sort((one, other) => other.bytes - one.bytes)
    let ended = 0
    for (const connection of connections) {
      if (bytes <= max) break
      bytes -= connection.bytes
      connection.end()
      ended++
    }
    log.warn(
      { ended, limit: max },
      'connections that took the most memory were closed: their clients did not read',
    )
  }
  server.on('listening', () => {
    let timer: NodeJS.Timeout
    const next = (ms: number) => {
      timer = setTimeout(() => {
        const begun = performance.now()
        sweep()
        next(Math.max(SWEEP_MS, SHARE * (performance.now() - begun)))
      }, ms).unref()
    }
    next(SWEEP_MS)
    server.once('close', () => clearTimeout(timer))
  })
}
