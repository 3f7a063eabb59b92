/** Variables of a guest, kept by the host from call to call, within a limit. */
export interface Vars {
  /** Do not change it: the guest gets a copy. */
  get(name: string): Uint8Array | undefined
  /** @throws Error if there is no room; the old value stays. */
  set(name: string, value: Uint8Array): void
  delete(name: string): void
}

/** Variables of one instance. */
export interface OwnVars extends Vars {
  clear(): void
}

/** @param limit - Maximum bytes of names and values together; each variable counts 48 more, as in Extism. */
export function openVars(limit: number): OwnVars {
  return new LimitedVars(limit)
}

/** Bytes that Extism counts per variable besides name and value. They bound the number of empty variables. */
const OVERHEAD = 48

class LimitedVars implements OwnVars {
  readonly #values = new Map<string, Uint8Array>()
  readonly #limit: number
  #size = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get(name: string): Uint8Array | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Uint8Array): void {
    const old = this.#values.get(name)
    const size = this.#size - variableBytes(name, old) + variableBytes(name, value)
    if (size > this.#limit) throw new Error(`variable store is full: it holds ${this.#limit} bytes`)
    if (old?.length === value.length) old.set(value)
    else this.#values.set(name, value.slice())
    this.#size = size
  }

  delete(name: string): void {
    this.#size -= variableBytes(name, this.#values.get(name))
    this.#values.delete(name)
  }

  clear(): void {
    if (this.#values.size > 0) this.#values.clear()
    this.#size = 0
  }
}

function variableBytes(name: string, value: Uint8Array | undefined): number {
  return value ? OVERHEAD + Buffer.byteLength(name) + value.length : 0
}
