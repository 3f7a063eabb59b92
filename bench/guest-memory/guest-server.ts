import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startServer } from '../server-process.ts'

/** The built command with a guest, in its own process, so that its memory can be sampled. */
export interface GuestServer {
  readonly url: string
  memory(): Promise<GuestMemory>
  stop(): void
}

/** Linear memory of the guest: heap, stack and data. */
export interface GuestMemory {
  /** The memory of the current instance. */
  readonly bytes: number
  /** The most that one had so far. */
  readonly mostBytes: number
  /** Number of instances so far. */
  readonly instances: number
}

/**
 * Serves one function of a guest with the command's default settings.
 *
 * @param flags - And these.
 */
export async function startGuestServer(
  path: string,
  exportName: string,
  flags: readonly string[] = [],
): Promise<GuestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-memory-'))
  const socket = join(folder, 'probe')
  const probe = new URL('probe.js', import.meta.url)
  probe.searchParams.set('socket', socket)
  probe.searchParams.set('export', exportName)
  const server = await startServer({
    name: `${path}, ${exportName}`,
    command: [
      process.execPath,
      '--import',
      probe.href,
      'dist/cli.js',
      '--port',
      '0',
      ...flags,
      path,
      exportName,
    ],
    path: '/',
  })
  return {
    url: server.url,
    memory: async () => JSON.parse(await text(connect(socket))) as GuestMemory,
    stop() {
      server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
