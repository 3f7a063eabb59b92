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

/** Of times in milliseconds. */
export function latencies(times: readonly number[]): Record<'p50Ms' | 'p99Ms' | 'p999Ms', number> {
  const [p50Ms, p99Ms, p999Ms] = [percentile(times, 50), percentile(times, 99), percentile(times, 99.9)]
  return { p50Ms, p99Ms, p999Ms }
}
