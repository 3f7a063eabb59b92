import type { ModuleTypes } from '../module/type-budget.ts'
import { callableExports } from './callable.ts'
import { compileModule, compileOnDemand, compileRenewable, type RenewableModule } from './compile.ts'
import { type ModuleFacts, type PrepareOptions, prepareModule, readFacts } from './prepare.ts'
import { START } from './start.ts'

/** What is to be made of a module's bytes. */
export interface ModuleJob extends PrepareOptions {
  /** Whether the module itself is needed: not if it was compiled before. */
  readonly needsModule: boolean
  /** Whether nothing is compiled, and the bytes are what is needed: for a process of its own. */
  readonly staysBytes?: boolean
  /** Whether the form that can be put back is needed: `program`, if nothing but its program can be called. */
  readonly renewable: 'yes' | 'no' | 'program'
}

/** Decides whether a module with such types may be compiled in this process. */
export type Admit = (types: ModuleTypes) => void | Promise<void>

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

/**
 * All steps of loading a module, in the thread that calls it.
 *
 * @param admit - Asked before it is compiled: throws if the process has no room for its types. Default: does not.
 * @throws {@link PluginInvalidError}, what {@link prepareModule} throws, and what `admit` throws.
 */
export async function loadModule(
  bytes: Uint8Array,
  { needsModule, staysBytes, renewable, ...options }: ModuleJob,
  admit: Admit = () => undefined,
): Promise<LoadedModule> {
  const prepared = prepareModule(bytes, options)
  const { needsProcess } = prepared
  if (staysBytes) {
    const facts = readFacts(prepared)
    return { module: undefined, bytes: prepared.bytes, facts, needsProcess, ...NOT_RENEWABLE }
  }
  await admit(prepared.types)
  const module = needsModule ? await compileModule(prepared) : undefined
  const onDemand = needsModule ? await compileOnDemand(prepared) : undefined
  const facts = readFacts(prepared)
  const isRenewableKnown = renewable === 'yes' || (renewable === 'program' && isOnlyProgram(facts))
  return {
    module,
    ...(onDemand && { onDemand }),
    facts,
    needsProcess,
    isRenewableKnown,
    renewable: isRenewableKnown ? await compileRenewable(prepared) : undefined,
  }
}

const NOT_RENEWABLE = { isRenewableKnown: false, renewable: undefined }

/** Whether each call needs a new instance, whatever the route says: only its program can be called. */
export function isOnlyProgram({ functions }: Pick<ModuleFacts, 'functions'>): boolean {
  const [first, ...others] = callableExports({ functions }).slice(0, 2)
  return first === START && others.length === 0
}
