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
