import { ByteReader } from './bytes.ts'
import type { RewrittenCode } from './code-rewriter.ts'
import { findSections } from './module.ts'
import { type FunctionBodies, type ModuleView, SECTION } from './module-view.ts'

/**
 * The view of a rewritten module, which may be rewritten again.
 *
 * @param view - That of the module before, with what was added to it, and its parsed code.
 * @param bytes - The module with the code.
 */
export function withCode(
  view: ModuleView & { readonly bodies: FunctionBodies },
  bytes: Uint8Array,
  code: RewrittenCode,
): ModuleView {
  const sections = findSections(bytes, view.name)
  const start = sections.find(({ id }) => id === SECTION.code)?.content ?? 0
  const reader = new ByteReader(bytes, start, bytes.length, view.name)
  return { ...view, bytes, sections, bodies: relocate(view.bodies, reader, code) }
}

/** Locates functions again, and those that were added behind them. @param reader - Positioned at the content of the code. */
function relocate(
  bodies: FunctionBodies,
  reader: ByteReader,
  { changed, rare }: RewrittenCode,
): FunctionBodies {
  const count = reader.u32()
  const [starts, ends] = [new Uint32Array(count), new Uint32Array(count)]
  for (let place = 0; place < count; place++) {
    const size = reader.u32()
    starts[place] = reader.at
    reader.skip(size)
    ends[place] = reader.at
  }
  const locals = new Uint32Array(count)
  const [work, callValues, optimisingCost, marks] = [
    new Float64Array(count),
    new Float64Array(count),
    new Float64Array(count),
    new Uint8Array(count),
  ]
  locals.set(bodies.locals)
  work.set(bodies.work)
  callValues.set(bodies.callValues)
  optimisingCost.set(bodies.optimisingCost)
  marks.set(bodies.marks)
  for (const [place, body] of changed) {
    locals[place] = body.locals
    work[place] = body.work
    callValues[place] = body.callValues
    optimisingCost[place] = body.optimisingCost
  }
  return { count, starts, ends, locals, rare, work, callValues, optimisingCost, marks }
}
