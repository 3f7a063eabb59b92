import { readFileSync } from 'node:fs'

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
const FIRST_ITEM = 8
/** Bits of the enclosing brackets, 4 bits lower: the steps that they forbid. The upper 2 bits change the depth. */
const OPENS_ARRAY = (NOT_IN_ARRAY << 4) | (1 << 6)
const OPENS_OBJECT = (NOT_IN_OBJECT << 4) | (1 << 6)
const CLOSES = -1 << 6

/** A state as in `json-scan.wat`: the offset of its row. */
function stateOf(name: string): number {
  const number = STATES.indexOf(name)
  if (number < 0) throw new RangeError(`Unknown state ${name}`)
  return number * ROW
}

/** Size of a row: one word per byte value. */
const ROW = 512

/** The offset of a transition's flags from its next state, in `json-scan.wat`. */
const FLAGS = 32_768

/** Writes the tables to the zeroed memory of `json-scan.wat`: missing transitions are errors. */
function writeGrammar(memory: DataView): void {
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

/* The host of `json-scan.wasm`, which scans each byte of JSON: JavaScript would take twice as long. */

interface NestedResult {
  /** The position after its last byte; undefined if it is incomplete. */
  readonly end: number | undefined
  /** Whether it is invalid JSON. */
  readonly isBroken: boolean
  readonly isTooDeep: boolean
  /** Number of non-empty arrays and objects. */
  readonly parts: number
}

/**
 * Scans an array or object.
 *
 * @param start - Its start.
 * @param stop - Where scanning stops.
 * @param maxDepth - Maximum nesting of non-empty arrays and objects, below 8,000.
 */
export function readNested(bytes: Buffer, start: number, stop: number, maxDepth: number): NestedResult {
  const { memory, state, depth, broken, parts, nested } = openedMachine()
  state.value = VALUE
  depth.value = 0
  broken.value = 0
  parts.value = 0
  let at = start
  do {
    const size = Math.min(PIECE, stop - at)
    memory.set(bytes.subarray(at, at + size), INPUT)
    at += nested(INPUT, INPUT + size, maxDepth) - INPUT
  } while (at < stop && depth.value > 0 && state.value !== ERROR && broken.value === 0)
  return {
    end: depth.value === 0 ? at : undefined,
    isBroken: state.value === ERROR || broken.value % FIRST_ITEM > 0,
    isTooDeep: broken.value >= FIRST_ITEM,
    parts: parts.value / FIRST_ITEM,
  }
}

interface TextResult {
  /** The position after its closing quote; undefined if there is none. */
  readonly end: number | undefined
  /** Whether it contains an invalid byte or escape. */
  readonly isBroken: boolean
  /** The decoded value. It is UTF-8 if its bytes were. */
  readonly said: Buffer
}

/**
 * Scans a string and decodes its escapes.
 *
 * @param start - After its opening quote.
 * @param stop - Where scanning stops.
 */
export function readText(bytes: Buffer, start: number, stop: number): TextResult {
  const { memory, state, output, text } = openedMachine()
  state.value = TEXT
  const said: Buffer[] = []
  let at = start
  while (at < stop && (state.value === TEXT || state.value === ESCAPE)) {
    const size = Math.min(PIECE, stop - at)
    memory.fill(0, INPUT + size, INPUT + size + BEHIND)
    memory.set(bytes.subarray(at, at + size + BEHIND), INPUT)
    at += text(INPUT, INPUT + size) - INPUT
    said.push(Buffer.from(memory.subarray(OUTPUT, output.value)))
  }
  return {
    end: state.value === AFTER ? at : undefined,
    isBroken: state.value === ERROR,
    said: said[0] && said.length === 1 ? said[0] : Buffer.concat(said),
  }
}

/**
 * Scans a number, true, false or null.
 *
 * @param start - Its start.
 * @param stop - Where scanning stops.
 * @returns the position after its last byte, at most `stop`; undefined if it is invalid.
 */
export function readWord(bytes: Buffer, start: number, stop: number): number | undefined {
  const { memory, state, word } = openedMachine()
  state.value = VALUE
  for (let at = start; at < stop; ) {
    const size = Math.min(PIECE, stop - at)
    memory.set(bytes.subarray(at, at + size), INPUT)
    at += word(INPUT, INPUT + size, VALUE) - INPUT
    if (state.value === ERROR) return undefined
    // The last byte is the "e" of "true", or the byte after a number.
    if (state.value < VALUE) return LETTER.test(String.fromCharCode(bytes[at - 1] ?? 0)) ? at : at - 1
  }
  return stop
}

const LETTER = /[a-z]/

/** Whether there are control characters: bytes below that of a space. */
export function hasControl(bytes: Buffer, start: number, end: number): boolean {
  if (end - start <= MAX_SHORT) {
    for (let at = start; at < end; at++) if ((bytes[at] ?? 0) < SPACE) return true
    return false
  }
  const { memory, control } = openedMachine()
  for (let at = start; at < end; at += PIECE) {
    const size = Math.min(PIECE, end - at)
    memory.fill(SPACE, INPUT + size, INPUT + size + BEHIND)
    memory.set(bytes.subarray(at, at + size), INPUT)
    if (control(INPUT, INPUT + size) !== 0) return true
  }
  return false
}

/** What `json-scan.wat` exports, and its memory as bytes. */
type Machine = Omit<MachineExports, 'memory'> & { readonly memory: Uint8Array }

type MachineExports = {
  readonly memory: WebAssembly.Memory
  readonly state: WebAssembly.Global<'i32'>
  readonly depth: WebAssembly.Global<'i32'>
  readonly broken: WebAssembly.Global<'i32'>
  readonly parts: WebAssembly.Global<'i32'>
  readonly output: WebAssembly.Global<'i32'>
  readonly nested: (at: number, stop: number, maxDepth: number) => number
  readonly text: (at: number, stop: number) => number
  readonly word: (at: number, stop: number, first: number) => number
  readonly control: (at: number, stop: number) => number
}

/** One instance is enough: no state of a call remains when it returns. */
let machine: Machine | undefined

/** Initializes the machine in advance, which takes some milliseconds: else the first answer would wait for it. */
export function prepareMachine(): void {
  machine ??= openMachine()
}

function openedMachine(): Machine {
  machine ??= openMachine()
  return machine
}

function openMachine(): Machine {
  const module = new WebAssembly.Module(readFileSync(new URL('./json-scan.wasm', import.meta.url)))
  const exports = new WebAssembly.Instance(module).exports as MachineExports
  const memory = new Uint8Array(exports.memory.buffer)
  writeGrammar(new DataView(exports.memory.buffer))
  for (let byte = 0; byte < 256; byte++) memory.set([byte, 1], SAID + TEXT + 2 * byte)
  for (const byte of [QUOTE, BACKSLASH]) memory.set([byte, 0], SAID + TEXT + 2 * byte)
  for (const [escaped = '', said = ''] of ['b\b', 'f\f', 'n\n', 'r\r', 't\t', '//', '""', '\\\\'])
    memory.set([said.charCodeAt(0), 1], SAID + ESCAPE + 2 * escaped.charCodeAt(0))
  memory.fill(0xff, HEX, HEX + 256)
  for (let value = 0; value < 16; value++) {
    const digit = value.toString(16)
    for (const byte of Buffer.from(digit + digit.toUpperCase())) memory[HEX + byte] = value
  }
  return { ...exports, memory }
}

/* The memory layout of `json-scan.wat`. */
const SAID = 73_728
const HEX = 75_264
const INPUT = 131_072
const OUTPUT = 262_144
/** Maximum bytes of input per step. */
const PIECE = 65_536
/** Readable bytes after the scanned ones. */
const BEHIND = 12

const ERROR = stateOf('error')
const TEXT = stateOf('text')
const ESCAPE = stateOf('text: escape')
const AFTER = stateOf('after')
/** The states from this one on are of numbers and words. */
const VALUE = stateOf('value')

/** Bytes read by JavaScript before it calls the machine. */
const MAX_SHORT = 256

const SPACE = 0x20
const QUOTE = 0x22
const BACKSLASH = 0x5c
