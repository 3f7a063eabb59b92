/*
 * The grammar of JSON (RFC 8259) as a transition table: the state and the next byte determine the next state.
 *
 * A state does not include the kind of the enclosing brackets, which would need a lookup before each step. Instead,
 * transitions that only one kind allows are marked, and the marks are compared with the open brackets separately. So a
 * string after a comma may be a name until the next token is known.
 */

const TEXTS = ['text', 'text after comma', 'first name'] as const

/** `json-scan.wat` depends on the numbers of the first four. */
const STATES = [
  ...['error', 'text', 'text: escape', 'text: hex 4', 'text: hex 3', 'text: hex 2', 'text: hex 1'],
  ...TEXTS.slice(1).flatMap((text) => [
    text,
    ...['escape', 'hex 4', 'hex 3', 'hex 2', 'hex 1'].map((part) => `${text}: ${part}`),
  ]),
  ...['array', 'object', 'after comma', 'after', 'after text after comma', 'colon'],
  // From here on: numbers and words.
  ...['value', 'minus', 'zero', 'digits', 'point', 'fraction', 'e', 'sign', 'exponent'],
  ...['t', 'tr', 'tru', 'f', 'fa', 'fal', 'fals', 'n', 'nu', 'nul'],
]

/** Flag bits of a transition, shared with `json-scan.wat`. An open array forbids transitions marked with its bit. */
const NOT_IN_ARRAY = 1
const NOT_IN_OBJECT = 2
/** The first item of an array or object: at the maximum depth, it exceeds the limit. */
export const FIRST_ITEM = 8
/** Bits of the enclosing brackets, 4 bits lower: what they forbid. The upper 2 bits change the depth. */
const OPENS_ARRAY = (NOT_IN_ARRAY << 4) | (1 << 6)
const OPENS_OBJECT = (NOT_IN_OBJECT << 4) | (1 << 6)
const CLOSES = -1 << 6

/** A state as in `json-scan.wat`: the offset of its row. */
export function stateOf(name: string): number {
  const number = STATES.indexOf(name)
  if (number < 0) throw new RangeError(`Unknown state ${name}`)
  return number * ROW
}

/** Size of a row: one word per byte value. */
const ROW = 512

/** The offset of a transition's flags from its next state, in `json-scan.wat`. */
const FLAGS = 32_768

/** Writes the tables to the zeroed memory of `json-scan.wat`: missing transitions are errors. */
export function writeGrammar(memory: DataView): void {
  const on = (from: string, bytes: string, next: string, flags = 0) => {
    const [row, state] = [stateOf(from), stateOf(next)]
    for (const byte of Buffer.from(bytes, 'latin1')) {
      memory.setUint16(row + 2 * byte, state, true)
      if (flags !== 0) memory.setInt8(FLAGS + row + 2 * byte, flags)
    }
  }
  const onValue = (from: string, text: string, flags: number, textFlags = flags) => {
    on(from, SPACE_BYTES, from)
    on(from, '"', text, textFlags)
    on(from, '[', 'array', flags | OPENS_ARRAY)
    on(from, '{', 'object', flags | OPENS_OBJECT)
    on(from, '-', 'minus', flags)
    on(from, '0', 'zero', flags)
    on(from, '123456789', 'digits', flags)
    for (const word of 'tfn') on(from, word, word, flags)
  }

  onValue('value', 'text', 0)
  onValue('array', 'text', FIRST_ITEM)
  on('array', ']', 'after', CLOSES)
  on('object', SPACE_BYTES, 'object')
  on('object', '"', 'first name', FIRST_ITEM)
  on('object', '}', 'after', CLOSES)
  onValue('after comma', 'text after comma', NOT_IN_OBJECT, 0)

  for (const text of TEXTS) {
    on(text, ALL_OF_TEXT, text)
    on(text, '\\', `${text}: escape`)
    on(`${text}: escape`, '"\\/bfnrt', text)
    on(`${text}: escape`, 'u', `${text}: hex 4`)
    for (const left of [4, 3, 2]) on(`${text}: hex ${left}`, HEX_DIGITS, `${text}: hex ${left - 1}`)
    on(`${text}: hex 1`, HEX_DIGITS, text)
  }
  on('text', '"', 'after')
  on('text after comma', '"', 'after text after comma')
  on('first name', '"', 'colon')
  on('colon', SPACE_BYTES, 'colon')
  on('colon', ':', 'value')
  on('after text after comma', SPACE_BYTES, 'after text after comma')
  on('after text after comma', ':', 'value', NOT_IN_ARRAY)
  on('after text after comma', ',', 'after comma', NOT_IN_OBJECT)
  on('after text after comma', ']', 'after', NOT_IN_OBJECT | CLOSES)

  for (const from of ['after', 'zero', 'digits', 'fraction', 'exponent']) {
    on(from, SPACE_BYTES, 'after')
    on(from, ',', 'after comma')
    on(from, ']', 'after', NOT_IN_OBJECT | CLOSES)
    on(from, '}', 'after', NOT_IN_ARRAY | CLOSES)
  }
  on('minus', '0', 'zero')
  on('minus', '123456789', 'digits')
  on('digits', DIGITS, 'digits')
  for (const from of ['zero', 'digits']) on(from, '.', 'point')
  for (const from of ['point', 'fraction']) on(from, DIGITS, 'fraction')
  for (const from of ['zero', 'digits', 'fraction']) on(from, 'eE', 'e')
  on('e', '+-', 'sign')
  for (const from of ['e', 'sign', 'exponent']) on(from, DIGITS, 'exponent')
  for (const word of ['true', 'false', 'null']) {
    for (let read = 1; read < word.length; read++)
      on(word.slice(0, read), word.charAt(read), read + 1 < word.length ? word.slice(0, read + 1) : 'after')
  }
}

const SPACE_BYTES = ' \t\n\r'
const DIGITS = '0123456789'
const HEX_DIGITS = `${DIGITS}abcdefABCDEF`

/** All bytes that a string may contain unescaped without a special meaning. */
const ALL_OF_TEXT = String.fromCharCode(...Array.from({ length: 256 - 0x20 }, (_, i) => 0x20 + i))
