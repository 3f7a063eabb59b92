import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import type { Connections } from './connections.ts'

/**
 * Cuts off clients that do not read their answers, which Node waits for without end. Looks at the connections from
 * time to time rather than at each answer: nothing is added to a request.
 *
 * @param timeoutMs - How long nothing may move on a connection that has bytes to send.
 */
export function cutUnread(
  server: Server,
  connections: Connections,
  timeoutMs: number,
  log: FastifyBaseLogger,
): void {
  const armed = new WeakSet<Socket>()

  const sweep = () => {
    for (const [socket, newest] of connections) {
      if (socket.writableLength > 0) {
        if (!armed.has(socket)) arm(socket)
      } else if (armed.delete(socket) && newest && !newest.writableFinished) {
        socket.setTimeout(0) // it is the guest who is slow now
      }
    }
  }

  /** Node's own socket timeout knows whether the kernel still takes bytes; Node's HTTP resets it after the answer. */
  const arm = (socket: Socket) => {
    armed.add(socket)
    socket.setTimeout(timeoutMs)
    log.debug({ bytes: socket.writableLength }, 'a client is slow to read its answer')
  }

  server.on('listening', () => {
    const timer = setInterval(sweep, Math.min(1_000, timeoutMs / 2)).unref() // sooner than what it arms
    server.once('close', () => clearInterval(timer))
  })
}
