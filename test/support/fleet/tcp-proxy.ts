import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Stands between a client and a server, and breaks what is between them. */
export interface TcpProxy {
  readonly port: number
  /** Resets all connections, and refuses new ones. */
  cut(): void
  /** Keeps all connections open and accepts new ones, but transmits nothing. */
  silence(): void
  /** Transmits everything late. */
  delay(): void
  /** Ends all connections in the direction to the client only, and new ones. */
  halfClose(): void
  /** Transmits again, also what was held back. */
  heal(): void
  close(): Promise<void>
}

/** How late each piece is. */
const DELAY_MS = 700

/** @param target - The port of the server, on this machine. */
export async function openProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  const waiting = new Set<Socket>()
  let state: 'open' | 'cut' | 'silent' | 'late' | 'half' = 'open'

  const join = (client: Socket) => {
    const server = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true })
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
      let order = Promise.resolve()
      const pass = (then: () => void) => {
        order = order.then(() => (state === 'late' ? sleep(DELAY_MS) : undefined)).then(then)
      }
      one.on('data', (chunk) => pass(() => other.writable && other.write(chunk)))
      one.on('end', () => pass(() => other.end()))
      if (state === 'silent') one.pause()
    }
    if (state === 'half') client.end()
  }
  const clients = new Set<Socket>()
  const listener = createServer({ allowHalfOpen: true }, (client) => {
    client.on('error', () => undefined)
    clients.add(client)
    client.once('close', () => clients.delete(client))
    if (state === 'cut') client.resetAndDestroy()
    else if (state !== 'silent') join(client)
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
    delay() {
      state = 'late'
    },
    halfClose() {
      state = 'half'
      for (const client of clients) client.end()
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
