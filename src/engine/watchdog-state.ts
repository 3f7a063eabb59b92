/*
 * The protocol between the event loop and the watchdog's thread. The running guest is written to shared memory, because a
 * call must cost no more than two stores; the log line of a guest is sent once, by message.
 */

/** Places in the shared memory, an `Int32Array`. */
export const Slot = {
  /** Incremented each time a guest starts to run. */
  sequence: 0,
  /** The number of the current run; 0: none. */
  running: 1,
  /** The number of the run that may continue in a promise job before the event loop turns; 0: none. */
  turn: 2,
  /** Not 0: the thread has to end. */
  end: 3,
} as const

export const SLOTS = 4

/** A run of a guest that may not return. */
export interface WatchedRun {
  /** Above 0. */
  readonly number: number
  /** How long it may block the event loop. */
  readonly stallMs: number
  /** The log line for a stall, without level and time. */
  readonly line: Readonly<Record<string, string | number>> & { readonly msg: string }
}

/** To the thread: start or stop watching a guest. */
export type WatchdogMessage = { readonly watch: WatchedRun } | { readonly forget: number }
