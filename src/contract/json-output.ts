import { isUtf8 } from 'node:buffer'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { AnswerProblem, notJson } from './http-answer.ts'
import { type JsonLimits, type JsonSpan, scan } from './json-scan.ts'

/** The kinds of values, distinguished by their first byte. */
type JsonKind = 'null' | 'array' | 'object' | 'other'

/**
 * An output in JSON (RFC 8259).
 *
 * @typeParam Value - A handle of a value, meaningful only to the output that returned it.
 */
export interface JsonOutput<Value> {
  /**
   * The members of an object.
   *
   * @param value - Default: the output as a whole.
   * @throws {@link AnswerProblem} if it is not an object, or exceeds a limit.
   */
  members(limits: JsonLimits, value?: Value): readonly (readonly [name: string, value: Value])[]
  /** The elements of an array. */
  elements(limits: JsonLimits, value: Value): readonly Value[]
  kindOf(value: Value): JsonKind
  /** An upper bound of the encoded size of a value. */
  sizeOf(value: Value): number
  /** NaN if the value is not a number, or has more than 32 characters. */
  number(value: Value): number
  /** The decoded string; undefined if the value is not a string. */
  string(value: Value): string | undefined
  /**
   * The decoded string in UTF-8; undefined if the value is not a string.
   *
   * @throws {@link AnswerProblem} if it is large and not UTF-8.
   */
  text(value: Value): Uint8Array | undefined
  /** The original text of a member of the output. */
  raw(name: string, value: Value): Uint8Array
}

/** Outputs up to this size are parsed: their nesting is bounded, and `JSON.parse` is faster. */
const MAX_PARSED = 2 * GUEST_LIMITS.jsonDepth

/** Reads an output. @throws the errors of `read`, and {@link AnswerProblem} if the output is not JSON. */
export function readJson<Result>(
  bytes: Uint8Array,
  read: <Value>(output: JsonOutput<Value>) => Result,
): Result {
  return bytes.length <= MAX_PARSED ? read(new ParsedOutput(bytes)) : read(new ScannedOutput(bytes))
}

class ParsedOutput implements JsonOutput<unknown> {
  readonly #bytes: Uint8Array
  readonly #value: unknown

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    try {
      this.#value = JSON.parse(toBuffer(bytes).toString())
    } catch {
      throw notJson() // the parser's message would quote it
    }
  }

  members(limits: JsonLimits, value: unknown = this.#value): readonly (readonly [string, unknown])[] {
    if (this.kindOf(value) !== 'object') throw new AnswerProblem(`${limits.what} is not a JSON object`)
    const members = Object.entries(value as object)
    if (members.length > limits.items)
      throw new AnswerProblem(`there are more than ${limits.items} entries in ${limits.what}`)
    return members
  }

  elements(limits: JsonLimits, value: unknown): readonly unknown[] {
    const elements = value as readonly unknown[]
    if (elements.length > limits.items)
      throw new AnswerProblem(`there are more than ${limits.items} entries in ${limits.what}`)
    return elements
  }

  kindOf(value: unknown): JsonKind {
    if (value === null) return 'null'
    if (typeof value !== 'object') return 'other'
    return Array.isArray(value) ? 'array' : 'object'
  }

  sizeOf(): number {
    return this.#bytes.length
  }

  number(value: unknown): number {
    return typeof value === 'number' ? value : Number.NaN
  }

  string(value: unknown): string | undefined {
    return typeof value === 'string' ? value : undefined
  }

  text(value: unknown): Uint8Array | undefined {
    return typeof value === 'string' ? Buffer.from(value) : undefined
  }

  /** `JSON.parse` does not return positions. */
  raw(name: string): Uint8Array {
    const bytes = toBuffer(this.#bytes)
    const limits = { what: name, depth: MAX_PARSED, items: MAX_PARSED }
    const { names, values } = scan(bytes, limits, OPENING_BRACE)
    const output = new ScannedOutput(bytes)
    const i = names.findLastIndex((span) => output.string(span) === name)
    return bytes.subarray(values[i]?.start, values[i]?.end)
  }
}

/**
 * Locates values without creating them: each byte is scanned once, where `JSON.parse` takes up to fifty times as long for
 * many small values or names. It accepts the same inputs.
 */
class ScannedOutput implements JsonOutput<JsonSpan> {
  readonly #bytes: Buffer

  constructor(output: Uint8Array) {
    this.#bytes = toBuffer(output)
  }

  members(limits: JsonLimits, span?: JsonSpan): readonly (readonly [string, JsonSpan])[] {
    const { names, values } = scan(this.#bytes, limits, OPENING_BRACE, span)
    const { nameBytes = Number.POSITIVE_INFINITY } = limits
    return values.map((value, i) => {
      const name = names[i] ?? value
      return [this.sizeOf(name) > nameBytes ? '' : (this.string(name) ?? ''), value]
    })
  }

  elements(limits: JsonLimits, span: JsonSpan): readonly JsonSpan[] {
    return scan(this.#bytes, limits, OPENING_BRACKET, span).values
  }

  kindOf({ start }: JsonSpan): JsonKind {
    return KIND_OF_BYTE.get(this.#bytes[start] ?? 0) ?? 'other'
  }

  sizeOf({ start, end }: JsonSpan): number {
    return end - start
  }

  number({ start, end }: JsonSpan): number {
    const text = end - start <= MAX_NUMBER ? this.#bytes.toString('latin1', start, end) : ''
    return /^[-\d]/.test(text) ? Number(text) : Number.NaN
  }

  string(span: JsonSpan): string | undefined {
    return this.#said(span)?.toString()
  }

  /** A view of the output if nothing has to be decoded. */
  text(span: JsonSpan): Uint8Array | undefined {
    const said = this.#said(span)
    if (!said || isUtf8(said)) return said
    const { replacedBytes } = GUEST_LIMITS
    if (span.end - span.start - 2 > replacedBytes) {
      throw new AnswerProblem(`a text larger than ${replacedBytes} bytes is not UTF-8`)
    }
    return Buffer.from(said.toString())
  }

  #said({ start, end, said }: JsonSpan): Buffer | undefined {
    return this.#bytes[start] === QUOTE ? (said ?? this.#bytes.subarray(start + 1, end - 1)) : undefined
  }

  raw(_name: string, { start, end }: JsonSpan): Uint8Array {
    return this.#bytes.subarray(start, end)
  }
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Maximum number of characters of a number. */
const MAX_NUMBER = 32

const QUOTE = 0x22
const OPENING_BRACKET = 0x5b
/** The first byte of `null`. */
const NULL = 0x6e
const OPENING_BRACE = 0x7b

const KIND_OF_BYTE: ReadonlyMap<number, JsonKind> = new Map([
  [NULL, 'null'],
  [OPENING_BRACKET, 'array'],
  [OPENING_BRACE, 'object'],
])

/** Reads the status of an answer. @throws {@link AnswerProblem} naming the field. */
export function readStatus<Value>(output: JsonOutput<Value>, value: Value, field: string): number {
  const status = output.number(value)
  if (Number.isInteger(status) && status >= 200 && status <= 599) return status
  throw new AnswerProblem(`${field} must be a whole number from 200 to 599`)
}
