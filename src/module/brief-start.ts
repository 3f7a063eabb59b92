import { CodeScan, type ReadView } from './code-scan.ts'
import { isInitialiser } from './entry-points.ts'
import { MARK } from './instructions.ts'
import { countImported, startFunction } from './module-view.ts'

/** The maximum work of a brief start: 50 µs, as `CodeScan` estimates work. One call of a host function has more. */
const MAX_WORK = 50_000

/** The maximum depth of nested calls. */
const MAX_DEPTH = 32

/** Longer functions are not read. */
const MAX_BYTES = 16_384

/** Instructions whose time depends on their operands. */
const UNBOUNDED = MARK.bulk | MARK.waits | MARK.collected

/**
 * Whether all that can run when an instance of a module is opened returns or traps within microseconds: it has no loops and no
 * recursion, and it calls neither a host function nor through a table. Starts of C, C++ and AssemblyScript are such.
 *
 * @param view - With parsed code.
 */
export function startsBriefly(view: ReadView): boolean {
  const { bodies, exports } = view
  const imported = countImported(view, 'function')
  const scan = new CodeScan(view)
  const known = new Map<number, number>()
  const workOf = (place: number, depth: number): number => {
    const before = known.get(place)
    if (before !== undefined) return before
    known.set(place, Infinity) // while it is open: it may call itself
    if (depth > MAX_DEPTH || place < 0 || ((bodies.marks[place] ?? 0) & UNBOUNDED) !== 0) return Infinity
    if ((bodies.ends[place] ?? 0) - (bodies.starts[place] ?? 0) > MAX_BYTES) return Infinity
    const { loops, calls, callsAny, work: own } = scan.read(place)
    let work = loops.length > 0 || callsAny ? Infinity : own
    for (const { callee } of calls) {
      if (work > MAX_WORK) break
      work += workOf(callee, depth + 1)
    }
    known.set(place, work)
    return work
  }
  const roots = exports.filter(({ kind, name }) => kind === 'function' && isInitialiser(name))
  const first = startFunction(view)
  return [...roots.map(({ index }) => index), ...(first === undefined ? [] : [first])].every(
    (index) => workOf(index - imported, 0) <= MAX_WORK,
  )
}
