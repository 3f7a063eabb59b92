import fc from 'fast-check'
import { expect, test } from 'vitest'
import { guestBytes } from '../../support/guest.ts'
import { capped } from '../../support/module-bytes.ts'

const capMemory = (bytes: Uint8Array, maxPages: number) => capped(bytes, maxPages).bytes

const GROW = '(func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))'
const INVALID = { code: 'WASM_SERVE_PLUGIN_INVALID' }

test('a guest that asks for more than the cap is told no, and may have all up to it', () => {
  const exports = instantiate(capMemory(guestBytes(`(module (memory 2) ${GROW})`), 10))
  expect(exports.grow(8)).toBe(2)
  expect(exports.grow(1)).toBe(-1)
  expect(exports.grow(-1)).toBe(-1)
})

test('a smaller maximum stays', () => {
  const exports = instantiate(capMemory(guestBytes(`(module (memory 1 3) ${GROW})`), 10))
  expect(exports.grow(3)).toBe(-1)
  expect(exports.grow(2)).toBe(1)
})

test('a module without a memory comes back as it is', () => {
  const bytes = guestBytes('silent')
  expect(capMemory(bytes, 1)).toBe(bytes)
})

test('a module that begins with more than the cap is refused', () => {
  expect(() => capMemory(guestBytes('(module (memory 11))'), 10)).toThrow(expect.objectContaining(INVALID))
})

test('a memory that is imported keeps its limits: those of the module that defines it count', () => {
  const bytes = guestBytes('(module (import "a" "b" (memory 20)))')
  expect(capMemory(bytes, 10)).toBe(bytes)
})

test.each([
  ['shared, with 64-bit addresses', [7, 1, 0xff, 0xff, 0xff, 0xff, 0x0f], [7, 1, 10]],
  ['with 64-bit addresses', [4, 1], [5, 1, 10]],
  ['shared', [3, 1, 20], [3, 1, 10]],
  ['with limits written longer than they need be', [1, 0x81, 0, 0x94, 0x80, 0], [1, 1, 10]],
])('a memory %s is capped', (_kind, limits, lowered) => {
  expect(capMemory(moduleOf(1, limits), 10)).toEqual(moduleOf(1, lowered))
})

test('several memories share the cap: each has what it begins with, and an equal part of the rest', () => {
  expect(capMemory(moduleOf(2, [0, 1, 1, 3, 99]), 10)).toEqual(moduleOf(2, [1, 1, 4, 1, 3, 6]))
  expect(() => capMemory(moduleOf(2, [0, 6, 0, 5]), 10)).toThrow(expect.objectContaining(INVALID))
})

test('tables are capped too, and together', async () => {
  const tables = Array.from({ length: 100 }, (_, i) => `(table $t${i} 1 externref)`).join('')
  const grow = `(func (export "grow") (result i32)
    (i32.add (table.grow $t0 (ref.null extern) (i32.const 9999999)) (table.grow $t99 (ref.null extern) (i32.const 9999999))))`
  const bytes = capMemory(guestBytes(`(module ${tables} ${grow})`), 10)
  const { instance } = await WebAssembly.instantiate(bytes as Uint8Array<ArrayBuffer>)
  expect((instance.exports.grow as () => number)()).toBe(-2)
  const large = guestBytes('(module (table 1000001 funcref))')
  expect(() => capMemory(large, 10)).toThrow(expect.objectContaining(INVALID))
})

const NULL_FUNCTION = [0xd0, 0x70, 0x0b]

test.each([
  ['without a maximum', [0x40, 0, 0x70, 0, 2, ...NULL_FUNCTION], [0x40, 0, 0x70, 1, 2, 0xc0, 0x84, 0x3d]],
  ['with a smaller one', [0x40, 0, 0x70, 1, 2, 5, ...NULL_FUNCTION], [0x40, 0, 0x70, 1, 2, 5]],
  ['of a type', [0x40, 0, 0x63, 0x70, 1, 2, 5, ...NULL_FUNCTION], [0x40, 0, 0x63, 0x70, 1, 2, 5]],
])('a table with an initial value %s is capped, and keeps its value', (_kind, entry, lowered) => {
  expect(capMemory(sectionOf(4, [1, ...entry]), 10)).toEqual(sectionOf(4, [1, ...lowered, ...NULL_FUNCTION]))
})

test('several tables share the limit, whatever initial values they have', () => {
  const value = [0x41, 0x0b, 0xfb, 0x1c, 0x0b] // a number, which has the byte of an end, as a reference
  const tables = (max: number[]) => [
    ...[3, 0x40, 0, 0x6c, 1, 0, ...max, ...value],
    ...[0x70, 1, 0, ...max],
    ...[0x40, 0, 0x63, 0x70, 1, 0, ...max, 0x23, 0, 0x0b],
  ]
  const third = [0x95, 0xac, 0x14] // 333,333
  expect(capMemory(sectionOf(4, tables([0x80, 0x80, 0x80, 1])), 10)).toEqual(sectionOf(4, tables(third)))
})

test.each([
  ['an initial value that does not end', [1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70]],
  ['an initial value of an unknown instruction', [1, 0x40, 0, 0x70, 0, 1, 0xff, 0x0b]],
  ['another byte than 0 before its type', [1, 0x40, 1, 0x70, 0, 1, ...NULL_FUNCTION]],
  ['more than the limit', [1, 0x40, 0, 0x70, 0, 0xc1, 0x84, 0x3d, ...NULL_FUNCTION]],
])('a table with %s is refused', (_kind, content) => {
  // What stands behind the section could be read as its end.
  const bytes = Uint8Array.of(...sectionOf(4, content), 0, 2, 1, 0x0b)
  expect(() => capMemory(bytes, 10)).toThrow(expect.objectContaining(INVALID))
})

test('an empty memory section, or an empty table section, stays empty', () => {
  for (const id of [4, 5]) expect(capMemory(sectionOf(id, [0]), 10)).toEqual(sectionOf(id, [0]))
})

test.each([
  ['of an unknown kind', moduleOf(1, [8, 1, 0])],
  ['more than the section has', moduleOf(2, [0, 1])],
  ['fewer than the section has', moduleOf(1, [0, 1, 0, 1])],
  ['with a number of more than 64 bits', moduleOf(1, [0, ...Array(10).fill(0x80), 0])],
  ['beyond the end', moduleOf(1, [0, 1]).slice(0, -1)],
])('a memory %s is refused', (_kind, bytes) => {
  expect(() => capMemory(bytes, 10)).toThrow(expect.objectContaining(INVALID))
})

test('a valid module stays valid, with the same imports and exports', () => {
  const name = fc.stringMatching(/^[a-z]{1,8}$/)
  const limits = fc.tuple(fc.nat(20), fc.option(fc.nat(60_000)))
  const anyModule = fc.record({ limits, imports: fc.uniqueArray(name), exports: fc.uniqueArray(name) })
  fc.assert(
    fc.property(anyModule, fc.integer({ min: 20, max: 65_536 }), ({ limits, imports, exports }, cap) => {
      const [min, extra] = limits
      const text = [
        ...imports.map((wanted) => `(import "env" "${wanted}" (func (param i64)))`),
        `(memory (export "memory") ${min} ${extra === null ? '' : min + extra})`,
        ...exports.map((named) => `(func (export "x-${named}") (result i32) (i32.const 1))`),
        '(data (i32.const 0) "")',
      ]
      const bytes = guestBytes(`(module ${text.join('\n')})`)
      const [before, after] = [bytes, capMemory(bytes, cap)].map(describe)
      expect(after).toEqual(before)
    }),
  )
})

test('bytes that are no module are refused or handed on, in bounded time', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
      try {
        capMemory(Uint8Array.of(...HEADER, ...garbage), 10)
      } catch (error) {
        expect(error).toMatchObject(INVALID)
      }
    }),
  )
})

const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]

function moduleOf(count: number, limits: readonly number[]): Uint8Array {
  return sectionOf(5, [count, ...limits])
}

function sectionOf(id: number, content: readonly number[]): Uint8Array {
  return Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, id, content.length, ...content)
}

function instantiate(bytes: Uint8Array): { grow: (pages: number) => number } {
  const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
  return new WebAssembly.Instance(module).exports as { grow: (pages: number) => number }
}

function describe(bytes: Uint8Array): object {
  const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
  return { imports: WebAssembly.Module.imports(module), exports: WebAssembly.Module.exports(module) }
}
