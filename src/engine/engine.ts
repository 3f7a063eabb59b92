import type { Caller } from '../observe/observe.ts'
import type { EngineStats } from '../observe/stats.ts'
import type { PendingCall } from './pending-call.ts'

/** Where a plug-in's instances live: it schedules their calls and replaces an instance that failed. */
export interface Engine {
  readonly name: 'inline' | 'workers' | 'subprocess'

  /** For the operator: what is wrong with it at present; undefined if nothing is. */
  readonly trouble: string | undefined

  /** Put together each time. Goes on to tell what was done when it is closed. */
  readonly stats: EngineStats

  /** Settles when the first instance is open, or could not be opened. Calls may be made before. */
  readonly ready: Promise<void>

  /**
   * Runs one export of the guest. Calls may overlap: they wait their turn.
   *
   * @param input - Bytes for the guest, which belong to the engine from now on: nobody else may change them.
   * @returns What the guest produced, at once where nothing had to be waited for.
   * @throws {@link GuestError} if the guest said no, {@link GuestTrapError}, {@link GuestExitError} or
   * {@link OutputTooLargeError} if it failed (its instance is replaced), {@link QueueFullError} when `maxQueue`
   * calls wait, {@link EngineClosedError} after `close`, {@link InstanceStartError} if there is no instance and none
   * can be opened. With threads and processes also {@link DeadlineError}, {@link WorkerLostError}, {@link QueueSlowError},
   * {@link BreakerOpenError}, {@link ThreadsStuckError} and {@link ClientGoneError}.
   */
  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array> | PendingCall

  /** Takes no more calls, lets those that wait or run end, and closes the instances. */
  close(): Promise<void>
}
