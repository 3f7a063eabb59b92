import { expect, test } from 'vitest'
import { BlockStack } from '../../../src/module/block-stack.ts'
import { ByteReader } from '../../../src/module/bytes.ts'
import { Conditions } from '../../../src/module/conditions.ts'

function begin() {
  const blocks = new BlockStack(new ByteReader(new Uint8Array(8), 0, 8, 'test'))
  const conditions = new Conditions()
  conditions.begin(2)
  return {
    blocks,
    conditions,
    /** A condition behind the end of a block from 10 to 20, in which local 0 was set or not. */
    behindBlock(setAt: number, hasResult = false) {
      Object.assign(blocks, { joinStart: 10, joinEnd: 20, joinsResults: hasResult })
      conditions.set(0, setAt)
      conditions.add(blocks, 0, 21)
    },
  }
}

test('conditions that are joined values count by the square of each run', () => {
  const { conditions, behindBlock } = begin()
  for (const setAt of [15, 10, 19]) behindBlock(setAt)
  expect(conditions.joinedSquares).toBe(3 ** 2)
  for (const setAt of [9, 20]) behindBlock(setAt) // set before and behind the block
  expect(conditions.joinedSquares).toBe(3 ** 2)
  for (const setAt of [15, 16]) behindBlock(setAt)
  expect([conditions.joinedSquares, conditions.count]).toEqual([3 ** 2 + 2 ** 2, 7])
})

test('the result of a block is a joined value, in a local or on the stack', () => {
  const { blocks, conditions, behindBlock } = begin()
  behindBlock(20, true)
  Object.assign(blocks, { joinEnd: 20 })
  conditions.add(blocks, undefined, 20)
  expect(conditions.joinedSquares).toBe(2 ** 2)
  Object.assign(blocks, { joinEnd: 20 })
  conditions.add(blocks, undefined, 21) // other instructions are between
  expect(conditions.joinedSquares).toBe(2 ** 2)
})

test('a block counts for one condition only', () => {
  const { blocks, conditions, behindBlock } = begin()
  behindBlock(15)
  conditions.add(blocks, 0, 30)
  expect(conditions.joinedSquares).toBe(1)
})

test('a local that was a condition is one again, until it is set', () => {
  const { blocks, conditions } = begin()
  for (const at of [5, 6, 7]) conditions.add(blocks, 1, at)
  conditions.add(blocks, 0, 8)
  expect(conditions.repeated).toBe(2)
  conditions.set(1, 9)
  conditions.add(blocks, 1, 10)
  expect(conditions.repeated).toBe(2)
  conditions.add(blocks, 1, 11)
  expect(conditions.repeated).toBe(3)
})

test.each([2, 1_000])('each function begins with nothing, if it has %i locals', (locals) => {
  const { blocks, conditions, behindBlock } = begin()
  behindBlock(15)
  conditions.add(blocks, 0, 30)
  conditions.begin(locals)
  expect(conditions).toMatchObject({ count: 0, joinedSquares: 0, repeated: 0 })
  conditions.add(blocks, 0, 5)
  expect(conditions.repeated).toBe(0)
  Object.assign(blocks, { joinStart: 10, joinEnd: 20, joinsResults: false })
  conditions.add(blocks, 0, 21)
  expect(conditions.joinedSquares).toBe(0)
})
