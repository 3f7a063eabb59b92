import {
  HostFunctionAsyncError,
  PdkOutdatedError,
  PluginForeignError,
  PluginImportError,
  WasiDisabledError,
} from '../errors/errors.ts'
import {
  checkHostFunctions,
  findHostFunction,
  type HostFunctions,
  type NamedHostFunction,
} from '../guest/host-functions.ts'
import { HTTP_REQUEST } from '../guest/outbound/guest-http.ts'
import { INITIALISERS, type Initialiser, initialisersOf, isCommand, START } from '../module/entry-points.ts'
import { foreignKind } from '../module/foreign.ts'
import type { KernelMemoryKind } from '../module/merge.ts'
import type { ExportedItem, ImportedItem } from '../module/module-view.ts'
import { type Suspending, suspending } from '../platform/missing-types.ts'
import { EXTISM_ENV, WASI } from '../plugin/host-imports.ts'
import type { ResettableModule } from '../plugin/load-module.ts'
import type { MemoryFacts } from '../plugin/module-facts.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { InstanceSettings } from './runtime.ts'
import { isWasiFunction } from './wasi/wasi.ts'

/** The name of the main module. Other modules can import from it by this name. */
export const MAIN = 'main'

/** The provider of each import, and the order in which the modules of a plug-in are instantiated. */
export interface LinkPlan {
  /** Providers come before their importers. Linked modules without importers are omitted. */
  readonly groups: readonly ModuleGroup<PlannedModule>[]
  /** The user's host functions that some module imports. */
  readonly hostFunctions: readonly NamedHostFunction[]
  /** Whether some module imports the HTTP functions. */
  readonly usesHttp: boolean
  /** The memory of the kernel, if it is merged into some module. */
  readonly kernelMemory: KernelMemoryKind | undefined
  /** How the guest waits for them and for HTTP; undefined if it need not. */
  readonly suspending: Suspending | undefined
  /** The start functions of the main module. */
  readonly initialisers: readonly Initialiser[]
  /** Instantiated in place of the main module; undefined if there are several modules, or the guest has to wait. */
  readonly resettable: ResettableModule | undefined
  /** A variant of `resettable` that returns functions on demand; undefined if others import from it. */
  readonly fewExports: WebAssembly.Module | undefined
}

export interface PlannedModule {
  readonly name: string
  readonly module: WebAssembly.Module
  readonly imports: readonly PlannedImport[]
  readonly hasWasi: boolean
  readonly exports: readonly ExportedItem[]
  /** Names of the memories that it exports. */
  readonly memories: readonly string[]
  /** Functions to call after instantiation, in order. */
  readonly initialisers: readonly Initialiser[]
  /** Whether each call of its functions gets a new instance. */
  readonly isCommand: boolean
  /** Memories that the host creates because the kernel is merged into the module; undefined if it is linked. */
  readonly mergedMemories: readonly MemoryFacts[] | undefined
}

export interface PlannedImport {
  readonly namespace: string
  readonly name: string
  readonly provider: ImportProvider | NamedHostFunction | ModuleExport | CommandExport
}

/** The export of another module, with the name of the import. */
export interface ModuleExport {
  readonly module: string
  /** Whether that module is instantiated later: they import from each other in a cycle. */
  readonly isLate: boolean
}

/** A function of a linked command, with the name of the import: each call is a separate run. */
interface CommandExport {
  readonly command: string
}

/** The inputs of a plan. */
type LinkSettings = Pick<InstanceSettings, 'wasi' | 'functions' | 'http' | 'command'>

/**
 * Checks that each import of a plug-in's modules has a provider, and plans how they are linked. Computed once: listing
 * the imports of a module takes longer than linking it.
 *
 * @throws {@link PluginImportError} listing all missing imports.
 * @throws {@link PdkOutdatedError} if some of these are functions of an Extism before 1.0.
 * @throws {@link WasiDisabledError} if only WASI is missing.
 * @throws {@link HostFunctionInvalidError} if host functions have reserved names.
 * @throws {@link HostFunctionAsyncError} if a host function cannot be waited for, here or in this plug-in.
 */
export function planLinks(plugin: CompiledPlugin, settings: LinkSettings): LinkPlan {
  const known = plans.get(plugin)
  const wasi = settings.wasi !== undefined
  const { functions, http, command = false } = settings
  const isKnown = known?.wasi === wasi && known.functions === functions && known.http === http
  if (isKnown && known.command === command) return known.plan
  const plan = makePlan(plugin, settings)
  plans.set(plugin, { wasi, functions, http, command, plan })
  return plan
}

/** The last plan of each plug-in: its instances usually have the same settings. */
const plans = new WeakMap<CompiledPlugin, KnownPlan>()

interface KnownPlan {
  readonly wasi: boolean
  readonly functions: unknown
  readonly http: unknown
  readonly command: boolean
  readonly plan: LinkPlan
}

function makePlan(plugin: CompiledPlugin, { wasi, functions = {}, http, command }: LinkSettings): LinkPlan {
  const modules = describeModules(plugin)
  checkHostFunctions(functions, (namespace, name) =>
    Boolean(modules.get(namespace)?.exports.some((each) => each.name === name)),
  )
  const ordered = orderModules(modules.get(MAIN) as ModuleDescription, (module) => linksOf(module, modules))
  const inOrder = ordered.flatMap(({ linkOrder }) => linkOrder)

  const missing: string[] = []
  const ofOldPdk = new Set<string>()
  const planned = inOrder.map((importer, index) => {
    const earlier = new Set(inOrder.slice(0, index))
    const imports = importer.imports.flatMap((wanted) => {
      const { module: namespace, name, kind } = wanted
      const from = modules.get(namespace)
      const exported = from?.exports.find((each) => each.name === name)
      const found =
        from && exported
          ? linkExport(importer, from, wanted, exported, earlier)
          : findInHost(wanted, functions, from)
      if ('provider' in found) return [{ namespace, name, provider: found.provider }]
      if (isOfOldPdk(namespace, name)) ofOldPdk.add(name)
      const where = importer.name === MAIN ? '' : `, which module "${importer.name}" needs`
      missing.push(`  ${namespace} ${name} (${kind})${where}${found.problem}`)
      return []
    })
    return planModule(importer, imports, command === true)
  })
  if (ofOldPdk.size > 0) throw new PdkOutdatedError(plugin.name, [...ofOldPdk].join(', '))
  if (missing.length > 0) throw missingImports(plugin, missing)
  if (!wasi) refuseWasi(plugin, planned)

  const planOf = (module: ModuleDescription) => planned[inOrder.indexOf(module)] as PlannedModule
  const groups = ordered.map(({ linkOrder, startOrder }) => ({
    linkOrder: linkOrder.map(planOf),
    startOrder: startOrder.map(planOf),
  }))
  const hostFunctions = hostFunctionsOf(planned)
  const usesHttp = planned.some(({ imports }) =>
    imports.some(({ name, provider }) => provider === 'host' && name.startsWith('http_')),
  )
  const asyncHttp = usesHttp && http?.isAsync ? HTTP_REQUEST : undefined
  const waits = hostFunctions.find(({ isAsync }) => isAsync)?.label ?? asyncHttp
  const suspending = waits ? checkAsync(waits, groups, asyncHttp) : undefined
  const resettable = inOrder.length === 1 && !suspending ? plugin.resettable : undefined
  const fewExports = inOrder.length === 1 ? plugin.fewExports : undefined
  const { initialisers } = planOf(modules.get(MAIN) as ModuleDescription)
  const merged = [plugin, ...plugin.linked].find(({ merge }) => merge?.isMerged)?.merge
  return {
    ...{ groups, hostFunctions, usesHttp, suspending, initialisers, resettable, fewExports },
    kernelMemory: merged?.isMerged ? merged.memory : undefined,
  }
}

interface ModuleDescription {
  readonly name: string
  readonly module: WebAssembly.Module
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
  /** Names of its functions that may be initializers. */
  readonly functions: ReadonlySet<string>
  /** Whether others link to it and each call starts a new instance. */
  readonly isCommand: boolean
  readonly mergedMemories: PlannedModule['mergedMemories']
}

/** The few functions of interest among thousands. */
const STARTING: ReadonlySet<string> = new Set(INITIALISERS)

function describeModules(plugin: CompiledPlugin): Map<string, ModuleDescription> {
  const all = [...plugin.linked, { ...plugin, name: MAIN }]
  return new Map(
    all.map(({ name, module, imports, exports, merge, memories }) => {
      const functions = new Set(
        exports.filter(({ name, kind }) => kind === 'function' && STARTING.has(name)).map(({ name }) => name),
      )
      return [
        name,
        {
          ...{ name, module, imports, exports, functions },
          isCommand: name !== MAIN && isCommand(functions),
          mergedMemories: merge?.isMerged ? memories : undefined,
        },
      ]
    }),
  )
}

function linksOf(
  { imports }: ModuleDescription,
  modules: ReadonlyMap<string, ModuleDescription>,
): PlannedLink<ModuleDescription>[] {
  return imports.flatMap(({ module, name, kind }) => {
    const from = modules.get(module)
    const isDefined = from?.exports.some((each) => each.name === name)
    return from && isDefined ? [{ from, isNeededFirst: kind !== 'function' }] : []
  })
}

/** The provider of an import, or the reason that there is none. */
type LinkResolution = Pick<PlannedImport, 'provider'> | { readonly problem: string }

function linkExport(
  importer: ModuleDescription,
  from: ModuleDescription,
  { kind }: ImportedItem,
  exported: ExportedItem,
  earlier: ReadonlySet<ModuleDescription>,
): LinkResolution {
  if (exported.kind !== kind) {
    return { problem: `: module "${from.name}" exports a ${exported.kind} of that name` }
  }
  if (from.isCommand) {
    if (kind === 'function') return { provider: { command: from.name } }
    return {
      problem: `: module "${from.name}" is a command (it exports ${START}), which starts a new instance for each call`,
    }
  }
  const isLate = !earlier.has(from)
  if (!isLate || kind === 'function') return { provider: { module: from.name, isLate } }
  const circle = `modules "${importer.name}" and "${from.name}" import from each other in a cycle`
  return { problem: `: ${circle}, where only functions can be imported` }
}

/** @param from - The module named like the namespace, which has no such export. */
function missingImports(plugin: CompiledPlugin, missing: readonly string[]): Error {
  const kind = foreignKind({ imports: plugin.imports, names: plugin.exports.map(({ name }) => name) })
  return kind === undefined
    ? new PluginImportError(plugin.name, missing.join('\n'))
    : new PluginForeignError(plugin.name, kind)
}

function findInHost(
  { module: namespace, name, kind }: ImportedItem,
  functions: HostFunctions,
  from: ModuleDescription | undefined,
): LinkResolution {
  const provider = importProviderOf(namespace, name) ?? findHostFunction(functions, namespace, name)
  if (provider && kind === 'function') return { provider }
  if (from) return { problem: `: module "${from.name}" has no such export` }
  return { problem: namespace === EXTISM_ENV ? ': Extism has no such function' : '' }
}

/** @param runsProgram - Whether the call is the main module's program, which initializes itself. */
function planModule(
  { name, module, exports, functions, isCommand, mergedMemories }: ModuleDescription,
  imports: readonly PlannedImport[],
  runsProgram: boolean,
): PlannedModule {
  const hasWasi = imports.some(({ provider }) => provider === 'wasi')
  const memories = exports.filter(({ kind }) => kind === 'memory').map((memory) => memory.name)
  const initialisers = name === MAIN && runsProgram ? [] : initialisersOf(functions, hasWasi || isCommand)
  return { name, module, imports, hasWasi, exports, memories, initialisers, isCommand, mergedMemories }
}

function refuseWasi(plugin: CompiledPlugin, modules: readonly PlannedModule[]): void {
  const wanted = modules.flatMap(({ imports }) => imports).filter(({ namespace }) => namespace === WASI)
  const names = [...new Set(wanted.map(({ name }) => name))]
  if (names.length > 0) throw new WasiDisabledError(plugin.name, names.join(', '))
}

function hostFunctionsOf(modules: readonly PlannedModule[]): NamedHostFunction[] {
  const all = modules.flatMap(({ imports }) => imports.map(({ provider }) => provider))
  const found = all.flatMap((provider) =>
    typeof provider === 'object' && 'call' in provider ? [[provider.label, provider] as const] : [],
  )
  return [...new Map(found).values()]
}

/**
 * V8 can suspend a guest, but not JavaScript between two of its modules.
 *
 * @param asyncHttp - The function for HTTP requests, if it has to be waited for.
 */
function checkAsync(label: string, groups: LinkPlan['groups'], asyncHttp: string | undefined): Suspending {
  if (!suspending) {
    const reason = 'only Node 24 and later can wait for it'
    throw new HostFunctionAsyncError(
      label,
      label === HTTP_REQUEST ? `${reason}, or a worker (--workers 1)` : reason,
    )
  }
  const command = waitingCommand(groups, asyncHttp)
  if (command !== undefined) {
    const reason = `it cannot be waited for in a command that is linked (module "${command}")`
    throw new HostFunctionAsyncError(label, reason)
  }
  const circle = groups.find(({ linkOrder }) => linkOrder.some(isCircular))
  if (!circle) return suspending
  const names = circle.startOrder.map(({ name }) => `"${name}"`).join(', ')
  const reason = `it cannot be waited for where modules import from each other in a cycle (${names})`
  throw new HostFunctionAsyncError(label, reason)
}

/** The name of a command that may wait for the host, itself or through a module that it imports from. */
function waitingCommand(groups: LinkPlan['groups'], asyncHttp: string | undefined): string | undefined {
  const modules = groups.flatMap(({ linkOrder }) => linkOrder)
  const waits = new Set<string>()
  // Repeat until nothing is added: modules may import from each other in a cycle.
  for (let known = -1; known < waits.size; ) {
    known = waits.size
    for (const { name, imports } of modules) if (imports.some(isWaiting)) waits.add(name)
  }
  return modules.find(({ name, isCommand }) => isCommand && waits.has(name))?.name

  function isWaiting({ name, provider }: PlannedImport): boolean {
    if (typeof provider === 'string') return provider === 'host' && name === asyncHttp
    if ('command' in provider) return waits.has(provider.command)
    return 'module' in provider ? waits.has(provider.module) : provider.isAsync !== false
  }
}

/** Whether a module imports from one that is instantiated later. */
export function isCircular({ imports }: PlannedModule): boolean {
  return imports.some(
    ({ provider }) => typeof provider === 'object' && 'isLate' in provider && provider.isLate,
  )
}

/** A module's imports from another module. */
export interface PlannedLink<Module> {
  readonly from: Module
  /** Whether it must be instantiated before; a function can be looked up when it is called. */
  readonly isNeededFirst: boolean
}

/** Modules that import from each other in a cycle, directly or indirectly; usually a single one. */
interface ModuleGroup<Module> {
  /** The order of linking. A module comes after the ones that it needs first, if possible. */
  readonly linkOrder: readonly Module[]
  /** The module from which the others were found, such as the main module, comes last. */
  readonly startOrder: readonly Module[]
}

/**
 * Orders modules so that each group comes after those that it imports from.
 *
 * @param main - In the last group. Modules that it does not depend on are omitted.
 */
export function orderModules<Module>(
  main: Module,
  linksOf: (module: Module) => readonly PlannedLink<Module>[],
): ModuleGroup<Module>[] {
  const finished: Module[] = []
  visitLinks(main, linksOf, new Set(), finished)
  const reached = new Map(finished.map((module) => [module, reachedFrom(module, linksOf)]))
  const isCircle = (a: Module, b: Module) =>
    reached.get(a)?.has(b) === true && reached.get(b)?.has(a) === true

  return finished.flatMap((module) => {
    const group = finished.filter((other) => other === module || isCircle(module, other))
    // When the last module of a group is finished, so are all modules that the group imports from.
    return group.at(-1) === module ? [{ linkOrder: orderGroup(group, linksOf), startOrder: group }] : []
  })
}

/** Lists modules after their dependencies, except in cycles. */
function visitLinks<Module>(
  module: Module,
  linksOf: (module: Module) => readonly PlannedLink<Module>[],
  seen: Set<Module>,
  finished: Module[],
): void {
  seen.add(module)
  for (const { from } of linksOf(module)) if (!seen.has(from)) visitLinks(from, linksOf, seen, finished)
  finished.push(module)
}

/** The dependencies of a module, direct or indirect; including itself only if it is part of a cycle. */
function reachedFrom<Module>(
  module: Module,
  linksOf: (module: Module) => readonly PlannedLink<Module>[],
): Set<Module> {
  const reached = new Set<Module>()
  for (const { from } of linksOf(module)) if (!reached.has(from)) visitLinks(from, linksOf, reached, [])
  return reached
}

function orderGroup<Module>(
  group: readonly Module[],
  linksOf: (module: Module) => readonly PlannedLink<Module>[],
): Module[] {
  const left = [...group]
  const ordered: Module[] = []
  while (left.length > 0) {
    const waits = (module: Module) =>
      linksOf(module).some(({ from, isNeededFirst }) => isNeededFirst && left.includes(from))
    const next = left.findIndex((module) => !waits(module))
    ordered.push(...left.splice(Math.max(next, 0), 1))
  }
  return ordered
}

/** The part of the host that provides an import: the kernel, `kernel-host.ts` (`host`), or WASI. */
type ImportProvider = 'kernel' | 'host' | 'wasi'

/**
 * Extism's host functions.
 *
 * @see {@link https://github.com/extism/extism/blob/main/kernel/src/lib.rs}
 */
const EXTISM_FUNCTIONS: ReadonlyMap<string, ImportProvider> = new Map([
  ...of('kernel', 'alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8', 'store_u64'),
  ...of('kernel', 'input_offset', 'input_length', 'input_load_u8', 'input_load_u64'),
  ...of('kernel', 'output_set', 'error_set', 'error_get'),
  ...of('host', 'config_get', 'var_get', 'var_set', 'http_request', 'http_status_code', 'http_headers'),
  ...of('host', 'log_trace', 'log_debug', 'log_info', 'log_warn', 'log_error', 'get_log_level'),
])

function of(part: ImportProvider, ...names: readonly string[]): (readonly [string, ImportProvider])[] {
  return names.map((name) => [name, part])
}

/**
 * Whether an import is one of Extism's functions under its name in PDKs before 1.0. A user's host functions may have such
 * names, so check this only for missing imports.
 */
export function isOfOldPdk(namespace: string, name: string): boolean {
  return namespace === 'env' && name.startsWith('extism_')
}

/** @returns undefined if the host has no such function. */
export function importProviderOf(namespace: string, name: string): ImportProvider | undefined {
  if (namespace === EXTISM_ENV) return EXTISM_FUNCTIONS.get(name)
  return namespace === WASI && isWasiFunction(name) ? 'wasi' : undefined
}
