import { PluginTooComplexError } from '../errors/errors.ts'
import { PAGE_BYTES } from '../platform/guest-limits.ts'
import { concat, leb } from './bytes.ts'
import { countPages, hasMarks, type Rewriter, rewriteCode } from './code-rewriter.ts'
import { makeFewExports } from './few-exports.ts'
import { MARK } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import type { CappedModule } from './memory-cap.ts'
import type { Merge } from './merge.ts'
import { countImported, type ItemKind, type ModuleView, SECTION, SIZE_FLAGS } from './module-view.ts'
import { appendItems, renderExport, withContents } from './module-writer.ts'
import { ADDED_PREFIX, MAX_KEPT_BYTES, RESET_EXPORT } from './names.ts'
import type { ValueType } from './types.ts'
import {
  type AddedGlobal,
  BlockMarks,
  changingNumber,
  hasArrays,
  LowestWrite,
  type Records,
  type WriteRecorder,
} from './writes.ts'

/** A module that exports all its mutable state, so that a host can restore it. */
export interface Resettable {
  readonly bytes: Uint8Array
  /** The variant whose instances have few exports; undefined if that is the same module. */
  readonly fewExports: Uint8Array | undefined
  /** Number of its mutable globals, exported under the names in {@link RESET_EXPORT}. */
  readonly globals: number
  /** What it records of its writes. */
  readonly records: Records
  /** Lower writes are recorded, if it records the lowest one. */
  readonly untrackedFrom: number
}

/**
 * Makes a module whose instances can be restored to their initial state: its memory and globals are exported, it counts
 * the pages of its memory (see {@link countPages}), and it records its writes (see `writes.ts`).
 *
 * @param module - A module with parsed code.
 * @param wanted - The most that it records, as far as that is possible and worthwhile. Default: what V8 allows.
 * @param merge - How the kernel is merged into it; undefined if it is linked.
 * @returns undefined if it has several memories or an imported one, if it can change state that cannot be restored
 * (tables, dropped data, references, vectors in globals), if it exports reserved names, or if the rewritten module
 * would exceed its limits. V8 may nevertheless reject the result.
 */
export function makeResettable(
  module: CappedModule,
  wanted: Records = hasArrays ? 'blocks' : 'lowest',
  merge?: Merge,
): Resettable | undefined {
  try {
    return makeForm(module, wanted, merge)
  } catch (error) {
    if (error instanceof PluginTooComplexError) return undefined
    throw error
  }
}

function makeForm(module: CappedModule, wanted: Records, merge: Merge | undefined): Resettable | undefined {
  const { view } = module
  const { contents } = merge ?? module
  const { bodies } = view
  const memory = onlyMemory(module)
  if (!bodies || !memory || !isResettable(view)) return undefined
  const marks = bodies.marks.reduce((all, each) => all | each, 0)
  if (marks & (MARK.lasting | MARK.collected)) return undefined
  const firstGlobal = countImported(view, 'global')
  const pages = firstGlobal + view.globals.length
  const [more, third] = [pages + 1, pages + 2]
  const mutable = view.globals.flatMap(({ isMutable }, place) => (isMutable ? [firstGlobal + place] : []))
  const changing = [...mutable, pages]
  if (changing.length > MAX_GLOBALS) return undefined
  const hasCode = view.sections.some(({ id }) => id === SECTION.code)
  const mayRecord = hasCode && !(marks & MARK.writesAtomically)
  const recorder = mayRecord ? openRecorder(wanted, view, memory, third) : undefined
  const counter = new FigureCounter(view.limits, view.name, view.figures)
  const { global, types = [], functions = [] } = recorder ?? {}
  const globals = [...[memory.initial, 0].map(changingNumber), ...(global ? [global] : [])]
  const exported = [
    ...(memory.exists ? [countedExport(RESET_EXPORT.memory, 'memory', 0, counter)] : []),
    ...changing.map((index, place) => countedExport(RESET_EXPORT.global(place), 'global', index, counter)),
    ...(recorder?.exported.map(({ name, kind, index }) => countedExport(name, kind, index, counter)) ?? []),
  ]
  const extended = recorder?.view ?? view
  countItems(counter, view, extended, globals)

  const form = new Map(contents)
  const append = (id: number, items: readonly Uint8Array[]) =>
    items.length > 0 && form.set(id, appendItems(view, id, items, form))
  append(SECTION.type, types)
  append(SECTION.function, functions.map(leb))
  append(
    SECTION.global,
    globals.map(({ type, value }) => concat([type, value])),
  )
  append(SECTION.export, exported)
  if (hasCode) {
    const rewriters: Rewriter[] = recorder ? [recorder.openRewriter()] : [] // it has to see all instructions
    rewriters.push({ rewrite: countPages({ pages, more }, memory.maximum) })
    if (merge) rewriters.push(merge.rewriter)
    const changed = MARK.sizesMemory | (recorder ? MARK.writes : 0) | (merge ? MARK.callsImport : 0)
    const isChanged = hasMarks(bodies, changed)
    const code = rewriteCode({ ...extended, bodies }, isChanged, rewriters, counter, recorder?.bodies)
    if (!code) return undefined
    for (const [id, content] of code.contents) form.set(id, content)
  }
  const bytes = withContents(view, form)
  counter.found('moduleBytes', bytes.length, 'the module')
  const fewExports = makeFewExports({ view: extended, contents: form }, exported)
  const { records = 'nothing', untrackedFrom = 0 } = recorder ?? {}
  return { bytes, fewExports, globals: changing.length, records, untrackedFrom }
}

/** Counts the items that a module gets. @param extended - Its view with them. */
function countItems(
  counter: FigureCounter,
  { types, functions }: ModuleView,
  extended: ModuleView,
  globals: readonly AddedGlobal[],
): void {
  counter.count('globals', globals.length, 'the module')
  for (const { value } of globals) {
    counter.found('expressionBytes', value.length, 'a constant expression')
    counter.count('allExpressionBytes', value.length, 'the module')
  }
  counter.count('functions', extended.functions.length - functions.length, 'the module')
  counter.count('types', extended.types.count - types.count, 'the module')
  for (let type = types.count; type < extended.types.count; type++) {
    const values = extended.types.params(type) + extended.types.results(type)
    counter.found('signatureValues', values, `type ${type}`)
    counter.count('typeValues', values, 'the module')
  }
}

/**
 * @param global - The index of the global that it adds.
 * @returns undefined if recording is not worthwhile.
 */
function openRecorder(
  wanted: Records,
  view: ModuleView,
  { initial, maximum }: OnlyMemory,
  global: number,
): WriteRecorder | undefined {
  const { lowestData } = view
  const stack = Number.isFinite(lowestData) && lowestData >= LEAST_STACK ? lowestData : 0
  if (wanted === 'blocks' && initial * PAGE_BYTES - stack >= LEAST_MARKED)
    return new BlockMarks(view, global, Math.min(maximum * PAGE_BYTES, MAX_KEPT_BYTES))
  return wanted !== 'nothing' && stack > 0 ? new LowestWrite(view, global, stack) : undefined
}

/** Minimum number of bytes below the data. Wiping fewer costs less than 10 us. */
const LEAST_STACK = 262_144

/** Minimum number of others. Marks cost a tenth of the time of a guest that writes much; restoring fewer bytes takes a microsecond. */
const LEAST_MARKED = 65_536

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

function countedExport(name: string, kind: ItemKind, index: number, counter: FigureCounter): Uint8Array {
  const { length } = Buffer.from(name)
  counter.count('exports', 1, 'the module')
  const bytes = leb(length).length + length
  counter.count('nameBytes', bytes, 'exports')
  counter.found('exportNameBytes', bytes, 'the name of an export')
  return renderExport(name, kind, index)
}
