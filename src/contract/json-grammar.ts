/*
 * The grammar of JSON (RFC 8259) as tables, by which a byte takes one step: the state and the byte say what comes next.
 *
 * A state does not say in what kind of brackets a value is: that would take a look at what is open before each step. What
 * only one kind allows is marked instead, and what is open is compared with the mark beside the way. So a string behind a
 * comma may be a name until it is known what follows it.
 */

const TEXTS = ['text', 'text after comma', 'first name'] as const

/** `json-scan.wat` knows the numbers of the first four. */
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

/** Bits of the flags of a step; `json-scan.wat` knows them. An array that is open breaks what is marked with its bit. */
const NOT_IN_ARRAY = 1
const NOT_IN_OBJECT = 2
/** The first item of an array or object: at the deepest place, it breaks the limit. */
export const FIRST_ITEM = 8
/** What is open from here on is 4 bits lower: the bit of what breaks it. The upper 2 bits are what the depth grows by. */
const OPENS_ARRAY = (NOT_IN_ARRAY << 4) | (1 << 6)
const OPENS_OBJECT = (NOT_IN_OBJECT << 4) | (1 << 6)
const CLOSES = -1 << 6

/** A state, as `json-scan.wat` has it: where its row is. */
export function stateOf(name: string): number {
  const number = STATES.indexOf(name)
  if (number < 0) throw new RangeError(`There is no state ${name}`)
  return number * ROW
}

/** Bytes of a row: a word for each byte. */
const ROW = 512

/** Where `json-scan.wat` has the flags of a step, from where its next state is. */
const FLAGS = 32_768

/** Writes the tables to the memory of `json-scan.wat`, which is empty: what is not written is an error. */
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

/** All that a text may hold as it is, and what has a meaning of its own there. */
const ALL_OF_TEXT = String.fromCharCode(...Array.from({ length: 256 - 0x20 }, (_, i) => 0x20 + i))
