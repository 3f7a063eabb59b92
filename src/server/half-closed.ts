import type { Server } from 'node:http'
import type { Connections } from './connections.ts'

/** How often clients that sent FIN are looked for. It takes two probes: the system refuses what follows the first. */
const PROBE_MS = 1_000

/**
 * Answers clients that end their side of the connection after their request, such as `nc -N`, also when the answer
 * takes its time. Node would close the connection, unless the answer was given at once.
 *
 * A client that has left altogether looks the same. While such a request has no answer, it is sent `102 Processing`,
 * which each client of HTTP/1.1 skips (RFC 9110, section 15.2), and which the system of one that has left refuses: the
 * connection is then destroyed, and a call that waits for an instance is not run.
 *
 * @param probeMs - At most this long between two probes.
 */
export function answerHalfClosed(server: Server, connections: Connections, probeMs: number): void {
  Object.assign(server, { httpAllowHalfOpen: true }) // Node's own, in both of its servers, and in no document

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
