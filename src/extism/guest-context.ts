import type { KernelBlocks } from './kernel-blocks.ts'
import { type Anything, PluginOutput } from './output.ts'

/** The parts of a context. */
interface ContextParts {
  readonly blocks: KernelBlocks
  readonly logger: GuestLogger
  readonly logLevel: LogLevel
  readonly config: GuestConfig
  readonly memory: MemoryOptions
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Receives the log lines of guests. */
export type GuestLogger = Pick<Console, Exclude<LogLevel, 'silent'>>

/** Configuration that a guest reads. */
export interface GuestConfig {
  [key: string]: string
}

export type MemoryOptions = {
  /** Maximum pages of 64 KiB of the blocks that guest and host exchange in a call. The guest's own memory is not counted. */
  maxPages?: number | undefined
  /** A response of this many bytes or more is refused: the guest gets no body. */
  maxHttpResponseBytes?: number | undefined
  /** Maximum bytes of all values of variables. */
  maxVarBytes?: number | undefined
}

/** A function that a module can import, of numbers and BigInts. */
export type ImportedFunction = (...args: Anything[]) => unknown

/**
 * The interface of host functions to a plug-in and its call. There is one for each plug-in. Blocks can be read until the
 * next call begins, or until `reset`.
 */
export class GuestContext {
  readonly #parts: ContextParts
  readonly #vars = new Map<string, Uint8Array<ArrayBuffer>>()
  readonly #read = new Map<bigint, PluginOutput>()
  #varBytes = 0
  #blocks: KernelBlocks
  #logLevel: number
  #hostContext: unknown

  /** @hidden */
  constructor(parts: ContextParts) {
    this.#parts = parts
    this.#blocks = parts.blocks
    this.#logLevel = priorityOf(parts.logLevel)
  }

  /** The third argument of `call`; null after the call. Its type is not checked. */
  hostContext<T = Anything>(): T {
    return this.#hostContext as T
  }

  /** Makes a block. @returns 0 if there is no room. */
  alloc(size: bigint | number): bigint {
    const length = Number(size)
    const at = this.#blocks.alloc(length)
    if (at === 0n) this.#noteFull(length)
    return at
  }

  /** Makes a block with these bytes. @throws Error if there is no room. */
  store(input: string | Uint8Array): bigint {
    const bytes = typeof input === 'string' ? encoder.encode(input) : input
    if (!(bytes instanceof Uint8Array)) throw new TypeError('Expected a string or a Uint8Array to store')
    const at = this.#blocks.store(bytes)
    if (at !== 0n) return at
    this.#noteFull(bytes.length)
    throw new Error('failed to store output')
  }

  /** @returns no bytes at the offset 0; null if no block begins there. */
  read(addr: bigint | number): PluginOutput | null {
    const at = BigInt(addr)
    const known = this.#read.get(at)
    if (known && !PluginOutput.isDetached(known) && known.byteLength === this.#blocks.lengthOf(at))
      return known
    const bytes = this.#blocks.read(at)
    if (!bytes) return null
    const output = new PluginOutput(bytes)
    this.#read.set(at, output)
    return output
  }

  /** Length of the block that begins there; 0 if none does. */
  length(addr: bigint): bigint {
    return BigInt(this.#blocks.length(addr))
  }

  /** Makes this the error of the call; its message may be empty. The guest goes on. @throws Error if there is no message. */
  setError(err: string | Error | null = null): void {
    const message = err instanceof Error ? err.message : err
    if (message === null) throw new Error('could not store error value')
    this.#blocks.setError(this.store(message))
  }

  /** @returns null if there is none; else a copy. */
  getVariable(name: string): PluginOutput | null {
    const value = this.#vars.get(name)
    return value ? new PluginOutput(value.slice().buffer) : null
  }

  /** @throws Error if the limit would be exceeded. The variable keeps its value. */
  setVariable(name: string, value: string | Uint8Array): void {
    const bytes = typeof value === 'string' ? encoder.encode(value) : new Uint8Array(value)
    const size = this.#varBytes + bytes.length - (this.#vars.get(name)?.length ?? 0)
    const most = this.#parts.memory.maxVarBytes ?? Number.POSITIVE_INFINITY
    if (size > most || most === 0)
      throw new Error(`var memory limit exceeded: ${size} bytes requested, ${most} allowed`)
    this.#vars.set(name, bytes)
    this.#varBytes = size
  }

  deleteVariable(name: string): void {
    this.#varBytes -= this.#vars.get(name)?.length ?? 0
    this.#vars.delete(name)
  }

  /** Minimum level of the guest's lines that are logged. */
  get logLevel(): LogLevel {
    return LOG_LEVELS.find((level) => priorityOf(level) === this.#logLevel) ?? 'silent'
  }

  set logLevel(level: LogLevel) {
    this.#logLevel = priorityOf(level)
  }

  /** Uses other blocks: those of another thread. @hidden */
  static use(context: GuestContext, blocks: KernelBlocks): void {
    context.#blocks = blocks
    context.#read.clear()
  }

  /** @hidden */
  static begin(context: GuestContext, hostContext: unknown): void {
    context.#hostContext = hostContext
  }

  /** @hidden */
  static end(context: GuestContext): void {
    context.#hostContext = null
    if (context.#read.size > 0) context.#read.clear()
  }

  /** Runs a host function, and then writes blocks that it read and changed back to the guest. @hidden */
  static run(context: GuestContext, run: ImportedFunction, args: readonly Anything[]): Anything {
    const returned = run(context, ...args)
    if (!(returned instanceof Promise)) {
      context.#writeBack()
      return returned
    }
    return returned.then((value) => {
      context.#writeBack()
      return value
    })
  }

  /** Runs an async host function. The guest is suspended meanwhile, and the caller may change the input. @hidden */
  static runAsync(context: GuestContext, run: ImportedFunction, args: readonly Anything[]): Anything {
    context.#blocks.settleInput()
    return GuestContext.run(context, run, args)
  }

  /** Extism's functions, the kernel's own among them. Requests are refused. @hidden */
  static importsOf(context: GuestContext): Record<string, WebAssembly.ImportValue> {
    const { functions } = context.#blocks
    const { alloc } = functions
    return {
      ...functions,
      // The kernel logs nothing when it refuses.
      ...(context.#parts.memory.maxPages &&
        typeof alloc === 'function' && { alloc: context.#allocNoting(alloc) }),
      config_get: (name: bigint) => context.#configGet(name),
      var_get: (name: bigint) => context.#varGet(name),
      var_set: (name: bigint, value: bigint) => context.#varSet(name, value),
      http_request: () => context.#refuse('http_request', 0n),
      http_status_code: () => context.#refuse('http_status_code', 0),
      http_headers: () => context.#refuse('http_headers', 0n),
      get_log_level: () => context.#logLevel,
      log_trace: (message: bigint) => context.#log('trace', message),
      log_debug: (message: bigint) => context.#log('debug', message),
      log_info: (message: bigint) => context.#log('info', message),
      log_warn: (message: bigint) => context.#log('warn', message),
      log_error: (message: bigint) => context.#log('error', message),
    }
  }

  /** Extism's functions that use variables. @hidden */
  static variablesOf(context: GuestContext): Readonly<Record<string, ImportedFunction>> {
    return {
      var_get: (_context, name: bigint) => context.#varGet(name),
      var_set: (_context, name: bigint, value: bigint) => context.#varSet(name, value),
    }
  }

  #configGet(name: bigint): bigint {
    const { config } = this.#parts
    const key = this.#textOf(name)
    const value = key !== undefined && Object.hasOwn(config, key) ? this.store(String(config[key])) : 0n
    this.#blocks.take(name)
    return value
  }

  #varGet(name: bigint): bigint {
    const key = this.#textOf(name)
    const value = key === undefined ? undefined : this.#vars.get(key)
    const at = value ? this.#blocks.store(value) : 0n
    this.#blocks.take(name)
    return at
  }

  #varSet(name: bigint, value: bigint): void {
    const key = this.#textOf(name)
    if (key === undefined) {
      const where = `(addr="${BigInt.asUintN(64, name).toString(16)}H")`
      this.#parts.logger.error(`attempted to set variable using invalid key address ${where}`)
      return
    }
    if (value === 0n) {
      this.deleteVariable(key)
      return
    }
    const bytes = this.#blocks.read(value)
    if (!bytes) {
      const where = `(key="${key}"; addr="${BigInt.asUintN(64, value).toString(16)}H")`
      this.#parts.logger.error(`attempted to set variable to invalid address ${where}`)
      return
    }
    try {
      this.setVariable(key, new Uint8Array(bytes))
    } catch (error) {
      const full = error instanceof Error ? error : new Error(String(error))
      this.#parts.logger.error(full.message)
      this.setError(full)
    }
  }

  #log(level: Exclude<LogLevel, 'silent'>, message: bigint): void {
    if (this.#blocks.lengthOf(message) === undefined) {
      const at = BigInt.asUintN(64, message).toString(16).padStart(64, '0')
      this.#parts.logger.error(`failed to log(${level}): bad block reference in addr 0x${at}`)
      return
    }
    try {
      if (this.#logLevel <= priorityOf(level)) this.#parts.logger[level](this.#textOf(message))
    } finally {
      this.#blocks.take(message)
    }
  }

  #textOf(at: bigint): string | undefined {
    const bytes = this.#blocks.read(at)
    return bytes && decoder.decode(bytes)
  }

  #refuse<Result>(name: string, answer: Result): Result {
    this.#parts.logger.error(`${name} is not enabled: it needs "runInWorker", or Node.js 24`)
    return answer
  }

  #allocNoting(alloc: CallableFunction): (length: bigint) => bigint {
    return (length) => {
      let at: bigint = alloc(length)
      if (at !== 0n || length === 0n) return at
      if (this.#blocks.reuseTaken()) at = alloc(length)
      if (at === 0n) this.#noteFull(Number(BigInt.asUintN(64, length)))
      return at
    }
  }

  #noteFull(length: number): void {
    const { maxPages } = this.#parts.memory
    const allowed = maxPages ? `${maxPages} pages` : '2 GiB'
    this.#parts.logger.error(`memory limit exceeded: no room for ${length} bytes, ${allowed} allowed`)
  }

  #writeBack(): void {
    if (this.#read.size === 0) return
    for (const [at, output] of this.#read) {
      const bytes = PluginOutput.writableBytes(output)
      if (bytes) this.#blocks.write(at, bytes)
    }
    this.#read.clear()
  }
}

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

const SILENT_PRIORITY = 0x7fff_ffff

/** The level as a number of Extism's interface. @throws TypeError if the level is unknown. */
function priorityOf(level: LogLevel): number {
  const index = LOG_LEVELS.indexOf(level)
  if (index === -1) {
    const expected = LOG_LEVELS.map((each) => `"${each}"`).join(', ')
    throw new TypeError(`unrecognized log level "${level}"; expected one of ${expected}`)
  }
  return level === 'silent' ? SILENT_PRIORITY : index
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
