import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { AnswerProblem, notJson } from './http-answer.ts'
import { hasControl, readNested, readText, readWord } from './json-machine.ts'

export interface JsonLimits {
  /** The subject of messages. */
  readonly what: string
  /** Maximum nesting of non-empty arrays and objects; the outermost counts. */
  readonly depth: number
  /** Maximum number of members of the outermost object, or elements of the outermost array. */
  readonly items: number
  /** Maximum bytes of a decoded name, with quotes and escapes; longer names have no text. Default: no limit. */
  readonly nameBytes?: number
  /** Maximum bytes of the headers, and the name of their member. Larger ones are not scanned to the end. */
  readonly headers?: { readonly name: string; readonly bytes: number }
}

/** The position of a value. */
export interface JsonSpan {
  /** The position of its first byte. */
  readonly start: number
  /** The position after its last byte. */
  readonly end: number
  /** The decoded value of a string. It is UTF-8 if its bytes are. */
  readonly said?: Buffer
}

interface ScanResult {
  /** The name of a member; undefined for elements. */
  readonly names: readonly JsonSpan[]
  readonly values: readonly JsonSpan[]
}

/**
 * Scans an array or object, and locates its items. It creates no values except strings: each byte is scanned once.
 *
 * @param opening - The expected first byte.
 * @param span - The part of the bytes to scan. Default: all.
 * @throws {@link AnswerProblem} if it starts differently, is not JSON, or exceeds a limit.
 */
export function scan(bytes: Buffer, limits: JsonLimits, opening: number, span?: JsonSpan): ScanResult {
  return new AnswerScanner(bytes, limits, span).scan(opening)
}

/** The headers exceed their limit, in an answer that is not scanned to its end. */
export function headersTooLarge(most = 0): AnswerProblem {
  return new AnswerProblem(`headers are larger than ${most} bytes, as JSON`)
}

class AnswerScanner {
  readonly #bytes: Buffer
  readonly #limits: JsonLimits
  readonly #end: number
  /** Where scanning stops: earlier than the end if a member has a size limit. */
  #stop: number
  #at: number
  /** Number of arrays and objects within the items. */
  #parts = 0

  constructor(bytes: Buffer, limits: JsonLimits, span?: JsonSpan) {
    this.#bytes = bytes
    this.#limits = limits
    this.#end = span?.end ?? bytes.length
    this.#stop = this.#end
    this.#at = skipSpace(bytes, span?.start ?? 0, this.#end)
  }

  scan(opening: number): ScanResult {
    const { what, items } = this.#limits
    const isObject = opening === OPENING_BRACE
    if (this.#bytes[this.#at] !== opening)
      throw new AnswerProblem(`${what} is not a JSON ${isObject ? 'object' : 'array'}`)
    this.#at++
    const closing = opening + TO_CLOSING
    const names: JsonSpan[] = []
    const values: JsonSpan[] = []
    for (let byte = this.#next(); byte !== closing; ) {
      if (isObject) names.push(this.#name())
      values.push(this.#value())
      byte = this.#next()
      if (byte !== COMMA && byte !== closing) throw notJson()
      if (values.length > items) throw new AnswerProblem(`there are more than ${items} entries in ${what}`)
      this.#stop = this.#end
      if (byte === COMMA) this.#at++
    }
    if (skipSpace(this.#bytes, this.#at + 1, this.#end) < this.#end) throw notJson()
    return { names, values }
  }

  /** The next byte that is not white space. */
  #next(): number {
    this.#at = skipSpace(this.#bytes, this.#at, this.#stop)
    if (this.#at >= this.#stop) throw this.#stopped()
    return this.#bytes[this.#at] ?? 0
  }

  #stopped(): AnswerProblem {
    return this.#stop < this.#end ? headersTooLarge(this.#limits.headers?.bytes) : notJson()
  }

  /** Reads a name and the colon after it. */
  #name(): JsonSpan {
    const { headers } = this.#limits
    if (this.#next() !== QUOTE) throw notJson()
    const name = this.#text()
    if (headers && isNamed(this.#bytes, name, headers.name))
      this.#stop = Math.min(this.#end, name.end - 1 + headers.bytes + SLACK)
    if (this.#next() !== COLON) throw notJson()
    this.#at++
    return name
  }

  #value(): JsonSpan {
    const byte = this.#next()
    if (byte === QUOTE) return this.#text()
    return byte === OPENING_BRACKET || byte === OPENING_BRACE ? this.#nested() : this.#word()
  }

  /** A string without escapes, such as most bodies, is scanned by native code, which is even faster. */
  #text(): JsonSpan {
    const start = this.#at
    const quote = this.#bytes.indexOf(QUOTE, start + 1)
    if (quote >= 0 && quote < this.#end && !this.#bytes.subarray(start, quote).includes(BACKSLASH)) {
      if (hasControl(this.#bytes, start, quote)) throw notJson()
      this.#at = quote + 1
      return { start, end: this.#at }
    }
    const { end, isBroken, said } = readText(this.#bytes, start + 1, this.#stop)
    if (isBroken) throw notJson()
    if (end === undefined) throw this.#stopped()
    this.#at = end
    return { start, end, said }
  }

  #nested(): JsonSpan {
    const { what, depth } = this.#limits
    const start = this.#at
    const { end, isBroken, isTooDeep, parts } = readNested(this.#bytes, start, this.#stop, depth - 1)
    if (isBroken) throw notJson()
    if (isTooDeep) throw new AnswerProblem(`${what} is nested more than ${depth} deep`)
    this.#parts += parts
    const { jsonParts } = GUEST_LIMITS
    if (this.#parts > jsonParts)
      throw new AnswerProblem(`${what} has more than ${jsonParts} arrays and objects`)
    if (end === undefined) throw this.#stopped()
    this.#at = end
    return { start, end }
  }

  /** A number, true, false or null. */
  #word(): JsonSpan {
    const start = this.#at
    const end = readWord(this.#bytes, start, this.#stop)
    if (end === undefined) throw notJson()
    if (end === this.#stop) throw this.#stopped()
    this.#at = end
    return { start, end }
  }
}

function skipSpace(bytes: Buffer, start: number, end: number): number {
  let at = start
  while (at < end && SPACES[bytes[at] ?? 0] === 1) at++
  return at
}

/** Whether a name is this one, ignoring case. Names with escapes are not recognized here. */
function isNamed(bytes: Buffer, { start, end }: JsonSpan, name: string): boolean {
  return (
    end - start === name.length + 2 && bytes.toString('latin1', start + 1, end - 1).toLowerCase() === name
  )
}

/** White space and the colon between a name and its value, skipped before measuring. */
const SLACK = 64

const SPACES = new Uint8Array(256)
for (const byte of Buffer.from(' \t\n\r')) SPACES[byte] = 1

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPENING_BRACKET = 0x5b
const BACKSLASH = 0x5c
const OPENING_BRACE = 0x7b

/** The character code of `]` minus that of `[`, and of `}` minus that of `{`. */
const TO_CLOSING = 2
