import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** Stands between a client and a server, and breaks what is between them. */
export interface TcpProxy {
  readonly port: number
  /** Resets all connections, and refuses new ones. */
  cut(): void
  /** Keeps all connections open and accepts new ones, but transmits nothing. */
  silence(): void
  /** Transmits again, also what was held back. */
  heal(): void
  close(): Promise<void>
}

/** @param target - The port of the server, on this machine. */
export async function openProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  const waiting = new Set<Socket>()
  let state: 'open' | 'cut' | 'silent' = 'open'

  const join = (client: Socket) => {
    const server = connect(target, '127.0.0.1')
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(one)
      one.setNoDelay()
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.on('data', (chunk) => other.write(chunk))
      if (state === 'silent') one.pause()
    }
  }
  const listener = createServer((client) => {
    client.on('error', () => undefined)
    if (state === 'cut') client.resetAndDestroy()
    else if (state === 'open') join(client)
    else {
      waiting.add(client)
      client.once('close', () => waiting.delete(client))
    }
  }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const address = listener.address()
  if (typeof address !== 'object' || address === null) throw new Error('no port')
  const reset = () => {
    for (const socket of [...sockets, ...waiting]) socket.resetAndDestroy()
  }
  return {
    port: address.port,
    cut() {
      state = 'cut'
      reset()
    },
    silence() {
      state = 'silent'
      for (const socket of sockets) socket.pause()
    },
    heal() {
      state = 'open'
      for (const socket of sockets) socket.resume()
      for (const client of waiting) join(client)
      waiting.clear()
    },
    async close() {
      state = 'cut'
      reset()
      listener.close()
      await once(listener, 'close')
    },
  }
}
