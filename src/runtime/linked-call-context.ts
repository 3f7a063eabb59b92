import { type Block, type BlockContext, BlockCopy } from '../guest/call-context.ts'
import type { Vars } from '../guest/vars.ts'
import type { GuestLogLevel } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { KernelMemory } from './kernel-memory.ts'

/** The parts of an instance that contexts use. */
interface ContextHost {
  readonly memory: KernelMemory
  readonly vars: Vars
}

/** Provides the context of each call of an instance, if a host function needs one. */
export class CallContexts {
  readonly #host: ContextHost
  #caller: Caller | undefined
  #current: LinkedCallContext | undefined

  constructor(host: ContextHost) {
    this.#host = host
  }

  /** Whether no call runs: then a running guest is starting. */
  get isIdle(): boolean {
    return this.#caller === undefined
  }

  /** Whether a host function has turned the call into an error. */
  get hasError(): boolean {
    return this.#current?.hasError === true
  }

  begin(caller: Caller): void {
    this.#caller = caller
  }

  current(): LinkedCallContext {
    this.#current ??= new LinkedCallContext(this.#host, this.#caller)
    return this.#current
  }

  end(): void {
    this.#current?.end()
    this.#current = undefined
    this.#caller = undefined
  }
}

/** The context of one call. */
export class LinkedCallContext implements BlockContext {
  hasError = false
  #host: ContextHost | undefined
  #caller: Caller | undefined
  readonly #read = new Map<bigint, BlockCopy>()

  constructor(host: ContextHost, caller: Caller | undefined) {
    this.#host = host
    this.#caller = caller
  }

  get caller(): Caller | undefined {
    return this.#caller
  }

  hostContext<T = Caller>(): T | null {
    const caller = this.#caller
    return ((caller?.host ?? caller) as T | undefined) ?? null
  }

  alloc(size: bigint | number): bigint {
    return this.#abi('alloc', BigInt(size))
  }

  store(input: string | Uint8Array): bigint {
    return this.#live().memory.store(encode(input))
  }

  read(at: bigint | number): Block | null {
    const { memory } = this.#live()
    const offset = BigInt.asUintN(64, BigInt(at))
    const known = this.#read.get(offset)
    if (known) return known
    if (offset === 0n) return new BlockCopy(new Uint8Array()) // a guest passes an empty text
    if (this.length(offset) === 0n) return null
    const block = new BlockCopy(new Uint8Array(memory.read(offset)))
    this.#read.set(offset, block)
    return block
  }

  length(at: bigint | number): bigint {
    return this.#abi('length', BigInt(at))
  }

  view(at: bigint): Uint8Array {
    return this.#live().memory.read(at)
  }

  get blockLimit(): number {
    return this.#live().memory.blockLimit
  }

  free(at: bigint): void {
    this.#abi('free', at)
  }

  replaceInput(bytes: Uint8Array): bigint {
    return this.#live().memory.replaceInput(bytes)
  }

  setError(error?: string | Error | null): void {
    const { memory } = this.#live()
    if (error === undefined || error === null) {
      this.#abi('error_set', 0n)
      this.hasError = false
      return
    }
    const message = error instanceof Error ? error.message : error
    // An empty error would not count as one.
    this.#abi('error_set', memory.store(encode(message || 'an error without a message')))
    this.hasError = true
  }

  getVariable(name: string): Block | null {
    const value = this.#live().vars.get(name)
    return value ? new BlockCopy(new Uint8Array(value)) : null
  }

  setVariable(name: string, value: string | Uint8Array): void {
    this.#live().vars.set(name, encode(value))
  }

  deleteVariable(name: string): void {
    this.#live().vars.delete(name)
  }

  get logLevel(): GuestLogLevel {
    return 'trace'
  }

  set logLevel(_ignored: GuestLogLevel | 'silent') {
    // Functions that set it still work.
  }

  /** Copies changed blocks back to the guest, before the guest can free them. */
  writeBack(): void {
    if (this.#read.size === 0) return
    for (const [at, { writable }] of this.#read) {
      if (writable) this.#live().memory.read(at).set(writable)
    }
    this.#read.clear()
  }

  end(): void {
    this.#host = undefined
    this.#caller = undefined
  }

  #live(): ContextHost {
    if (!this.#host) throw new Error('the call of this context is over')
    return this.#host
  }

  /** The kernel's function accepts hostile numbers, so it accepts the host's. */
  #abi(name: 'alloc' | 'free' | 'length' | 'error_set', number: bigint): bigint {
    const run = this.#live().memory.functions[name] as (number: bigint) => bigint
    return run(number)
  }
}

function encode(input: string | Uint8Array): Uint8Array {
  if (typeof input === 'string') return utf8.encode(input)
  if (input instanceof Uint8Array) return input
  throw new TypeError('the stored value must be a string or a Uint8Array')
}

const utf8 = new TextEncoder()
