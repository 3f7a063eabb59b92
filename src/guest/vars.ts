import type { Plugin } from '../plugin/plugin.ts'

/** Variables of a guest, kept by the host from call to call, within a limit. */
export interface Vars {
  /** Do not change it: the guest gets a copy. */
  get(name: string): Uint8Array | undefined
  /** @throws {@link VarsFull} if there is no room; the old value stays. */
  set(name: string, value: Uint8Array): void
  delete(name: string): void
}

/** Variables of one instance. */
export interface OwnVars extends Vars {
  clear(): void
}

/** A variable exceeds the limit. It ends the call of the guest. */
export class VarsFull extends Error {
  override readonly name = 'VarsFull'
  readonly limit: number

  /** @param limit - In bytes. */
  constructor(limit: number) {
    super(`the variable store is full: varMax is ${limit} bytes`)
    this.limit = limit
  }
}

/**
 * @param limit - Maximum bytes of all values together, as in Extism's JavaScript SDK. 0: no variables, as in its Rust and Go
 * SDKs. Names have as much room as values, but at least {@link MIN_NAME_BYTES}.
 */
export function openVars(limit: number): OwnVars {
  return new LimitedVars(limit)
}

const MIN_NAME_BYTES = 65_536

/** Counted for each name in addition to its bytes. It bounds the number of empty variables. */
const OVERHEAD = 48

class LimitedVars implements OwnVars {
  readonly #values = new Map<string, Uint8Array>()
  readonly #limit: number
  #valueBytes = 0
  #nameBytes = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get(name: string): Uint8Array | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Uint8Array): void {
    const old = this.#values.get(name)
    const valueBytes = this.#valueBytes - (old?.length ?? 0) + value.length
    const nameBytes = old ? this.#nameBytes : this.#nameBytes + countedBytes(name)
    const isFull = valueBytes > this.#limit || nameBytes > Math.max(this.#limit, MIN_NAME_BYTES)
    if (isFull || this.#limit === 0) throw new VarsFull(this.#limit)
    if (old?.length === value.length) old.set(value)
    else this.#values.set(name, value.slice())
    this.#valueBytes = valueBytes
    this.#nameBytes = nameBytes
  }

  delete(name: string): void {
    const old = this.#values.get(name)
    if (!old) return
    this.#values.delete(name)
    this.#valueBytes -= old.length
    this.#nameBytes -= countedBytes(name)
  }

  clear(): void {
    if (this.#values.size > 0) this.#values.clear()
    this.#valueBytes = 0
    this.#nameBytes = 0
  }
}

function countedBytes(name: string): number {
  return OVERHEAD + Buffer.byteLength(name)
}

/** Variables shared by all instances and routes of a plug-in. */
export interface SharedVars {
  /** @param limit - Maximum size in bytes, from the first route that asks. */
  open(plugin: Pick<Plugin, 'name' | 'digest'>, limit: number): UsedVars
}

/** Variables that a route uses. */
interface UsedVars {
  readonly vars: Vars
  /** The last close deletes them: versions come and go, and their variables must not accumulate. */
  close(): void
}

/** Plug-ins are the same if their names and bytes are equal. */
export function openSharedVars(): SharedVars {
  const sets = new Map<string, { readonly vars: Vars; users: number }>()
  return {
    open({ name, digest }, limit) {
      const key = `${digest} ${name}`
      const set = sets.get(key) ?? { vars: openVars(limit), users: 0 }
      set.users++
      sets.set(key, set)
      let isOpen = true
      return {
        vars: set.vars,
        close() {
          if (isOpen && --set.users === 0) sets.delete(key)
          isOpen = false
        },
      }
    },
  }
}
