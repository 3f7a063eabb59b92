import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A server's open connections, each with its newest response, if it ever carried a request. */
export type Connections = Map<Socket, ServerResponse | undefined>

/** Keeps account of a server's connections; the request listener enters each response. */
export function trackConnections(server: Server): Connections {
  const connections: Connections = new Map()
  server.on('connection', (socket: Socket) => {
    connections.set(socket, undefined)
    socket.once('close', () => connections.delete(socket))
  })
  return connections
}
