import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { hasBody } from '../route/body.ts'
import { type Connections, requestProblem } from './http-server.ts'

/** The handshakes of a server. */
interface Upgrades {
  /** Routes upgrade requests to this app if it has WebSocket routes. */
  follow(app: FastifyInstance): void
}

/**
 * Passes WebSocket handshakes of a server to its app. Node gives a server that listens for them every request with the
 * header `Upgrade`, and does not read it further: so the server only listens while its app wants handshakes, and requests
 * that are none are read once more without the header, which a server may ignore. (RFC 9110, section 7.8)
 */
export function acceptUpgrades(server: Server, connections: Connections): Upgrades {
  let current: FastifyInstance | undefined
  const onUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on('error', () => socket.destroy()) // Node has removed its own listener
    const pass = () => {
      if (socket.destroyed) return
      if (isHandshake(request)) current?.server.emit('upgrade', request, socket, head)
      else readAgain(request, socket, head, server)
    }
    const newest = connections.get(socket)
    if (newest && !newest.writableFinished)
      newest.once('close', pass) // a client that pipelines
    else pass()
  }
  return {
    follow(app) {
      current = app
      server.off('upgrade', onUpgrade)
      if (app.server.listenerCount('upgrade') > 0) server.on('upgrade', onUpgrade)
    },
  }
}

/** All others get the answer that they would get from a server without WebSockets. */
function isHandshake(request: IncomingMessage): boolean {
  const { method, httpVersion, headers } = request
  return (
    method === 'GET' &&
    httpVersion === '1.1' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    !hasBody(request) &&
    requestProblem(request) === undefined
  )
}

/** Serves the connection as a new one, which begins with the request. */
function readAgain(request: IncomingMessage, socket: Socket, head: Buffer, server: Server): void {
  const { method, url, httpVersion, rawHeaders } = request
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`)
  const text = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  socket.unshift(Buffer.concat([text, head]))
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket)
}
