import { onTestFinished } from 'vitest'
import type { ServerOptions } from '../../src/options/options.ts'
import { forkServer, type ServerProcess } from './fork-server.ts'

export type { ProcessResources, ServerProcess } from './fork-server.ts'

/** Starts a server in a new process; killed when the test ends. */
export function startServerProcess(options: ServerOptions): Promise<ServerProcess> {
  const { child, started } = forkServer(options)
  onTestFinished(() => void child.kill('SIGKILL'))
  return started
}
