import { readSync, writeSync } from 'node:fs'
import { initialisersOf } from '../module/entry-points.ts'
import { type Suspending, suspending } from '../platform/missing-types.ts'
import { EXTISM_ENV, WASI } from '../plugin/host-imports.ts'
import { returnCode } from '../runtime/return-code.ts'
import { startGuest } from '../runtime/runtime.ts'
import { EmptyInput, LineBuffer, LineOutput } from '../runtime/wasi/streams.ts'
import { openWasi, ProcExit, type Wasi } from '../runtime/wasi/wasi.ts'
import type { CallQueue } from './call-queue.ts'
import type { Deadline } from './deadline.ts'
import { GuestContext, type ImportedFunction } from './guest-context.ts'
import type { GuestOptions, NamedModule } from './plugin.ts'

/** The parts of a new instance. */
interface InstanceRequest {
  readonly modules: readonly NamedModule[]
  readonly options: Pick<GuestOptions, 'useWasi' | 'enableWasiOutput' | 'allowedPaths'>
  readonly context: GuestContext
  /** Host functions by namespace and name. They replace functions of Extism with the same name. */
  readonly functions: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>
  /** Suspends the guest while an async function runs; undefined if no function is async. */
  readonly suspending: Suspending | undefined
  /** The time limit that the modules look at. Default: none. */
  readonly deadline?: Deadline | undefined
}

/** The modules of a plug-in, ready to be called. */
export class GuestInstance {
  readonly instance: WebAssembly.Instance
  readonly deadline: Deadline | undefined
  readonly #linked: LinkedModules
  readonly #suspending: Suspending | undefined
  readonly #functions = new Map<string, () => unknown>()

  constructor({ modules, options, context, functions, suspending, deadline }: InstanceRequest) {
    const { useWasi, enableWasiOutput, allowedPaths } = options
    const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {
      env: {},
      [EXTISM_ENV]: GuestContext.importsOf(context),
    }
    for (const [namespace, members] of Object.entries(functions))
      imports[namespace] = { ...imports[namespace], ...members }
    this.#linked = linkNamedModules({
      modules,
      imports,
      openWasi: useWasi ? () => openGuestWasi(allowedPaths, enableWasiOutput, deadline) : undefined,
      deadline,
    })
    this.instance = this.#linked.instance
    this.deadline = deadline
    this.#suspending = suspending
  }

  /** A function of the main module. @throws Error if there is no function with this name. */
  function(name: string): () => unknown {
    return this.#functions.get(name) ?? this.#find(name)
  }

  /** The return code of a call of a function. */
  codeOf(name: string, returned: unknown): number {
    return returnCode(returned, this.instance.exports[name])
  }

  close(): void {
    for (const wasi of this.#linked.wasis) wasi.close()
  }

  #find(name: string): () => unknown {
    const found = this.instance.exports[name]
    if (found === undefined) throw new Error(`Plugin error: function "${name}" does not exist`)
    if (typeof found !== 'function') throw new Error(`Plugin error: export "${name}" is not a function`)
    const guest = found as () => unknown
    const run = this.#suspending ? this.#suspending.promising(guest) : guest
    this.#functions.set(name, run)
    return run
  }
}

/** Host functions of the user, by namespace and name. */
export type UserFunctions = Readonly<Record<string, Readonly<Record<string, ImportedFunction>>>>

/**
 * Whether one of the functions is async: then the guest is suspended.
 *
 * @throws TypeError if V8 cannot suspend a guest.
 */
export function areAsync(functions: UserFunctions): boolean {
  const isAsync = Object.values(functions).some((members) =>
    Object.values(members ?? {}).some(isAsyncFunction),
  )
  if (!isAsync || suspending) return isAsync
  throw new TypeError(
    'This platform does not support async function imports on the main thread; consider using `runInWorker`.',
  )
}

/** Host functions of the user as imports. */
export function functionImports(
  context: GuestContext,
  functions: UserFunctions,
  calls: CallQueue,
): InstanceRequest['functions'] {
  return mapMembers(functions, (member, namespace, name) => {
    const run = calls.within(member)
    if (!suspending || !isAsyncFunction(member))
      return (...args: unknown[]) => notLater(GuestContext.run(context, run, args), namespace, name)
    return new suspending.Suspending((...args: unknown[]) => GuestContext.runAsync(context, run, args))
  })
}

/** @throws TypeError if this is a promise: the guest waits only for functions that are declared as async. */
function notLater(returned: unknown, namespace: string, name: string): unknown {
  if (!(returned instanceof Promise)) return returned
  returned.catch(() => undefined)
  throw new TypeError(
    `host function "${namespace}" "${name}" returned a promise: declare it as async, or use "runInWorker"`,
  )
}

function isAsyncFunction(run: ImportedFunction): boolean {
  return run.constructor === AsyncFunction
}

/** Bound async functions inherit from its prototype too, though Node does not report them as async. */
const AsyncFunction = (async () => undefined).constructor

/** Maps each function of each namespace. */
export function mapMembers<From, To>(
  functions: Readonly<Record<string, Readonly<Record<string, From>>>>,
  make: (member: From, namespace: string, name: string) => To,
): Record<string, Record<string, To>> {
  return Object.fromEntries(
    Object.entries(functions).map(([namespace, members]) => [
      namespace,
      Object.fromEntries(
        Object.entries(members ?? {}).map(([name, member]) => [name, make(member, namespace, name)]),
      ),
    ]),
  )
}

/** The status with which a guest has exited: its return code. @throws any other value. */
export function exitStatusOf(thrown: unknown): number {
  if (thrown instanceof ProcExit) return thrown.code
  throw thrown
}

function openGuestWasi(
  allowedPaths: Readonly<Record<string, string>>,
  isOpen: boolean,
  deadline: Deadline | undefined,
): Wasi {
  return openWasi({
    allowedPaths: Object.entries(allowedPaths).map(([guest, host]) => ({ guest, host, readOnly: false })),
    streams: isOpen
      ? { input: new ProcessInput(), output: new ProcessOutput(1), error: new ProcessOutput(2) }
      : undefined,
    isInterrupted: deadline && (() => deadline.isOver),
    writeLine: () => undefined,
  })
}

class ProcessInput extends EmptyInput {
  override read(bytes: Buffer, start: number, end: number): number {
    try {
      return readSync(0, bytes, start, end - start, null)
    } catch {
      return 0 // Closed, or a terminal without input: end of file for the guest.
    }
  }
}

class ProcessOutput extends LineOutput {
  readonly #fd: number

  constructor(fd: number) {
    super(new LineBuffer(() => undefined))
    this.#fd = fd
  }

  override write(bytes: Buffer, start: number, end: number): number {
    try {
      return writeSync(this.#fd, bytes, start, end - start)
    } catch {
      return end - start // Closed, or a full pipe: an error of the output is no error of the guest.
    }
  }
}

/** The modules to link, and their imports. */
interface LinkTarget {
  readonly modules: readonly NamedModule[]
  /** Imports by namespace and name. */
  readonly imports: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>
  /** Undefined if WASI is off. */
  readonly openWasi: (() => Wasi) | undefined
  readonly deadline: Deadline | undefined
}

/** The modules of a plug-in, linked and started. */
interface LinkedModules {
  /** The instance of the main module. */
  readonly instance: WebAssembly.Instance
  /** One for each module that imports it. */
  readonly wasis: readonly Wasi[]
}

/**
 * Links the modules of a plug-in to each other and to the host. Each starts before the modules that import from it.
 *
 * @throws Error with the path of modules to an import that cannot be resolved; errors of V8 and of guests.
 */
function linkNamedModules(target: LinkTarget): LinkedModules {
  const links = new ModuleLinks(target)
  try {
    const instance = links.open('main', ['main'])
    return { instance, wasis: links.wasis }
  } catch (error) {
    for (const wasi of links.wasis) wasi.close()
    throw error
  }
}

class ModuleLinks {
  readonly wasis: Wasi[] = []
  readonly #target: LinkTarget
  readonly #modules: ReadonlyMap<string, WebAssembly.Module>

  constructor(target: LinkTarget) {
    this.#target = target
    // The first of several modules with the same name is used.
    this.#modules = new Map(target.modules.map(({ name, module }) => [name, module] as const).reverse())
  }

  /**
   * @param path - Names of the modules that import from each other, this one last.
   * @param opened - Instances of the same tree, undefined while they start. A command has a tree of its own.
   */
  open(
    name: string,
    path: readonly string[],
    opened = new Map<string, WebAssembly.Instance | undefined>(),
  ): WebAssembly.Instance {
    const module = this.#modules.get(name)
    if (!module) throw new Error('manifest with multiple modules must designate one "main" module')
    opened.set(name, undefined)
    let wasi: Wasi | undefined
    const openWasi = () => {
      wasi ??= this.#openWasi()
      return wasi
    }
    const provided: Record<string, Record<string, WebAssembly.ImportValue>> = Object.create(null)
    for (const wanted of WebAssembly.Module.imports(module)) {
      provided[wanted.module] ??= Object.create(null) as Record<string, WebAssembly.ImportValue>
      const namespace = provided[wanted.module] ?? {}
      namespace[wanted.name] = this.#modules.has(wanted.module)
        ? this.#fromModule(wanted, path, opened)
        : this.#fromHost(wanted, path, openWasi)
    }
    const instance = new WebAssembly.Instance(module, provided)
    if (wasi) attach(wasi, instance, provided)
    this.#target.deadline?.arm(instance.exports)
    const functions = WebAssembly.Module.exports(module).filter(({ kind }) => kind === 'function')
    startGuest(
      instance.exports,
      initialisersOf(new Set(functions.map(({ name }) => name)), wasi !== undefined),
    )
    opened.set(name, instance)
    return instance
  }

  #openWasi(): Wasi {
    const { openWasi } = this.#target
    if (!openWasi) throw new Error('WASI is not enabled; see the "useWasi" plugin option')
    const wasi = openWasi()
    this.wasis.push(wasi)
    return wasi
  }

  #fromHost(
    { module: namespace, name, kind }: WebAssembly.ModuleImportDescriptor,
    path: readonly string[],
    openWasi: () => Wasi,
  ): WebAssembly.ImportValue {
    const { imports } = this.#target
    const found = Object.hasOwn(imports, namespace) ? imports[namespace] : undefined
    const own = found && Object.hasOwn(found, name) ? found[name] : undefined
    const value = own ?? (namespace === WASI ? openWasi().function(name) : undefined)
    const wanted = `"${namespace}" "${name}"`
    if (value === undefined) {
      const isHost = found !== undefined || namespace === WASI
      throw new Error(
        isHost
          ? `${importPath(path)}: cannot resolve import ${wanted} ("${namespace}" is a host module, but does not contain "${name}")`
          : `${importPath(path)}: cannot resolve import ${wanted}: not provided by host imports nor linked manifest items`,
      )
    }
    if (kind === 'function') return value
    throw new Error(
      `${importPath(path)}: in import ${wanted}, "${kind}"-typed host imports are not supported yet`,
    )
  }

  #fromModule(
    { module: namespace, name, kind }: WebAssembly.ModuleImportDescriptor,
    path: readonly string[],
    opened: Map<string, WebAssembly.Instance | undefined>,
  ): WebAssembly.ImportValue {
    const exported = WebAssembly.Module.exports(this.#modules.get(namespace) as WebAssembly.Module)
    const refuse = (reason: string) =>
      new Error(`${importPath(path)}: cannot import "${namespace}" "${name}"; ${reason}`)
    if (!exported.some((each) => each.name === name && each.kind === kind))
      throw refuse('no export matched request')
    const isCommand = exported.some((each) => each.name === '_start')
    if (isCommand) {
      // Each import of a command has its own instance.
      if (path.includes(namespace)) throw refuse('a command cannot import from itself')
      return this.open(namespace, [...path, namespace]).exports[name] as WebAssembly.ImportValue
    }
    if (!opened.has(namespace)) this.open(namespace, [...path, namespace], opened)
    const instance = opened.get(namespace)
    if (instance) return instance.exports[name] as WebAssembly.ImportValue
    if (kind !== 'function') throw refuse(`circular imports of type="${kind}" are not supported`)
    let target: CallableFunction | undefined
    return (...args: unknown[]) => {
      target ??= opened.get(namespace)?.exports[name] as CallableFunction | undefined
      if (!target)
        throw new Error(
          `${importPath(path, 'module instance')}: target module "${namespace}" was never instantiated`,
        )
      return target(...args)
    }
  }
}

function importPath(path: readonly string[], what = 'module'): string {
  return `from ${what} "${path.join('"/"')}"`
}

/** Passes the guest's memory to WASI: the exported memory, otherwise an imported one. */
function attach(
  wasi: Wasi,
  { exports }: WebAssembly.Instance,
  provided: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>,
): void {
  const imported = Object.values(provided).flatMap((namespace) => Object.values(namespace))
  const memory = [exports.memory, ...imported].find((value) => value instanceof WebAssembly.Memory)
  if (!(memory instanceof WebAssembly.Memory)) throw new Error('The module has to export a default memory.')
  wasi.attach(memory)
}
