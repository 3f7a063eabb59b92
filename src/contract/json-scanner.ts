import { isUtf8 } from 'node:buffer'
import { GUEST_LIMITS } from '../guest-limits.ts'

/** What is wrong with an answer of a guest, without a word of it: the contract makes an error of its own of this. */
export class AnswerProblem extends Error {
  override readonly name = 'AnswerProblem'
}

/** Where a value stands in an output that is JSON. */
export interface JsonSpan {
  /** Of its first byte. */
  readonly start: number
  /** Behind its last byte. */
  readonly end: number
}

export interface JsonLimits {
  /** What is read, for messages. */
  readonly what: string
  /** Most arrays and objects within each other; the outermost counts. */
  readonly depth: number
  /** Most members of the outermost object, or elements of the outermost array. */
  readonly items: number
}

/**
 * Finds the members of an object in an output that is JSON (RFC 8259), and makes no value of it: each byte is looked at
 * once. `JSON.parse` takes up to fifty times as long for many small values or names. It accepts what this accepts.
 *
 * @param span - The part of the output that is read, which was found by this. Default: all.
 * @returns names and places of the values, in their order; a name may be there twice.
 * @throws {@link AnswerProblem} if it is no object, or goes beyond a limit.
 */
export function scanObject(
  output: Uint8Array,
  limits: JsonLimits,
  span?: JsonSpan,
): (readonly [name: string, value: JsonSpan])[] {
  const { names, values } = scan(output, limits, OPENING_BRACE, span)
  return values.map((value, i) => [readString(output, names[i] ?? value) ?? '', value])
}

/** Finds the elements of an array; else as {@link scanObject}. */
export function scanArray(output: Uint8Array, limits: JsonLimits, span?: JsonSpan): JsonSpan[] {
  return scan(output, limits, OPENING_BRACKET, span).values
}

/** What a string says. @returns undefined if the value is no string. */
export function readString(output: Uint8Array, { start, end }: JsonSpan): string | undefined {
  if (output[start] !== QUOTE) return undefined
  const text = toBuffer(output).toString('utf8', start + 1, end - 1)
  return text.includes('\\') ? JSON.parse(`"${text}"`) : text
}

/**
 * What a string says, as UTF-8: a part of the output if nothing is to be replaced in it.
 *
 * @returns undefined if the value is no string.
 * @throws {@link AnswerProblem} if it is large and not UTF-8.
 */
export function readText(output: Uint8Array, { start, end }: JsonSpan): Uint8Array | undefined {
  if (output[start] !== QUOTE) return undefined
  const bytes = toBuffer(output).subarray(start + 1, end - 1)
  if (!isUtf8(bytes)) {
    const { replacedBytes } = GUEST_LIMITS
    if (bytes.length > replacedBytes)
      throw new AnswerProblem(`a text larger than ${replacedBytes} bytes is not UTF-8`)
    return Buffer.from(readString(output, { start, end }) ?? '')
  }
  return bytes.includes(BACKSLASH) ? Buffer.from(JSON.parse(`"${bytes}"`)) : bytes
}

/** A value as it was written. */
export function readRaw(output: Uint8Array, { start, end }: JsonSpan): Uint8Array {
  return toBuffer(output).subarray(start, end)
}

/** Whether a value is null. */
export function isNull(output: Uint8Array, { start }: JsonSpan): boolean {
  return output[start] === NULL
}

function toBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

const SPACE = 0x20
const QUOTE = 0x22
const COLON_BYTE = 0x3a
const OPENING_BRACKET = 0x5b
const BACKSLASH = 0x5c
/** How `null` begins. */
const NULL = 0x6e
const OPENING_BRACE = 0x7b

const CLOSING_BRACE = 0x7d

/** From an opening bracket or brace to the closing one. */
const TO_CLOSING = 2

/** What may come next. The order is that of {@link NEXT}. */
const STATES = [
  ...['value', 'value or end', 'name', 'name or end', 'colon', 'after value'],
  ...['string', 'escape', 'hex 4', 'hex 3', 'hex 2', 'hex 1'],
  ...['minus', 'zero', 'digits', 'point', 'fraction', 'e', 'sign', 'exponent'],
  ...['t', 'tr', 'tru', 'f', 'fa', 'fal', 'fals', 'n', 'nu', 'nul'],
] as const

type State = (typeof STATES)[number]

/** What is more than another state. */
const ACTIONS = ['error', 'opens', 'closes', 'comma', 'string begins', 'string ends'] as const

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
  ['"', 'string begins'],
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
    ['"', 'string begins'],
  ],
  'name or end': [
    [SPACES, 'name or end'],
    ['"', 'string begins'],
    ['}', 'closes'],
  ],
  colon: [
    [SPACES, 'colon'],
    [':', 'value'],
  ],
  'after value': AFTER,
  string: [
    ['"', 'string ends'],
    ['\\', 'escape'],
  ],
  escape: [
    ['"\\/bfnrt', 'string'],
    ['u', 'hex 4'],
  ],
  'hex 4': [[`${DIGITS}abcdefABCDEF`, 'hex 3']],
  'hex 3': [[`${DIGITS}abcdefABCDEF`, 'hex 2']],
  'hex 2': [[`${DIGITS}abcdefABCDEF`, 'hex 1']],
  'hex 1': [[`${DIGITS}abcdefABCDEF`, 'string']],
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
  return STATES.indexOf(state)
}

const VALUE_STATE = stateOf('value')
const VALUE_OR_END = stateOf('value or end')
const NAME = stateOf('name')
const NAME_OR_END = stateOf('name or end')
const COLON = stateOf('colon')
const AFTER_VALUE = stateOf('after value')
const STRING = stateOf('string')

function actionOf(action: Action): number {
  return STATES.length + ACTIONS.indexOf(action)
}

const ERROR = actionOf('error')
const OPENS = actionOf('opens')
const CLOSES = actionOf('closes')
const COMES_NEXT = actionOf('comma')
const STRING_BEGINS = actionOf('string begins')
const STRING_ENDS = actionOf('string ends')

/** By state and byte: the next state, or an action. */
const NEXT = new Uint8Array(STATES.length << 8).fill(ERROR)
NEXT.fill(STRING, (STRING << 8) | 0x20, (STRING + 1) << 8)
for (const [i, state] of STATES.entries()) {
  for (const [bytes, next] of GRAMMAR[state]) {
    const index = (STATES as readonly string[]).indexOf(next)
    for (const byte of Buffer.from(bytes))
      NEXT[(i << 8) | byte] = index < 0 ? actionOf(next as Action) : index
  }
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
function scan(bytes: Uint8Array, limits: JsonLimits, wanted: number, span: JsonSpan | undefined): Scanned {
  const { start, end } = span ?? { start: 0, end: bytes.length }
  const names: JsonSpan[] = []
  const values: JsonSpan[] = []
  /** Of each array and object that is open, but for the innermost: the byte that ends it. */
  const outer: number[] = []
  let closing = NOTHING
  let state = VALUE_STATE
  let isName = false
  /** How many are open where the items are; none if it is not what is wanted. */
  let itemDepth = NOTHING
  /** Where an item begins, or what stands before it. */
  let itemAt = start

  const endItem = (at: number) => {
    const { items, what } = limits
    if (values.length === items) throw new AnswerProblem(`there are more than ${items} entries in ${what}`)
    values.push(trim(bytes, itemAt, at))
    itemAt = at + 1
  }

  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? NOTHING
    const next = NEXT[(state << 8) | byte] ?? ERROR
    if (next < ERROR) {
      state = next
      continue
    }
    if (next === STRING_BEGINS) {
      isName = state === NAME || state === NAME_OR_END
      state = STRING
    } else if (next === STRING_ENDS) {
      state = isName ? COLON : AFTER_VALUE
      if (isName && outer.length === itemDepth) {
        names.push(trim(bytes, itemAt, at + 1))
        itemAt = at + 1
      }
    } else if (next === OPENS) {
      if (outer.length === limits.depth) {
        throw new AnswerProblem(`${limits.what} is nested more than ${limits.depth} deep`)
      }
      if (closing === NOTHING && byte === wanted) {
        itemDepth = 1
        itemAt = at + 1
      }
      outer.push(closing)
      closing = byte + TO_CLOSING
      state = byte === OPENING_BRACE ? NAME_OR_END : VALUE_OR_END
    } else if (next === COMES_NEXT && closing !== NOTHING) {
      if (outer.length === itemDepth) endItem(at)
      state = closing === CLOSING_BRACE ? NAME : VALUE_STATE
    } else if (next === CLOSES && byte === closing) {
      const isEmpty = state === NAME_OR_END || state === VALUE_OR_END
      if (outer.length === itemDepth && !isEmpty) endItem(at)
      closing = outer.pop() ?? NOTHING
      state = AFTER_VALUE
    } else throw new AnswerProblem('the output is not JSON')
  }
  if (closing !== NOTHING || !FINAL.has(state)) throw new AnswerProblem('the output is not JSON')
  if (itemDepth === NOTHING) {
    throw new AnswerProblem(`${limits.what} is not a JSON ${wanted === OPENING_BRACE ? 'object' : 'array'}`)
  }
  return { names, values }
}

/** Ends no array and no object. */
const NOTHING = 0

/** A name, or a value without the colon before it: what is around it is white space, which is below all other bytes. */
function trim(bytes: Uint8Array, from: number, to: number): JsonSpan {
  let start = from
  let end = to
  while ((bytes[start] ?? QUOTE) <= SPACE || bytes[start] === COLON_BYTE) start++
  while ((bytes[end - 1] ?? QUOTE) <= SPACE) end--
  return { start, end }
}
