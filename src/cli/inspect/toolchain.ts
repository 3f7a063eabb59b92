import { PluginInvalidError } from '../../errors/errors.ts'
import { ByteReader } from '../../module/bytes.ts'
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
