import { PluginTooComplexError } from '../errors/errors.ts'
import { ByteReader, concat, leb } from './bytes.ts'
import { hasMarks, type Instruction, type Rewriter, rewriteCode, type Temporaries } from './code-rewriter.ts'
import {
  ACTION,
  ACTION_OF,
  CODE,
  constant,
  MARK,
  NO_RESULT,
  readCode,
  skipImmediates,
} from './instructions.ts'
import { KERNEL_WASM } from './kernel-wasm.ts'
import { FigureCounter } from './limits.ts'
import type { CappedModule } from './memory-cap.ts'
import { readModule } from './module.ts'
import { countImported, ITEM_KINDS, type ModuleView, SECTION, SIZE_FLAGS } from './module-view.ts'
import { appendItems, renderItems, type SectionContents, withContents } from './module-writer.ts'
import { EXTISM_NAMESPACE, KERNEL_MEMORY, MERGED_MEMORIES } from './names.ts'
import { type FunctionType, I32, I64 } from './types.ts'

/*
 * A guest reads and writes blocks of the kernel's memory by calling imported functions, 8 bytes per call. V8 does not
 * compile an imported function into the caller's loop. So the memory of the kernel becomes a further memory of the guest's
 * module, and the bodies of the kernel's short functions, with their bounds checks, replace the calls of them. The guest's
 * own code cannot access that memory, because V8 validates the module before.
 *
 * An imported memory comes before a defined one in the index space. Therefore the guest's memories are imported as well:
 * the host creates them with the same limits.
 */

/** Whether and why the kernel is merged into a module. */
export type MergeResult =
  | { readonly isMerged: true; readonly memory: KernelMemoryKind }
  | { readonly isMerged: false; readonly reason: string }

/** Whether another thread uses the kernel's memory, too. Copies into and out of a shared one take longer. */
export type KernelMemoryKind = 'own' | 'shared'

/** How a module changes. */
export interface Merge {
  /** Replaces calls of the kernel's functions, in functions with the mark `callsImport`. */
  readonly rewriter: Rewriter
  /** The sections of imports and memories, with those of the capped module. */
  readonly contents: SectionContents
}

/** The size above which modules are linked: merging would take more than 0.1 s. */
const MAX_BYTES = 8_388_608

/** Further calls stay calls: each replacement adds some 60 bytes. */
const MAX_REPLACED = 10_000

/**
 * Plans the merge of the kernel into a module.
 *
 * @param memory - That of the kernel.
 * @returns the reason that it is linked instead, if it is.
 */
export function planMerge(
  { view, contents, bytes, memories }: CappedModule,
  memory: KernelMemoryKind = 'own',
): Merge | string {
  if (!hasMultiMemory) return 'multi-memory needs Node.js 22 or later'
  if (bytes.length > MAX_BYTES) return `it is larger than ${MAX_BYTES} bytes`
  const replaced = replacements(view)
  if (!view.bodies || replaced.size === 0) return 'it imports none of the functions that can be merged'
  if (memories.some(({ flags }) => flags & (SIZE_FLAGS.shared | SIZE_FLAGS.index64)))
    return 'its memory is shared, or has 64-bit addresses'
  if (view.imports.some(({ module }) => module === MERGED_MEMORIES)) return `it imports ${MERGED_MEMORIES}`
  // Otherwise its code could use the kernel's memory by its index.
  if (!view.isValid && !WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)) return 'it is not valid'
  const index = countImported(view, 'memory') + memories.length
  const own = memories.map(({ flags, min, max = 0n }, place) =>
    renderMemory(`${place}`, concat([Uint8Array.of(flags), leb(min), leb(max)])),
  )
  const all = [...own, renderMemory(KERNEL_MEMORY, ANY_SIZE[memory])]
  const changed = new Map(contents).set(SECTION.import, appendItems(view, SECTION.import, all))
  if (view.sections.some(({ id }) => id === SECTION.memory)) changed.set(SECTION.memory, renderItems([]))
  return { rewriter: new CallReplacer(replaced, index), contents: changed }
}

/** The merged module. @returns the reason that it is linked instead, if it is. */
export function mergeKernel({ view }: CappedModule, { contents, rewriter }: Merge): CappedModule | string {
  const { bodies } = view
  if (!bodies) return 'its code was not read'
  const counter = new FigureCounter(view.limits, view.name, view.figures)
  try {
    const code = rewriteCode({ ...view, bodies }, hasMarks(bodies, MARK.callsImport), [rewriter], counter)
    if (!code) return 'its code cannot be rewritten'
    const changed = new Map([...contents, ...code.contents])
    const bytes = withContents(view, changed)
    counter.found('moduleBytes', bytes.length, 'the module')
    return { view, bytes, contents: changed, memories: [] }
  } catch (error) {
    if (error instanceof PluginTooComplexError) return 'the merged module would exceed a limit'
    throw error
  }
}

/** The smallest module with two memories. */
const hasMultiMemory = WebAssembly.validate(
  Uint8Array.of(...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, SECTION.memory, 5, 2, 0, 0, 0, 0]),
)

/** Limits of a memory import that any memory of a kind satisfies. */
const ANY_SIZE = { own: Uint8Array.of(0, 0), shared: Uint8Array.of(3, 0, ...leb(65_536)) }

function renderMemory(item: string, limits: Uint8Array): Uint8Array {
  const [namespace, name] = [Buffer.from(MERGED_MEMORIES), Buffer.from(item)]
  const kind = Uint8Array.of(ITEM_KINDS.indexOf('memory'))
  return concat([leb(namespace.length), namespace, leb(name.length), name, kind, limits])
}

/**
 * A short function of the kernel, as templates: bytes, and placeholders below 0. It checks its arguments against a limit in
 * the kernel's root, and then accesses memory.
 */
interface Inline {
  readonly type: FunctionType
  /** Whether the arguments are beyond the limit. */
  readonly isBeyond: readonly number[]
  readonly access: readonly number[]
  /** What it reads from the root. */
  readonly roots: readonly RootField[]
}

/** A field of the kernel's root: an address below 1,024. */
interface RootField {
  readonly address: number
  readonly load: number
}

/** Placeholder: the index of the kernel's memory. */
const MEMORY = -1
/** Placeholder, minus the index of a parameter: the index of its local. */
const LOCAL = -2
/** Placeholder, minus the place of a field in `roots`: its value. */
const ROOT = -10

/** The functions of the kernel that are worth it. The others run once per call, or are long. */
export const INLINED: readonly string[] = [
  'load_u8',
  'load_u64',
  'store_u8',
  'store_u64',
  'input_load_u8',
  'input_load_u64',
]

/** Templates by the index of the guest's imported function. */
function replacements(view: ModuleView): Map<number, Inline> {
  const found = new Map<number, Inline>()
  let index = 0
  for (const { module, name, kind } of view.imports) {
    if (kind !== 'function') continue
    const inline = module === EXTISM_NAMESPACE ? kernelFunctions().get(name) : undefined
    const type = view.types.functions[view.functions[index] ?? -1]
    if (inline && type && isSame(type, inline.type)) found.set(index, inline)
    index++
  }
  return found
}

function isSame(a: FunctionType, b: FunctionType): boolean {
  const names = ({ params, results }: FunctionType) =>
    JSON.stringify([params, results].map((types) => types.map(({ name }) => name)))
  return names(a) === names(b)
}

let kernelTemplates: ReadonlyMap<string, Inline> | undefined

function kernelFunctions(): ReadonlyMap<string, Inline> {
  if (kernelTemplates) return kernelTemplates
  const view = readModule(KERNEL_WASM, {}, 'kernel')
  const exported = view.exports.filter(({ name, kind }) => kind === 'function' && INLINED.includes(name))
  kernelTemplates = new Map(exported.map(({ name, index }) => [name, inlineOf(view, index)]))
  return kernelTemplates
}

/** @throws Error if the function is not a check of its arguments that is followed by an access. */
function inlineOf({ bytes, bodies, types, functions, name }: ModuleView, index: number): Inline {
  const type = types.functions[functions[index] ?? -1]
  if (!type || !bodies) throw new Error('the kernel was not read')
  const reader = new ByteReader(bytes, bodies.starts[index] ?? 0, bodies.ends[index] ?? 0, name)
  if (reader.u32() > 0) throw new Error('a kernel function has locals')
  const roots: RootField[] = []
  const parts: [isBeyond: number[], access: number[]] = [[], []]
  let [code] = parts
  let constant: { readonly value: number; readonly length: number } | undefined
  while (reader.at < reader.end - 1) {
    const at = reader.at
    const instruction = readCode(reader)
    const immediates = reader.at
    skipImmediates(reader, instruction)
    const rest = bytes.subarray(immediates, reader.at)
    if (instruction === CODE.if) {
      code = parts[1]
      reader.skip(2) // unreachable end
    } else if (instruction === CODE.localGet) code.push(CODE.localGet, LOCAL - (rest[0] ?? 0))
    else if (ACTION_OF[instruction] !== ACTION.access) code.push(...bytes.subarray(at, reader.at))
    else if (constant) {
      code.length -= constant.length
      const known = roots.findIndex(({ address }) => address === constant?.value)
      const place = known < 0 ? roots.push({ address: constant.value, load: instruction }) - 1 : known
      code.push(ROOT - place)
    } else code.push(instruction, (rest[0] ?? 0) | HAS_MEMORY_INDEX, MEMORY, ...rest.subarray(1))
    const isConstant = instruction === CODE.constant
    constant = isConstant ? { value: rest[0] ?? 0, length: reader.at - at } : undefined
  }
  return { type, isBeyond: parts[0], access: parts[1], roots }
}

const HAS_MEMORY_INDEX = 0x40

/** Replaces calls. A function keeps what it read from the root in locals. */
class CallReplacer implements Rewriter {
  readonly #replaced: ReadonlyMap<number, Inline>
  readonly #memory: readonly number[]
  #left = MAX_REPLACED
  /** Whether the function reads the input and calls others, which may free it. */
  #forgetsInput = false

  constructor(replaced: ReadonlyMap<number, Inline>, memory: number) {
    this.#replaced = replaced
    this.#memory = [...leb(memory)]
  }

  begin(called: ReadonlySet<number>): void {
    this.#forgetsInput = [...called].some((index) => this.#replaced.get(index)?.roots.some(isOfInput))
  }

  rewrite(instruction: Instruction, temporaries: Temporaries): readonly number[] | undefined {
    const action = ACTION_OF[instruction.code]
    if (action === ACTION.call) {
      const inline = this.#replaced.get(instruction.immediates().u32())
      if (inline && this.#left-- > 0) return this.#expand(inline, temporaries)
    } else if (action !== ACTION.callIndirect && action !== ACTION.callRef) return undefined
    return this.#forgetsInput ? [...forgetInput(temporaries), ...instruction.bytes] : undefined
  }

  /** The arguments are on the stack, the last one on top. */
  #expand({ type, isBeyond, access, roots }: Inline, temporaries: Temporaries): number[] {
    const locals = type.params.map(({ name }, place) => leb(temporaries.local(typeCode(name), place)))
    const fields = roots.map((field) => leb(rootLocal(field, temporaries)))
    const fill = (template: readonly number[]) =>
      template.flatMap((part) => {
        if (part >= 0) return [part]
        if (part === MEMORY) return this.#memory
        if (part <= ROOT) return [CODE.localGet, ...(fields[ROOT - part] ?? [])]
        return [...(locals[LOCAL - part] ?? [])]
      })
    const read = roots.flatMap(({ address, load }, place) => [
      ...[...constant(address), load, HAS_MEMORY_INDEX, ...this.#memory, 0],
      ...[CODE.localSet, ...(fields[place] ?? [])],
    ])
    const check = fill(isBeyond)
    return [
      ...locals.toReversed().flatMap((local) => [CODE.localSet, ...local]),
      // The kept limit may be too low, never too high: try again with the current one.
      ...[...check, CODE.if, NO_RESULT, ...read, ...check, CODE.if, NO_RESULT, CODE.unreachable],
      ...[CODE.end, CODE.end, ...fill(access)],
    ]
  }
}

function typeCode(name: string): number {
  return name === 'i64' ? I64 : I32
}

/** The local that keeps a field of the root: 0 until it was read, which no argument is below. */
function rootLocal({ address, load }: RootField, temporaries: Temporaries): number {
  return temporaries.local(load === CODE.load64 ? I64 : I32, FIRST_ROOT_PLACE + address)
}

/** Other code uses temporaries from 0. */
const FIRST_ROOT_PLACE = 16

/** The fields of the root about the input, which ends when the guest frees it. All others only grow during a call. */
const INPUT_LIMITS: readonly RootField[] = [
  { address: 16, load: CODE.load64 },
  { address: 24, load: CODE.load64 },
]

function isOfInput({ address }: RootField): boolean {
  return INPUT_LIMITS.some((field) => field.address === address)
}

function forgetInput(temporaries: Temporaries): number[] {
  return INPUT_LIMITS.flatMap((field) => [
    ...[CODE.constant64, 0, CODE.localSet],
    ...leb(rootLocal(field, temporaries)),
  ])
}
