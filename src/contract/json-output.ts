import { isUtf8 } from 'node:buffer'
import { GUEST_LIMITS } from '../guest-limits.ts'

/** What is wrong with an answer of a guest, without a word of it: the contract makes an error of its own of this. */
export class AnswerProblem extends Error {
  override readonly name = 'AnswerProblem'
}

export interface JsonLimits {
  /** What is read, for messages. */
  readonly what: string
  /** Most arrays and objects within each other; the outermost counts. */
  readonly depth: number
  /** Most members of the outermost object, or elements of the outermost array. */
  readonly items: number
}

/** Strings, numbers and the others are told apart by whether they can be read as such. */
export type JsonKind = 'null' | 'array' | 'object' | 'other'

/**
 * An output that is JSON (RFC 8259), and what was found in it.
 *
 * @typeParam Value - Stands for a value; only the output that gave it knows what it is.
 */
export interface JsonOutput<Value> {
  /**
   * The members of an object.
   *
   * @param value - Default: the output as a whole.
   * @throws {@link AnswerProblem} if it is no object, or goes beyond a limit.
   */
  members(limits: JsonLimits, value?: Value): readonly (readonly [name: string, value: Value])[]
  /** The elements of an array. */
  elements(limits: JsonLimits, value: Value): readonly Value[]
  kindOf(value: Value): JsonKind
  /** A bound of the bytes of a value as it was written. */
  sizeOf(value: Value): number
  /** NaN if the value is no number, or is written with more than 32 characters. */
  number(value: Value): number
  /** What a string says; undefined if the value is none. */
  string(value: Value): string | undefined
  /**
   * What a string says, as UTF-8; undefined if the value is none.
   *
   * @throws {@link AnswerProblem} if it is large and not UTF-8.
   */
  text(value: Value): Uint8Array | undefined
  /** The value of a member of the output, as it was written. */
  raw(name: string, value: Value): Uint8Array
}

/** An output of no more bytes is parsed: it cannot be nested more deeply, and `JSON.parse` is faster there. */
const MAX_PARSED = 2 * GUEST_LIMITS.jsonDepth

/** Reads an output. @throws what `read` throws, and {@link AnswerProblem} if the output is not JSON. */
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
      throw notJson() // why not would quote it
    }
  }

  members(limits: JsonLimits, value: unknown = this.#value): readonly (readonly [string, unknown])[] {
    if (this.kindOf(value) !== 'object') throw isNoObject(limits)
    const members = Object.entries(value as object)
    if (members.length > limits.items) throw hasTooMany(limits)
    return members
  }

  elements(limits: JsonLimits, value: unknown): readonly unknown[] {
    const elements = value as readonly unknown[]
    if (elements.length > limits.items) throw hasTooMany(limits)
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

  /** `JSON.parse` does not say where it was. */
  raw(name: string): Uint8Array {
    const bytes = toBuffer(this.#bytes)
    const limits = { what: name, depth: MAX_PARSED, items: MAX_PARSED }
    const { names, values } = scan(bytes, limits, OPENING_BRACE, undefined)
    const output = new ScannedOutput(bytes)
    const i = names.findLastIndex((span) => output.string(span) === name)
    return bytes.subarray(values[i]?.start, values[i]?.end)
  }
}

/** Where a value stands. */
interface JsonSpan {
  /** Of its first byte. */
  readonly start: number
  /** Behind its last byte. */
  readonly end: number
}

/**
 * Values are found and not made: each byte is looked at once, where `JSON.parse` takes up to fifty times as long for many
 * small values or names. It accepts what this accepts.
 */
class ScannedOutput implements JsonOutput<JsonSpan> {
  readonly #bytes: Buffer

  constructor(output: Uint8Array) {
    this.#bytes = toBuffer(output)
  }

  members(limits: JsonLimits, span?: JsonSpan): readonly (readonly [string, JsonSpan])[] {
    const { names, values } = scan(this.#bytes, limits, OPENING_BRACE, span)
    return values.map((value, i) => [this.string(names[i] ?? value) ?? '', value])
  }

  elements(limits: JsonLimits, span: JsonSpan): readonly JsonSpan[] {
    return scan(this.#bytes, limits, OPENING_BRACKET, span).values
  }

  kindOf({ start }: JsonSpan): JsonKind {
    return KINDS.get(this.#bytes[start] ?? NOTHING) ?? 'other'
  }

  sizeOf({ start, end }: JsonSpan): number {
    return end - start
  }

  number({ start, end }: JsonSpan): number {
    const text = end - start <= MAX_NUMBER ? this.#bytes.toString('latin1', start, end) : ''
    return /^[-\d]/.test(text) ? Number(text) : Number.NaN
  }

  string({ start, end }: JsonSpan): string | undefined {
    if (this.#bytes[start] !== QUOTE) return undefined
    const text = this.#bytes.toString('utf8', start + 1, end - 1)
    return text.includes('\\') ? JSON.parse(`"${text}"`) : text
  }

  /** A part of the output if nothing is to be replaced in it. */
  text(span: JsonSpan): Uint8Array | undefined {
    const { start, end } = span
    if (this.#bytes[start] !== QUOTE) return undefined
    const bytes = this.#bytes.subarray(start + 1, end - 1)
    if (!isUtf8(bytes)) {
      const { replacedBytes } = GUEST_LIMITS
      if (bytes.length > replacedBytes) {
        throw new AnswerProblem(`a text larger than ${replacedBytes} bytes is not UTF-8`)
      }
      return Buffer.from(this.string(span) ?? '')
    }
    return bytes.includes(BACKSLASH) ? unescaped(bytes) : bytes
  }

  raw(_name: string, { start, end }: JsonSpan): Uint8Array {
    return this.#bytes.subarray(start, end)
  }
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

function notJson(): AnswerProblem {
  return new AnswerProblem('the output is not JSON')
}

function isNoObject({ what }: JsonLimits): AnswerProblem {
  return new AnswerProblem(`${what} is not a JSON object`)
}

function isTooDeep({ what, depth }: JsonLimits): AnswerProblem {
  return new AnswerProblem(`${what} is nested more than ${depth} deep`)
}

function hasTooMany({ what, items }: JsonLimits): AnswerProblem {
  return new AnswerProblem(`there are more than ${items} entries in ${what}`)
}

/** Characters of a number that is read. */
const MAX_NUMBER = 32

const SPACE = 0x20
const QUOTE = 0x22
const COLON_BYTE = 0x3a
const OPENING_BRACKET = 0x5b
const BACKSLASH = 0x5c
/** How `null` begins. */
const NULL = 0x6e
const OPENING_BRACE = 0x7b

const CLOSING_BRACE = 0x7d

const KINDS: ReadonlyMap<number, JsonKind> = new Map([
  [NULL, 'null'],
  [OPENING_BRACKET, 'array'],
  [OPENING_BRACE, 'object'],
] as const)

/** From an opening bracket or brace to the closing one. */
const TO_CLOSING = 2

/** What may come next. The order is that of {@link NEXT}. */
const STATES = [
  ...['value', 'value or end', 'name', 'name or end', 'colon', 'after value'],
  ...['minus', 'zero', 'digits', 'point', 'fraction', 'e', 'sign', 'exponent'],
  ...['t', 'tr', 'tru', 'f', 'fa', 'fal', 'fals', 'n', 'nu', 'nul'],
] as const

type State = (typeof STATES)[number]

/** What is more than another state. */
const ACTIONS = ['error', 'opens', 'closes', 'comma', 'string'] as const

type Action = (typeof ACTIONS)[number]

const SPACES = ' \t\n\r'
const DIGITS = '0123456789'

const AFTER: readonly Transition[] = [
  [SPACES, 'after value'],
  [',', 'comma'],
  [']}', 'closes'],
]
const VALUE: readonly Transition[] = [
  [SPACES, 'value'],
  ['[{', 'opens'],
  ['"', 'string'],
  ['-', 'minus'],
  ['0', 'zero'],
  ['123456789', 'digits'],
  ['t', 't'],
  ['f', 'f'],
  ['n', 'n'],
]
const EXPONENT: Transition = ['eE', 'e']

type Transition = readonly [bytes: string, next: State | Action]

/** The grammar of JSON. What is not listed is an error. */
const GRAMMAR: Readonly<Record<State, readonly Transition[]>> = {
  value: VALUE,
  'value or end': [...VALUE, [SPACES, 'value or end'], [']', 'closes']],
  name: [
    [SPACES, 'name'],
    ['"', 'string'],
  ],
  'name or end': [
    [SPACES, 'name or end'],
    ['"', 'string'],
    ['}', 'closes'],
  ],
  colon: [
    [SPACES, 'colon'],
    [':', 'value'],
  ],
  'after value': AFTER,
  minus: [
    ['0', 'zero'],
    ['123456789', 'digits'],
  ],
  zero: [...AFTER, ['.', 'point'], EXPONENT],
  digits: [...AFTER, [DIGITS, 'digits'], ['.', 'point'], EXPONENT],
  point: [[DIGITS, 'fraction']],
  fraction: [...AFTER, [DIGITS, 'fraction'], EXPONENT],
  e: [
    ['+-', 'sign'],
    [DIGITS, 'exponent'],
  ],
  sign: [[DIGITS, 'exponent']],
  exponent: [...AFTER, [DIGITS, 'exponent']],
  t: [['r', 'tr']],
  tr: [['u', 'tru']],
  tru: [['e', 'after value']],
  f: [['a', 'fa']],
  fa: [['l', 'fal']],
  fal: [['s', 'fals']],
  fals: [['e', 'after value']],
  n: [['u', 'nu']],
  nu: [['l', 'nul']],
  nul: [['l', 'after value']],
}

/** Behind these a value may end with the text. */
const FINAL: ReadonlySet<number> = new Set(
  (['after value', 'zero', 'digits', 'fraction', 'exponent'] as const).map(stateOf),
)

function stateOf(state: State): number {
  return STATES.indexOf(state) << 8
}

const VALUE_STATE = stateOf('value')
const VALUE_OR_END = stateOf('value or end')
const NAME = stateOf('name')
const NAME_OR_END = stateOf('name or end')
const COLON = stateOf('colon')
const AFTER_VALUE = stateOf('after value')

function actionOf(action: Action): number {
  return (STATES.length + ACTIONS.indexOf(action)) << 8
}

const ERROR = actionOf('error')
const OPENS = actionOf('opens')
const CLOSES = actionOf('closes')
const COMES_NEXT = actionOf('comma')
const STRING = actionOf('string')

/** By state and byte, added up: the next state, or an action. */
const NEXT = new Uint16Array(STATES.length << 8).fill(ERROR)
for (const state of STATES) {
  for (const [bytes, next] of GRAMMAR[state]) {
    const number = isAction(next) ? actionOf(next) : stateOf(next)
    for (const byte of Buffer.from(bytes)) NEXT[stateOf(state) | byte] = number
  }
}

function isAction(next: State | Action): next is Action {
  return (ACTIONS as readonly string[]).includes(next)
}

interface Scanned {
  /** Of members; none of elements. */
  readonly names: readonly JsonSpan[]
  readonly values: JsonSpan[]
}

/**
 * Reads all of the text, by a table: a byte takes 2 ns. Functions for the kinds of values took ten times as long.
 *
 * @param wanted - How it has to begin.
 */
function scan(bytes: Buffer, limits: JsonLimits, wanted: number, span: JsonSpan | undefined): Scanned {
  const { start, end } = span ?? { start: 0, end: bytes.length }
  const names: JsonSpan[] = []
  const values: JsonSpan[] = []
  const table = NEXT
  const firstAction = ERROR
  let depth = 0
  let closing = NOTHING
  let state = VALUE_STATE
  /** How many are open where the items are; none if it is not what is wanted. */
  let itemDepth = NOTHING
  /** Where an item begins, or what stands before it. */
  let itemAt = start

  for (let at = start; ; at++) {
    let next = ERROR
    for (; at < end; at++) {
      next = table[state | (bytes[at] ?? NOTHING)] ?? firstAction
      if (next >= firstAction) break
      state = next
    }
    if (at >= end) break

    const byte = bytes[at] ?? NOTHING
    if (next === STRING) {
      const isName = state === NAME || state === NAME_OR_END
      const isItem = depth === itemDepth
      at = (isItem && !isName && endOfPlain(bytes, at, end)) || endOfString(bytes, at, end)
      state = isName ? COLON : AFTER_VALUE
      if (isName && isItem) {
        names.push(trim(bytes, itemAt, at + 1))
        itemAt = at + 1
      }
    } else if (next === COMES_NEXT && depth > 0) {
      if (depth === itemDepth) {
        addItem(values, limits, trim(bytes, itemAt, at))
        itemAt = at + 1
      }
      state = closing === CLOSING_BRACE ? NAME : VALUE_STATE
    } else if (next === CLOSES && byte === closing) {
      if (depth === itemDepth && state !== NAME_OR_END && state !== VALUE_OR_END) {
        addItem(values, limits, trim(bytes, itemAt, at))
      }
      closing = CLOSINGS[--depth] ?? NOTHING
      state = AFTER_VALUE
    } else if (next === OPENS) {
      if (depth === limits.depth) throw isTooDeep(limits)
      if (depth === 0 && byte === wanted) {
        itemDepth = 1
        itemAt = at + 1
      }
      CLOSINGS[depth++] = closing
      closing = byte + TO_CLOSING
      state = byte === OPENING_BRACE ? NAME_OR_END : VALUE_OR_END
    } else throw notJson()
  }
  if (depth > 0 || !FINAL.has(state)) throw notJson()
  if (itemDepth === NOTHING) throw isNoObject(limits) // arrays are looked for only where there is one
  return { names, values }
}

function addItem(values: JsonSpan[], limits: JsonLimits, value: JsonSpan): void {
  if (values.length === limits.items) throw hasTooMany(limits)
  values.push(value)
}

/** Ends no array and no object. */
const NOTHING = 0

/** Of each array and object that is open, but for the innermost: the byte that ends it. Each scan uses the same. */
const CLOSINGS = new Uint8Array(MAX_PARSED)

/**
 * A string without escapes, such as most bodies are, is read by native code, which is faster still.
 *
 * @param at - Where its quote is.
 * @returns where its last byte is; 0 if it has escapes, or no end.
 */
function endOfPlain(bytes: Buffer, at: number, end: number): number {
  const quote = bytes.indexOf(QUOTE, at + 1)
  if (quote < 0 || quote >= end) return 0
  const text = bytes.subarray(at, quote + 1)
  if (text.includes(BACKSLASH)) return 0
  try {
    JSON.parse(text.toString('latin1'))
  } catch {
    throw notJson() // a control character
  }
  return quote
}

/** @param start - Where its quote is. @returns where its last byte is. */
function endOfString(bytes: Buffer, start: number, end: number): number {
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at] ?? NOTHING
    if (byte === QUOTE) return at
    if (byte < SPACE) break
    if (byte !== BACKSLASH) continue
    const escaped = bytes[++at] ?? NOTHING
    if (escaped === LOWER_U) {
      if (!(hexAt(bytes, at + 1) >= 0)) break
      at += HEX_DIGITS
    } else if (UNESCAPED[escaped] === 0) break
  }
  throw notJson()
}

/** What the text of a string says; it is known to be UTF-8, and its escapes to be right. */
function unescaped(text: Buffer): Buffer {
  const { length } = text
  const said = Buffer.allocUnsafe(length) // an escape is longer than what it stands for
  let size = 0
  for (let at = 0; at < length; at++) {
    const byte = text[at] ?? NOTHING
    if (byte !== BACKSLASH) {
      said[size++] = byte
      continue
    }
    const escaped = text[++at] ?? NOTHING
    if (escaped !== LOWER_U) {
      said[size++] = UNESCAPED[escaped] ?? NOTHING
      continue
    }
    let code = hexAt(text, at + 1)
    at += HEX_DIGITS
    if (code >= 0xd800 && code < 0xe000) {
      const isPair = code < 0xdc00 && text[at + 1] === BACKSLASH && text[at + 2] === LOWER_U
      const low = isPair ? hexAt(text, at + 3) : 0
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00)
        at += 2 + HEX_DIGITS
      } else code = 0xfffd // half a character
    }
    size = writeUtf8(said, size, code)
  }
  return said.subarray(0, size)
}

/** @returns behind its last byte. */
function writeUtf8(bytes: Buffer, start: number, code: number): number {
  let at = start
  if (code < 0x80) bytes[at++] = code
  else {
    if (code < 0x800) bytes[at++] = 0xc0 | (code >> 6)
    else {
      if (code < 0x1_0000) bytes[at++] = 0xe0 | (code >> 12)
      else {
        bytes[at++] = 0xf0 | (code >> 18)
        bytes[at++] = 0x80 | ((code >> 12) & 0x3f)
      }
      bytes[at++] = 0x80 | ((code >> 6) & 0x3f)
    }
    bytes[at++] = 0x80 | (code & 0x3f)
  }
  return at
}

/** The number that four hexadecimal digits are; negative if they are none. */
function hexAt(bytes: Buffer, at: number): number {
  const [a, b] = [HEX[bytes[at] ?? NOTHING] ?? NO_DIGIT, HEX[bytes[at + 1] ?? NOTHING] ?? NO_DIGIT]
  const [c, d] = [HEX[bytes[at + 2] ?? NOTHING] ?? NO_DIGIT, HEX[bytes[at + 3] ?? NOTHING] ?? NO_DIGIT]
  return (a << 12) | (b << 8) | (c << 4) | d
}

const LOWER_U = 0x75

/** Digits of an escape such as `\u00e9`. */
const HEX_DIGITS = 4

/** Makes every number that it is a part of negative. */
const NO_DIGIT = -1

const HEX = new Int8Array(256).fill(NO_DIGIT)
for (let digit = 0; digit < 16; digit++) {
  for (const byte of Buffer.from(digit.toString(16) + digit.toString(16).toUpperCase())) HEX[byte] = digit
}

/** What stands for what behind a backslash, but for `u`. */
const UNESCAPED = new Uint8Array(256)
for (const [escaped, said] of Object.entries({
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  '/': '/',
  '"': '"',
  '\\': '\\',
})) {
  UNESCAPED[escaped.charCodeAt(0)] = said.charCodeAt(0)
}

/** A name, or a value without the colon before it: what is around it is white space, which is below all other bytes. */
function trim(bytes: Uint8Array, from: number, to: number): JsonSpan {
  let start = from
  let end = to
  while ((bytes[start] ?? QUOTE) <= SPACE || bytes[start] === COLON_BYTE) start++
  while ((bytes[end - 1] ?? QUOTE) <= SPACE) end--
  return { start, end }
}
