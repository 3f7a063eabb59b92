import { PluginInvalidError, PluginTooComplexError } from '../errors/errors.ts'
import { type CheckOptions, checkModule } from '../module/check.ts'
import type { ModuleTypes } from '../module/type-budget.ts'
import { whyNotAModule } from './file-kind.ts'
import { capMemory } from './memory-cap.ts'
import {
  type ExportedItem,
  exportedFunctions,
  type FunctionExport,
  type ImportedItem,
  moduleExports,
  moduleImports,
} from './module.ts'

/** How a module is prepared. */
export interface PrepareOptions extends CheckOptions {
  /** For messages. */
  readonly name: string
  /** Most memory of an instance, in pages of 64 KiB. */
  readonly memoryMax: number
}

/** A module whose bytes were checked and whose memory is capped. Nothing was compiled. */
export interface PreparedModule {
  /** For messages. */
  readonly name: string
  /** Those to compile: the same as were given if there was nothing to cap. */
  readonly bytes: Uint8Array
  /** What the engine would keep of it for as long as the process lives. */
  readonly types: ModuleTypes
  /** Why its instances need a process of their own; undefined if they do not. */
  readonly needsProcess: string | undefined
  /** Says whether a form of it that we have written is within the limits, too. */
  isWithinLimits(form: Uint8Array): boolean
}

/** What a module's bytes tell. */
export interface ModuleFacts {
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  readonly functions: readonly FunctionExport[]
}

/**
 * The first step of loading a module: all that is done with its bytes before an engine sees them. It needs no state of
 * the process, and takes time: about 20 ms for a megabyte.
 *
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or it needs more memory than it may
 * have; the message says what they are.
 * @throws what {@link checkModule} throws.
 */
export function prepareModule(
  bytes: Uint8Array,
  { name, memoryMax, ...options }: PrepareOptions,
): PreparedModule {
  const notAModule = whyNotAModule(bytes)
  if (notAModule) throw new PluginInvalidError(name, notAModule)
  const { types, needsProcess } = checkModule(bytes, options, name)
  return {
    name,
    bytes: capMemory(bytes, memoryMax, name),
    types,
    needsProcess,
    isWithinLimits: (form) => isChecked(form, options, name),
  }
}

function isChecked(form: Uint8Array, options: CheckOptions, name: string): boolean {
  try {
    checkModule(form, options, name)
    return true
  } catch (error) {
    if (error instanceof PluginTooComplexError) return false
    throw error
  }
}

/**
 * What a module imports and exports.
 *
 * @throws {@link PluginInvalidError} if that cannot be understood, as it may be where no engine has accepted it yet.
 */
export function readFacts({ bytes, name }: Pick<PreparedModule, 'bytes' | 'name'>): ModuleFacts {
  try {
    return {
      imports: moduleImports(bytes),
      exports: moduleExports(bytes),
      functions: exportedFunctions(bytes),
    }
  } catch (error) {
    throw new PluginInvalidError(name, `it is not a valid module: ${(error as Error).message}`, {
      cause: error,
    })
  }
}
