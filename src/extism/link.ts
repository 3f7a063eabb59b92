import { initialisersOf } from '../module/entry-points.ts'
import { startGuest } from '../runtime/kernel-start.ts'
import type { Wasi } from '../runtime/wasi/wasi.ts'
import type { NamedModule } from './plugin.ts'

/** What modules are linked to. */
export interface LinkTarget {
  readonly modules: readonly NamedModule[]
  /** By namespace and name. */
  readonly imports: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>
  /** None: WASI is off. */
  readonly openWasi: (() => Wasi) | undefined
}

/** The modules of a plug-in, linked and started. */
export interface LinkedModules {
  /** Of the main module. */
  readonly instance: WebAssembly.Instance
  /** One for each module that imports it. */
  readonly wasis: readonly Wasi[]
}

/**
 * Links the modules of a plug-in to each other and to the host, and starts each before the module that imports from it.
 *
 * @throws Error naming the modules on the way to an import that cannot be met, and what V8 or a guest throws.
 */
export function linkNamedModules(target: LinkTarget): LinkedModules {
  const links = new ModuleLinks(target)
  try {
    const instance = links.open('main', ['main'])
    return { instance, wasis: links.wasis }
  } catch (error) {
    for (const wasi of links.wasis) wasi.close()
    throw error
  }
}

const WASI = 'wasi_snapshot_preview1'

class ModuleLinks {
  readonly wasis: Wasi[] = []
  readonly #target: LinkTarget
  readonly #modules: ReadonlyMap<string, WebAssembly.Module>

  constructor(target: LinkTarget) {
    this.#target = target
    // Of two with a name the first one counts.
    this.#modules = new Map(target.modules.map(({ name, module }) => [name, module] as const).reverse())
  }

  /**
   * @param path - Names of the modules that import from each other, this one last.
   * @param opened - Those of the same tree, undefined while they are opened. A command has a tree of its own.
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
    const given: Record<string, Record<string, WebAssembly.ImportValue>> = Object.create(null)
    for (const wanted of WebAssembly.Module.imports(module)) {
      given[wanted.module] ??= Object.create(null) as Record<string, WebAssembly.ImportValue>
      const namespace = given[wanted.module] ?? {}
      namespace[wanted.name] = this.#modules.has(wanted.module)
        ? this.#fromModule(wanted, path, opened)
        : this.#fromHost(wanted, path, openWasi)
    }
    const instance = new WebAssembly.Instance(module, given)
    if (wasi) attach(wasi, instance, given)
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
          ? `${from(path)}: cannot resolve import ${wanted} ("${namespace}" is a host module, but does not contain "${name}")`
          : `${from(path)}: cannot resolve import ${wanted}: not provided by host imports nor linked manifest items`,
      )
    }
    if (kind === 'function') return value
    throw new Error(`${from(path)}: in import ${wanted}, "${kind}"-typed host imports are not supported yet`)
  }

  #fromModule(
    { module: namespace, name, kind }: WebAssembly.ModuleImportDescriptor,
    path: readonly string[],
    opened: Map<string, WebAssembly.Instance | undefined>,
  ): WebAssembly.ImportValue {
    const exported = WebAssembly.Module.exports(this.#modules.get(namespace) as WebAssembly.Module)
    const refuse = (reason: string) =>
      new Error(`${from(path)}: cannot import "${namespace}" "${name}"; ${reason}`)
    if (!exported.some((each) => each.name === name && each.kind === kind))
      throw refuse('no export matched request')
    const isCommand = exported.some((each) => each.name === '_start')
    if (isCommand) {
      // Each import has an instance of its own.
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
          `${from(path, 'module instance')}: target module "${namespace}" was never instantiated`,
        )
      return target(...args)
    }
  }
}

function from(path: readonly string[], what = 'module'): string {
  return `from ${what} "${path.join('"/"')}"`
}

/** Tells WASI where the guest's memory is. One that the module imports is found where it exports none. */
function attach(
  wasi: Wasi,
  { exports }: WebAssembly.Instance,
  given: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>,
): void {
  const imported = Object.values(given).flatMap((namespace) => Object.values(namespace))
  const memory = [exports.memory, ...imported].find((value) => value instanceof WebAssembly.Memory)
  if (!(memory instanceof WebAssembly.Memory)) throw new Error('The module has to export a default memory.')
  wasi.attach(memory)
}
