import { once } from 'node:events'
import { lstatSync, unlinkSync } from 'node:fs'
import { connect, type Server } from 'node:net'

/** Bytes that the path of a socket may have on every system; what is longer, Node cuts off in silence. (unix(7)) */
const MAX_PATH = 103

/**
 * Listens on a Unix socket. The file of a server that ended without removing it is replaced; Node removes ours when the
 * server closes.
 *
 * @throws Error that says why it cannot be had.
 */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  if (Buffer.byteLength(path) > MAX_PATH) throw new Error(`its path is longer than ${MAX_PATH} bytes`)
  try {
    await listen(server, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    await removeStale(path)
    await listen(server, path)
  }
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen({ path })
  await once(server, 'listening')
}

/** Removes the file only if it is a socket and nobody listens there. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('there is a file that is no socket')
  const client = connect(path)
  try {
    await once(client, 'connect')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return
    if (code !== 'ECONNREFUSED') throw error
    unlinkSync(path)
    return
  } finally {
    client.destroy()
  }
  throw new Error('another server listens there')
}
