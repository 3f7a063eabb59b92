import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { capMemory } from '../src/plugin/memory-cap.ts'
import { importMemory, MEMORY_IMPORT } from '../src/plugin/memory-import.ts'
import { countPages } from '../src/plugin/page-count.ts'
import { loadPlugin } from '../src/plugin/plugin.ts'
import { guestBytes } from './support/guest.ts'

const CAP = 60_000

/** A module in the form that counts its pages; undefined if it has none. */
function counting(bytes: Uint8Array): Uint8Array | undefined {
  const importer = importMemory(capMemory(bytes, CAP, 'test'), 'test')
  return importer && countPages(importer, 'test')
}

const isValid = (bytes: Uint8Array) => WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)

interface Exports {
  readonly size: () => number
  readonly grow: (pages: number) => number
}

function instantiate(bytes: Uint8Array, memory?: WebAssembly.Memory): Exports {
  const imports = {
    env: { three: 3 },
    ...(memory && { [MEMORY_IMPORT.namespace]: { [MEMORY_IMPORT.name]: memory } }),
  }
  const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
  return new WebAssembly.Instance(module, imports).exports as unknown as Exports
}

const USES = `(func (export "size") (result i32) (memory.size))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))`

test('in a memory that has grown before, sizes and growth are those of a memory of its own', () => {
  const globals = fc.constantFrom(
    '',
    '(global i32 (i32.const 7))',
    '(import "env" "three" (global i32)) (global (mut i64) (i64.const 1))',
  )
  const delta = fc.oneof(fc.nat(8), fc.integer({ min: -3, max: 70_000 }))
  const sequences = fc.array(fc.array(fc.option(delta, { nil: 'size' as const })), {
    minLength: 1,
    maxLength: 4,
  })
  fc.assert(
    fc.property(globals, fc.nat(70), fc.nat(9), sequences, (kind, initial, extra, sequence) => {
      const imported = kind.startsWith('(import') ? kind : ''
      const text = `(module ${imported || ''} (memory ${initial} ${initial + extra}) ${imported ? '' : kind} ${USES})`
      const bytes = guestBytes(text)
      const counted = counting(bytes)
      if (!counted) throw new Error('not counting')
      const memory = new WebAssembly.Memory({ initial, maximum: initial + extra })
      for (const steps of sequence) {
        const [own, given] = [instantiate(bytes), instantiate(counted, memory)]
        const run = ({ size, grow }: Exports) => steps.map((step) => (step === 'size' ? size() : grow(step)))
        expect(run(given)).toEqual(run(own))
      }
    }),
  )
})

/** Bytes that would be `memory.size` and `memory.grow` if they were instructions. */
const TRAPS = [0x3f, 0x00, 0x40, 0x00]

const SIZE = [0x3f, 0]
const i32 = 0x7f
const drop = 0x1a
const end = 0x0b

/** Instructions that answer with the size of the memory, behind what could be taken for something else. */
const bodies: readonly (readonly [string, readonly number[]])[] = [
  ['numbers', [0x41, 0xbf, 0x80, 0xc0, 0, drop, 0x42, 0x3f, drop, 0x44, ...TRAPS, ...TRAPS, drop, ...SIZE]],
  ['vectors', [0xfd, 12, ...TRAPS, ...TRAPS, ...TRAPS, ...TRAPS, drop, ...SIZE]],
  ['shuffled vectors', [...v128(), ...v128(), 0xfd, 13, ...Array(16).fill(end), drop, ...SIZE]],
  ['a saturating conversion', [0x43, 0, 0, 0, 0, 0xfc, 0, drop, ...SIZE]],
  ['bulk memory', [0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 0, ...SIZE]],
  ['a tail call', [...SIZE, 0x04, 0x40, 0x12, 1, end, 0x41, 0]],
  ['legacy exceptions', [0x06, i32, 0x08, 0, 0x07, 0, ...SIZE, end]],
  ['exceptions', [0x02, 0x40, 0x1f, 0x40, 1, 0, 0, 0, 0x08, 0, end, end, ...SIZE]],
  ['atomics', [0x41, 0, 0xfe, 0x10, 2, 0, drop, 0xfe, 3, 0, ...SIZE]],
  ['references', [0xd2, 0, 0xd4, drop, ...SIZE]],
  ['a function reference', [0xd2, 1, 0x14, 0]],
  ['garbage collection', [0x41, 7, 0xfb, 0x1c, 0xfb, 0x16, 0x6c, drop, 0xd0, 0x71, drop, ...SIZE]],
]

function v128(): number[] {
  return [0xfd, 12, ...Array(16).fill(0)]
}

/** A module of two functions without parameters: the first has these instructions, the second answers with the size. */
function moduleOf(instructions: readonly number[]): Uint8Array {
  const section = (id: number, ...content: number[]) => [id, content.length, ...content]
  const body = (code: readonly number[]) => [code.length + 2, 0, ...code, end]
  return Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 2, 0x60, 0, 1, i32, 0x60, 0, 0),
    ...section(3, 2, 0, 0),
    ...section(5, 1, 0, 2),
    ...section(13, 1, 0, 1),
    ...section(7, 1, 4, ...Buffer.from('size'), 0, 0),
    ...section(9, 1, 3, 0, 2, 0, 1),
    ...section(10, 2, ...body(instructions), ...body(SIZE)),
  )
}

test.each(bodies)('a module with %s is rewritten right, if the engine can run it', (_name, instructions) => {
  const bytes = moduleOf(instructions)
  const counted = counting(bytes)
  if (!isValid(bytes)) {
    expect(process.version).toMatch(/^v20\./)
    return
  }
  const memory = new WebAssembly.Memory({ initial: 2, maximum: CAP })
  memory.grow(5)
  expect(instantiate(counted ?? new Uint8Array(), memory).size()).toBe(2)
})

test('a module with an instruction that is not known is left alone', () => {
  expect(counting(moduleOf([0xc5, ...SIZE]))).toBeUndefined()
  expect(counting(moduleOf([0x41, ...SIZE, 0x44]))).toBeUndefined()
})

test('a function that claims to have 4 GiB is not looked for', () => {
  const code = [10, 7, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]
  const bytes = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, 0, 1, ...code)
  expect(counting(bytes)).toBeUndefined()
})

test('functions keep their names in a stack', () => {
  const text = `(module (memory 1) (func $first (drop (memory.grow (i32.const 1))))
    (func $breaks (drop (memory.grow (i32.const 1))) (unreachable))
    (func (export "size") (result i32) (call $first) (call $breaks) (i32.const 0)))`
  const memory = new WebAssembly.Memory({ initial: 1, maximum: CAP })
  const { size } = instantiate(counting(guestBytes(text)) ?? new Uint8Array(), memory)
  let stack: string | undefined
  try {
    size()
  } catch (error) {
    stack = (error as Error).stack
  }
  expect(stack).toMatch(/at (?:\S+\.)?breaks \(wasm:/)
})

const plugins = new URL('../plugins/', import.meta.url)
const committed = readdirSync(plugins, { recursive: true, encoding: 'utf8' }).filter((path) =>
  /^[^/]+\/[^/]+\.wasm$/.test(path),
)
const guests = readdirSync(new URL('guests', import.meta.url)).map((file) => file.replace('.wat', ''))

test('every plug-in and guest that has a memory can count its pages, and is what it was else', () => {
  const all = [...committed.map((path) => readFileSync(new URL(path, plugins))), ...guests.map(guestBytes)]
  const ofOwn = all.filter((bytes) => importMemory(capMemory(bytes, CAP, 'test'), 'test'))
  expect(ofOwn.length).toBeGreaterThan(30)
  for (const bytes of ofOwn) {
    const counted = new WebAssembly.Module((counting(bytes) ?? new Uint8Array()) as Uint8Array<ArrayBuffer>)
    const before = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
    expect(WebAssembly.Module.exports(counted)).toEqual(WebAssembly.Module.exports(before))
    expect(WebAssembly.Module.imports(counted).slice(0, -1)).toEqual(WebAssembly.Module.imports(before))
  }
})

test('a mutant is rewritten or refused, and what the engine accepted before it accepts after', () => {
  const seeds = ['upper', 'stain', 'wasi', 'grow', 'zoo'].map(guestBytes)
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 })
  let accepted = 0
  fc.assert(
    fc.property(fc.constantFrom(...seeds), edits, fc.option(fc.nat(), { freq: 3 }), (seed, changes, cut) => {
      const bytes = Uint8Array.from(seed)
      for (const [at, byte] of changes) bytes[8 + (at % (bytes.length - 8))] = byte
      const mutant = cut === null ? bytes : bytes.subarray(0, cut % (bytes.length + 1))
      let counted: Uint8Array | undefined
      try {
        counted = counting(mutant)
      } catch (error) {
        expect(error).toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
      }
      if (!counted || !isValid(mutant)) return
      accepted++
      expect(isValid(counted)).toBe(true)
    }),
    { numRuns: 5_000 },
  )
  expect(accepted).toBeGreaterThan(100)
})

test.each([
  ['in one function', (body: string) => `(func ${body.repeat(3_000)})`],
  ['in many', (body: string) => `(func ${body})`.repeat(3_000)],
])('a module that asks for its memory in thousands of places does not count, and is served fresh all the same: %s', async (_kind, functions) => {
  const bytes = guestBytes(`(module (memory 1 9) ${functions('(drop (memory.grow (memory.size)))')}
    (func (export "run") (result i32) (i32.const 0)))`)
  expect(counting(bytes)).toBeUndefined()
  const { recyclable } = await loadPlugin(bytes, { isolation: 'fresh' })
  expect(recyclable?.countsPages).toBe(false)
})

test('a module whose counting form is more than V8 accepts is served fresh all the same', async () => {
  const bytes = guestBytes(`(module (memory 1 9) ${'(global i32 (i32.const 0))'.repeat(1_000_000)} ${USES})`)
  expect(isValid(bytes)).toBe(true)
  const { recyclable } = await loadPlugin(bytes, { isolation: 'fresh' })
  expect(recyclable?.countsPages).toBe(false)
})
