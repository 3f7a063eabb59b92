import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A server's open connections, each with its newest response, if it ever carried a request. */
export type Connections = Map<Socket, ServerResponse | undefined>

/** Keeps account of a server's connections; the request listener enters each response. */
export function trackConnections(server: Server): Connections {
  const connections: Connections = new Map()
  server.on('connection', (socket: Socket) => add(connections, socket))
  return connections
}

/**
 * The same for TLS, whose requests come on another socket than the one that was accepted: that one is here until they
 * have shaken hands.
 */
export function trackTlsConnections(server: Server): Connections {
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
  socket.once('close', () => connections.delete(socket))
}

/** One of them has one connection at a time. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
