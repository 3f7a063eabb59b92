import { customSections } from '../../plugin/module.ts'
import { Reader } from '../../plugin/module-reader.ts'
import type { Plugin } from '../../plugin/plugin.ts'

/** What a module was probably made with. */
export interface Toolchain {
  readonly name: string
  /** What gives it away. */
  readonly because: string
}

/**
 * Guesses what a module was made with: from its `producers` section, which tools write and optimisers strip; without
 * it from what it exports, imports and contains.
 *
 * @returns undefined if nothing gives it away.
 * @see {@link https://github.com/WebAssembly/tool-conventions/blob/main/ProducersSection.md}
 */
export function guessToolchain(
  plugin: Pick<Plugin, 'imports' | 'exports'>,
  bytes: Uint8Array,
): Toolchain | undefined {
  // The interpreter is in a Rust program, and says more than that.
  if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes('quickjs'))
    return { name: 'JavaScript (QuickJS)', because: 'it contains the word "quickjs"' }
  return fromProducers(bytes) ?? fromNames(plugin, bytes)
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

function fromProducers(bytes: Uint8Array): Toolchain | undefined {
  const [section] = customSections(bytes, 'producers')
  if (!section) return undefined
  const tools = readProducers(section)
  for (const [pattern, name] of PRODUCERS) {
    const tool = tools.find((each) => pattern.test(each))
    if (tool !== undefined) return { name, because: `its producers section says "${tool}"` }
  }
  return undefined
}

/** Names and versions of all fields. What a linker joined may be one text, as in `Debian clang` and `TinyGo`. */
function readProducers(section: Uint8Array): string[] {
  const reader = new Reader(section)
  const tools: string[] = []
  for (let fields = reader.u32(); fields > 0 && !reader.done; fields--) {
    reader.name()
    for (let values = reader.u32(); values > 0 && !reader.done; values--) {
      tools.push(`${reader.name()} ${reader.name()}`.trim())
    }
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

function fromNames(
  { imports, exports }: Pick<Plugin, 'imports' | 'exports'>,
  bytes: Uint8Array,
): Toolchain | undefined {
  if (customSections(bytes, 'go:buildid').length > 0)
    return { name: 'Go', because: 'it has a go:buildid section' }
  const exported = exports.map(({ name }) => name)
  const found = EXPORTS.find(([names]) => names.every((name) => exported.includes(name)))
  if (found) return { name: found[1], because: `it exports ${found[0].join(', ')}` }
  const aborts = imports.some((each) => each.module === 'env' && each.name === 'abort')
  return aborts ? { name: 'AssemblyScript', because: 'it imports env abort' } : undefined
}
