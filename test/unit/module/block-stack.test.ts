import { describe, expect, test } from 'vitest'
import { BlockStack, OPENED_BY } from '../../../src/module/block-stack.ts'
import { ByteReader } from '../../../src/module/bytes.ts'

const LOCALS = 3

/** A stack in a function with so many locals, and the place of its next instruction. */
function begin(results = 0) {
  const reader = new ByteReader(new Uint8Array(1_000), 0, 1_000, 'test')
  const stack = new BlockStack(reader)
  stack.begin(reader, LOCALS, results)
  return { stack, reader }
}

const INVALID = expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_INVALID' })

/** Its figures that are not 0. */
const figuresOf = (stack: BlockStack) =>
  Object.fromEntries(Object.entries(stack).filter(([, value]) => typeof value === 'number' && value !== 0))

test('each function begins with nothing, whatever was before', () => {
  const { stack, reader } = begin()
  const empty = figuresOf(stack)
  expect(empty).toEqual({ depth: 1, nesting: 1 })
  stack.push(2)
  stack.open(OPENED_BY.loop, 1, 1)
  stack.open(OPENED_BY.try, 0, 0)
  stack.sets++
  stack.mayThrow()
  stack.operate(9)
  stack.handle()
  stack.branch(0, 5)
  stack.close()
  stack.branch(0, 9)
  reader.at = 30
  stack.close()
  expect(Object.keys(figuresOf(stack)).length).toBeGreaterThan(15)
  stack.begin(reader, LOCALS, 0)
  expect(figuresOf(stack)).toEqual(empty)
})

test.each(
  Object.entries(OPENED_BY),
)('a block opened by %s is known by it, also where no code is reached', (_, kind) => {
  const { stack } = begin()
  stack.open(kind, 0, 0)
  stack.stop()
  stack.open(kind, 0, 0)
  expect([stack.openedBy, stack.depth]).toEqual([kind, 3])
  expect(Object.values(OPENED_BY).filter((each) => each === kind)).toHaveLength(1)
})

describe('what is counted', () => {
  test('of a function: no loop, and no end that branches reach', () => {
    const { stack, reader } = begin()
    stack.sets++
    reader.at = 100
    stack.close()
    expect(figuresOf(stack)).toEqual({ nesting: 1, sets: 1, work: LOCALS })
  })

  test('of a block: instructions that branch to its end, and locals that may differ there', () => {
    const { stack, reader } = begin()
    reader.at = 10
    stack.open(OPENED_BY.block, 0, 0)
    stack.sets += 2
    stack.branch(0, 11)
    stack.branch(0, 12)
    stack.branch(0, 12) // another label of the same instruction
    reader.at = 20
    stack.close()
    expect(stack).toMatchObject({
      ...{ endBranches: 2 ** 2, phis: 2, phiSquares: 2 ** 2, moveSquares: 3 * 2 ** 2, joins: (3 + 1) * 2 },
      ...{ backBranches: 0, resultBranches: 0, loops: 0, joinStart: 10, joinEnd: 20, joinsResults: false },
    })
  })

  test('of a block with a result: that it may differ, too', () => {
    const { stack } = begin()
    stack.open(OPENED_BY.block, 0, 1)
    stack.sets += 9 // of three locals
    stack.push(1)
    stack.branch(0, 11)
    stack.branch(0, 12)
    stack.close()
    const values = LOCALS + 1
    expect(stack).toMatchObject({
      resultBranches: 2,
      phis: values,
      joins: 3 * values,
      joinsResults: true,
      height: 1,
    })
  })

  test('of a loop: branches to its start, its bytes, and how many are in one another', () => {
    const { stack, reader } = begin()
    stack.push(1)
    reader.at = 10
    stack.open(OPENED_BY.loop, 1, 0)
    stack.open(OPENED_BY.loop, 0, 0)
    stack.branch(1, 11)
    stack.branch(1, 12)
    reader.at = 15
    stack.close()
    stack.pop(1)
    stack.sets += 1
    reader.at = 30
    stack.close()
    stack.open(OPENED_BY.loop, 0, 0)
    stack.close()
    expect(stack).toMatchObject({
      ...{ loops: 3, loopNesting: 2, loopBytes: 5 + 20, backBranches: 2 ** 2, endBranches: 0, joins: 0 },
      loopJoins: (2 + 1) * (1 + 1),
    })
  })

  test('of a try: instructions that may throw, and locals that were set before them', () => {
    const { stack } = begin()
    stack.mayThrow() // to no clause of this function
    stack.sets += 5
    stack.open(OPENED_BY.try, 0, 0)
    stack.mayThrow()
    stack.sets += 2
    stack.mayThrow()
    stack.open(OPENED_BY.block, 0, 0)
    stack.mayThrow()
    stack.close()
    stack.open(OPENED_BY.tryTable, 0, 0)
    stack.mayThrow()
    stack.close()
    stack.close()
    stack.mayThrow()
    expect(stack).toMatchObject({
      ...{ throwing: 4, throwSquares: 3 ** 2 + 1, thrown: 2 + 2 + 2, thrownSquares: 3 * 2 ** 2 },
    })
  })

  test('of clauses that catch: the square of those of each try', () => {
    const { stack } = begin()
    for (const count of [3, 2]) {
      stack.open(OPENED_BY.tryTable, 0, 0)
      for (let left = count; left > 0; left--) stack.handle()
      stack.close()
    }
    expect(stack.handlers).toBe(3 ** 2 + 2 ** 2)
  })

  test('of the stack: the most values, and all of them where code branches', () => {
    const { stack } = begin()
    stack.push(4)
    stack.pop(2)
    stack.place()
    stack.place(3)
    expect([stack.stackValues, stack.work]).toEqual([4, 4 * (LOCALS + 2)])
  })
})

test.each([
  ['block', true],
  ['loop', false],
  ['if', false],
  ['try', false],
  ['tryTable', false],
] as const)('code behind the start of %s is appended, as what is before it: %s', (name, isAppended) => {
  const { stack } = begin()
  stack.isAppended = true
  stack.open(OPENED_BY[name], 0, 0)
  expect(stack.isAppended).toBe(isAppended)
})

describe('is not valid', () => {
  test('a value that nobody has put on the stack of the block', () => {
    const { stack } = begin()
    stack.push(1)
    stack.open(OPENED_BY.block, 0, 0)
    expect(() => stack.pop(1)).toThrow(INVALID)
  })

  test.each([0, 2])('a block with one result that ends with %i values', (values) => {
    const { stack } = begin()
    stack.open(OPENED_BY.block, 0, 1)
    stack.push(values)
    expect(() => stack.close()).toThrow(INVALID)
  })

  test('a branch out of the function', () => {
    const { stack } = begin()
    stack.open(OPENED_BY.block, 0, 0)
    stack.branch(1, 1)
    expect(() => stack.branch(2, 1)).toThrow(INVALID)
  })

  test('more than the results, where no code is reached', () => {
    const { stack } = begin(1)
    stack.stop()
    stack.pop(5)
    stack.push(2)
    expect(() => stack.close()).toThrow(INVALID)
  })
})

test('thousands of blocks in one another keep what each has', () => {
  const { stack } = begin()
  const count = 3_000
  for (let depth = 0; depth < count; depth++) {
    stack.open(depth % 2 === 0 ? OPENED_BY.loop : OPENED_BY.if, 0, depth % 3)
    stack.branch(depth, depth + 1)
  }
  for (let depth = count - 1; depth >= 0; depth--) {
    expect(stack.openedBy).toBe(depth % 2 === 0 ? OPENED_BY.loop : OPENED_BY.if)
    const wanted = depth % 3
    const found = depth === count - 1 ? 0 : (depth + 1) % 3
    if (wanted > found) stack.push(wanted - found)
    else stack.pop(found - wanted)
    stack.close()
  }
  expect([stack.depth, stack.loops, stack.loopNesting, stack.nesting]).toEqual([
    1,
    count / 2,
    count / 2,
    count + 1,
  ])
})
