import { PluginInvalidError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import type { ProcessTypes } from '../module/limits.ts'
import { type CappedModule, capMemory } from '../module/memory-cap.ts'
import { readModule } from '../module/module.ts'
import {
  type ExportedItem,
  exportedFunctions,
  type FunctionExport,
  type ImportedItem,
} from '../module/module-view.ts'
import { makeOnDemand } from '../module/on-demand.ts'
import { makeRenewable, type Renewable } from '../module/renewable.ts'
import type { ReadOptions } from '../module/section-reader.ts'
import { Pace } from '../platform/async-work.ts'

/** What is to be made of a module's bytes. */
export interface ModuleJob extends Pick<ReadOptions, 'limits' | 'allowGc'> {
  /** For messages. */
  readonly name: string
  /** Most memory of an instance, in pages of 64 KiB. */
  readonly memoryMax: number
  /** Whether the module itself is needed: not if it was compiled before. */
  readonly needsModule: boolean
  /** Whether nothing is compiled, and the bytes are what is needed: for a process of its own. */
  readonly staysBytes?: boolean
  /** Whether the form that can be put back is needed: `program`, if nothing but its program can be called. */
  readonly renewable: 'yes' | 'no' | 'program'
}

/** Decides whether a module with such types may be compiled in this process. */
export type Admit = (types: ProcessTypes) => void | Promise<void>

/** What was made. All of it can be posted to another thread. */
export interface LoadedModule {
  /** Undefined if it was not needed. */
  readonly module: WebAssembly.Module | undefined
  /** The form whose instances have few exports; undefined if it was not needed, or is the module itself. */
  readonly onDemand?: WebAssembly.Module | undefined
  /** Checked and capped, if they are what was needed. */
  readonly bytes?: Uint8Array
  readonly facts: ModuleFacts
  /** Why its instances need a process of their own; undefined if they do not. */
  readonly needsProcess: string | undefined
  /** Whether the form that can be put back was asked for; there may be none. */
  readonly isRenewableKnown: boolean
  readonly renewable: RenewableModule | undefined
}

/** What is kept of a module's bytes when it is loaded. It is plain data. */
export interface ModuleFacts {
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  readonly functions: readonly FunctionExport[]
  /** Those that it defines: it may import others. */
  readonly memories: readonly MemoryFacts[]
  readonly customSections: readonly CustomSectionFacts[]
}

/** In pages of 64 KiB. */
export interface MemoryFacts {
  readonly initial: number
  /** What the module asks for; undefined: as much as there is. */
  readonly max: number | undefined
  /** What it gets. */
  readonly cap: number
}

export interface CustomSectionFacts {
  readonly name: string
  /** Of `producers`, unless it is large. */
  readonly content?: Uint8Array
}

/** The same module, but for what it exports: the host can make an instance as new. */
export interface RenewableModule extends Omit<Renewable, 'bytes' | 'onDemand'> {
  readonly module: WebAssembly.Module
}

/**
 * All steps of loading a module, in the thread that calls it: its bytes are read once, then capped and compiled.
 *
 * @param admit - Asked before it is compiled: throws if the process has no room for its types. Default: does not.
 * @throws {@link PluginInvalidError} if it needs more memory than it may have, or V8 refuses it; what {@link readModule}
 * throws, and what `admit` throws.
 */
export async function loadModule(
  bytes: Uint8Array,
  { name, memoryMax, needsModule, staysBytes, renewable, ...options }: ModuleJob,
  admit: Admit = () => undefined,
): Promise<LoadedModule> {
  const view = readModule(bytes, options, name)
  const { needsProcess } = view
  const capped = capMemory(view, memoryMax)
  const facts = factsOf(capped)
  if (staysBytes)
    return {
      ...{ module: undefined, bytes: capped.bytes, facts, needsProcess },
      ...{ isRenewableKnown: false, renewable: undefined },
    }
  await admit(view.processTypes)
  const module = needsModule ? await compileModule(capped) : undefined
  const onDemand = needsModule ? await compileOnDemand(capped) : undefined
  const isRenewableKnown = renewable === 'yes' || (renewable === 'program' && isOnlyProgram(facts))
  return {
    ...{ module, facts, needsProcess, isRenewableKnown },
    ...(onDemand && { onDemand }),
    renewable: isRenewableKnown ? await compileRenewable(capped) : undefined,
  }
}

export function factsOf({ view, memories }: CappedModule): ModuleFacts {
  return {
    imports: view.imports,
    exports: view.exports.map(({ name, kind }) => ({ name, kind })),
    functions: exportedFunctions(view),
    memories: view.memories.map(({ min, max }, index) => ({
      initial: Number(min),
      max: max === undefined ? undefined : Number(max),
      cap: Number(memories[index]?.max ?? min),
    })),
    customSections: view.customSections.map(({ name, content }) => ({
      name,
      ...(name === 'producers' && content.length <= MOST_PRODUCERS_BYTES && { content: content.slice() }),
    })),
  }
}

/** Compilers write some hundred. */
const MOST_PRODUCERS_BYTES = 65_536

/** @throws {@link PluginInvalidError} if V8 refuses it. */
export async function compileModule({ bytes, view }: CappedModule): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>)
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '')
    const hasTableValue = view.tables.some(({ value }) => value.length > 0)
    const hint =
      hasTableValue && !WebAssembly.validate(TABLE_WITH_VALUE)
        ? '; it has a table with an initial value (WebAssembly 3.0), which needs Node.js 22 or later'
        : ''
    throw new PluginInvalidError(view.name, `it is not a valid module: ${reason}${hint}`, { cause: error })
  }
}

/**
 * Compiles the form of a module whose instances have few exports.
 *
 * @param capped - One that V8 has accepted.
 * @returns undefined if there is no such form, because the module itself has few.
 */
async function compileOnDemand(capped: CappedModule): Promise<WebAssembly.Module | undefined> {
  const form = makeOnDemand(capped)
  return form && WebAssembly.compile(form as Uint8Array<ArrayBuffer>).catch(() => undefined)
}

/** The least module with a table that has an initial value. */
const TABLE_WITH_VALUE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b],
)

/**
 * Compiles the form of a module that can be put back, in the best way that V8 accepts: a longer one may be beyond its
 * limits.
 *
 * @param capped - One that V8 has accepted.
 * @returns undefined if there is no such form.
 */
export async function compileRenewable(capped: CappedModule): Promise<RenewableModule | undefined> {
  for (const tracks of [true, false]) {
    const form = makeRenewable(capped, tracks)
    if (!form) continue
    const { bytes, onDemand = bytes, ...rest } = form
    const module = await WebAssembly.compile(onDemand as Uint8Array<ArrayBuffer>).catch(() => undefined)
    if (module) return { module, ...rest }
  }
  return undefined
}

/**
 * What a module imports and exports, for another thread: lists as JSON, some items each. A module may export 100,000
 * things, and a thread that took in their objects as such would be held for 0.5 s; text it takes in at once, and reads
 * piece by piece.
 */
export type PackedFacts = { readonly [List in LongList]: readonly string[] } & Omit<ModuleFacts, LongList>

type LongList = 'imports' | 'exports' | 'functions'

/** Items that are read at a time: some 0.2 ms. */
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
