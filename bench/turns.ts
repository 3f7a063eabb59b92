import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The flags of Node.js that make a server, which was started with `ipc`, measure the turns of its event loop. */
export const PROBE_FLAGS = ['--import', fileURLToPath(new URL('loop-probe.mjs', import.meta.url))] as const

/** The longest turns of an event loop since the last report of `loop-probe.mjs`, in ms. */
export interface Turns {
  readonly turnMs: number
  /** Without the time in which its thread was ready to run and had no core. */
  readonly heldMs: number
  /** CPU time of the turn that used most. */
  readonly cpuMs: number
}

/** Never settles if the server does not answer. */
export async function longestTurns(server: ChildProcess): Promise<Turns> {
  const answered = once(server, 'message')
  server.send('loop')
  const [turns] = await answered
  return turns as Turns
}
