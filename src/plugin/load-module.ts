import { callableExports } from './callable.ts'
import { compileModule, compileRenewable, type RenewableModule } from './compile.ts'
import { type ModuleFacts, type PrepareOptions, prepareModule, readFacts } from './prepare.ts'
import { START } from './start.ts'

/** What is to be made of a module's bytes. */
export interface ModuleJob extends PrepareOptions {
  /** Whether the module itself is needed: not if it was compiled before. */
  readonly needsModule: boolean
  /** Whether the form that can be put back is needed: `program`, if nothing but its program can be called. */
  readonly renewable: 'yes' | 'no' | 'program'
}

/** What was made. All of it can be posted to another thread. */
export interface LoadedModule {
  /** Undefined if it was not needed. */
  readonly module: WebAssembly.Module | undefined
  readonly facts: ModuleFacts
  /** Whether the form that can be put back was asked for; there may be none. */
  readonly isRenewableKnown: boolean
  readonly renewable: RenewableModule | undefined
}

/**
 * All steps of loading a module, in the thread that calls it.
 *
 * @throws {@link PluginInvalidError}
 */
export async function loadModule(
  bytes: Uint8Array,
  { needsModule, renewable, ...options }: ModuleJob,
): Promise<LoadedModule> {
  const prepared = prepareModule(bytes, options)
  const module = needsModule ? await compileModule(prepared) : undefined
  const facts = readFacts(prepared)
  const isRenewableKnown = renewable === 'yes' || (renewable === 'program' && isOnlyProgram(facts))
  return {
    module,
    facts,
    isRenewableKnown,
    renewable: isRenewableKnown ? await compileRenewable(prepared) : undefined,
  }
}

/** Whether each call needs a new instance, whatever the route says: only its program can be called. */
export function isOnlyProgram({ functions }: Pick<ModuleFacts, 'functions'>): boolean {
  return callableExports({ functions }).join() === START
}
