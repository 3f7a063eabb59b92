/** Values to places on an axis. */
export interface Scale {
  /** @returns the place of a value, from 0 (the least value) to 1. */
  at(value: number): number
  /** Values that deserve a line and a number, ascending. */
  readonly ticks: readonly number[]
}

/**
 * A scale from 0 to a round number that is not less than any value.
 *
 * @param values - Not negative.
 */
export function linearScale(values: readonly number[]): Scale {
  const largest = Math.max(...values) || 1
  const step = roundStep(largest / 5)
  const steps = Math.ceil(largest / step - 1e-9)
  return {
    at: (value) => value / (steps * step),
    ticks: Array.from({ length: steps + 1 }, (_, index) => index * step),
  }
}

/**
 * A scale of powers, from the one below the least value to the one above the largest.
 *
 * @param values - All above 0.
 * @param base - Of the powers: 2 where few values lie close together, or are memory.
 */
export function logScale(values: readonly number[], base: 2 | 10): Scale {
  const log = (value: number) => Math.log(value) / Math.log(base)
  const from = Math.floor(log(Math.min(...values)) + 1e-9)
  const to = Math.max(from + 1, Math.ceil(log(Math.max(...values)) - 1e-9))
  const apart = Math.ceil((to - from) / MAX_TICKS)
  return {
    at: (value) => (log(value) - from) / (to - from),
    ticks: Array.from({ length: Math.floor((to - from) / apart) + 1 }, (_, i) => base ** (from + i * apart)),
  }
}

const MAX_TICKS = 8

/** The least of 1, 2 and 5 times a power of ten that is not less. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least))
  return ([1, 2, 5].find((digit) => digit * power >= least * (1 - 1e-9)) ?? 10) * power
}
