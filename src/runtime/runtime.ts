import type { Log } from '../guest-log.ts'
import type { Plugin } from '../plugin.ts'

/** What joins a guest and its host: it opens instances of plug-ins. */
export interface Runtime {
  readonly name: 'sdk'

  /**
   * Opens one live copy of a plug-in: links it, runs its start function and what initialises its language.
   *
   * @throws {@link InstanceStartError} if it cannot be linked, or traps while it starts.
   */
  open(plugin: Plugin, settings: InstanceSettings): Promise<Instance>
}

/** What an instance may use, and how much of it. */
export interface InstanceSettings {
  /** What the guest reads with `config_get`. */
  readonly config: Readonly<Record<string, string>>
  readonly wasi: boolean
  /** Most bytes that a call may produce. */
  readonly outputLimit: number
  /** Takes what the guest logs while no call is running. */
  readonly log: Log
}

/** One live copy of a plug-in. Its memory, globals and vars stay from call to call. */
export interface Instance {
  /**
   * Runs one export of the guest. Calls must not overlap: whoever owns the instance queues them.
   *
   * @param input - Copied: the guest never sees the caller's memory.
   * @param log - Takes what the guest logs during the call.
   * @returns What the guest produced, empty if nothing; at once where the runtime need not wait. It stays as it is
   * when the next call begins.
   * @throws {@link GuestError} if the guest said no; the instance goes on. After any other error it must be closed:
   * traps leave guests half-way through what they did.
   */
  call(exportName: string, input: Uint8Array, log: Log): Uint8Array | Promise<Uint8Array>

  close(): Promise<void>
}
