import { PluginInvalidError } from '../errors/errors.ts'
import { startsBriefly } from '../module/brief-start.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import { makeFewExports } from '../module/few-exports.ts'
import { makeInterruptible } from '../module/interruptible.ts'
import type { ProcessTypes } from '../module/limits.ts'
import { type CappedModule, capMemory } from '../module/memory-cap.ts'
import {
  type KernelMemoryKind,
  type Merge,
  type MergeResult,
  mergeKernel,
  planMerge,
} from '../module/merge.ts'
import { readModule } from '../module/module.ts'
import { exportedFunctions, type ModuleView, SECTION } from '../module/module-view.ts'
import { makeResettable, type Resettable } from '../module/resettable.ts'
import type { ReadOptions } from '../module/section-reader.ts'
import { makeTerminable } from '../module/terminable.ts'
import { boundOptimiser, useBranchHints } from '../platform/node-workarounds.ts'
import type { ModuleFacts } from './module-facts.ts'

/** What to produce from a module's bytes. */
export interface ModuleJob extends Pick<ReadOptions, 'limits' | 'allowGc'> {
  /** The name in messages. */
  readonly name: string
  /** Maximum memory of an instance, in pages of 64 KiB. */
  readonly memoryMax: number
  /** Whether the compiled module is needed: not if it was compiled before. */
  readonly needsModule: boolean
  /** Whether only the bytes are needed, without compilation: for a separate process. */
  readonly staysBytes?: boolean
  /** Whether the resettable variant is needed: `program`, if only its program can be called. */
  readonly resettable: 'yes' | 'no' | 'program'
  /** The memory of the kernel that is merged into it, if possible. Default: the kernel is linked. */
  readonly kernelMemory?: KernelMemoryKind | undefined
  /** Whether its guests check whether they are interrupted, if possible. */
  readonly interrupts?: boolean
  /** The file in which the result is kept for the next start. Default: it is not kept. */
  readonly moduleCacheOf?: string | undefined
}

/** Decides whether a module with these types may be compiled in this process. */
export type Admit = (types: ProcessTypes) => void | Promise<void>

/** The result. All of it can be posted to another thread. */
export interface LoadedModule {
  /** undefined if it was not needed. */
  readonly module: WebAssembly.Module | undefined
  /** The variant whose instances have few exports; undefined if it was not needed, or is the module itself. */
  readonly fewExports?: WebAssembly.Module | undefined
  /** Whether the kernel is merged into its compiled forms; undefined if that was not requested. */
  readonly merge?: MergeResult | undefined
  /** Validated and capped, if needed. */
  readonly bytes?: Uint8Array
  readonly facts: ModuleFacts
  /** The feature for which its instances need a separate process; undefined if there is none. */
  readonly needsProcess: string | undefined
  /** Whether the resettable variant was requested; there may be none. */
  readonly isResettableKnown: boolean
  readonly resettable: ResettableModule | undefined
  /** What another start can compile without another check; undefined if the module itself was not compiled. */
  readonly checked?: CheckedForms | undefined
}

export interface CheckedForms {
  readonly forms: ModuleForms
  /** What the process must admit before it compiles them. */
  readonly types: ProcessTypes
}

/** The forms of a module that V8 has accepted, as bytes. */
export interface ModuleForms {
  readonly module: Uint8Array
  readonly fewExports: Uint8Array | undefined
  readonly resettable: ResettableForm | undefined
}

/** The bytes of a {@link ResettableModule}. */
export interface ResettableForm extends Omit<ResettableModule, 'module'> {
  readonly bytes: Uint8Array
}

/** A variant of a module with other exports, with which the host can restore the initial state of an instance. */
export interface ResettableModule extends Omit<Resettable, 'bytes' | 'fewExports'> {
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
  {
    name,
    memoryMax,
    needsModule,
    staysBytes,
    resettable,
    kernelMemory,
    interrupts,
    moduleCacheOf: _file,
    ...options
  }: ModuleJob,
  admit: Admit = () => undefined,
): Promise<LoadedModule> {
  const read = readModule(bytes, options, name)
  if (!staysBytes) await admit(read.processTypes) // first: V8 keeps the types of what it only validates
  const isBrief = read.bodies !== undefined && startsBriefly({ ...read, bodies: read.bodies })
  const checked = interrupts && !staysBytes && (await loadWithChecks(read, (view) => load(view, true)))
  return checked || load(makeTerminable(read), false)

  async function load(view: ModuleView, isInterruptible: boolean): Promise<LoadedModule> {
    const { needsProcess } = view
    const capped = capMemory(view, memoryMax)
    const facts = { ...factsOf(capped), isInterruptible, startsBriefly: isBrief }
    if (staysBytes)
      return {
        ...{ module: undefined, bytes: capped.bytes, facts, needsProcess },
        ...{ isResettableKnown: false, resettable: undefined },
      }
    const isResettableKnown = resettable === 'yes' || (resettable === 'program' && isOnlyProgram(facts))
    const wanted = { needsModule, isResettable: isResettableKnown, kernelMemory }
    const { forms, ...compiled } = await compileForms(capped, wanted)
    const checked = forms && { forms, types: view.processTypes }
    return { facts, needsProcess, isResettableKnown, ...compiled, ...(checked && { checked }) }
  }
}

/**
 * Loads the form of a module whose guests check for interrupts.
 *
 * @returns undefined if there is none, or V8 rejects it: a rewritten module may exceed its limits.
 */
export async function loadWithChecks<Loaded extends object>(
  read: ModuleView,
  load: (view: ModuleView) => Promise<Loaded>,
): Promise<Loaded | undefined> {
  const checked = makeInterruptible(read)
  try {
    return checked && (await load(checked))
  } catch (error) {
    if (error instanceof PluginInvalidError) return undefined
    throw error
  }
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

/** The compiled forms of a module, and their bytes. */
interface CompiledForms extends Pick<LoadedModule, 'module' | 'fewExports' | 'resettable' | 'merge'> {
  /** undefined if the module itself was not compiled. */
  readonly forms?: ModuleForms
}

/** Which forms of a module are compiled. */
interface WantedForms {
  readonly needsModule: boolean
  readonly isResettable: boolean
  readonly kernelMemory?: KernelMemoryKind | undefined
}

/**
 * Compiles the forms of a module: all with the kernel merged into them, or none.
 *
 * @throws {@link PluginInvalidError} if V8 rejects it.
 */
export async function compileForms(
  capped: CappedModule,
  { needsModule, isResettable, kernelMemory }: WantedForms,
): Promise<CompiledForms> {
  boundOptimiser()
  useBranchHints()
  const planned = kernelMemory && planMerge(capped, kernelMemory)
  if (typeof planned !== 'object') return compileAll(capped, undefined, planned)
  const merged = mergeKernel(capped, planned)
  if (typeof merged === 'string') return compileAll(capped, undefined, merged)
  try {
    return await compileAll(merged, planned)
  } catch (error) {
    // A rewritten module may exceed the limits of V8.
    if (!(error instanceof PluginInvalidError)) throw error
    return compileAll(capped, undefined, 'V8 rejects the merged module')
  }

  /** @param reason - Why the kernel is not merged into it; undefined if it is, or if that was not requested. */
  async function compileAll(main: CappedModule, merge?: Merge, reason?: string): Promise<CompiledForms> {
    const module = needsModule ? await compileModule(main) : undefined
    const fewExports = needsModule ? await compileOnDemand(main) : undefined
    const resettable = isResettable ? await compileResettable(capped, merge) : undefined
    return {
      module,
      fewExports: fewExports?.module,
      resettable: resettable?.compiled,
      ...(merge && kernelMemory && { merge: { isMerged: true, memory: kernelMemory } }),
      ...(reason !== undefined && { merge: { isMerged: false, reason } }),
      ...(module && {
        forms: { module: main.bytes, fewExports: fewExports?.bytes, resettable: resettable?.form },
      }),
    }
  }
}

export function factsOf({ view, memories }: CappedModule): ModuleFacts {
  return {
    imports: view.imports,
    exports: view.exports.map(({ name, kind }) => ({ name, kind })),
    functions: exportedFunctions(view),
    hasStart: view.sections.some(({ id }) => id === SECTION.start),
    isInterruptible: false,
    startsBriefly: false,
    memories: view.memories.map(({ min, max }, index) => ({
      initial: Number(min),
      max: max === undefined ? undefined : Number(max),
      cap: Number(memories[index]?.max ?? min),
    })),
    customSections: view.customSections.map(({ name, content }) => ({
      name,
      // A copy: the slice of a Buffer would keep the whole file, and take it to other threads.
      ...(name === 'producers' &&
        content.length <= MAX_PRODUCERS_BYTES && { content: new Uint8Array(content) }),
    })),
  }
}

/** Compilers write some hundred bytes. */
const MAX_PRODUCERS_BYTES = 65_536

/** @throws {@link PluginInvalidError} if V8 rejects it. */
async function compileModule({ bytes, view }: CappedModule): Promise<WebAssembly.Module> {
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
async function compileOnDemand(
  capped: CappedModule,
): Promise<{ readonly module: WebAssembly.Module; readonly bytes: Uint8Array } | undefined> {
  const bytes = makeFewExports(capped)
  const module = bytes && (await compileVariant(bytes))
  return module && { module, bytes }
}

/** @returns undefined if V8 refuses it, by a limit or for lack of memory: the module itself serves then. */
function compileVariant(bytes: Uint8Array): Promise<WebAssembly.Module | undefined> {
  return WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>).catch(() => undefined)
}

/** The smallest module with a table that has an initial value. */
const TABLE_WITH_VALUE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b],
)

/**
 * Compiles the resettable variant of a module, in the best form that V8 accepts: a larger form may exceed its limits.
 *
 * @param capped - Already accepted by V8.
 * @returns undefined if there is no such variant.
 */
async function compileResettable(
  capped: CappedModule,
  merge?: Merge,
): Promise<{ readonly compiled: ResettableModule; readonly form: ResettableForm } | undefined> {
  for (const records of [undefined, 'nothing'] as const) {
    const made = makeResettable(capped, records, merge)
    if (!made) continue
    const { bytes: whole, fewExports: bytes = whole, ...rest } = made
    const module = await compileVariant(bytes)
    if (module) return { compiled: { module, ...rest }, form: { bytes, ...rest } }
  }
  return undefined
}
