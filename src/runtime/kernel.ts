import {
  BodyTooLargeError,
  FunctionUnknownError,
  GuestError,
  GuestExitError,
  GuestTrapError,
  InstanceStartError,
  OutputTooLargeError,
} from '../errors.ts'
import { GuestLog } from '../guest-log.ts'
import type { Plugin } from '../plugin.ts'
import { checkImports, EXTISM_ENV, WASI } from './imports.ts'
import { hostFunctions } from './kernel-host.ts'
import { refuseHttp } from './kernel-http.ts'
import { type KernelMemory, openKernelMemory } from './kernel-memory.ts'
import { startGuest } from './kernel-start.ts'
import { openVars } from './kernel-vars.ts'
import type { Caller, Instance, InstanceSettings, Runtime } from './runtime.ts'
import { describeTrap } from './trap.ts'
import { openWasi, ProcExit, type Wasi, type WasiOptions } from './wasi.ts'

/** Our own Extism host: the guest is linked to `kernel.wasm`, and a call is over when `call` returns. */
export const kernel = { name: 'kernel', open: openInstance } as const satisfies Runtime

/** An instance whose calls never wait. */
export interface KernelInstance extends Instance {
  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array
}

function openInstance(plugin: Plugin, settings: InstanceSettings): KernelInstance {
  const { config, blockLimit, varMax, http = refuseHttp } = settings
  const wantsWasi = importsWasi(plugin, settings)
  const log = new GuestLog(settings.log, { plugin: plugin.name })
  let wasi: Wasi | undefined
  try {
    if (wantsWasi) wasi = openWasi({ ...settings.wasi, writeLine: lineWriter(log) })
    const memory = openKernelMemory(blockLimit)
    const host = hostFunctions({ memory, config, vars: openVars(varMax), log, http })
    const guest = new WebAssembly.Instance(plugin.module, {
      [EXTISM_ENV]: { ...memory.functions, ...host },
      ...(wasi && { [WASI]: wasi.imports }),
    })
    const guestMemory = memoryOf(guest.exports)
    if (guestMemory) wasi?.attach(guestMemory)
    startGuest(guest.exports)
    wasi?.flush()
    memory.reset()
    return new LinkedInstance(plugin, settings, guest.exports, memory, log, wasi)
  } catch (error) {
    wasi?.close()
    throw new InstanceStartError(plugin.name, describeTrap(error).reason, { cause: error })
  }
}

function lineWriter(log: GuestLog): WasiOptions['writeLine'] {
  return (stream, line) => log.write(stream === 'stdout' ? 'info' : 'warn', line)
}

/** The imports of a module are checked once: to list them takes longer than to link them. */
function importsWasi(plugin: Plugin, settings: InstanceSettings): boolean {
  const known = wasiImporters.get(plugin.module)
  if (known !== undefined && (settings.wasi || !known)) return known
  checkImports(plugin, settings)
  const imports = WebAssembly.Module.imports(plugin.module).some(({ module }) => module === WASI)
  wasiImporters.set(plugin.module, imports)
  return imports
}

const wasiImporters = new WeakMap<WebAssembly.Module, boolean>()

class LinkedInstance implements KernelInstance {
  readonly #plugin: Plugin
  readonly #outputLimit: number
  readonly #functions: ReadonlyMap<string, () => unknown>
  readonly #memory: KernelMemory
  readonly #guestMemory: WebAssembly.Memory | undefined
  readonly #log: GuestLog
  readonly #wasi: Wasi | undefined

  constructor(
    plugin: Plugin,
    { outputLimit }: InstanceSettings,
    exports: WebAssembly.Exports,
    memory: KernelMemory,
    log: GuestLog,
    wasi: Wasi | undefined,
  ) {
    this.#plugin = plugin
    this.#outputLimit = outputLimit
    this.#functions = functionsOf(exports)
    this.#memory = memory
    this.#guestMemory = memoryOf(exports)
    this.#log = log
    this.#wasi = wasi
  }

  get memoryBytes(): number {
    return this.#memory.size + (this.#guestMemory?.buffer.byteLength ?? 0)
  }

  call(exportName: string, input: Uint8Array, { log }: Caller): Uint8Array {
    const run = this.#functions.get(exportName)
    if (!run) throw new FunctionUnknownError(this.#plugin.name, `it has no function "${exportName}"`)
    if (!this.#memory.input(input)) throw new BodyTooLargeError()
    this.#log.begin(log)
    try {
      return this.#answer(exportName, run())
    } catch (thrown) {
      throw isOurs(thrown) ? thrown : toCallError(thrown, exportName)
    } finally {
      this.#wasi?.flush()
      this.#log.end()
      this.#memory.reset()
    }
  }

  async close(): Promise<void> {
    this.#wasi?.close()
  }

  /** As in Extism, an error wins over an output. */
  #answer(exportName: string, returned: unknown): Uint8Array {
    const memory = this.#memory
    if (memory.errorLength() > 0) {
      this.#checkLength(exportName, memory.errorLength())
      throw new GuestError(memory.error())
    }
    if (returned !== 0 && returned !== undefined) {
      throw new GuestError(`The guest function "${exportName}" returned ${returned}`)
    }
    this.#checkLength(exportName, memory.outputLength())
    return memory.output()
  }

  #checkLength(exportName: string, length: number): void {
    if (length > this.#outputLimit) throw new OutputTooLargeError(exportName, length, this.#outputLimit)
  }
}

function memoryOf({ memory }: WebAssembly.Exports): WebAssembly.Memory | undefined {
  return memory instanceof WebAssembly.Memory ? memory : undefined
}

function functionsOf(exports: WebAssembly.Exports): Map<string, () => unknown> {
  const functions = new Map<string, () => unknown>()
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value === 'function') functions.set(name, value as () => unknown)
  }
  return functions
}

function isOurs(thrown: unknown): boolean {
  return thrown instanceof GuestError || thrown instanceof OutputTooLargeError
}

/** A trap, or an error of a host function; of its stack only the guest's functions are kept. */
function toCallError(thrown: unknown, exportName: string): Error {
  if (thrown instanceof ProcExit) return new GuestExitError(exportName)
  return new GuestTrapError(exportName, { cause: describeTrap(thrown) })
}
