import { PluginInvalidError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import type { ProcessTypes } from '../module/limits.ts'
import { type CappedModule, capMemory } from '../module/memory-cap.ts'
import { type Merge, type MergeResult, mergeKernel, planMerge } from '../module/merge.ts'
import { readModule } from '../module/module.ts'
import {
  type ExportedItem,
  exportedFunctions,
  type FunctionExport,
  type ImportedItem,
  SECTION,
} from '../module/module-view.ts'
import { makeOnDemand } from '../module/on-demand.ts'
import { makeRenewable, type Renewable } from '../module/renewable.ts'
import type { ReadOptions } from '../module/section-reader.ts'
import { Pace } from '../platform/async-work.ts'

/** What to produce from a module's bytes. */
export interface ModuleJob extends Pick<ReadOptions, 'limits' | 'allowGc'> {
  /** Its name in messages. */
  readonly name: string
  /** Maximum memory of an instance, in pages of 64 KiB. */
  readonly memoryMax: number
  /** Whether the compiled module is needed: not if it was compiled before. */
  readonly needsModule: boolean
  /** Whether only the bytes are needed, without compilation: for a separate process. */
  readonly staysBytes?: boolean
  /** Whether the renewable variant is needed: `program`, if only its program can be called. */
  readonly renewable: 'yes' | 'no' | 'program'
  /** Whether the kernel is merged into it, if possible. */
  readonly merges?: boolean
}

/** Decides whether a module with these types may be compiled in this process. */
export type Admit = (types: ProcessTypes) => void | Promise<void>

/** The result. All of it can be posted to another thread. */
export interface LoadedModule {
  /** undefined if it was not needed. */
  readonly module: WebAssembly.Module | undefined
  /** The variant whose instances have few exports; undefined if it was not needed, or is the module itself. */
  readonly onDemand?: WebAssembly.Module | undefined
  /** Whether the kernel is merged into its compiled forms; undefined if that was not requested. */
  readonly merge?: MergeResult | undefined
  /** Validated and capped, if needed. */
  readonly bytes?: Uint8Array
  readonly facts: ModuleFacts
  /** The feature for which its instances need a separate process; undefined if there is none. */
  readonly needsProcess: string | undefined
  /** Whether the renewable variant was requested; there may be none. */
  readonly isRenewableKnown: boolean
  readonly renewable: RenewableModule | undefined
}

/** The facts about a loaded module, as plain data. */
export interface ModuleFacts {
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  readonly functions: readonly FunctionExport[]
  /** Its defined memories; it may import others. */
  readonly memories: readonly MemoryFacts[]
  readonly customSections: readonly CustomSectionFacts[]
  /** Whether it has a start section. */
  readonly hasStart: boolean
}

/** In pages of 64 KiB. */
export interface MemoryFacts {
  readonly initial: number
  /** The module's own maximum; undefined: unlimited. */
  readonly max: number | undefined
  /** The maximum that it gets. */
  readonly cap: number
}

export interface CustomSectionFacts {
  readonly name: string
  /** The `producers` section, unless it is large. */
  readonly content?: Uint8Array
}

/** The same module with other exports, with which the host can restore the initial state of an instance. */
export interface RenewableModule extends Omit<Renewable, 'bytes' | 'onDemand'> {
  readonly module: WebAssembly.Module
}

/**
 * Loads a module in the calling thread: parses its bytes once, then caps and compiles it.
 *
 * @param admit - Called before compilation: throws if the process has no room for its types. Default: admits all.
 * @throws {@link PluginInvalidError} if it needs more memory than allowed, or V8 rejects it; the errors of
 * {@link readModule} and `admit`.
 */
export async function loadModule(
  bytes: Uint8Array,
  { name, memoryMax, needsModule, staysBytes, renewable, merges, ...options }: ModuleJob,
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
  const isRenewableKnown = renewable === 'yes' || (renewable === 'program' && isOnlyProgram(facts))
  const forms = await compileForms(capped, { needsModule, isRenewable: isRenewableKnown, merges })
  return { facts, needsProcess, isRenewableKnown, ...forms }
}

/**
 * Reads a module without its code.
 *
 * @throws {@link PluginInvalidError} if it needs more memory than allowed; the errors of {@link readModule}.
 */
export function readFacts(
  bytes: Uint8Array,
  { name, memoryMax, limits, allowGc }: Omit<ModuleJob, 'needsModule'>,
): ModuleFacts {
  return factsOf(capMemory(readModule(bytes, { limits, allowGc, readsCode: false }, name), memoryMax))
}

/** The compiled forms of a module. */
type CompiledForms = Pick<LoadedModule, 'module' | 'onDemand' | 'renewable' | 'merge'>

/** Which forms of a module are compiled. */
interface WantedForms {
  readonly needsModule: boolean
  readonly isRenewable: boolean
  readonly merges?: boolean | undefined
}

/**
 * Compiles the forms of a module: all with the kernel merged into them, or none.
 *
 * @throws {@link PluginInvalidError} if V8 rejects it.
 */
export async function compileForms(
  capped: CappedModule,
  { needsModule, isRenewable, merges = false }: WantedForms,
): Promise<CompiledForms> {
  const planned = merges ? planMerge(capped) : undefined
  if (typeof planned === 'object') {
    const merged = mergeKernel(capped, planned)
    const forms = typeof merged === 'object' ? await compileMerged(merged) : undefined
    if (forms) return forms
    return compileLinked(typeof merged === 'string' ? merged : 'V8 rejects the merged module')
  }
  return compileLinked(planned)

  /** @returns undefined if V8 rejects it: a rewritten module may exceed its limits. */
  async function compileMerged(merged: CappedModule): Promise<CompiledForms | undefined> {
    const merge = planned as Merge
    try {
      return {
        module: needsModule ? await compileModule(merged) : undefined,
        onDemand: needsModule ? await compileOnDemand(merged) : undefined,
        renewable: isRenewable ? await compileRenewable(capped, merge) : undefined,
        merge: { isMerged: true },
      }
    } catch (error) {
      if (error instanceof PluginInvalidError) return undefined
      throw error
    }
  }

  async function compileLinked(reason: string | undefined): Promise<CompiledForms> {
    return {
      module: needsModule ? await compileModule(capped) : undefined,
      onDemand: needsModule ? await compileOnDemand(capped) : undefined,
      renewable: isRenewable ? await compileRenewable(capped) : undefined,
      ...(reason !== undefined && { merge: { isMerged: false, reason } }),
    }
  }
}

export function factsOf({ view, memories }: CappedModule): ModuleFacts {
  return {
    imports: view.imports,
    exports: view.exports.map(({ name, kind }) => ({ name, kind })),
    functions: exportedFunctions(view),
    hasStart: view.sections.some(({ id }) => id === SECTION.start),
    memories: view.memories.map(({ min, max }, index) => ({
      initial: Number(min),
      max: max === undefined ? undefined : Number(max),
      cap: Number(memories[index]?.max ?? min),
    })),
    customSections: view.customSections.map(({ name, content }) => ({
      name,
      ...(name === 'producers' && content.length <= MAX_PRODUCERS_BYTES && { content: content.slice() }),
    })),
  }
}

/** Compilers write some hundred bytes. */
const MAX_PRODUCERS_BYTES = 65_536

/** @throws {@link PluginInvalidError} if V8 rejects it. */
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
 * Compiles the variant of a module whose instances have few exports.
 *
 * @param capped - Already accepted by V8.
 * @returns undefined if there is no such variant, because the module itself has few.
 */
async function compileOnDemand(capped: CappedModule): Promise<WebAssembly.Module | undefined> {
  const form = makeOnDemand(capped)
  return form && WebAssembly.compile(form as Uint8Array<ArrayBuffer>).catch(() => undefined)
}

/** The smallest module with a table that has an initial value. */
const TABLE_WITH_VALUE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b],
)

/**
 * Compiles the renewable variant of a module, in the best form that V8 accepts: a larger form may exceed its limits.
 *
 * @param capped - Already accepted by V8.
 * @returns undefined if there is no such variant.
 */
export async function compileRenewable(
  capped: CappedModule,
  merge?: Merge,
): Promise<RenewableModule | undefined> {
  for (const tracks of [true, false]) {
    const form = makeRenewable(capped, tracks, merge)
    if (!form) continue
    const { bytes, onDemand = bytes, ...rest } = form
    const module = await WebAssembly.compile(onDemand as Uint8Array<ArrayBuffer>).catch(() => undefined)
    if (module) return { module, ...rest }
  }
  return undefined
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
  const pace = new Pace()
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
