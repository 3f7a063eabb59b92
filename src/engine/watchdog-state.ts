/*
 * The protocol between the event loop and the watchdog's thread. The running guest is written to shared memory, because a
 * call must cost no more than two stores; the log line of a guest is sent once, by message.
 */

/** Indices in the array that `runWords` returns. */
export const Word = {
  /** The number of the current run, below zero if it is interrupted; 0: none. Each run has another one. */
  run: 0,
  /** What runs: see {@link startOf} and {@link callOf}. Written before the number of the run. */
  guest: 1,
} as const

/** What the thread gets. */
export interface WatchdogStart {
  /** See {@link Word}. */
  readonly state: Int32Array
  /** One word: other than 0 if the thread has to end. */
  readonly end: Int32Array
}

/** Time limits of a guest on the event loop, in ms. */
export interface GuestLimits {
  /** How long it may block the event loop, until the process is killed; 0: without limit. */
  readonly stallMs: number
  /** How long it may run until it is interrupted; 0: without limit. */
  readonly deadlineMs: number
}

/** A guest on the event loop, as the log names it. */
export interface NamedGuest extends GuestLimits {
  /** The plug-in's name. */
  readonly plugin: string
  readonly function: string
  /** URL of the route. */
  readonly route: string
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
