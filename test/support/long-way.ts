import { EventEmitter, once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

/** A proxy in front of a server of the loopback interface. */
export interface LongWay {
  readonly port: number
  /** Resolves when the server has sent something. */
  readonly answered: Promise<unknown>
  /** Lets pass what {@link LongWayOptions.holdAfter} holds back, and all that follows. */
  release(): void
}

export interface LongWayOptions {
  /** Time that bytes take in each direction, in milliseconds. */
  readonly delayMs?: number
  /** Number of pieces of a client that pass; the others are held back. Default: all pass. */
  readonly holdAfter?: number
}

/** Opens a way that takes time; closed when the test ends. */
export async function openLongWay(
  target: number,
  { delayMs = 0, holdAfter = Number.POSITIVE_INFINITY }: LongWayOptions,
): Promise<LongWay> {
  const news = new EventEmitter()
  const released = once(news, 'release')
  const pass = (from: Socket, to: Socket, held: number) => {
    let pieces = 0
    const wait = async () => {
      await (delayMs > 0 ? sleep(delayMs) : undefined)
      if (++pieces > held) await released
    }
    let last = Promise.resolve()
    from.on('data', (bytes) => {
      const arrived = wait()
      last = last.then(() => arrived).then(() => void (to.writable && to.write(bytes)))
    })
    from.on('close', () => void last.then(wait).then(() => to.end()))
    from.on('error', () => undefined) // a reset is a way of closing
  }
  const sockets: Socket[] = []
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    sockets.push(client, upstream)
    upstream.once('data', () => news.emit('answer'))
    pass(client, upstream, holdAfter)
    pass(upstream, client, Number.POSITIVE_INFINITY)
  })
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    answered: once(news, 'answer'),
    release: () => void news.emit('release'),
  }
}
