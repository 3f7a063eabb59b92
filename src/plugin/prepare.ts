import { PluginInvalidError } from '../errors.ts'
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
export interface PrepareOptions {
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
}

/** What a module's bytes tell. */
export interface ModuleFacts {
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  readonly functions: readonly FunctionExport[]
}

/**
 * The first step of loading a module: all that is done with its bytes before an engine sees them. It needs no state of
 * the process, and takes time: about 10 ms for 10 MiB.
 *
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or it needs more memory than it may
 * have; the message says what they are.
 */
export function prepareModule(bytes: Uint8Array, { name, memoryMax }: PrepareOptions): PreparedModule {
  const notAModule = whyNotAModule(bytes)
  if (notAModule) throw new PluginInvalidError(name, notAModule)
  return { name, bytes: capMemory(bytes, memoryMax, name) }
}

/**
 * What a module imports and exports.
 *
 * @throws {@link PluginInvalidError} if that cannot be understood, as it may be where no engine has accepted it yet.
 */
export function readFacts({ bytes, name }: PreparedModule): ModuleFacts {
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
