import { readdirSync, readFileSync } from 'node:fs'
import { leb } from '../../../src/module/bytes.ts'
import { type CappedModule, capMemory } from '../../../src/module/memory-cap.ts'
import { readModule } from '../../../src/module/module.ts'
import type { ModuleView } from '../../../src/module/module-view.ts'
import { makeResettable } from '../../../src/module/resettable.ts'
import { guestBytes } from '../../support/guest.ts'
import { bytesOf, codeSection, functions, list, moduleOf, section } from '../../support/module-bytes.ts'
import type { FuzzTarget, Random } from '../target.ts'

/** Of a module's memories together. */
const MAX_PAGES = 64

/**
 * The reader of modules against V8: whatever V8 accepts is understood or refused. What is understood has the imports and
 * exports that V8 sees; with its memory capped it is still a module, and no memory of it may be larger; and the form that
 * can be put back is a module, too.
 */
export const target: FuzzTarget = {
  name: 'module-reader',
  seeds,
  run(input) {
    const bytes = Uint8Array.from(input)
    const isValid = WebAssembly.validate(bytes)
    const facts = read(bytes)
    if (typeof facts === 'string') return `${facts} ${isValid}`
    if (!isValid) return 'read, and invalid'
    const module = new WebAssembly.Module(bytes)
    same(facts.imports, WebAssembly.Module.imports(module), 'imports')
    const exported = facts.exports.map(({ name, kind }) => ({ name, kind }))
    same(exported, WebAssembly.Module.exports(module), 'exports')
    const capped = cap(facts)
    if (!capped) return `valid, and not to be capped${facts.needsProcess ? ', collected' : ''}`
    checkCapped(capped.bytes, facts)
    const form = facts.needsProcess ? undefined : makeResettable(capped)
    if (form) checkForm(form.bytes)
    return [
      'valid',
      form ? 'resettable' : 'not resettable',
      facts.needsProcess ?? 'plain',
      ...shapeOf(facts),
    ].join(', ')
  },
  mutate,
}

/** What it has, in few words: an input with a shape that is new is kept. */
function shapeOf({ figures }: ModuleView): string[] {
  return (['tags', 'memories', 'tables', 'nesting', 'branchTargets', 'elementSegments'] as const).map(
    (name) => String(Math.min(3, figures[name])),
  )
}

/** The facts, or the code of the refusal. Garbage collection is read too, whether or not this V8 has it. */
function read(bytes: Uint8Array): ModuleView | string {
  try {
    return readModule(bytes, { allowGc: true }, 'fuzz')
  } catch (error) {
    return codeOf(error)
  }
}

function cap(view: ModuleView): CappedModule | undefined {
  try {
    return capMemory(view, MAX_PAGES)
  } catch (error) {
    codeOf(error)
    return undefined
  }
}

/** @throws what is no refusal. */
function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (typeof code !== 'string' || !code.startsWith('WASM_SERVE_')) throw error
  return code
}

function checkCapped(capped: Uint8Array, facts: ModuleView): void {
  const bytes = Uint8Array.from(capped)
  if (!WebAssembly.validate(bytes)) throw new Error('capped it is invalid')
  const after = readModule(bytes, { allowGc: true }, 'fuzz')
  const most = after.memories.reduce((sum, { max = 2n ** 64n }) => sum + max, 0n)
  if (most > BigInt(MAX_PAGES)) throw new Error(`its memories may have ${most} pages`)
  const entries = after.tables.reduce((sum, { max = 2n ** 64n }) => sum + max, 0n)
  if (entries > 1_000_000n) throw new Error(`its tables may have ${entries} entries`)
  same(after.exports, facts.exports, 'exports of the capped module')
  same(after.imports, facts.imports, 'imports of the capped module')
}

/** Its figures were counted while it was written: it is within the limits when it is read, too. Its marks may be a collected array. */
function checkForm(form: Uint8Array): void {
  const bytes = Uint8Array.from(form)
  if (!WebAssembly.validate(bytes)) throw new Error('the resettable form is invalid')
  readModule(bytes, { allowGc: true }, 'fuzz')
}

function same(ours: unknown, theirs: unknown, what: string): void {
  const [one, other] = [JSON.stringify(ours), JSON.stringify(theirs)]
  if (one !== other) throw new Error(`${what} differ: ${one} is not ${other}`)
}

function* seeds(): Iterable<Uint8Array> {
  for (const file of readdirSync(GUESTS)) if (file.endsWith('.wat')) yield guestBytes(file.slice(0, -4))
  yield readFileSync(new URL('../../../plugins/hello-zig/hello.wasm', import.meta.url))
  yield* proposals()
}

const GUESTS = new URL('../../guests/', import.meta.url)

/** Small modules of what wabt cannot assemble, and of what V8 may not have yet. */
function* proposals(): Iterable<Uint8Array> {
  const i32 = 0x7f
  const body = (...code: number[]) => functions({ locals: [[2, i32]], code })
  yield body(2, 0x40, 0x20, 0, 0x0e, 2, 0, 1, 0, 0x0b) // br_table
  yield body(3, 0x40, 0x20, 0, 0x0d, 0, 0x0b) // a loop
  yield body(0x12, 0) // a tail call, of the wrong type
  yield body(0x20, 0, 0x12, 0) // a tail call
  yield body(6, 0x40, 0x20, 0, 0x10, 0, 0x19, 0x0b) // legacy exceptions
  yield body(0x1f, 0x40, 1, 2, 0, 0x0b) // try_table
  yield body(2, 0x69, 0x1f, 0x40, 1, 3, 0, 0x0b, 0x0f, 0x0b, 0x0a) // an exception as a value
  yield body(0xfd, 0x0c, ...Array<number>(16).fill(1), 0xfd, 0x53, 0x1a) // vectors
  yield body(
    ...[0xfd, 0x0c, ...Array<number>(16).fill(1), 0xfd, 0x0c, ...Array<number>(16).fill(2)],
    ...[0xfd, 0x80, 0x02, 0xfd, 0x53, 0x1a],
  ) // relaxed
  yield body(0xd2, 0, 0x14, 0) // call_ref
  yield body(0xd0, 0x70, 0xd1, 0x1a, 0x02, 0x7f, 0x41, 1, 0x0b, 0x1a)
  yield body(0x00, 0x1a, 0x6a, 0x1a, 0x02, 0x40, 0x0b) // a place that cannot be reached
  const type = list([0x60, 1, i32, 0], [0x60, 0, 2, i32, 0x7e])
  const withType = (...sections: Uint8Array[]) => moduleOf(section(1, type), ...sections)
  yield withType(section(3, list(1)), codeSection({ code: [2, 1, 0x41, 1, 0x42, 2, 0x0b] })) // several results
  yield withType(section(13, list([0, 0])), section(7, list([1, 97, 4, 0]))) // a tag
  yield withType(
    section(5, list([3, 1, 2])),
    section(3, list(0)),
    codeSection({ code: [0x20, 0, 0x41, 1, 0xfe, 0, 2, 0, 0x1a] }),
  )
  yield moduleOf(section(5, list([4, 1])), section(3, list())) // memory64
  yield moduleOf(section(5, list([0, 1], [1, 1, 3]))) // several memories
  yield moduleOf(section(6, list([i32, 0, 0x41, 1, 0x41, 2, 0x6a, 0x0b]))) // a computed constant
  yield moduleOf(section(1, list([0x60, 0, 0])), section(4, list([0x40, 0, 0x63, 0, 0, 1, 0xd0, 0, 0x0b])))
  yield moduleOf(
    section(
      1,
      list([0x5f, 2, i32, 1, 0x78, 0], [0x5e, i32, 1], [0x4e, 2, 0x50, 0, 0x5f, 0, 0x50, 1, 2, 0x5f, 0]),
    ),
  )
  yield moduleOf(
    section(1, list([0x5f, 1, i32, 1], [0x60, 1, i32, 0])),
    section(3, list(1)),
    codeSection({
      locals: [[1, 0x6e]],
      code: [
        0x20, 0, 0xfb, 0, 0, 0x21, 1, 0x20, 1, 0xfb, 0x16, 0, 0xfb, 2, 0, 0, 0x1a, 0x41, 1, 0xfb, 0x1c, 0x1a,
      ],
    }),
  )
  yield moduleOf(
    section(2, list([1, 97, 1, 98, 1, 0x70, 0, 1], [1, 97, 1, 99, 2, 1, 1, 2], [1, 97, 1, 100, 3, i32, 0])),
  )
  yield moduleOf(
    section(1, list([0x60, 0, 0])),
    section(3, list(0)),
    section(4, list([0x70, 1, 1, 2])),
    section(9, list([0, 0x41, 0, 0x0b, 1, 0], [5, 0x70, 1, 0xd0, 0x70, 0x0b], [3, 0, 1, 0])),
    section(12, leb(1)),
    codeSection({ code: [0xfc, 9, 0, 0xfc, 0x0d, 0] }),
    section(11, list([1, 1, 97])),
  )
}

interface Section {
  readonly id: number
  readonly content: Uint8Array
}

/** Changes what a module holds, and has its lengths right again: else hardly any would get past the first length. */
function mutate(input: Uint8Array, random: Random): Uint8Array {
  const sections = split(input)
  if (!sections || random() < 0.1) return flip(input, random)
  const below = (count: number) => Math.floor(random() * count)
  const at = below(sections.length)
  const chosen = sections[at]
  if (!chosen) return flip(input, random)
  const kind = random()
  if (kind < 0.05) sections.splice(at, 1)
  else if (kind < 0.1) sections.splice(at, 0, sections[below(sections.length)] ?? chosen)
  else if (chosen.id === 10 && kind < 0.8)
    sections[at] = { id: 10, content: changeBody(chosen.content, random) }
  else sections[at] = { id: chosen.id, content: changeBytes(chosen.content, random) }
  return moduleOf(...sections.map(({ id, content }) => section(id, content)))
}

function split(bytes: Uint8Array): Section[] | undefined {
  const sections: Section[] = []
  let at = 8
  while (at < bytes.length) {
    const id = bytes[at++] ?? 0
    const size = readLeb(bytes, at)
    if (!size || size.behind + size.value > bytes.length) return undefined
    at = size.behind + size.value
    sections.push({ id, content: bytes.subarray(size.behind, at) })
  }
  return sections.length > 0 ? sections : undefined
}

function readLeb(bytes: Uint8Array, at: number): { value: number; behind: number } | undefined {
  let value = 0
  for (let place = 0; place < 5; place++) {
    const byte = bytes[at + place]
    if (byte === undefined) return undefined
    value += (byte & 0x7f) * 128 ** place
    if (byte < 0x80) return { value, behind: at + place + 1 }
  }
  return undefined
}

/** Changes one function, with its length. */
function changeBody(content: Uint8Array, random: Random): Uint8Array {
  const count = readLeb(content, 0)
  if (!count || count.value === 0) return changeBytes(content, random)
  const bodies: Uint8Array[] = []
  let at = count.behind
  for (let left = count.value; left > 0; left--) {
    const size = readLeb(content, at)
    if (!size || size.behind + size.value > content.length) return changeBytes(content, random)
    at = size.behind + size.value
    bodies.push(content.subarray(size.behind, at))
  }
  const index = Math.floor(random() * bodies.length)
  const body = bodies[index]
  if (body) bodies[index] = changeBytes(body, random)
  return list(...bodies.map((each) => bytesOf(leb(each.length), each)))
}

/** Code that leaves the stack as it was: it fits anywhere in a function. */
const NEUTRAL: readonly (readonly number[])[] = [
  [0x01],
  [0x02, 0x40, 0x0b],
  [0x03, 0x40, 0x0b],
  [0x41, 0, 0x04, 0x40, 0x05, 0x0b],
  [0x41, 0, 0x1a],
  [0x41, 1, 0xfb, 0x1c, 0x1a],
  [0x41, 0, 0x0d, 0],
  [0x02, 0x40, 0x41, 0, 0x0e, 1, 0, 0, 0x0b],
  [0x42, 0x80, 0x7f, 0x1a],
  [0x43, 1, 2, 3, 4, 0x1a],
  [0xd0, 0x70, 0x1a],
  [0xd0, 0x63, 0x1a],
  [0x3f, 0, 0x1a],
  [0x41, 1, 0x40, 0, 0x1a],
  [0x06, 0x40, 0x19, 0x0b],
  [0x1f, 0x40, 0, 0x0b],
  [0x02, 0x40, 0x00, 0x1a, 0x0b],
  [0x41, 0, 0x41, 1, 0x41, 2, 0x1b, 0x1a],
  [0x41, 0, 0x41, 1, 0x41, 2, 0x1c, 1, 0x7f, 0x1a],
  [0x41, 0, 0xfd, 0x0f, 0xfd, 0x53, 0x1a],
  [0xfe, 0x03, 0],
]

const INTERESTING = [
  0, 1, 2, 3, 0x0b, 0x1a, 0x40, 0x60, 0x63, 0x69, 0x6e, 0x6f, 0x70, 0x7b, 0x7f, 0x80, 0xfb, 0xfc, 0xfd, 0xfe,
  0xff,
]

function changeBytes(content: Uint8Array, random: Random): Uint8Array {
  const below = (count: number) => Math.floor(random() * count)
  const at = below(content.length + 1)
  const [before, behind] = [content.subarray(0, at), content.subarray(at)]
  const kind = below(6)
  if (kind === 0) return bytesOf(before, INTERESTING[below(INTERESTING.length)] ?? 0, behind.subarray(1))
  if (kind === 1) return bytesOf(before, below(256), behind.subarray(1))
  if (kind === 2) return bytesOf(before, NEUTRAL[below(NEUTRAL.length)] ?? [], behind)
  if (kind === 3) return bytesOf(before, behind.subarray(1 + below(3)))
  if (kind === 4) return bytesOf(before, lengthened(behind[0] ?? 0, random), behind.subarray(1))
  const from = below(content.length)
  return bytesOf(before, content.subarray(from, from + 1 + below(8)), behind)
}

/** The same small number, in more bytes than it needs. */
function lengthened(byte: number, random: Random): number[] {
  if (byte >= 0x80) return [byte]
  const isNegative = (byte & 0x40) !== 0 && random() < 0.5
  const fill = isNegative ? 0xff : 0x80
  const more = Math.floor(random() * 4)
  return [byte | 0x80, ...Array<number>(more).fill(fill), isNegative ? 0x7f : 0]
}

function flip(input: Uint8Array, random: Random): Uint8Array {
  const bytes = Uint8Array.from(input)
  const at = Math.floor(random() * bytes.length)
  bytes[at] = Math.floor(random() * 256)
  return random() < 0.2 ? bytes.subarray(0, at) : bytes
}
