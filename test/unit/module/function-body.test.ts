import { describe, expect, test } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { BodyReader } from '../../../src/module/function-body.ts'
import { MARK } from '../../../src/module/instructions.ts'
import { TypeTable } from '../../../src/module/types.ts'

/** `() -> ()`, `(i32, i64) -> (f32)`, a structure of two fields, `(i32) -> ()`. */
const types = new TypeTable()
const number = (name: string) => ({ name, kind: 'plain', isIndexed: false }) as const
types.add({ params: [], results: [] }, 0)
types.add({ params: [number('i32'), number('i64')], results: [number('f32')] }, 0)
types.add(undefined, 2)
types.add({ params: [number('i32')], results: [] }, 0)

/** An imported function of the first type, then one of each other, and a tag with a value. */
const CONTEXT = { types, functions: [0, 1, 3], imported: 1, tags: [3] }

const LOCALS = 3
const END = 0x0b
const DROP = 0x1a
const ZERO = [0x41, 0]
const BLOCK = [0x02, 0x40]

/** What is counted of a function with these instructions, and their end. */
function read(...code: readonly number[]) {
  const bytes = Uint8Array.of(...code, END)
  const reader = new ByteReader(bytes, 0, bytes.length, 'test')
  const body = new BodyReader(CONTEXT, reader)
  body.read(reader, LOCALS, 0)
  return body
}

const isRead = (...code: readonly number[]) => {
  try {
    read(...code)
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
    return false
  }
}

describe('is counted', () => {
  test.each<readonly [string, number, readonly number[]]>([
    ['a call', 3, [...ZERO, ...ZERO, 0x10, 1, DROP]],
    ['an indirect call', 3, [...ZERO, ...ZERO, ...ZERO, 0x11, 1, 0, DROP]],
    ['a call of a reference', 3, [...ZERO, ...ZERO, ...ZERO, 0x14, 1, DROP]],
    ['a call at the end', 1, [...ZERO, 0x12, 2]],
    ['an indirect call at the end', 1, [...ZERO, ...ZERO, 0x13, 3, 0]],
    ['a call of a reference at the end', 1, [...ZERO, ...ZERO, 0x15, 3]],
    ['an exception', 1, [...ZERO, 0x08, 0]],
    ['a structure', 2, [...ZERO, ...ZERO, 0xfb, 0, 2, DROP]],
    ['an array', 3, [...ZERO, ...ZERO, ...ZERO, 0xfb, 8, 2, 3, DROP]],
    ['a call without values', 0, [0x10, 0]],
  ])('the values of %s', (_, values, code) => {
    expect(read(...code).callValues).toBe(values)
  })

  test('the largest table of branches', () => {
    const table = (targets: number) => [...ZERO, 0x0e, targets, ...Array<number>(targets + 1).fill(0)]
    expect(
      read(...BLOCK, ...table(2), END, ...BLOCK, ...table(5), END, ...BLOCK, ...table(3), END).branchTargets,
    ).toBe(5)
  })

  test('all locals, and all values on the stack, at each instruction', () => {
    expect(read(...ZERO, ...ZERO, DROP, DROP).walk).toBe(5 * LOCALS + 0 + 1 + 2 + 1 + 0)
  })

  test('the same, where blocks begin and end, and code branches', () => {
    const end = LOCALS
    expect(read().work).toBe(end)
    expect(read(...BLOCK, END).work).toBe(2 * LOCALS + end)
    expect(read(...BLOCK, ...ZERO, 0x0d, 0, END).work).toBe(3 * LOCALS + end)
    expect(read(...BLOCK, ...ZERO, 0x0e, 2, 0, 0, 0, END).work).toBe(2 * LOCALS + 3 * LOCALS + end)
    expect(read(0x02, 0x7f, ...ZERO, END, DROP).work).toBe(2 * LOCALS + 1 + end)
  })

  test('the most values on the stack, and blocks in one another, with the function', () => {
    const { stackValues, nesting } = read(
      ...BLOCK,
      ...BLOCK,
      ...ZERO,
      ...ZERO,
      DROP,
      DROP,
      END,
      END,
      ...BLOCK,
      END,
    )
    expect([stackValues, nesting]).toEqual([2, 3])
  })

  test('nothing of the function before', () => {
    const bytes = Uint8Array.of(END)
    const body = read(
      ...BLOCK,
      ...ZERO,
      0x0e,
      1,
      0,
      0,
      END,
      0x10,
      0,
      ...ZERO,
      ...ZERO,
      0x10,
      1,
      DROP,
      0x3f,
      0,
      DROP,
    )
    const reader = new ByteReader(bytes, 0, bytes.length, 'test')
    body.read(reader, LOCALS, 0)
    const empty = read()
    for (const name of [
      'branchTargets',
      'callValues',
      'walk',
      'marks',
      'nesting',
      'work',
      'optimisingCost',
    ] as const)
      expect([name, body[name]]).toEqual([name, empty[name]])
  })
})

test.each<readonly [string, number, readonly number[]]>([
  ['arithmetic', 0, [...ZERO, ...ZERO, 0x6a, DROP]],
  ['the size of a memory', MARK.sizesMemory, [0x3f, 0, DROP]],
  ['a memory that grows', MARK.sizesMemory | MARK.bulk, [...ZERO, 0x40, 0, DROP]],
  ['a write of a table', MARK.lasting, [...ZERO, 0xd0, 0x70, 0x26, 0]],
  ['a table that grows', MARK.lasting | MARK.bulk, [0xd0, 0x70, ...ZERO, 0xfc, 15, 0, DROP]],
  ['data that are dropped', MARK.lasting, [0xfc, 9, 0]],
  ['elements that are dropped', MARK.lasting, [0xfc, 13, 0]],
  ['a store', MARK.writes, [...ZERO, ...ZERO, 0x36, 2, 0]],
  ['a store of a vector', MARK.writes, [...ZERO, 0xfd, 12, ...Array<number>(16).fill(0), 0xfd, 11, 4, 0]],
  ['a store of a lane', MARK.writes, [...ZERO, 0xfd, 12, ...Array<number>(16).fill(0), 0xfd, 88, 0, 0, 0]],
  ['a filled memory', MARK.writes | MARK.bulk, [...ZERO, ...ZERO, ...ZERO, 0xfc, 11, 0]],
  ['an atomic store', MARK.writesAtomically, [...ZERO, ...ZERO, 0xfe, 0x17, 2, 0]],
  ['an atomic load', 0, [...ZERO, 0xfe, 0x10, 2, 0, DROP]],
  ['a wait', MARK.waits, [...ZERO, ...ZERO, 0x42, 0, 0xfe, 1, 2, 0, DROP]],
  ['a call of an import', MARK.callsImport, [0x10, 0]],
  ['a call of its own', 0, [...ZERO, 0x10, 2]],
  ['a structure', MARK.collected, [0xfb, 1, 2, DROP]],
  ['a null that is collected', MARK.collected, [0xd0, 0x6e, DROP]],
  ['a null of a function', 0, [0xd0, 0x70, DROP]],
  ['a block with a collected result', MARK.collected, [0x02, 0x6d, 0x00, END, DROP]],
  ['a block with a result', 0, [0x02, 0x70, 0x00, END, DROP]],
  ['a selected value that is collected', MARK.collected, [...ZERO, ...ZERO, ...ZERO, 0x1c, 1, 0x6e, DROP]],
  ['a selected value', 0, [...ZERO, ...ZERO, ...ZERO, 0x1c, 1, 0x7f, DROP]],
])('a function has the marks of %s', (_, marks, code) => {
  expect(read(...code).marks).toBe(marks)
})

describe('a function is read', () => {
  test.each<readonly [string, readonly number[]]>([
    ['with a block of a type', [...ZERO, ...ZERO, 0x02, 1, DROP, DROP, 0x43, 0, 0, 0, 0, END, DROP]],
    ['with a block of no type in a longer form', [0x02, 0xc0, 0x7f, END]],
    ['with an else', [...ZERO, 0x04, 0x7f, ...ZERO, 0x05, ...ZERO, END, DROP]],
    ['with an else of a type', [...ZERO, ...ZERO, 0x04, 3, DROP, 0x05, DROP, END]],
    ['with clauses that catch', [0x06, 0x40, 0x07, 0, DROP, 0x07, 0, 0x09, 0, 0x19, END]],
    ['with a delegate', [...BLOCK, 0x06, 0x40, 0x18, 0, END]],
    ['with a table of clauses that catch', [...BLOCK, 0x1f, 0x40, 2, 2, 0, 2, 0, END, END]],
    ['with a branch of a cast', [...BLOCK, 0x00, 0xfb, 24, 3, 0, 0x6e, 0x6d, DROP, END]],
    ['with anything where no code is reached', [0x00, 0x6a, DROP, DROP, 0x10, 1, DROP]],
  ])('%s', (_, code) => {
    expect(isRead(...code)).toBe(true)
  })
})

describe('a function is refused', () => {
  test.each<readonly [string, readonly number[]]>([
    ['that goes on behind its end', [END]],
    ['with an else of no if', [...BLOCK, 0x05, END]],
    ['with an else in the function', [0x05]],
    ['with two else', [...ZERO, 0x04, 0x40, 0x05, 0x05, END]],
    ['with a catch of no try', [...BLOCK, 0x07, 0, DROP, END]],
    ['with a catch in the function', [0x07, 0, DROP]],
    ['with a catch of all of no try', [...BLOCK, 0x19, END]],
    ['with a catch behind the one of all', [0x06, 0x40, 0x19, 0x07, 0, DROP, END]],
    ['with a delegate of no try', [...BLOCK, 0x18, 0]],
    ['with a delegate in the function', [0x18, 0]],
    ['with a catch of a tag that is missing', [0x06, 0x40, 0x07, 1, DROP, END]],
    ['that throws a tag that is missing', [...ZERO, 0x08, 1]],
    ['with a select of no type', [...ZERO, ...ZERO, ...ZERO, 0x1c, 0, DROP]],
    ['with a select of two types', [...ZERO, ...ZERO, ...ZERO, 0x1c, 2, 0x7f, 0x7f, DROP]],
    ['with a block of a type that is missing', [0x02, 9, END]],
    ['with a block of a structure', [0x02, 2, END]],
    ['with a cast of an unknown kind', [...BLOCK, 0x00, 0xfb, 24, 4, 0, 0x6e, 0x6d, DROP, END]],
    ['with a clause of an unknown kind', [...BLOCK, 0x1f, 0x40, 1, 4, 0, END, END]],
    ['with a clause that leads nowhere', [0x1f, 0x40, 1, 2, 1, END]],
    ['with a branch that leads nowhere', [...ZERO, 0x0d, 1]],
    ['with a table of branches that leads nowhere', [...ZERO, 0x0e, 1, 0, 1]],
    ['that calls a function that is missing', [0x10, 3]],
    ['that calls a function that is missing at its end', [0x12, 3]],
    ['that calls a structure through a table', [...ZERO, 0x11, 2, 0]],
    ['that calls a structure through a table at its end', [...ZERO, 0x13, 2, 0]],
    ['that calls a structure', [...ZERO, 0x14, 2]],
    ['that calls a structure at its end', [...ZERO, 0x15, 2]],
    ['with a call without its values', [...ZERO, 0x10, 1, DROP]],
    ['with an exception without its value', [0x08, 0]],
    ['with an if without a condition', [0x04, 0x40, END]],
  ])('%s', (_, code) => {
    expect(isRead(...code)).toBe(false)
  })
})
