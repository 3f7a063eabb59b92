import { concat, HEADER_BYTES, leb } from './binary.ts'
import { countImports, countTypes, type ExportedItem } from './module.ts'
import { KIND, Reader, SECTION } from './module-reader.ts'
import { constant, I32, OPCODE } from './opcodes.ts'
import { append, readSections, renderExport, withSections } from './sections.ts'

/*
 * V8 makes a JavaScript function for each function that a module exports, in each instance: 1 us and 300 bytes each, and
 * more for the garbage collector. An instance of a module with 100,000 exports holds a thread for 0.5 s of CPU. A call
 * needs one of them. So a module with many exports is compiled in a second form: in place of its functions it exports a
 * few that give them, and V8 makes what is asked for.
 */

/** What the names of our exports begin with. */
const OURS = 'wasm-serve:'

const FUNCREF = 0x70
const REF_FUNC = 0xd2
const ELSE = 0x05
const NO_LOCALS = 0
const NO_ITEMS: Uint8Array = Uint8Array.of(0)

/** The export that gives the functions of a part. */
const giverName = (part: number) => `${OURS}functions ${part}`

/** Functions that an export gives: V8 compiles it when it is asked first, which takes 0.2 ms. */
const PART = 256

/** A module that exports fewer things has no second form: its instances would not be cheaper. */
const LEAST_EXPORTS = 33

/** As many as a module may have: each is exported by any number of names. */
const MOST_MEMORIES = 8

/**
 * Makes the form of a module whose instances have few exports: its memories, and what {@link exportsOnDemand} needs.
 *
 * @param bytes - A module that V8 accepts.
 * @param name - The plug-in's, for messages.
 * @param isOurs - Whether exports whose names begin with `wasm-serve:` are of a form that we have made: they stay.
 * @returns undefined if it has few exports.
 */
export function makeOnDemand(bytes: Uint8Array, name: string, isOurs = false): Uint8Array | undefined {
  const sections = readSections(bytes, name)
  const content = (wanted: number) => sections.find(({ id }) => id === wanted)?.content
  const exported = readExports(content(SECTION.export))
  if (exported.length < LEAST_EXPORTS) return undefined
  const functions = exported.filter(({ kind }) => kind === KIND.function).map(({ index }) => index)
  const parts = Array.from({ length: Math.ceil(functions.length / PART) }, (_, part) =>
    functions.slice(part * PART, (part + 1) * PART),
  )
  const type = countTypes(bytes)
  const first = countImports(bytes, KIND.function) + readCount(content(SECTION.function))
  const kept = exported.filter(mayStay(isOurs)).map(({ bytes }) => bytes)
  const givers = parts.map((_, part) => renderExport(giverName(part), KIND.function, first + part))
  const contents = new Map<number, Uint8Array>([[SECTION.export, append(undefined, [...kept, ...givers])]])
  if (functions.length > 0) {
    contents.set(SECTION.type, append(content(SECTION.type), [GIVER_TYPE]))
    contents.set(SECTION.function, append(content(SECTION.function), Array(parts.length).fill(leb(type))))
    contents.set(SECTION.element, append(content(SECTION.element), [declare(functions)]))
    contents.set(SECTION.code, append(content(SECTION.code), parts.map(renderGiver)))
  }
  return withSections(bytes.subarray(0, HEADER_BYTES), sections, contents)
}

interface ReadExport {
  readonly name: string
  readonly kind: number
  readonly index: number
  /** The whole entry. */
  readonly bytes: Uint8Array
}

function readExports(content = NO_ITEMS): ReadExport[] {
  const reader = new Reader(content)
  return reader.list(() => {
    const start = reader.at
    const [name, kind, index] = [reader.name(), reader.byte(), reader.u32()]
    return { name, kind, index, bytes: content.subarray(start, reader.at) }
  })
}

/** Each memory by one name, and by that which WASI gives it. */
function mayStay(isOurs: boolean): (exported: ReadExport) => boolean {
  const seen = new Set<number>()
  return ({ name, kind, index }) => {
    if (name.startsWith(OURS)) return isOurs
    if (kind !== KIND.memory || (seen.has(index) && name !== 'memory')) return false
    seen.add(index)
    return true
  }
}

/** Takes a function's place in its part. */
const GIVER_TYPE = Uint8Array.of(0x60, 1, I32, 1, FUNCREF)

/** A search by halves: no more than eight blocks are in one another. */
function renderGiver(functions: readonly number[]): Uint8Array {
  const search = (from: number, to: number): Uint8Array => {
    if (to - from === 1) return concat([Uint8Array.of(REF_FUNC), leb(functions[from] ?? 0)])
    const middle = (from + to) >> 1
    const isBefore = [OPCODE.localGet, 0, ...constant(middle), OPCODE.lessUnsigned, OPCODE.if, FUNCREF]
    return concat([
      Uint8Array.from(isBefore),
      search(from, middle),
      Uint8Array.of(ELSE),
      search(middle, to),
      Uint8Array.of(OPCODE.end),
    ])
  }
  const body = concat([Uint8Array.of(NO_LOCALS), search(0, functions.length), Uint8Array.of(OPCODE.end)])
  return concat([leb(body.length), body])
}

/** What is neither exported nor in a table has to be declared, to be named by an instruction. It costs an instance nothing. */
function declare(functions: readonly number[]): Uint8Array {
  const [declarative, ofFunctions] = [3, 0]
  return concat([Uint8Array.of(declarative, ofFunctions), append(undefined, functions.map(leb))])
}

function readCount(content = NO_ITEMS): number {
  return new Reader(content).u32()
}

/**
 * The exports of an instance of the form that {@link makeOnDemand} makes, as if it were the module that it was made of.
 * What is neither a function nor a memory is not there.
 *
 * @param exports - Of the instance.
 * @param items - What the module itself exports.
 * @returns the same if it is another module.
 */
export function exportsOnDemand(
  exports: WebAssembly.Exports,
  items: readonly ExportedItem[],
): WebAssembly.Exports {
  if (!(giverName(0) in exports)) return exports
  // Not of the exports themselves: what they have cannot be said to be something else.
  return new Proxy<WebAssembly.Exports>(Object.assign(Object.create(null), exports), {
    get(target, name) {
      const place = typeof name === 'string' ? placeOf(items, name) : undefined
      if (place === undefined) return Reflect.get(target, name)
      const give = exports[giverName(Math.floor(place / PART))]
      return typeof give === 'function' ? give(place % PART) : undefined
    },
  })
}

/**
 * The place of a function among all that a module exports. Of each list few names are asked for, and by each instance: a
 * map of all names would cost more.
 */
function placeOf(items: readonly ExportedItem[], wanted: string): number | undefined {
  const known = places.get(items) ?? new Map<string, number | undefined>()
  places.set(items, known)
  if (!known.has(wanted)) known.set(wanted, findPlace(items, wanted))
  return known.get(wanted)
}

const places = new WeakMap<readonly ExportedItem[], Map<string, number | undefined>>()

function findPlace(items: readonly ExportedItem[], wanted: string): number | undefined {
  let next = 0
  for (const item of items) {
    if (item.kind !== 'function') continue
    if (item.name === wanted) return item.place ?? next
    next++
  }
  return undefined
}

/** A long list without what nobody calls: enough to open instances of a lone module. A short one stays what it is. */
export function shortened(
  items: readonly ExportedItem[],
  called: readonly string[],
): readonly ExportedItem[] {
  if (items.length < LEAST_EXPORTS) return items
  const wanted = new Set(called)
  const found: ExportedItem[] = []
  let [next, memories] = [0, 0]
  for (const { name, kind } of items) {
    if (kind === 'memory' && memories++ < MOST_MEMORIES) found.push({ name, kind })
    if (kind !== 'function') continue
    if (wanted.has(name)) found.push({ name, kind, place: next })
    next++
  }
  return found
}
