import { once } from 'node:events'
import { lstatSync, statSync, unlinkSync } from 'node:fs'
import { type AddressInfo, connect, type Server } from 'node:net'
import { dirname, resolve } from 'node:path'
import { platform, versions } from 'node:process'
import { ListenError } from '../errors/errors.ts'
import { errorCode, explainLimit } from '../platform/system-errors.ts'

/** A network address, or the path of a Unix socket. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
  readonly socket?: string | undefined
  /** Whether other processes of the same user may listen on the port too (SO_REUSEPORT). The system distributes connections. */
  readonly reusePort?: boolean | undefined
}

/**
 * Listens.
 *
 * @param flag - The command-line flag that selects another port.
 * @throws {@link ListenError} with the reason.
 */
export async function listenAt(
  server: Server,
  { host, port, socket, reusePort = false }: ListenAddress,
  flag: string,
): Promise<void> {
  try {
    if (socket !== undefined) return await listenOnSocket(server, resolve(socket))
    if (reusePort && !canReusePort()) throw new Error('reusePort needs Node.js 22.12 or later')
    server.listen({ host, port, reusePort })
    await once(server, 'listening')
  } catch (error) {
    throw new ListenError(socket ?? `${host}:${port}`, listenProblem(error, flag, socket), {
      cause: error,
    })
  }
}

/** Older versions ignore the option. 23.0 is older than 22.12. (https://nodejs.org/api/net.html#serverlistenoptions-callback) */
function canReusePort(): boolean {
  const [major = 0, minor = 0] = versions.node.split('.').map(Number)
  return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12)
}

function listenProblem(error: unknown, flag: string, socket: string | undefined): string {
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return `the port is in use; choose another with ${flag}, or 0 for a free one`
    case 'EACCES':
      return socket === undefined
        ? 'no permission: ports below 1024 need root'
        : folderProblem(dirname(resolve(socket)))
    case 'ENOTSUP':
      return 'this system cannot share a port (reusePort)'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'this name does not resolve to an address; try 127.0.0.1, or 0.0.0.0 for all'
    case 'EADDRNOTAVAIL':
      return 'this machine has no such address; try 127.0.0.1, or 0.0.0.0 for all'
    default:
      return explainLimit(error) ?? (error instanceof Error ? error.message : String(error))
  }
}

/** The system says of a missing folder, too, that it permits no socket. */
function folderProblem(folder: string): string {
  const found = statSync(folder, { throwIfNoEntry: false })
  if (!found) return `the folder ${folder} does not exist: create it first`
  return `no permission to write to ${folder}, or to the file in it`
}

/** The URL of a listening server: `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`. */
export function urlOf(server: Server, scheme: string): string {
  const address = server.address() as AddressInfo | string
  return typeof address === 'string' ? `unix:${address}` : urlOfPort(address, scheme)
}

function urlOfPort({ address, family, port }: AddressInfo, scheme: string): string {
  return `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

/** The longest socket path that all systems accept, in bytes. Node truncates longer paths silently. (unix(7)) */
const MAX_PATH = 103

/**
 * Listens on a Unix socket. Replaces the stale file of a server that did not remove it. Node removes the file when the
 * server closes.
 *
 * @throws Error with the reason.
 */
async function listenOnSocket(server: Server, path: string): Promise<void> {
  if (platform === 'win32' && !path.startsWith('\\\\'))
    throw new Error(
      'Windows has no Unix sockets: use --port, or the name of a pipe, such as \\\\.\\pipe\\wasm-serve',
    )
  if (Buffer.byteLength(path) > MAX_PATH) throw new Error(`its path is longer than ${MAX_PATH} bytes`)
  try {
    await listen(server, path)
  } catch (error) {
    if (errorCode(error) !== 'EADDRINUSE') throw error
    await removeStale(path)
    await listen(server, path)
  }
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen({ path })
  await once(server, 'listening')
}

/** Removes the file only if it is a socket without a listener. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('the file exists and is not a socket')
  const client = connect(path)
  try {
    await once(client, 'connect')
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT') return
    if (code !== 'ECONNREFUSED') throw error
    unlinkSync(path)
    return
  } finally {
    client.destroy()
  }
  throw new Error('another server listens there')
}
