/** @returns NaN for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2
}

/** The value that `percent` of the values do not exceed (nearest rank). */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.ceil((percent / 100) * sorted.length) - 1] ?? Number.NaN
}

/** Percentiles of times in milliseconds. */
export function latencies(times: readonly number[]): Record<'p50Ms' | 'p99Ms' | 'p999Ms', number> {
  const [p50Ms, p99Ms, p999Ms] = [percentile(times, 50), percentile(times, 99), percentile(times, 99.9)]
  return { p50Ms, p99Ms, p999Ms }
}

/**
 * The interval between two of the values that contains the median of what they were drawn from with a probability of
 * 95 % at least, whatever its distribution. From fewer than six values there is none: it has all of them.
 */
export function medianInterval(values: readonly number[]): { readonly least: number; readonly most: number } {
  const sorted = values.toSorted((a, b) => a - b)
  const n = sorted.length
  let rank = 0
  // The probability that at most `rank` of n values are below the median: a sum of binomial terms.
  for (let term = 0.5 ** n, sum = term; sum <= 0.025; sum += term) {
    rank++
    term *= (n - rank + 1) / rank
  }
  const cut = Math.max(0, rank - 1)
  return { least: sorted[cut] ?? Number.NaN, most: sorted[n - 1 - cut] ?? Number.NaN }
}
