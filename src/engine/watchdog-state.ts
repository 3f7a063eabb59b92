/*
 * The protocol between the event loop and the watchdog's thread. The running guest is written to shared memory, because a
 * call must cost no more than two stores; the log line of a guest is sent once, by message.
 */

/** Places in the shared memory, an `Int32Array`. */
export const Word = {
  /** Incremented each time a guest starts to run. */
  sequence: 0,
  /** The number of the current run; 0: none. */
  running: 1,
  /** The number of the run that may continue in a promise job before the event loop turns; 0: none. */
  turn: 2,
  /** Other than 0 if the thread has to end. */
  end: 3,
} as const

export const WORDS = 4

/** A guest on the event loop, as the log names it. */
export interface NamedGuest {
  /** The plug-in's name. */
  readonly plugin: string
  readonly function: string
  /** URL of the route. */
  readonly route: string
  /** How long it may block the event loop. */
  readonly stallMs: number
}

/** A guest that may not return. */
export interface NumberedGuest extends NamedGuest {
  /** At least 1. Start and calls have numbers of their own: see {@link startOf} and {@link callOf}. */
  readonly number: number
}

/** The number of a guest's start. */
export const startOf = (guest: number) => 2 * guest

/** The number of a guest's calls. */
export const callOf = (guest: number) => 2 * guest + 1

/** The guest of a number, and whether it is that of its start. */
export function whatRuns(number: number): { readonly guest: number; readonly isStart: boolean } {
  return { guest: number >> 1, isStart: number % 2 === 0 }
}

/** The process that started this one. */
export interface WatchedParent {
  readonly pid: number
  /** How long this process may live without it, in milliseconds. */
  readonly limitMs: number
}

/** A message to the thread: start or stop watching a guest, or watch the parent. */
export type WatchdogMessage =
  | { readonly watch: NumberedGuest }
  | { readonly forget: number }
  | { readonly parent: WatchedParent }
