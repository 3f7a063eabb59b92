/*
 * What the event loop tells the watchdog's thread. Which guest runs stands in shared memory, because two stores are
 * all that a call can pay; what to say of a guest goes by message, once.
 */

/** Places in the shared memory, an `Int32Array`. */
export const Slot = {
  /** Goes up each time a guest begins to run. */
  sequence: 0,
  /** The number of what runs; 0: nothing. */
  running: 1,
  /** The number of what may run before the event loop turns, in a promise's job; 0: nothing. */
  turn: 2,
  /** Not 0: the thread is to end. */
  end: 3,
} as const

export const SLOTS = 4

/** What a guest does that may not return. */
export interface WatchedRun {
  /** Above 0. */
  readonly number: number
  /** How long it may hold the event loop. */
  readonly stallMs: number
  /** What is logged if it does, without level and time. */
  readonly line: Readonly<Record<string, string | number>> & { readonly msg: string }
}

/** To the thread: watch this, or forget it. */
export type WatchdogMessage = { readonly watch: WatchedRun } | { readonly forget: number }
