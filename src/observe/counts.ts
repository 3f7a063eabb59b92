/** Counters with names that are known beforehand, so that labels are bounded. */
export class Counts<Name extends string> {
  readonly names: readonly Name[]
  readonly #counts: Float64Array
  readonly #places: ReadonlyMap<string, number>

  constructor(names: readonly Name[]) {
    this.names = names
    this.#counts = new Float64Array(names.length)
    this.#places = new Map(names.map((name, place) => [name, place]))
  }

  count(name: Name, times = 1): void {
    const place = this.#places.get(name) ?? -1
    if (place >= 0) this.#counts[place] = (this.#counts[place] as number) + times
  }

  of(name: Name): number {
    return this.#counts[this.#places.get(name) ?? -1] ?? 0
  }

  /** Those that are not 0. */
  get counted(): [name: Name, times: number][] {
    return this.names.map((name): [Name, number] => [name, this.of(name)]).filter(([, times]) => times > 0)
  }

  add(other: Counts<Name>): void {
    for (const name of this.names) this.count(name, other.of(name))
  }
}

/** How often a value was within each of some bounds: all there is to be done when one is observed is to add. */
export class Histogram {
  /** Upper bounds, ascending; what is above the last is counted in a place of its own. */
  readonly bounds: readonly number[]
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds, counts } = this
    let place = 0
    while (place < bounds.length && value > (bounds[place] as number)) place++
    counts[place] = (counts[place] as number) + 1
    this.sum += value
  }

  add(other: Histogram): void {
    for (const [place, count] of other.counts.entries()) {
      this.counts[place] = (this.counts[place] as number) + count
    }
    this.sum += other.sum
  }
}

/** In milliseconds: half of them for guests that compute, half for those that wait for others. */
export const DURATION_BOUNDS_MS: readonly number[] = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
]
