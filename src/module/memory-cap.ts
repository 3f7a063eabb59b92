import { PluginInvalidError } from '../errors/errors.ts'
import { concat, leb } from './bytes.ts'
import { type ModuleView, SECTION, SIZE_FLAGS, type SizeLimits } from './module-view.ts'
import { type SectionContents, withContents } from './module-writer.ts'

/** A module whose memories and tables have maxima. */
export interface CappedModule {
  /** The view of the original module. */
  readonly view: ModuleView
  /** The original bytes if nothing had to be capped. */
  readonly bytes: Uint8Array
  /** The sections that differ from the original. */
  readonly contents: SectionContents
  /** Limits of the memories that it defines. */
  readonly memories: readonly SizeLimits[]
}

/** Renders its sections when they are read. */
class LimitedModule implements CappedModule {
  readonly view: ModuleView
  readonly memories: readonly SizeLimits[]
  readonly #tables: readonly LimitedTable[]
  #contents: SectionContents | undefined
  #bytes: Uint8Array | undefined

  constructor(view: ModuleView, memories: readonly SizeLimits[], tables: readonly LimitedTable[]) {
    this.view = view
    this.memories = memories
    this.#tables = tables
  }

  get contents(): SectionContents {
    this.#contents ??= this.#render()
    return this.#contents
  }

  get bytes(): Uint8Array {
    this.#bytes ??= withContents(this.view, this.contents)
    return this.#bytes
  }

  #render(): SectionContents {
    const contents = new Map<number, Uint8Array>()
    if (this.#tables !== this.view.tables) {
      const typeOf = ({ type }: LimitedTable) => type
      const initialOf = ({ value }: LimitedTable) => value
      contents.set(SECTION.table, renderList(this.#tables, typeOf, initialOf))
    }
    if (this.memories !== this.view.memories) contents.set(SECTION.memory, renderList(this.memories))
    return contents
  }
}

type LimitedTable = ModuleView['tables'][number]

/** Maximum number of entries of all tables of a module. V8 allows ten million for each of a hundred thousand tables. */
const MAX_TABLE_ENTRIES = 1_000_000n

/**
 * Lowers the maxima of the memories and tables that a module defines, so that `memory.grow` and `table.grow` answer -1
 * to a guest that requests more: V8 has no other limit per guest. Several memories share the limit. Imported memories
 * and tables have the limits of their defining module.
 *
 * @param maxPages - Of 64 KiB.
 * @throws {@link PluginInvalidError} if the initial size exceeds the limit.
 */
export function capMemory(view: ModuleView, maxPages: number): CappedModule {
  const has = (wanted: number) => view.sections.some(({ id }) => id === wanted)
  const { name, tables, memories } = view
  return new LimitedModule(
    view,
    has(SECTION.memory)
      ? shareOut(memories, BigInt(maxPages), 'pages of memory (64 KiB each)', name)
      : memories,
    has(SECTION.table) ? shareOut(tables, MAX_TABLE_ENTRIES, 'table entries', name) : tables,
  )
}

/** Copies caps from before unchanged. */
export function alreadyCapped(view: ModuleView): CappedModule {
  return { view, bytes: view.bytes, contents: new Map(), memories: view.memories }
}

/** Gives each item a maximum: its initial size and a share of the rest. */
function shareOut<Limited extends SizeLimits>(
  limited: readonly Limited[],
  most: bigint,
  unit: string,
  name: string,
): Limited[] {
  const needed = limited.reduce((sum, { min }) => sum + min, 0n)
  if (needed > most) throw new PluginInvalidError(name, `it needs ${needed} ${unit}, and may have ${most}`)
  const more = limited.length > 0 ? (most - needed) / BigInt(limited.length) : 0n
  return limited.map((each) => {
    const cap = each.min + more
    const max = each.max !== undefined && each.max < cap ? each.max : cap
    return { ...each, flags: each.flags | SIZE_FLAGS.max, max }
  })
}

const nothing = () => new Uint8Array()

/** The content of a section of memories or tables. */
function renderList<Limited extends SizeLimits>(
  limited: readonly Limited[],
  before: (each: Limited) => Uint8Array = nothing,
  behind: (each: Limited) => Uint8Array = nothing,
): Uint8Array {
  const parts = limited.flatMap((each) => {
    const { flags, min, max = 0n } = each
    return [before(each), Uint8Array.of(flags), leb(min), leb(max), behind(each)]
  })
  return concat([leb(limited.length), ...parts])
}
