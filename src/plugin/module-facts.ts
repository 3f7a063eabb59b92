import type { ExportedItem, FunctionExport, ImportedItem } from '../module/module-view.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'

/** The facts about a loaded module, as plain data. */
export interface ModuleFacts {
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  readonly functions: readonly FunctionExport[]
  /** Defined memories; the module may import others. */
  readonly memories: readonly MemoryFacts[]
  readonly customSections: readonly CustomSectionFacts[]
  /** Whether it has a start section. */
  readonly hasStart: boolean
  /** Whether its guests check whether they are interrupted. False if its code was not read. */
  readonly isInterruptible: boolean
  /** Whether it needs no trial: see `startsBriefly`. False if its code was not read. */
  readonly startsBriefly: boolean
}

/** In pages of 64 KiB. */
export interface MemoryFacts {
  readonly initial: number
  /** The module's own maximum; undefined: unlimited. */
  readonly max: number | undefined
  /** The maximum that it gets. */
  readonly cap: number
}

interface CustomSectionFacts {
  readonly name: string
  /** The `producers` section, unless it is large. */
  readonly content?: Uint8Array
}

/**
 * Imports and exports of a module for another thread: JSON lists in chunks. A module may have 100,000 exports; receiving
 * them as objects would block a thread for 0.5 s. Text is received quickly and parsed chunk by chunk.
 */
export type PackedFacts = { readonly [List in LongList]: readonly string[] } & Omit<ModuleFacts, LongList>

type LongList = 'imports' | 'exports' | 'functions'

/** Items per chunk: some 0.2 ms. */
const ITEMS_PER_TURN = 256

export function packFacts({ imports, exports, functions, ...rest }: ModuleFacts): PackedFacts {
  return {
    ...rest,
    imports: packItems(imports),
    exports: packItems(exports),
    functions: packItems(functions),
  }
}

function packItems(items: readonly unknown[]): string[] {
  return Array.from({ length: Math.ceil(items.length / ITEMS_PER_TURN) }, (_, index) =>
    JSON.stringify(items.slice(index * ITEMS_PER_TURN, (index + 1) * ITEMS_PER_TURN)),
  )
}

/** Lists that were unpacked before, by their text: plug-ins of one toolchain have equal ones. */
export type KnownLists = Map<string, readonly unknown[]>

/** Lets the event loop turn between chunks. */
export async function unpackFacts(
  { imports, exports, functions, ...rest }: PackedFacts,
  known: KnownLists = new Map(),
): Promise<ModuleFacts> {
  const pace = new EventLoopYielder()
  async function unpack<List extends LongList>(pieces: readonly string[]): Promise<ModuleFacts[List]> {
    const [only = '[]', ...more] = pieces
    const first = known.get(only) ?? (JSON.parse(only) as unknown[])
    if (more.length === 0) {
      known.set(only, first)
      return first as ModuleFacts[List]
    }
    const items = [...first]
    for (const piece of more) {
      items.push(...(JSON.parse(piece) as unknown[]))
      await pace.step()
    }
    return items as ModuleFacts[List]
  }
  return {
    ...rest,
    imports: await unpack<'imports'>(imports),
    exports: await unpack<'exports'>(exports),
    functions: await unpack<'functions'>(functions),
  }
}
