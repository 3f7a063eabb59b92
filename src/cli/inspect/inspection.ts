import { PluginInvalidError } from '../../errors/errors.ts'
import { findHostFunction, type HostFunctions } from '../../guest/host-functions.ts'
import { ByteReader } from '../../module/bytes.ts'
import {
  callableExports,
  initialisersOf,
  isCommand,
  problemWithExport,
  START,
} from '../../module/entry-points.ts'
import type { ExportedItem } from '../../module/module-view.ts'
import type { ResolvedRoute } from '../../options/resolved-route.ts'
import { isHostNamespace } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { Source } from '../../plugin/source/source.ts'
import type { EngineChoice } from '../../route/engine-choice.ts'
import { importProviderOf, isOfOldPdk, MAIN } from '../../runtime/link-plan.ts'

/** A description of a plug-in, made without running it. `--json` prints it as it is. */
export interface Inspection {
  readonly name: string
  readonly modules: readonly ModuleSummary[]
  /** Names of the functions that can be called; the program of a command is the last. */
  readonly functions: readonly string[]
  readonly notCallable: readonly { readonly name: string; readonly reason: string }[]
  readonly imports: readonly NeededImport[]
  readonly toolchain: Toolchain | undefined
  /** How it starts: see {@link moduleKindOf}. */
  readonly kind: ModuleKind
  readonly wasi: boolean
  /** Where its instances run, and what threads are for. */
  readonly engine: EngineChoice
  /** Where it may send HTTP requests; undefined if it sends none. */
  readonly allowedHosts: readonly string[] | undefined
  /** Flags that have to be added, and why. */
  readonly needs: readonly Need[]
  /** Problems that no flag solves. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

interface ModuleSummary {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
  readonly memories: Plugin['memories']
}

export interface Need {
  readonly flag: string
  readonly why: string
}

export type ModuleKind = 'command' | 'reactor' | 'haskell' | 'constructors' | 'program' | 'none'

/**
 * @param functions - Those of the user.
 * @param options - How it is to be served.
 * @param engine - Where.
 */
export function inspectPlugin(
  source: Source,
  plugin: Plugin,
  functions: HostFunctions | undefined,
  options: ResolvedRoute,
  engine: EngineChoice,
): Inspection {
  const allowedHosts = options.outbound?.allowedHosts ?? []
  const imports = importsOf(plugin, functions)
  const needsWasi = imports.some(({ metBy }) => metBy === 'wasi')
  const main = source.modules.find(({ name }) => name === MAIN)
  const modules = new Map([[MAIN, plugin], ...plugin.linked.map((each) => [each.name, each] as const)])
  return {
    name: source.name,
    modules: source.modules.map(({ name, bytes, digest }) => ({
      name,
      bytes: bytes.length,
      sha256: digest,
      memories: modules.get(name)?.memories ?? [],
    })),
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
    needs: shownNeeds(imports, allowedHosts),
    problems: [
      ...problemsOfPlugin(plugin, imports),
      ...(needsWasi && !options.wasi ? ['it needs WASI, which is switched off'] : []),
    ],
    warnings: source.warnings,
  }
}

/** All that a route may name: a program is not chosen by itself, if there is something else. */
function callableByName(plugin: Plugin): readonly string[] {
  const callable = callableExports(plugin)
  const hasProgram = plugin.functions.some(
    (each) => each.name === START && problemWithExport(each) === undefined,
  )
  return hasProgram && !callable.includes(START) ? [...callable, START] : callable
}

/**
 * What runs when an instance starts for a function: a reactor's `_initialize`, Haskell's run-time system, constructors,
 * or a program that needs no WASI. What has nothing to call but its program is a command: that runs when it is called.
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
  if (missing.length > 0) needs.push({ flag: '--functions', why: `nobody provides ${missing.join(', ')}` })
  if (sendsRequests(imports) && allowedHosts.length === 0) {
    needs.push({ flag: '--allow-host', why: 'it sends HTTP requests, and no host is allowed unless named' })
  }
  return needs
}

function sendsRequests(imports: readonly NeededImport[]): boolean {
  return imports.some(({ metBy, name }) => metBy === 'host' && name === 'http_request')
}

function problemsOfPlugin(plugin: Plugin, imports: readonly NeededImport[]): string[] {
  const isUnmet = (each: NeededImport) => each.metBy === 'nobody' && !couldBeFunction(each)
  const unmet = imports.filter((each) => isUnmet(each) && !needsNewPdk(each))
  const outdated =
    'it was built with an Extism PDK before 1.0 (it imports "extism_..." from "env"): build it again with a newer one'
  return [
    ...(imports.some(needsNewPdk) ? [outdated] : []),
    ...unmet.map(({ namespace, name, kind }) => `nobody can provide ${namespace} ${name} (${kind})`),
    ...(callableExports(plugin).length === 0 ? ['no function can be called'] : []),
  ]
}

/** An import of a module of a plug-in. */
export interface NeededImport {
  /** The module that needs it: `main`, or the name of a linked one. */
  readonly module: string
  readonly namespace: string
  readonly name: string
  readonly kind: string
  readonly metBy: ImportSource
  /** Which of the modules has an export of that name. */
  readonly from?: string
}

/**
 * The provider of an import: the kernel (Extism's memory), the host (Extism's other functions), WASI, a module of the
 * plug-in, or a function of the user. `nobody`: there is none.
 */
type ImportSource = 'kernel' | 'host' | 'wasi' | 'module' | 'functions' | 'nobody'

/** Lists the imports of all modules of a plug-in, also of those that nothing meets. */
export function importsOf(plugin: Plugin, functions: HostFunctions = {}): NeededImport[] {
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
      return { module, namespace, name, kind, metBy: inHost(namespace, name, kind, functions) }
    }),
  )
}

function functionsOf(exports: readonly ExportedItem[]): Set<string> {
  return new Set(exports.filter(({ kind }) => kind === 'function').map(({ name }) => name))
}

/** Whether functions of the user could meet an import: those of the host cannot be added to. */
export function couldBeFunction(needed: NeededImport): boolean {
  const { metBy, namespace, kind, from } = needed
  const isFree = metBy === 'nobody' && kind === 'function' && from === undefined
  return isFree && !isHostNamespace(namespace) && !needsNewPdk(needed)
}

/** Whether an import is met by nothing, because its plug-in was built with an Extism PDK before 1.0. */
function needsNewPdk({ metBy, namespace, name }: NeededImport): boolean {
  return metBy === 'nobody' && isOfOldPdk(namespace, name)
}

function inHost(namespace: string, name: string, kind: string, functions: HostFunctions): ImportSource {
  if (kind !== 'function') return 'nobody'
  return (
    importProviderOf(namespace, name) ??
    (findHostFunction(functions, namespace, name) ? 'functions' : 'nobody')
  )
}

/** The detected toolchain and the evidence for it. */
interface Toolchain {
  readonly name: string
  /** The evidence. */
  readonly because: string
}

/**
 * Guesses what a module was made with: from its `producers` section, which tools write and optimisers strip; without
 * it from what it exports, imports and contains.
 *
 * @returns undefined if nothing gives it away.
 * @see {@link https://github.com/WebAssembly/tool-conventions/blob/main/ProducersSection.md}
 */
function guessToolchain(
  plugin: Pick<Plugin, 'name' | 'imports' | 'exports' | 'customSections'>,
  bytes: Uint8Array,
): Toolchain | undefined {
  // The interpreter is in a Rust program, and says more than that.
  if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes('quickjs'))
    return { name: 'JavaScript (QuickJS)', because: 'it contains the word "quickjs"' }
  return fromProducers(plugin) ?? fromNames(plugin)
}

/** Tools that give a language away, the more telling ones first: TinyGo and Rust use LLVM, and C libraries. */
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
 * Names and versions of all fields, as far as they can be read. What a linker joined may be one text, as in `Debian
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

/** Exports that only one toolchain makes; all of a row have to be there. */
const EXPORTS: readonly [names: readonly string[], name: string][] = [
  [['hs_init'], 'Haskell'],
  [['NimMain'], 'Nim'],
  [['go_scheduler'], 'TinyGo'],
  [['malloc', 'free', 'calloc', 'realloc', 'fminimum'], 'TinyGo'],
  [['__new', '__pin'], 'AssemblyScript'],
  [['__data_end', '__heap_base'], 'Rust, or another language of LLVM'],
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
