import { createServer, type Socket } from 'node:net'
import { quietListener } from '../../server/drain.ts'
import { type ListenAddress, listenAt, urlOf } from '../../server/listen.ts'

/** How long the end waits for a process to take one of the last connections. */
const LAST_MS = 500

/** How long a process without a descriptor gets no connection if there is another one. */
const SHORT_MS = 5_000

/** A serving process, as far as it gets connections. */
export interface ConnectionTaker {
  /** The number of its open connections, as far as known. */
  readonly connections: number
  /**
   * Hands a connection over. The own end stays open.
   *
   * @returns false if it did not arrive: the process has no descriptor for it.
   * @throws if the process ends before it has taken it.
   */
  take(socket: Socket): Promise<boolean>
}

/** Accepts connections and hands them to serving processes. */
export interface ConnectionListener {
  readonly url: string
  /** Begins to give connections to the process. */
  add(taker: ConnectionTaker): void
  /** Stops giving connections to the process. */
  remove(taker: ConnectionTaker): void
  /** Waits until no connection is about to arrive, stops listening, and hands over the last ones, if they are taken. */
  end(): Promise<void>
}

/** The address of a listener, and its limit. */
interface ListenerOptions extends ListenAddress {
  readonly tls?: object | undefined
  readonly maxConnections: number
}

/**
 * Listens for serving processes. A connection goes to the process with the fewest, which reads and writes it from then
 * on. A process gets one at a time: one that does not turn its event loop holds up at most one, which goes to another
 * process if it ends. The port never refuses: while no process serves, connections wait.
 *
 * Node's `cluster` distributes them as evenly, but closes the port with the last process, and forgets a connection that
 * a process had not taken when it died. A socket that all processes accept from (`SCHED_NONE`) is uneven: of 400
 * connections, four processes got 153, 151, 65 and 31; here 103, 102, 98 and 97. `SO_REUSEPORT` resets the connections
 * that wait for a process that dies.
 *
 * @throws `ListenError`
 */
export async function listenForProcesses(options: ListenerOptions): Promise<ConnectionListener> {
  const takers = new Set<ConnectionTaker>()
  const busy = new Set<ConnectionTaker>()
  /** Those that had no descriptor for a connection. */
  const short = new Set<ConnectionTaker>()
  const waiting: Socket[] = []
  let settled: () => void = () => undefined
  let patience: NodeJS.Timeout | undefined

  const server = createServer({ pauseOnConnect: true })
  server.maxConnections = options.maxConnections
  server.on('connection', (socket) => {
    socket.on('error', () => socket.destroy())
    waiting.push(socket)
    distribute()
  })

  const able = () => {
    if (short.size === 0) return takers
    const others = [...takers].filter((taker) => !short.has(taker))
    return others.length > 0 ? others : takers
  }

  const distribute = () => {
    while (waiting.length > 0) {
      const taker = leastLoaded(able(), busy)
      const socket = taker && waiting.shift()
      if (!socket) break
      busy.add(taker)
      void hand(taker, socket)
    }
    if (busy.size === 0 && (waiting.length === 0 || takers.size === 0)) settled()
  }

  const hand = async (taker: ConnectionTaker, socket: Socket) => {
    try {
      if (await taker.take(socket))
        socket.destroy() // the process has its own end
      else {
        waiting.unshift(socket)
        passOver(taker)
      }
    } catch {
      takers.delete(taker)
      waiting.unshift(socket)
    }
    busy.delete(taker)
    patience?.refresh()
    distribute()
  }

  const passOver = (taker: ConnectionTaker) => {
    short.add(taker)
    const end = () => {
      short.delete(taker)
      distribute()
    }
    setTimeout(end, SHORT_MS).unref()
  }

  await listenAt(server, options, '--port')
  return {
    url: urlOf(server, options.tls ? 'https' : 'http'),
    add(taker) {
      takers.add(taker)
      distribute()
    },
    remove: (taker) => void takers.delete(taker),
    async end() {
      await quietListener(server)
      server.close()
      if (takers.size > 0 && waiting.length + busy.size > 0)
        await new Promise<void>((resolve) => {
          settled = resolve
          patience = setTimeout(resolve, LAST_MS)
        })
      clearTimeout(patience)
      for (const socket of waiting) socket.destroy()
    },
  }
}

function leastLoaded(
  takers: Iterable<ConnectionTaker>,
  busy: ReadonlySet<ConnectionTaker>,
): ConnectionTaker | undefined {
  let least: ConnectionTaker | undefined
  for (const taker of takers) {
    if (!busy.has(taker) && (!least || taker.connections < least.connections)) least = taker
  }
  return least
}
