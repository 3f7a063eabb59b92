import { PluginInvalidError } from '../errors.ts'
import type { SourceModule } from '../source/source.ts'
import type { RenewableModule } from './compile.ts'
import { isOnlyProgram, loadModule, type ModuleJob } from './load-module.ts'
import type { ModuleFacts } from './prepare.ts'
import { SharedWork } from './shared-work.ts'
import { WeakValues } from './weak-values.ts'

/** A module that was loaded. */
export interface CompiledModule {
  readonly module: WebAssembly.Module
  readonly facts: ModuleFacts
  /** None unless it was asked for, and can be had. */
  readonly renewable?: RenewableModule
}

/** Compiled modules by digest and limits, for as long as something uses them. */
const compiled = new WeakValues<WebAssembly.Module>()

/** What is known of them. To make the form that can be put back takes tenths of a second, and each route asks for it. */
const known = new WeakMap<WebAssembly.Module, Known>()

interface Known {
  readonly facts: ModuleFacts
  readonly isRenewableKnown: boolean
  readonly renewable: RenewableModule | undefined
}

/** Those that are being loaded, by the same. */
const loading = new Map<string, Loading>()

interface Loading {
  /** For whom it was begun: its messages name him. */
  readonly name: string
  readonly work: SharedWork<WebAssembly.Module>
}

/** How many compiled modules are remembered. One that nothing uses is forgotten once V8 has collected it. */
export function rememberedModules(): number {
  return compiled.size
}

/**
 * Loads a module, unless it was loaded before. Who asks for the same meanwhile waits for the same work.
 *
 * @throws {@link PluginInvalidError}, and the reason of the signal.
 */
export async function loadOnce(
  source: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule'>,
  signal?: AbortSignal,
): Promise<CompiledModule> {
  const { name, renewable, ...limits } = wanted
  const key = JSON.stringify([source.digest, limits])
  for (;;) {
    const found = answer(compiled.get(key), renewable)
    if (found) return found
    const others = loading.get(key)
    const { work, name: begunFor } = others && !others.work.isGivenUp ? others : begin(key, source, wanted)
    try {
      const module = await work.wait(signal)
      const loaded = answer(module, renewable) // others may have wanted less
      if (loaded) return loaded
    } catch (error) {
      if (!(error instanceof PluginInvalidError) || begunFor === name) throw error
    }
  }
}

function answer(
  module: WebAssembly.Module | undefined,
  wanted: ModuleJob['renewable'],
): CompiledModule | undefined {
  const knownOf = module && known.get(module)
  if (!knownOf) return undefined
  const { facts, renewable, isRenewableKnown } = knownOf
  const isWanted = wanted === 'yes' || (wanted === 'program' && isOnlyProgram(facts))
  if (isWanted && !isRenewableKnown) return undefined
  return { module, facts, ...(isWanted && renewable && { renewable }) }
}

function begin(key: string, source: SourceModule, wanted: Omit<ModuleJob, 'needsModule'>): Loading {
  const work = new SharedWork(async () => {
    try {
      const before = compiled.get(key)
      const { module = before, ...rest } = await loadModule(source.bytes, { ...wanted, needsModule: !before })
      if (!module) throw new Error('a module was neither known nor made')
      if (module !== before) compiled.set(key, module)
      known.set(module, rest)
      return module
    } finally {
      if (loading.get(key) === begun) loading.delete(key)
    }
  })
  const begun = { name: wanted.name, work }
  loading.set(key, begun)
  return begun
}
