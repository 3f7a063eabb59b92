import { describeTrap, type NamedHostFunction } from '../guest/host-functions.ts'
import { HTTP_REQUEST } from '../guest/outbound/guest-http.ts'
import { START } from '../module/entry-points.ts'
import { KERNEL_MEMORY, MERGED_MEMORIES } from '../module/names.ts'
import type { GuestLog } from '../observe/log/guest-log.ts'
import type { Suspending } from '../platform/missing-types.ts'
import type { ResettableModule } from '../plugin/load-module.ts'
import type { MemoryFacts } from '../plugin/module-facts.ts'
import type { CheckBudget } from './check-budget.ts'
import { exportAccessor } from './export-accessor.ts'
import {
  HostWatch,
  type ImportedHostFunction,
  type InitialStates,
  type InstanceReset,
  openInstanceReset,
} from './instance-reset.ts'
import { armChecks } from './interrupts.ts'
import { type KernelHost, kernelHostFunctions } from './kernel-host.ts'
import type { KernelMemory } from './kernel-memory.ts'
import {
  type LinkPlan,
  MAIN,
  type ModuleExport,
  type PlannedImport,
  type PlannedModule,
} from './link-plan.ts'
import type { CallContexts, LinkedCallContext } from './linked-call-context.ts'
import { startGuest } from './runtime.ts'
import { openWasi, ProcExit, type ProgramStreams, type Wasi, type WasiOptions } from './wasi/wasi.ts'

/** The imports that the modules of an instance are linked to. */
interface LinkHost extends KernelHost {
  /** undefined if no module imports WASI. */
  readonly wasi: Omit<WasiOptions, 'writeLine' | 'streams'> | undefined
  /** Standard input and output, if the call is a program. */
  readonly streams: ProgramStreams | undefined
  readonly contexts: CallContexts
  /** State shared by instances that are linked alike. */
  readonly origins: InitialStates
  /** Called before a guest that waited for an async host function continues. */
  readonly onResume: (() => void) | undefined
  /** Bounds the checks of calls; undefined: no bound. */
  readonly budget: CheckBudget | undefined
}

/** The modules of an instance, linked and started. */
export interface Linked {
  /** The exports of the main module. */
  readonly exports: WebAssembly.Exports
  /** The visible memories: one that is not exported cannot be accessed. */
  readonly memories: readonly WebAssembly.Memory[]
  /** One for each module that imports it. */
  readonly wasis: readonly Wasi[]
  /** Restores the initial state; undefined if that is impossible. */
  readonly renewal: InstanceReset | undefined
}

/**
 * Links the modules of a plug-in with each other and with the host, and starts them in dependency order.
 *
 * @throws errors of V8 or the guest; WASI is closed then.
 */
export function linkModules(plan: LinkPlan, host: LinkHost): Linked {
  const linker = new Linker(host, plan)
  try {
    for (const { linkOrder, startOrder } of plan.groups) {
      for (const module of linkOrder) linker.run(module, () => linker.instantiate(module))
      for (const module of startOrder) linker.run(module, () => linker.start(module))
    }
    const { memories, wasis, renewal } = linker
    return { exports: linker.exportsOf(MAIN), memories: [...memories], wasis, renewal }
  } catch (error) {
    for (const wasi of linker.wasis) wasi.close()
    throw error
  }
}

type Imported = WebAssembly.ImportValue

class Linker {
  readonly memories = new Set<WebAssembly.Memory>()
  readonly wasis: Wasi[] = []
  renewal: InstanceReset | undefined
  readonly #host: LinkHost
  readonly #suspending: Suspending | undefined
  readonly #resettable: ResettableModule | undefined
  readonly #fewExports: WebAssembly.Module | undefined
  readonly #watch = new HostWatch()
  readonly #exports = new Map<string, WebAssembly.Exports>()
  readonly #commands = new Map<string, PlannedModule>()
  /** Number of running commands: a command may call another. */
  #runs = 0
  #functions: Readonly<Record<string, Imported>> | undefined

  constructor(host: LinkHost, { suspending, resettable, fewExports }: LinkPlan) {
    this.#host = host
    this.#suspending = suspending
    this.#resettable = resettable
    this.#fewExports = fewExports
  }

  /** Adds the module's name to a failure, unless it is the plug-in itself. */
  run({ name }: PlannedModule, step: () => void): void {
    try {
      step()
    } catch (error) {
      if (name === MAIN) throw error
      throw new Error(`module "${name}": ${describeTrap(error).reason}`, { cause: error })
    }
  }

  /** A command is only recorded: each call creates an instance. */
  instantiate(planned: PlannedModule): void {
    const { name, isCommand } = planned
    if (isCommand) {
      this.#commands.set(name, planned)
      return
    }
    const wasi = this.#openWasi(planned)
    if (wasi) this.wasis.push(wasi)
    const exports = this.#open(planned, wasi)
    this.#host.budget?.add(exports)
    this.#exports.set(name, exports)
    for (const memory of memoriesOf(exports, planned)) this.memories.add(memory)
    if (this.#resettable) this.renewal = this.#openInstanceReset(this.#resettable, exports)
  }

  start({ name, initialisers, isCommand }: PlannedModule): void {
    if (isCommand) return
    startGuest(this.exportsOf(name), initialisers)
    this.renewal?.started()
  }

  exportsOf(name: string): WebAssembly.Exports {
    const exports = this.#exports.get(name)
    if (exports) return exports
    throw new Error(calledTooEarly(name))
  }

  #open(
    { module, imports, memories, exports: items, mergedMemories }: PlannedModule,
    wasi: Wasi | undefined,
  ): WebAssembly.Exports {
    const provided = this.#importsOf(imports, wasi)
    if (mergedMemories) provided[MERGED_MEMORIES] = openMemories(mergedMemories, this.#host.memory)
    const form = this.#resettable?.module ?? this.#fewExports ?? module
    const exports = exportAccessor(new WebAssembly.Instance(form, provided).exports, items)
    const memory = exports.memory ?? exports[memories[0] ?? '']
    if (memory instanceof WebAssembly.Memory) wasi?.attach(memory)
    armChecks(exports, this.#host.budget?.check)
    return exports
  }

  /** undefined if the module's start function created blocks, which the rest of the start may use. */
  #openInstanceReset(module: ResettableModule, exports: WebAssembly.Exports): InstanceReset | undefined {
    const { memory, origins } = this.#host
    return memory.isUsed ? undefined : openInstanceReset(module, exports, this.#watch, origins)
  }

  #openWasi({ hasWasi }: PlannedModule): Wasi | undefined {
    const { log, wasi: options, streams } = this.#host
    if (!hasWasi) return undefined
    const watch = this.#watch
    const marks = this.#resettable?.records === 'blocks'
    const onAccess = marks ? (address: number, length: number) => watch.wrote?.(address, length) : undefined
    return openWasi({ ...options, writeLine: lineWriter(log), streams, onAccess })
  }

  /** Only the imported functions: on Node 20, spreading all of them takes as long as linking a small guest. */
  #importsOf(imports: readonly PlannedImport[], wasi: Wasi | undefined): ImportValues {
    const provided: ImportValues = Object.create(null)
    for (const { namespace, name, provider } of imports) {
      const value = this.#find(name, provider, wasi)
      namespaceOf(provided, namespace)[name] = value
      // A module without its own memory uses this one, even during its start function.
      if (value instanceof WebAssembly.Memory) wasi?.attach(value)
    }
    return provided
  }

  #find(name: string, provider: PlannedImport['provider'], wasi: Wasi | undefined): Imported {
    switch (provider) {
      case 'kernel':
        return this.#host.memory.functions[name] as Imported
      case 'host':
        this.#functions ??= kernelHostFunctions(this.#host)
        return this.#waitFor(name, this.#watched(this.#functions[name]))
      case 'wasi':
        return this.#watched(wasi?.function(name), 'writes')
      default:
        if ('command' in provider) return this.#callAnew(name, provider.command)
        if ('call' in provider) return this.#watched(toImport(provider, this.#host, this.#suspending))
        return provider.isLate ? this.#callLater(name, provider) : this.#exported(name, provider)
    }
  }

  /** Only HTTP requests can take time. */
  #waitFor(name: string, run: Imported): Imported {
    const waits = name === HTTP_REQUEST && this.#host.http.isAsync && this.#suspending
    return waits ? new waits.Suspending(run as (...args: unknown[]) => unknown) : run
  }

  /** @param writes - Whether it writes into the guest's memory. */
  #watched(run: Imported | undefined, writes?: 'writes'): Imported {
    return this.#resettable
      ? this.#watch.watched(run as ImportedHostFunction, writes !== undefined)
      : (run as Imported)
  }

  #exported(name: string, { module }: ModuleExport): Imported {
    return this.exportsOf(module)[name] as Imported
  }

  /** A function of a command. As in Extism's Rust SDK, each call creates an instance, so no state is kept. */
  #callAnew(name: string, command: string): Imported {
    return (...args: unknown[]) => {
      const planned = this.#commands.get(command)
      if (!planned) throw new Error(calledTooEarly(command))
      if (this.#runs >= MAX_COMMAND_RUNS)
        throw new Error(`more than ${MAX_COMMAND_RUNS} linked commands run at a time`)
      const wasi = this.#openWasi(planned)
      this.#runs++
      try {
        const exports = this.#open(planned, wasi)
        if (name !== START) startGuest(exports, planned.initialisers)
        return (exports[name] as (...args: unknown[]) => unknown)(...args)
      } catch (thrown) {
        if (name === START && thrown instanceof ProcExit && thrown.code === 0) return undefined
        throw thrown
      } finally {
        this.#runs--
        wasi?.close()
      }
    }
  }

  /**
   * A function of a module that is instantiated before it is called. Wasm to JavaScript to Wasm: 15 ns per call instead of
   * 3, and 40 with 64-bit integers.
   */
  #callLater(name: string, provider: ModuleExport): Imported {
    let target: ((...args: unknown[]) => unknown) | undefined
    return (...args: unknown[]) => {
      target ??= this.#exported(name, provider) as (...args: unknown[]) => unknown
      return target(...args)
    }
  }
}

/** The memories of a module into which the kernel is merged. */
function openMemories(own: readonly MemoryFacts[], kernel: KernelMemory): Record<string, Imported> {
  const provided: Record<string, Imported> = { [KERNEL_MEMORY]: kernel.memory }
  own.forEach(({ initial, cap }, place) => {
    provided[`${place}`] = new WebAssembly.Memory({ initial, maximum: cap })
  })
  return provided
}

/** One memory may have many names; where a module has many exports, only one of them is known here. */
function memoriesOf(exports: WebAssembly.Exports, { memories }: PlannedModule): WebAssembly.Memory[] {
  const found = memories.length < MANY ? memories.map((name) => exports[name]) : Object.values(exports)
  return found.filter((value) => value instanceof WebAssembly.Memory)
}

const MANY = 16

/** Maximum number of instances of a command, each of which has a memory up to the limit: a command may call itself. */
const MAX_COMMAND_RUNS = 16

function calledTooEarly(module: string): string {
  return `a function of module "${module}" was called before the module was instantiated`
}

/** The imports of a module. */
type ImportValues = Record<string, Record<string, Imported>>

function namespaceOf(provided: ImportValues, name: string): Record<string, Imported> {
  provided[name] ??= Object.create(null) as Record<string, Imported>
  return provided[name]
}

function lineWriter(log: GuestLog): WasiOptions['writeLine'] {
  return (stream, line) => log.write(stream === 'stdout' ? 'info' : 'warn', line)
}

function toImport(
  { isAsync, label, call }: NamedHostFunction,
  { contexts, onResume }: LinkHost,
  suspending: Suspending | undefined,
): Imported {
  if (!isAsync || !suspending) {
    return (...args: unknown[]) => {
      const context = contexts.current()
      const returned = call(context, ...args)
      context.writeBack()
      return returned
    }
  }
  async function waitFor(promised: Promise<unknown>, context: LinkedCallContext): Promise<unknown> {
    try {
      const returned = await promised
      context.writeBack()
      return returned
    } finally {
      onResume?.()
    }
  }
  return new suspending.Suspending((...args: unknown[]) => {
    // Thrown synchronously: V8 would not await a promise here.
    if (contexts.isIdle)
      throw new Error(`host function ${label}: it is async and cannot be called while the guest starts`)
    const context = contexts.current()
    const returned = call(context, ...args)
    if (returned instanceof Promise) return waitFor(returned, context)
    context.writeBack()
    return returned
  })
}
