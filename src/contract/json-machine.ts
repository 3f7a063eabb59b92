import { readFileSync } from 'node:fs'
import { FIRST_ITEM, stateOf, writeGrammar } from './json-grammar.ts'

/* The host of `json-scan.wasm`, which scans each byte of JSON: JavaScript would take twice as long. */

export interface NestedResult {
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

export interface TextResult {
  /** The position after its closing quote; undefined if there is none. */
  readonly end: number | undefined
  /** Whether it contains an invalid byte or escape. */
  readonly isBroken: boolean
  /** Its decoded value, in UTF-8 if its bytes were. */
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
