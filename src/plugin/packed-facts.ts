import { Pace } from '../platform/async-work.ts'
import type { ModuleFacts } from './load-module.ts'

/**
 * What a module imports and exports, for another thread: lists as JSON, some items each. A module may export 100,000
 * things, and a thread that took in their objects as such would be held for 0.5 s; text it takes in at once, and reads
 * piece by piece.
 */
export type PackedFacts = { readonly [List in LongList]: readonly string[] } & Omit<ModuleFacts, LongList>

type LongList = 'imports' | 'exports' | 'functions'

/** Items that are read at a time: some 0.2 ms. */
const AT_ONCE = 256

export function packFacts({ imports, exports, functions, ...rest }: ModuleFacts): PackedFacts {
  return { ...rest, imports: pack(imports), exports: pack(exports), functions: pack(functions) }
}

function pack(items: readonly unknown[]): string[] {
  return Array.from({ length: Math.ceil(items.length / AT_ONCE) }, (_, index) =>
    JSON.stringify(items.slice(index * AT_ONCE, (index + 1) * AT_ONCE)),
  )
}

/** The event loop turns meanwhile. */
export async function unpackFacts({
  imports,
  exports,
  functions,
  ...rest
}: PackedFacts): Promise<ModuleFacts> {
  const pace = new Pace()
  async function unpack<List extends LongList>(
    pieces: readonly string[],
  ): Promise<ModuleFacts[List][number][]> {
    const items: ModuleFacts[List][number][] = []
    for (const piece of pieces) {
      items.push(...(JSON.parse(piece) as ModuleFacts[List][number][]))
      await pace.step()
    }
    return items
  }
  return {
    ...rest,
    imports: await unpack<'imports'>(imports),
    exports: await unpack<'exports'>(exports),
    functions: await unpack<'functions'>(functions),
  }
}
