import { ByteReader, concat, leb } from './bytes.ts'
import { hasMarks, type Rewriter, rewriteCode } from './code-rewriter.ts'
import { ACTION, ACTION_OF, CODE, MARK } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import { countImported, type ImportedItem, ITEM_KINDS, type ModuleView, SECTION } from './module-view.ts'
import { renderItems, withContents } from './module-writer.ts'

/*
 * Imports that a module does not need. A function that is imported has its index before those that are defined: the last imports
 * become the first defined functions, and no other index changes.
 */

/**
 * Orders the imports of a module, which are functions.
 *
 * @param view - With its code.
 * @param rankOf - The lowest is first.
 * @returns undefined if its code cannot be rewritten, or its tables have an imported function.
 */
export function orderImports(
  view: ModuleView,
  rankOf: (item: ImportedItem) => number,
): Uint8Array | undefined {
  const { imports, bodies } = view
  if (!bodies || countImported(view, 'function') < imports.length || lowestElement(view) < imports.length)
    return undefined
  const ranks = imports.map(rankOf)
  const order = imports.map((_, place) => place).sort((a, b) => (ranks[a] ?? 0) - (ranks[b] ?? 0))
  const rewriter: Rewriter = {
    rewrite(instruction) {
      if (ACTION_OF[instruction.code] !== ACTION.call) return undefined
      const place = order.indexOf(instruction.immediates().u32())
      return place < 0 ? undefined : [CODE.call, ...leb(place)]
    },
  }
  const counter = new FigureCounter(view.limits, view.name, view.figures)
  const types = order.map((place) => view.functions[place] ?? 0)
  const functions = [...types, ...view.functions.slice(imports.length)]
  const code = rewriteCode(
    { ...view, bodies, functions },
    hasMarks(bodies, MARK.callsImport),
    [rewriter],
    counter,
  )
  const items = order.map((place) => renderImport(view, place))
  return code && withContents(view, new Map([...code.contents, [SECTION.import, renderItems(items)]]))
}

/** The lowest index of a function in a table; 0 if it is not known. */
function lowestElement({ bytes, sections, name }: ModuleView): number {
  const section = sections.find(({ id }) => id === SECTION.element)
  if (!section) return Number.POSITIVE_INFINITY
  const reader = new ByteReader(bytes, section.content, section.end, name)
  let lowest = Number.POSITIVE_INFINITY
  for (let segments = reader.u32(); segments > 0; segments--) {
    if (reader.u32() !== 0 || reader.byte() !== CODE.constant) return 0 // not that of a single table
    reader.skipNumber()
    reader.skip(1)
    for (let items = reader.u32(); items > 0; items--) lowest = Math.min(lowest, reader.u32())
  }
  return lowest
}

/** Replaces the last imports of a module, which are functions, by functions that trap. */
export function dropLastImports(view: ModuleView, count: number): Uint8Array {
  const kept = view.imports.length - count
  const types = view.functions.slice(kept, view.imports.length)
  return withContents(
    view,
    new Map([
      [SECTION.import, renderItems(view.imports.slice(0, kept).map((_, place) => renderImport(view, place)))],
      [
        SECTION.function,
        prepended(
          view,
          SECTION.function,
          types.map((type) => leb(type)),
        ),
      ],
      [
        SECTION.code,
        prepended(
          view,
          SECTION.code,
          types.map(() => TRAP),
        ),
      ],
    ]),
  )
}

/** A function without locals that traps. */
const TRAP = Uint8Array.of(3, 0, CODE.unreachable, CODE.end)

function renderImport({ imports, functions }: ModuleView, place: number): Uint8Array {
  const { module = '', name = '' } = imports[place] ?? {}
  return renderFunctionImport({ module, name, type: functions[place] ?? 0 })
}

/** A function that a module imports. */
export interface FunctionImport {
  readonly module: string
  readonly name: string
  /** The index of its type. */
  readonly type: number
}

function renderFunctionImport({ module, name, type }: FunctionImport): Uint8Array {
  const texts = [module, name].map((text) => Buffer.from(text))
  return concat([
    ...texts.flatMap((text) => [leb(text.length), text]),
    Uint8Array.of(ITEM_KINDS.indexOf('function')),
    leb(type),
  ])
}

/** The section of imports, all functions, with other ones at its end. */
export function withLastImports(view: ModuleView, last: readonly FunctionImport[]): Uint8Array {
  const first = view.imports.slice(0, view.imports.length - last.length)
  return renderItems([
    ...first.map((_, place) => renderImport(view, place)),
    ...last.map(renderFunctionImport),
  ])
}

function prepended(
  { bytes, sections, name }: ModuleView,
  wanted: number,
  items: readonly Uint8Array[],
): Uint8Array {
  const section = sections.find(({ id }) => id === wanted)
  if (!section) return renderItems(items)
  const reader = new ByteReader(bytes, section.content, section.end, name)
  const count = reader.u32()
  return concat([leb(count + items.length), ...items, bytes.subarray(reader.at, section.end)])
}
