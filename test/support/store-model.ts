/** A model of a store with one namespace. */
export class StoreModel {
  readonly #entries = new Map<string, { value: Uint8Array; expiresAt: number }>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  get(key: string): Uint8Array | undefined {
    const entry = this.#entries.get(key)
    return entry && entry.expiresAt > this.#now() ? entry.value : undefined
  }

  set(key: string, value: Uint8Array, ttlMs = Number.POSITIVE_INFINITY): void {
    this.#entries.set(key, { value: new Uint8Array(value), expiresAt: this.#now() + ttlMs })
  }

  delete(key: string): boolean {
    const wasThere = this.get(key) !== undefined
    this.#entries.delete(key)
    return wasThere
  }

  list(prefix: string): string[] {
    const keys = [...this.#entries.keys()].filter((key) => key.startsWith(prefix) && this.get(key))
    return keys.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  }

  compareAndSwap(key: string, expected: Uint8Array | undefined, value: Uint8Array, ttlMs?: number): boolean {
    const found = this.get(key)
    const isExpected = found && expected ? Buffer.compare(found, expected) === 0 : found === expected
    if (isExpected) this.set(key, value, ttlMs)
    return isExpected
  }
}
