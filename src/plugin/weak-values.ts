/** A map that holds no value: an entry goes, with its key, when its value was collected. */
export class WeakValues<Value extends WeakKey> {
  readonly #entries = new Map<string, WeakRef<Value>>()
  readonly #collected = new FinalizationRegistry<string>((key) => {
    // Another value may have taken its place meanwhile.
    if (this.#entries.get(key)?.deref() === undefined) this.#entries.delete(key)
  })

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.deref()
  }

  set(key: string, value: Value): void {
    this.#entries.set(key, new WeakRef(value))
    this.#collected.register(value, key)
  }
}
