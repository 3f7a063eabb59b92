import type { Live, Meter } from './admin-api.ts'

/** Answers that are kept: with one a second, those of a minute. */
const KEPT = 61

/** Over how many answers rates and percentiles are made. */
const WINDOW = 10

/** How calls end that did not fail: a guest may say no, and a client may leave. */
const NO_FAILURES = new Set(['ok', 'guest_error', 'client_gone'])

/** Which versions on which routes. */
export interface Which {
  /** URLs, with their hosts in front. */
  readonly routes: readonly string[]
  /** Of the versions; each may be longer than what meters have. */
  readonly digests: readonly string[]
}

/** What happened within some seconds. */
export interface Window {
  /** Calls a second. */
  readonly rate: number
  /** Of these, those that failed. */
  readonly failureRate: number
  /** How long guests ran; undefined if none did. */
  readonly p50: number | undefined
  readonly p95: number | undefined
  readonly p99: number | undefined
  /** Memory at its end. */
  readonly bytes: number
  /** Calls that waited at its end. */
  readonly waiting: number
}

/** The last answers, and what they say together. Counters that began anew count from 0. */
export class LiveHistory {
  #answers: readonly Live[] = []

  add(live: Live): void {
    const isRestart = live.ms < (this.last?.ms ?? 0)
    this.#answers = [...(isRestart ? [] : this.#answers), live].slice(-KEPT)
  }

  get last(): Live | undefined {
    return this.#answers.at(-1)
  }

  /** Of all routes together, or of one. */
  window(which?: Which, end = this.#answers.length - 1, length = WINDOW): Window {
    const to = this.#answers[end]
    const from = this.#answers[Math.max(0, end - length)]
    if (!to || !from) return EMPTY
    const seconds = (to.ms - from.ms) / 1_000
    const now = metersOf(to, which)
    const before = new Map(metersOf(from, which).map((meter) => [keyOf(meter), meter]))
    let calls = 0
    let failures = 0
    const guest = to.boundsMs.map(() => 0).concat(0)
    for (const meter of now) {
      const old = seconds > 0 ? before.get(keyOf(meter)) : meter
      for (const [outcome, count] of Object.entries(meter.outcomes)) {
        const more = count - (old?.outcomes[outcome] ?? 0)
        calls += more
        if (!NO_FAILURES.has(outcome)) failures += more
      }
      for (const [place, count] of meter.guest.entries()) {
        guest[place] = (guest[place] ?? 0) + count - (old?.guest[place] ?? 0)
      }
    }
    const sum = (of: (meter: Meter) => number) => now.reduce((all, meter) => all + of(meter), 0)
    return {
      rate: seconds > 0 ? calls / seconds : 0,
      failureRate: seconds > 0 ? failures / seconds : 0,
      p50: percentile(guest, to.boundsMs, 0.5),
      p95: percentile(guest, to.boundsMs, 0.95),
      p99: percentile(guest, to.boundsMs, 0.99),
      bytes: sum(({ guestBytes, kernelBytes }) => guestBytes + kernelBytes),
      waiting: sum(({ waiting }) => waiting),
    }
  }

  /** Values for a chart, the oldest first. */
  series(of: (window: Window, live: Live) => number | undefined, which?: Which): (number | undefined)[] {
    return this.#answers.slice(1).map((live, index) => of(this.window(which, index + 1, 2), live))
  }
}

const EMPTY: Window = {
  rate: 0,
  failureRate: 0,
  p50: undefined,
  p95: undefined,
  p99: undefined,
  bytes: 0,
  waiting: 0,
}

function metersOf({ meters }: Live, which: Which | undefined): readonly Meter[] {
  if (!which) return meters
  return meters.filter(
    ({ route, digest }) =>
      which.routes.includes(route) && which.digests.some((known) => known.startsWith(digest)),
  )
}

function keyOf({ route, plugin, digest }: Meter): string {
  return JSON.stringify([route, plugin, digest])
}

/**
 * Of values that are only known to be within bounds: as if those of a bucket were spread evenly.
 *
 * @returns undefined if there are none; of what is above the last bound, that bound.
 */
export function percentile(
  counts: readonly number[],
  bounds: readonly number[],
  part: number,
): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  let left = total * part
  for (const [place, count] of counts.entries()) {
    const upper = bounds[place]
    if (upper === undefined) break
    if (left <= count && count > 0) {
      const lower = bounds[place - 1] ?? 0
      return lower + ((upper - lower) * left) / count
    }
    left -= count
  }
  return bounds.at(-1)
}
