import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { AnswerProblem, notJson } from './answer-problem.ts'
import { AFTER, actionOf, ERROR, NEXT, stateOf } from './json-grammar.ts'

export interface JsonLimits {
  /** What is read, for messages. */
  readonly what: string
  /** Most arrays and objects within each other, of those that are not empty; the outermost counts. */
  readonly depth: number
  /** Most members of the outermost object, or elements of the outermost array. */
  readonly items: number
  /** Most bytes of the headers, and the member of the outermost object that they are. What is larger is read no further. */
  readonly headers?: { readonly name: string; readonly bytes: number }
}

/** Where a value stands. */
export interface JsonSpan {
  /** Of its first byte. */
  readonly start: number
  /** Behind its last byte. */
  readonly end: number
}

export interface Scanned {
  /** Of members; none of elements. */
  readonly names: readonly JsonSpan[]
  readonly values: readonly JsonSpan[]
}

/**
 * Reads an array or object, and finds its items. It makes no values: each byte is looked at once, whatever it is.
 *
 * @param opening - How it has to begin.
 * @param span - The part of the bytes that is read. Default: all.
 * @throws {@link AnswerProblem} if it does not, is not JSON, or goes beyond a limit.
 */
export function scan(bytes: Buffer, limits: JsonLimits, opening: number, span?: JsonSpan): Scanned {
  const end = span?.end ?? bytes.length
  const names: JsonSpan[] = []
  const values: JsonSpan[] = []
  const closing = opening + TO_CLOSING
  const itemState = opening === OPENING_BRACE ? NAME : VALUE
  const start = skipSpace(bytes, span?.start ?? 0, end)
  if (bytes[start] !== opening)
    throw new AnswerProblem(`${limits.what} is not a JSON ${opening === OPENING_BRACE ? 'object' : 'array'}`)
  const first = skipSpace(bytes, start + 1, end)
  if (bytes[first] === closing) return finish({ names, values }, bytes, first + 1, end)

  /** Arrays and objects that are open within the item. */
  let depth = 0
  const table = NEXT
  const returns = RETURNS
  const firstAction = ERROR
  const arrayBegins = ARRAY_BEGINS
  const ends = ARRAY_OR_OBJECT_ENDS
  const maxDepth = limits.depth
  const maxParts = GUEST_LIMITS.jsonParts
  let parts = 0
  let state = itemState
  /** Where an item begins, or what stands before it. */
  let itemAt = first
  /** Where reading ends: before the end of the bytes where a member may not be larger. */
  let stop = end
  for (let at = first; ; at++) {
    let next = firstAction
    // Actions are near each other or far away: only where they are far, a call is worth it.
    for (const near = Math.min(at + NEAR, stop); at < near; at++) {
      next = table[state | (bytes[at] ?? 0)] ?? firstAction
      if (next >= firstAction) break
      state = next
    }
    if (next < firstAction) {
      at = step(bytes, state, at, stop)
      state = STEP[0] ?? 0
      next = table[state | (bytes[at] ?? 0)] ?? firstAction
    }
    if (at >= stop) throw stop < end ? headersTooLarge(limits.headers?.bytes) : notJson()

    if (next === ends) state = returns[--depth] ?? 0
    else if (next === arrayBegins || next === OBJECT_BEGINS) {
      if (depth + 1 >= maxDepth)
        throw new AnswerProblem(`${limits.what} is nested more than ${limits.depth} deep`)
      if (++parts > maxParts)
        throw new AnswerProblem(`${limits.what} has more than ${maxParts} arrays and objects`)
      returns[depth++] = AFTER[state >> 8] ?? 0
      state = next === arrayBegins ? VALUE_IN_ARRAY : NAME_IN_OBJECT
      at-- // this byte is of its first item
    } else if (next === TEXT_BEGINS) {
      const last = endOfPlain(bytes, at, end)
      state = last > 0 ? AFTER_ITEM : TEXT
      if (last > 0) at = last
    } else if (next === NAME_ENDS) {
      const name = trim(bytes, itemAt, at + 1)
      names.push(name)
      if (limits.headers && isNamed(bytes, name, limits.headers.name))
        stop = Math.min(end, at + limits.headers.bytes + SLACK)
      itemAt = at + 1
      state = COLON
    } else if (next === ITEM_ENDS || (next === LAST_ITEM_ENDS && bytes[at] === closing)) {
      if (values.length === limits.items)
        throw new AnswerProblem(`there are more than ${limits.items} entries in ${limits.what}`)
      values.push(trim(bytes, itemAt, at))
      if (next === LAST_ITEM_ENDS) return finish({ names, values }, bytes, at + 1, end)
      itemAt = at + 1
      stop = end
      state = itemState
    } else throw notJson()
  }
}

/** Headers that are larger than they may be, in an answer that is not read to its end. */
export function headersTooLarge(most = 0): AnswerProblem {
  return new AnswerProblem(`headers are larger than ${most} bytes, as JSON`)
}

/** Whether a name is this one, in any case. One that is written with escapes is not seen here. */
function isNamed(bytes: Buffer, { start, end }: JsonSpan, name: string): boolean {
  return (
    end - start === name.length + 2 && bytes.toString('latin1', start + 1, end - 1).toLowerCase() === name
  )
}

/** What may stand between a name and its value, before that is measured. */
const SLACK = 64

const NEAR = 8

/** Takes all steps up to the next action. @returns where that is; the state there is in {@link STEP}. */
function step(bytes: Buffer, from: number, start: number, end: number): number {
  const table = NEXT
  const firstAction = ERROR
  let state = from
  let at = start
  for (; at < end; at++) {
    const next = table[state | (bytes[at] ?? 0)] ?? firstAction
    if (next >= firstAction) break
    state = next
  }
  STEP[0] = state
  return at
}

const STEP = new Uint16Array(1)

/** Of the arrays and objects that are open: the state behind each. Each scan uses the same. */
const RETURNS = new Uint16Array(10_000)

const NAME = stateOf('name', 'item')
const VALUE = stateOf('value', 'item')
const TEXT = stateOf('text', 'item')
const COLON = stateOf('colon', 'item')
const AFTER_ITEM = stateOf('after', 'item')
const VALUE_IN_ARRAY = stateOf('value', 'array')
const NAME_IN_OBJECT = stateOf('name', 'object')
const TEXT_BEGINS = actionOf('text begins')
const NAME_ENDS = actionOf('name ends')
const ITEM_ENDS = actionOf('item ends')
const LAST_ITEM_ENDS = actionOf('last item ends')
const ARRAY_BEGINS = actionOf('array begins')
const OBJECT_BEGINS = actionOf('object begins')
const ARRAY_OR_OBJECT_ENDS = actionOf('array or object ends')

const TAB = 0x09
const LINE_FEED = 0x0a
const RETURN = 0x0d
const SPACE = 0x20
const QUOTE = 0x22
const COLON_BYTE = 0x3a
const BACKSLASH = 0x5c
const OPENING_BRACE = 0x7b

/** From an opening bracket or brace to the closing one. */
const TO_CLOSING = 2

function skipSpace(bytes: Buffer, start: number, end: number): number {
  let at = start
  for (; at < end; at++) {
    const byte = bytes[at] ?? 0
    if (byte !== SPACE && byte !== LINE_FEED && byte !== RETURN && byte !== TAB) break
  }
  return at
}

/** Nothing may follow. */
function finish(scanned: Scanned, bytes: Buffer, at: number, end: number): Scanned {
  if (skipSpace(bytes, at, end) < end) throw notJson()
  return scanned
}

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

/** A name, or a value without the colon before it: what is around it is white space, which is below all other bytes. */
function trim(bytes: Uint8Array, from: number, to: number): JsonSpan {
  let start = from
  let end = to
  for (; start < end; start++) {
    const byte = bytes[start] ?? 0
    if (byte > SPACE && byte !== COLON_BYTE) break
  }
  while (end > start && (bytes[end - 1] ?? 0) <= SPACE) end--
  return { start, end }
}
