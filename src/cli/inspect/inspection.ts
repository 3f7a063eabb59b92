import { PluginInvalidError } from '../../errors/errors.ts'
import { findHostFunction, type HostFunctions } from '../../guest/host-functions.ts'
import type { ServiceOptions } from '../../guest/services/service.ts'
import { isServiceFunction } from '../../guest/services/services.ts'
import { ByteReader } from '../../module/bytes.ts'
import {
  callableExports,
  initialisersOf,
  isCommand,
  problemWithExport,
  START,
} from '../../module/entry-points.ts'
import { foreignKind } from '../../module/foreign.ts'
import type { ExportedItem } from '../../module/module-view.ts'
import type { ResolvedRoute } from '../../options/resolved-route.ts'
import { isHostNamespace } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { ModuleOrigin } from '../../plugin/source/origin.ts'
import type { Source } from '../../plugin/source/source.ts'
import type { EngineChoice } from '../../route/engine-choice.ts'
import { importProviderOf, isOfOldPdk, MAIN } from '../../runtime/link-plan.ts'

/** A description of a plug-in, made without running it. `--json` prints it unchanged. */
export interface Inspection {
  readonly name: string
  readonly modules: readonly ModuleSummary[]
  /** Names of the callable functions; a command's program comes last. */
  readonly functions: readonly string[]
  readonly notCallable: readonly { readonly name: string; readonly reason: string }[]
  readonly imports: readonly NeededImport[]
  readonly toolchain: Toolchain | undefined
  /** The kind of module, which decides how it starts: see {@link moduleKindOf}. */
  readonly kind: ModuleKind
  readonly wasi: boolean
  /** Where its instances run, and why threads are needed. */
  readonly engine: EngineChoice
  /** The hosts for its HTTP requests; undefined if it sends none. */
  readonly allowedHosts: readonly string[] | undefined
  /** Required flags, with reasons. */
  readonly needs: readonly Need[]
  /** Problems that no flag solves. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

interface ModuleSummary {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
  /** Where it comes from: an artifact by its digest, or a URL with a signature; undefined for others. */
  readonly origin: string | undefined
  /** Who signed it; undefined if no policy applies. */
  readonly signed: ModuleOrigin['signed']
  readonly memories: Plugin['memories']
  /** Whether the kernel is merged into it; undefined for another runtime. */
  readonly kernel: Plugin['merge']
  /** Whether its guests check whether they are interrupted; undefined if only a process compiles it. */
  readonly isInterruptible: boolean | undefined
}

interface Need {
  readonly flag: string
  readonly why: string
}

export type ModuleKind = 'command' | 'reactor' | 'haskell' | 'constructors' | 'program' | 'none'

/**
 * @param functions - The user's host functions.
 * @param options - The options it would be served with.
 * @param engine - The chosen engine.
 */
export function inspectPlugin(
  source: Source,
  plugin: Plugin,
  functions: HostFunctions | undefined,
  options: ResolvedRoute,
  engine: EngineChoice,
): Inspection {
  const allowedHosts = options.outbound?.allowedHosts ?? []
  const imports = importsOf(plugin, options, functions)
  const needsWasi = imports.some(({ metBy }) => metBy === 'wasi')
  const main = source.modules.find(({ name }) => name === MAIN)
  const kind = foreignKindOf(plugin, imports)
  const modules = new Map([[MAIN, plugin], ...plugin.linked.map((each) => [each.name, each] as const)])
  return {
    name: source.name,
    modules: source.modules.map(({ name, bytes, digest, origin }) => {
      const read = modules.get(name)
      return {
        name,
        bytes: bytes.length,
        sha256: digest,
        origin: origin?.place,
        signed: origin?.signed,
        memories: read?.memories ?? [],
        kernel: read?.merge,
        isInterruptible: read?.module && read.isInterruptible,
      }
    }),
    functions: callableByName(plugin),
    notCallable: plugin.functions.flatMap((each) => {
      const reason = problemWithExport(each)
      return reason === undefined ? [] : [{ name: each.name, reason }]
    }),
    imports,
    toolchain: main && guessToolchain(plugin, main.bytes),
    kind: moduleKindOf(plugin, imports),
    wasi: needsWasi,
    engine,
    allowedHosts: sendsRequests(imports) ? allowedHosts : undefined,
    needs: kind === undefined ? shownNeeds(imports, allowedHosts) : [],
    problems: [
      ...(kind === undefined
        ? problemsOfPlugin(plugin, imports)
        : [`it was not made for Extism; it is ${kind}`]),
      ...(needsWasi && !options.wasi ? ['it needs WASI, which is disabled'] : []),
    ],
    warnings: source.warnings,
  }
}

/** All names that a route may use: first those that are called by default. */
function callableByName(plugin: Plugin): readonly string[] {
  const names = plugin.functions.filter((each) => problemWithExport(each) === undefined)
  return [...new Set([...callableExports(plugin), ...names.map(({ name }) => name)])]
}

/**
 * The start function of an instance: a reactor's `_initialize`, Haskell's run-time system, constructors, or a program
 * that needs no WASI. A module whose only function is its program is a command: the program runs once per call.
 */
function moduleKindOf(plugin: Plugin, imports: readonly NeededImport[]): ModuleKind {
  if (callableExports(plugin).join() === START) return 'command'
  const hasWasi = imports.some(({ module, metBy }) => module === MAIN && metBy === 'wasi')
  const initialiser = initialisersOf(new Set(plugin.functions.map(({ name }) => name)), hasWasi).at(-1)
  return initialiser === undefined ? 'none' : IMPORT_KINDS[initialiser]
}

const IMPORT_KINDS = {
  _initialize: 'reactor',
  hs_init: 'haskell',
  __wasm_call_ctors: 'constructors',
  _start: 'program',
} as const

function shownNeeds(imports: readonly NeededImport[], allowedHosts: readonly string[]): Need[] {
  const missing = imports.filter(couldBeFunction).map(({ namespace, name }) => `${namespace} ${name}`)
  const needs: Need[] = []
  if (missing.length > 0) needs.push({ flag: '--functions', why: `no provider for ${missing.join(', ')}` })
  if (sendsRequests(imports) && allowedHosts.length === 0) {
    needs.push({ flag: '--allow-host', why: 'it sends HTTP requests, and hosts are denied by default' })
  }
  return needs
}

function sendsRequests(imports: readonly NeededImport[]): boolean {
  return imports.some(({ metBy, name }) => metBy === 'host' && name === 'http_request')
}

/** What a plug-in is if it cannot be used because it was made for another host. */
function foreignKindOf(plugin: Plugin, imports: readonly NeededImport[]): string | undefined {
  const isUnfit = callableExports(plugin).length === 0 || imports.some(({ metBy }) => metBy === 'nobody')
  return isUnfit
    ? foreignKind({ imports: plugin.imports, names: plugin.exports.map(({ name }) => name) })
    : undefined
}

function problemsOfPlugin(plugin: Plugin, imports: readonly NeededImport[]): string[] {
  const isUnmet = (each: NeededImport) => each.metBy === 'nobody' && !couldBeFunction(each)
  const unmet = imports.filter((each) => isUnmet(each) && !needsNewPdk(each))
  const outdated =
    'it was built with an Extism PDK before 1.0 (it imports "extism_..." from "env"): rebuild it with a newer one'
  return [
    ...(imports.some(needsNewPdk) ? [outdated] : []),
    ...unmet.map(({ namespace, name, kind }) => `${namespace} ${name} (${kind}) cannot be provided`),
    ...(callableExports(plugin).length === 0 ? ['there is no callable function'] : []),
  ]
}

/** An import of one of a plug-in's modules. */
export interface NeededImport {
  /** The importing module: `main`, or the name of a linked one. */
  readonly module: string
  readonly namespace: string
  readonly name: string
  readonly kind: string
  readonly metBy: ImportSource
  /** The module that exports this name. */
  readonly from?: string
}

/**
 * The provider of an import: the kernel (Extism's memory), the host (Extism's other functions), WASI, a module of the
 * plug-in, or a user's function. `nobody`: the import is missing. (Part of the format of `--json`.)
 */
type ImportSource = 'kernel' | 'host' | 'wasi' | 'module' | 'functions' | 'nobody'

/** Lists the imports of all modules of a plug-in, including missing ones. */
export function importsOf(
  plugin: Plugin,
  options: ServiceOptions,
  functions: HostFunctions = {},
): NeededImport[] {
  const modules = new Map(
    [plugin, ...plugin.linked].map((each) => [each === plugin ? MAIN : each.name, each]),
  )
  return [...modules].flatMap(([module, { imports }]) =>
    imports.map(({ module: namespace, name, kind }) => {
      const exports = modules.get(namespace)?.exports ?? []
      const exported = exports.find((each) => each.name === name)
      if (exported) {
        const isOffered = kind === 'function' || namespace === MAIN || !isCommand(functionsOf(exports))
        const metBy = exported.kind === kind && isOffered ? 'module' : 'nobody'
        return { module, namespace, name, kind, metBy, from: namespace } as const
      }
      return { module, namespace, name, kind, metBy: inHost(namespace, name, kind, options, functions) }
    }),
  )
}

function functionsOf(exports: readonly ExportedItem[]): Set<string> {
  return new Set(exports.filter(({ kind }) => kind === 'function').map(({ name }) => name))
}

/** Whether a user's function could provide an import. The host's own namespaces cannot be extended. */
export function couldBeFunction(needed: NeededImport): boolean {
  const { metBy, namespace, kind, from } = needed
  const isFree = metBy === 'nobody' && kind === 'function' && from === undefined
  return isFree && !isHostNamespace(namespace) && !needsNewPdk(needed)
}

/** Whether an import is missing because its plug-in was built with an Extism PDK before 1.0. */
function needsNewPdk({ metBy, namespace, name }: NeededImport): boolean {
  return metBy === 'nobody' && isOfOldPdk(namespace, name)
}

function inHost(
  namespace: string,
  name: string,
  kind: string,
  options: ServiceOptions,
  functions: HostFunctions,
): ImportSource {
  if (kind !== 'function') return 'nobody'
  return (
    importProviderOf(namespace, name) ??
    (findHostFunction(functions, namespace, name) ? 'functions' : undefined) ??
    (isServiceFunction(options, namespace, name) ? 'host' : 'nobody')
  )
}

/** The detected toolchain and the evidence for it. */
interface Toolchain {
  readonly name: string
  /** The evidence. */
  readonly because: string
}

/**
 * Guesses the toolchain from the `producers` section, which tools write and optimizers strip; without it, from exports,
 * imports and sections.
 *
 * @returns undefined if there is no evidence.
 * @see {@link https://github.com/WebAssembly/tool-conventions/blob/main/ProducersSection.md}
 */
function guessToolchain(
  plugin: Pick<Plugin, 'name' | 'imports' | 'exports' | 'customSections'>,
  bytes: Uint8Array,
): Toolchain | undefined {
  // QuickJS is embedded in a Rust program: check for it first, it is the more specific answer.
  if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes('quickjs'))
    return { name: 'JavaScript (QuickJS)', because: 'it contains the word "quickjs"' }
  return fromProducers(plugin) ?? fromNames(plugin)
}

/** Tools that identify a language, the more specific ones first: TinyGo and Rust use LLVM and C libraries. */
const PRODUCERS: readonly [pattern: RegExp, name: string][] = [
  [/TinyGo/i, 'TinyGo'],
  [/^Go\b/, 'Go'],
  [/rustc|^Rust\b/, 'Rust'],
  [/AssemblyScript/i, 'AssemblyScript'],
  [/^Zig\b/i, 'Zig'],
  [/Swift/i, 'Swift'],
  [/GHC|Haskell/i, 'Haskell'],
  [/Kotlin/i, 'Kotlin'],
  [/^C_plus_plus|^C\+\+/, 'C++'],
  [/^C\d*\b|clang/, 'C'],
]

function fromProducers({
  name,
  customSections,
}: Pick<Plugin, 'name' | 'customSections'>): Toolchain | undefined {
  const section = customSections.find((each) => each.name === 'producers')?.content
  if (!section) return undefined
  const tools = readProducers(section, name)
  for (const [pattern, language] of PRODUCERS) {
    const tool = tools.find((each) => pattern.test(each))
    if (tool !== undefined) return { name: language, because: `its producers section says "${tool}"` }
  }
  return undefined
}

/**
 * Names and versions of all fields, as far as they can be read. Linkers may join them into one text, such as `Debian
 * clang` and `TinyGo`.
 */
function readProducers(section: Uint8Array, plugin: string): string[] {
  const reader = new ByteReader(section, 0, section.length, plugin)
  const tools: string[] = []
  try {
    for (let fields = reader.u32(); fields > 0; fields--) {
      reader.name()
      for (let values = reader.u32(); values > 0; values--)
        tools.push(`${reader.name()} ${reader.name()}`.trim())
    }
  } catch (error) {
    if (!(error instanceof PluginInvalidError)) throw error
  }
  return tools
}

/** Exports that only one toolchain produces. All exports of a row must exist. */
const EXPORTS: readonly [names: readonly string[], name: string][] = [
  [['hs_init'], 'Haskell'],
  [['NimMain'], 'Nim'],
  [['go_scheduler'], 'TinyGo'],
  [['malloc', 'free', 'calloc', 'realloc', 'fminimum'], 'TinyGo'],
  [['__new', '__pin'], 'AssemblyScript'],
  [['__data_end', '__heap_base'], 'Rust, or another LLVM language'],
  [['emscripten_stack_get_current'], 'C or C++ (Emscripten)'],
]

function fromNames({
  imports,
  exports,
  customSections,
}: Pick<Plugin, 'imports' | 'exports' | 'customSections'>): Toolchain | undefined {
  if (customSections.some(({ name }) => name === 'go:buildid'))
    return { name: 'Go', because: 'it has a go:buildid section' }
  const exported = exports.map(({ name }) => name)
  const found = EXPORTS.find(([names]) => names.every((name) => exported.includes(name)))
  if (found) return { name: found[1], because: `it exports ${found[0].join(', ')}` }
  const aborts = imports.some((each) => each.module === 'env' && each.name === 'abort')
  return aborts ? { name: 'AssemblyScript', because: 'it imports env abort' } : undefined
}
