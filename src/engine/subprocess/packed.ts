import type { ServiceRequest } from '../../guest/services/service.ts'
import { findService } from '../../guest/services/services.ts'
import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import type { UncompiledModule } from '../../plugin/plugin.ts'
import type { WorkerStart } from '../workers/protocol.ts'

/** Values that can be packed: plain data and bytes. `undefined` in an object or a list is preserved. */
type Packable =
  | undefined
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | readonly Packable[]
  | { readonly [name: string]: Packable }

const TAG = {
  undefined: 0,
  null: 1,
  false: 2,
  true: 3,
  number: 4,
  string: 5,
  bytes: 6,
  list: 7,
  object: 8,
} as const

/** Maximum nesting of lists and objects: packed data may be hostile. */
const MAX_PACKED_NESTING = 16

/**
 * Serializes plain data. Not `v8.serialize`, whose reader is not safe for hostile data.
 *
 * @throws TypeError if a value is not data, such as a function.
 */
export function pack(value: unknown): Buffer {
  const parts: Uint8Array[] = []
  write(value, parts)
  return Buffer.concat(parts)
}

/**
 * Reads packed data, which may be hostile. Creates plain data only, and no more than the bytes hold. Byte arrays are
 * copies.
 *
 * @throws RangeError if it is malformed.
 */
export function unpack(packed: Uint8Array): unknown {
  const reader = new PackedReader(packed)
  const value = reader.read(0)
  if (!reader.isAtEnd) throw new RangeError('there is data after the value')
  return value
}

function write(value: unknown, parts: Uint8Array[]): void {
  if (value === undefined) parts.push(Uint8Array.of(TAG.undefined))
  else if (value === null) parts.push(Uint8Array.of(TAG.null))
  else if (typeof value === 'boolean') parts.push(Uint8Array.of(value ? TAG.true : TAG.false))
  else if (typeof value === 'number') parts.push(Uint8Array.of(TAG.number), numberBytes(value))
  else if (typeof value === 'string') writeSized(TAG.string, Buffer.from(value), parts)
  else if (value instanceof Uint8Array) writeSized(TAG.bytes, value, parts)
  else if (Array.isArray(value)) {
    parts.push(counted(TAG.list, value.length))
    for (const each of value) write(each, parts)
  } else if (typeof value === 'object') {
    const entries = Object.entries(value)
    parts.push(counted(TAG.object, entries.length))
    for (const [name, each] of entries) {
      writeSized(TAG.string, Buffer.from(name), parts)
      write(each, parts)
    }
  } else throw new TypeError(`a ${typeof value} cannot be packed`)
}

function writeSized(tag: number, bytes: Uint8Array, parts: Uint8Array[]): void {
  parts.push(counted(tag, bytes.length), bytes)
}

function counted(tag: number, count: number): Uint8Array {
  const bytes = Buffer.alloc(5)
  bytes.writeUInt8(tag, 0)
  bytes.writeUInt32LE(count, 1)
  return bytes
}

function numberBytes(value: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

class PackedReader {
  readonly #bytes: Buffer
  #at = 0

  constructor({ buffer, byteOffset, byteLength }: Uint8Array) {
    this.#bytes = Buffer.from(buffer, byteOffset, byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  read(depth: number): Packable {
    if (depth > MAX_PACKED_NESTING) throw new RangeError('it is nested too deeply')
    const tag = this.#take(1).readUInt8(0)
    switch (tag) {
      case TAG.undefined:
        return undefined
      case TAG.null:
        return null
      case TAG.false:
        return false
      case TAG.true:
        return true
      case TAG.number:
        return this.#take(8).readDoubleLE(0)
      case TAG.string:
        return this.#take(this.#count()).toString()
      case TAG.bytes:
        return new Uint8Array(this.#take(this.#count())) // a copy with its own buffer
      case TAG.list:
        return this.#readList(this.#count(), depth)
      case TAG.object:
        return this.#readObject(this.#count(), depth)
      default:
        throw new RangeError(`unknown tag ${tag}`)
    }
  }

  #readList(count: number, depth: number): Packable[] {
    const list: Packable[] = []
    for (let i = 0; i < count; i++) list.push(this.read(depth + 1))
    return list
  }

  #readObject(count: number, depth: number): { readonly [name: string]: Packable } {
    const entries: [string, Packable][] = []
    for (let i = 0; i < count; i++) {
      const name = this.read(MAX_PACKED_NESTING)
      if (typeof name !== 'string') throw new RangeError('a name is not a string')
      entries.push([name, this.read(depth + 1)])
    }
    return Object.fromEntries(entries) // defines even `__proto__` as an own property
  }

  #count(): number {
    return this.#take(4).readUInt32LE(0)
  }

  #take(count: number): Buffer {
    if (count > this.#bytes.length - this.#at) throw new RangeError('it ends too early')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }
}

const LINE_LEVELS: ReadonlySet<unknown> = new Set<GuestLogLevel>(['trace', 'debug', 'info', 'warn', 'error'])

/** Allowed fields of a guest's log line, with their types. */
const LINE_FIELDS = { function: 'string', dropped: 'number', perSecond: 'number', reason: 'string' } as const

/** Maximum number of characters of a line. Guests' lines are truncated earlier. */
const MAX_LINE_CHARS = 16_384

/**
 * Logs a line from a process, with only the fields that guests' lines may have.
 *
 * @throws RangeError if it is not a valid line.
 */
export function writeLine(packed: Uint8Array, plugin: string, log: Log): void {
  const line = unpack(packed)
  if (!Array.isArray(line)) throw new RangeError('it is not a line')
  const [level, fields, message] = line
  if (!isLevel(level) || typeof fields !== 'object' || fields === null || typeof message !== 'string')
    throw new RangeError('it is not a line')
  const kept = Object.entries(LINE_FIELDS).flatMap(([name, kind]) => {
    const value: unknown = Object.hasOwn(fields, name) ? Reflect.get(fields, name) : undefined
    return typeof value === kind ? [[name, value] as const] : []
  })
  log[level]({ plugin, ...Object.fromEntries(kept) }, message.slice(0, MAX_LINE_CHARS))
}

function isLevel(value: unknown): value is GuestLogLevel {
  return LINE_LEVELS.has(value)
}

/**
 * Parses a guest's request to the host. A guest that has taken over its process can send anything, so unknown operations
 * and arguments are rejected.
 *
 * @throws RangeError
 */
export function readHostRequest(packed: Uint8Array): ServiceRequest {
  const request = unpack(packed)
  if (typeof request !== 'object' || request === null) throw new RangeError('it is not a request')
  const { service, operation, args } = request as { readonly [name: string]: unknown }
  if (typeof service !== 'string' || typeof operation !== 'string' || !Array.isArray(args))
    throw new RangeError('it is not a request')
  if (!findService(service)?.accepts(operation, args))
    throw new RangeError(`unknown operation "${service} ${operation}" or wrong arguments`)
  return { service, operation, args }
}

/** The input of a process for a new instance. The process compiles the modules: the server never compiles them. */
export interface ProcessStart extends Pick<WorkerStart, 'settings' | 'functions' | 'isolation' | 'services'> {
  readonly plugin: UncompiledPlugin
}

/** A plug-in whose modules are read, validated and capped, but not compiled. */
export interface UncompiledPlugin {
  readonly name: string
  readonly digest: string
  readonly modules: readonly UncompiledModule[]
}
