import { PluginTooComplexError } from '../errors/errors.ts'
import { leb } from './bytes.ts'
import { countPages, hasMarks, type Rewriter, rewriteCode, trackLowest } from './code-rewriter.ts'
import { makeFewExports } from './few-exports.ts'
import { CODE, constant, MARK } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import type { CappedModule } from './memory-cap.ts'
import type { Merge } from './merge.ts'
import { countImported, type ItemKind, type ModuleView, SECTION, SIZE_FLAGS } from './module-view.ts'
import { appendItems, renderExport, withContents } from './module-writer.ts'
import { ADDED_PREFIX, RESET_EXPORT } from './names.ts'
import { I32, type ValueType } from './types.ts'

/** A module that exports all its mutable state, so that a host can restore it. */
export interface Resettable {
  readonly bytes: Uint8Array
  /** The variant whose instances have few exports; undefined if that is the same module. */
  readonly fewExports: Uint8Array | undefined
  /** Number of its mutable globals, exported under the names in {@link RESET_EXPORT}. */
  readonly globals: number
  /** Writes from this address on are not tracked; 0: no writes are tracked. */
  readonly untrackedFrom: number
}

/**
 * Makes a module whose instances can be restored to their initial state: its memory and globals are exported, it counts
 * the pages of its memory (see {@link countPages}), and one with a large stack below its data records its lowest write.
 *
 * @param module - A module with parsed code.
 * @param tracks - Whether writes may be tracked, if that is worthwhile.
 * @param merge - How the kernel is merged into it; undefined if it is linked.
 * @returns undefined if it has several memories or an imported one, if it can change state that cannot be restored
 * (tables, dropped data, references, vectors in globals), if it exports reserved names, or if the rewritten module
 * would exceed its limits. V8 may nevertheless reject the result.
 */
export function makeResettable(module: CappedModule, tracks = true, merge?: Merge): Resettable | undefined {
  try {
    return makeForm(module, tracks, merge)
  } catch (error) {
    if (error instanceof PluginTooComplexError) return undefined
    throw error
  }
}

function makeForm(module: CappedModule, tracks: boolean, merge: Merge | undefined): Resettable | undefined {
  const { view } = module
  const { contents } = merge ?? module
  const { bodies } = view
  const memory = onlyMemory(module)
  if (!bodies || !memory || !isResettable(view)) return undefined
  const marks = bodies.marks.reduce((all, each) => all | each, 0)
  if (marks & (MARK.lasting | MARK.collected)) return undefined
  const untrackedFrom = tracks && Number.isFinite(view.lowestData) ? view.lowestData : 0
  const isTracked = untrackedFrom >= LEAST_TRACKED
  if (isTracked && marks & MARK.writesAtomically) return undefined

  const firstGlobal = countImported(view, 'global')
  const pages = firstGlobal + view.globals.length
  const [more, lowest] = [pages + 1, pages + 2]
  const mutable = view.globals.flatMap(({ isMutable }, place) => (isMutable ? [firstGlobal + place] : []))
  const changing = [...mutable, pages]
  if (changing.length > MAX_GLOBALS) return undefined
  const counter = new FigureCounter(view.limits, view.name, view.figures)
  const added = [memory.initial, 0, ...(isTracked ? [untrackedFrom] : [])].map(mutableNumber)
  const exported = [
    ...(memory.exists ? [countedExport(RESET_EXPORT.memory, 'memory', 0, counter)] : []),
    ...changing.map((index, place) => countedExport(RESET_EXPORT.global(place), 'global', index, counter)),
    ...(isTracked ? [countedExport(RESET_EXPORT.lowest, 'global', lowest, counter)] : []),
  ]
  counter.count('globals', added.length, 'the module')
  for (const { length } of added) {
    counter.found('expressionBytes', length - GLOBAL_TYPE_BYTES, CONSTANT)
    counter.count('allExpressionBytes', length - GLOBAL_TYPE_BYTES, 'the module')
  }

  const form = new Map(contents)
  form.set(SECTION.global, appendItems(view, SECTION.global, added))
  form.set(SECTION.export, appendItems(view, SECTION.export, exported))
  if (view.sections.some(({ id }) => id === SECTION.code)) {
    const rewriters: Rewriter[] = [{ rewrite: countPages({ pages, more }, memory.maximum) }]
    if (isTracked) rewriters.push({ rewrite: trackLowest(lowest) })
    if (merge) rewriters.push(merge.rewriter)
    const wanted = MARK.sizesMemory | (isTracked ? MARK.writes : 0) | (merge ? MARK.callsImport : 0)
    const code = rewriteCode({ ...view, bodies }, hasMarks(bodies, wanted), rewriters, counter)
    if (!code) return undefined
    for (const [id, content] of code.contents) form.set(id, content)
  }
  const bytes = withContents(view, form)
  counter.found('moduleBytes', bytes.length, 'the module')
  const fewExports = makeFewExports({ view, contents: form }, exported)
  return { bytes, fewExports, globals: changing.length, untrackedFrom: isTracked ? untrackedFrom : 0 }
}

/** Minimum number of bytes below the data. Wiping fewer costs less than 10 us. */
const LEAST_TRACKED = 262_144

/** Restoring this many costs about as much as a new instance. */
const MAX_GLOBALS = 200

interface OnlyMemory {
  readonly exists: boolean
  readonly initial: number
  readonly maximum: number
}

/** Requires no memory, or a single unshared one with 32-bit addresses. */
function onlyMemory({ view, memories }: CappedModule): OnlyMemory | undefined {
  if (countImported(view, 'memory') > 0 || memories.length > 1) return undefined
  const [memory] = memories
  if (!memory) return { exists: false, initial: 0, maximum: 0 }
  if (memory.flags !== SIZE_FLAGS.max) return undefined
  return { exists: true, initial: Number(memory.min), maximum: Number(memory.max) }
}

/** Whether its globals are readable and writable by JavaScript, and reserved names are free. */
function isResettable({ types, globals, exports }: ModuleView): boolean {
  return (
    types.functions.every((type) => type && [...type.params, ...type.results].every(isNumeric)) &&
    globals.every(({ type }) => isNumeric(type) && type.name !== 'v128') &&
    !exports.some(({ name }) => name.startsWith(ADDED_PREFIX))
  )
}

function isNumeric({ name }: ValueType): boolean {
  return NUMERIC.has(name)
}

const NUMERIC: ReadonlySet<string> = new Set(['i32', 'i64', 'f32', 'f64', 'v128'])

const MUTABLE = 1
const GLOBAL_TYPE_BYTES = 2
const CONSTANT = 'a constant expression'

/** A global with an initial value. */
function mutableNumber(value: number): Uint8Array {
  return Uint8Array.of(I32, MUTABLE, ...constant(value), CODE.end)
}

function countedExport(name: string, kind: ItemKind, index: number, counter: FigureCounter): Uint8Array {
  const { length } = Buffer.from(name)
  counter.count('exports', 1, 'the module')
  const bytes = leb(length).length + length
  counter.count('nameBytes', bytes, 'exports')
  counter.found('exportNameBytes', bytes, 'the name of an export')
  return renderExport(name, kind, index)
}
