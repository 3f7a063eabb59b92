import { concat, leb } from './bytes.ts'
import { CODE, constant } from './instructions.ts'
import type { CappedModule } from './memory-cap.ts'
import { type ExportedItem, type ModuleView, SECTION } from './module-view.ts'
import { appendItems, renderExport, renderItems, withContents } from './module-writer.ts'
import { ADDED_PREFIX, giverName, PART } from './names.ts'
import { I32 } from './types.ts'

/*
 * V8 creates a JavaScript function for each exported function in each instance: 1 us and 300 bytes each, plus work for
 * the garbage collector. An instance of a module with 100,000 exports blocks a thread for 0.5 s of CPU, although a call
 * needs only one of them. So a module with many exports is compiled in a second variant: instead of its functions, it
 * exports a few that return them, and V8 creates only the requested ones.
 */

const FUNCREF = 0x70
const REF_FUNC = 0xd2
const NO_LOCALS = 0

/** A module with fewer exports has no second variant: its instances would not be cheaper. */
const LEAST_EXPORTS = 33

/** The limit of memories in a module; each may be exported under any number of names. */
const MAX_MEMORIES = 8

/** The name of the memory that WASI uses. */
const WASI_MEMORY = 'memory'

/**
 * Creates the variant of a module whose instances have few exports: its memories, and those that `runtime/export-accessor.ts` calls.
 *
 * @param module - A module that V8 accepts, with changed contents of some sections.
 * @param others - Additional exports that stay, encoded.
 * @returns undefined if it has few exports.
 */
export function makeFewExports(
  { view, contents }: Pick<CappedModule, 'view' | 'contents'>,
  others: readonly Uint8Array[] = [],
): Uint8Array | undefined {
  const { exports, hostExports, functions: all, types } = view
  if (exports.length < LEAST_EXPORTS) return undefined
  const functions = exports.filter(({ kind }) => kind === 'function').map(({ index }) => index)
  const parts = Array.from({ length: Math.ceil(functions.length / PART) }, (_, part) =>
    functions.slice(part * PART, (part + 1) * PART),
  )
  const kept = exports.filter(mayStay()).map(({ name, kind, index }) => renderExport(name, kind, index))
  const givers = parts.map((_, part) => renderExport(giverName(part), 'function', all.length + part))
  const form = new Map(contents).set(
    SECTION.export,
    renderItems([...kept, ...hostExports, ...others, ...givers]),
  )
  const append = (id: number, items: readonly Uint8Array[]) =>
    form.set(id, appendItems(view, id, items, contents))
  if (functions.length > 0) {
    append(SECTION.type, [GIVER_TYPE])
    append(SECTION.function, Array(parts.length).fill(leb(types.functions.length)))
    append(SECTION.element, [declare(functions)])
    append(SECTION.code, parts.map(renderGiver))
  }
  return withContents(view, form)
}

/** Keeps each memory under one name, and under its WASI name; no reserved names. */
function mayStay(): (exported: ModuleView['exports'][number]) => boolean {
  const seen = new Set<number>()
  return ({ name, kind, index }) => {
    if (name.startsWith(ADDED_PREFIX) || kind !== 'memory' || (seen.has(index) && name !== WASI_MEMORY))
      return false
    seen.add(index)
    return true
  }
}

/** Returns a function by its position in its part. */
const GIVER_TYPE = Uint8Array.of(0x60, 1, I32, 1, FUNCREF)

/** A binary search: blocks are nested at most eight deep. */
function renderGiver(functions: readonly number[]): Uint8Array {
  const search = (from: number, to: number): Uint8Array => {
    if (to - from === 1) return concat([Uint8Array.of(REF_FUNC), leb(functions[from] ?? 0)])
    const middle = (from + to) >> 1
    const isBefore = [CODE.localGet, 0, ...constant(middle), CODE.lessUnsigned, CODE.if, FUNCREF]
    return concat([
      Uint8Array.from(isBefore),
      search(from, middle),
      Uint8Array.of(CODE.else),
      search(middle, to),
      Uint8Array.of(CODE.end),
    ])
  }
  const body = concat([Uint8Array.of(NO_LOCALS), search(0, functions.length), Uint8Array.of(CODE.end)])
  return concat([leb(body.length), body])
}

/**
 * A function that is neither exported nor in a table must be declared before `ref.func` may refer to it. No run-time
 * cost.
 */
function declare(functions: readonly number[]): Uint8Array {
  const [declarative, ofFunctions] = [3, 0]
  return concat([Uint8Array.of(declarative, ofFunctions), renderItems(functions.map(leb))])
}

/**
 * A shorter list without functions that are never called: sufficient to open instances of a lone module. Short lists
 * are unchanged.
 */
export function shortened(
  items: readonly ExportedItem[],
  called: readonly string[],
): readonly ExportedItem[] {
  if (items.length < LEAST_EXPORTS) return items
  const wanted = new Set(called)
  const found: ExportedItem[] = []
  let [next, memories] = [0, 0]
  for (const { name, kind } of items) {
    if (kind === 'memory' && (name === WASI_MEMORY || memories++ < MAX_MEMORIES)) found.push({ name, kind })
    if (kind !== 'function') continue
    if (wanted.has(name)) found.push({ name, kind, place: next })
    next++
  }
  return found
}
