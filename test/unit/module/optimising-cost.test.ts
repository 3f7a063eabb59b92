import { syncBuiltinESMExports } from 'node:module'
import v8 from 'node:v8'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { leb } from '../../../src/module/bytes.ts'
import { codeOf, range } from '../../../src/module/instructions.ts'
import { readModule } from '../../../src/module/module.ts'
import { OPTIMISING_COST } from '../../../src/module/optimising-cost.ts'
import { boundOptimiser } from '../../../src/platform/node-workarounds.ts'
import { bytesOf, codeSection, list, moduleOf, repeated, section } from '../../support/module-bytes.ts'

type Code = number | readonly number[] | Uint8Array

/** A module whose third function, of the type `(i32) -> ()`, has this code; the first is imported, the second is empty. */
const moduleWith = (code: Code, locals = 4) =>
  moduleOf(
    section(1, list([0x60, 0, 0], [0x60, 1, 0x7f, 0], [0x60, 13, ...Array<number>(13).fill(0x7f), 0])),
    section(2, list([1, 0x61, 1, 0x62, 0, 0])),
    section(3, list(0, 1)),
    section(4, list([0x70, 0, 1])),
    section(5, list([0, 1])),
    section(13, list([0, 0])),
    section(9, list([3, 0, 1, 1])),
    codeSection({ code: [] }, { locals: [[locals, 0x7f]], code }),
  )

const costOf = (code: Code, locals = 4) =>
  readModule(moduleWith(code, locals), { limits: 'none' }, 'test').figures.optimisingCost

/** Of one more of them, when there are many. */
const costOfOne = (unit: readonly number[], count = 10) =>
  (costOf(repeated(2 * count, () => unit)) - costOf(repeated(count, () => unit))) / count

/** Sets a local to what an instruction makes of another. */
const unary = (...code: readonly number[]) => [0x20, 0, ...code, 0x21, 1]

/** A `br_table` into one of many blocks. Each stores a value, and ends with more code. */
const cases = (count: number, last: (place: number) => readonly number[]) =>
  bytesOf(
    repeated(count, () => [2, 0x40]),
    [0x20, 0, 0x0e],
    leb(count - 1),
    repeated(count, (place) => [...leb(place)]),
    0x0b,
    repeated(count - 1, (place) => [0x20, 0, 0x20, 0, 0x36, 2, 0, ...last(place), 0x0b]),
  )

describe('the estimated cost of optimising', () => {
  test.each<readonly [string, number, number, readonly number[]]>([
    ['an addition', 600, 900, [0x20, 0, 0x20, 0, 0x6a, 0x21, 1]],
    ['a load', 1_200, 1_500, unary(0x28, 2, 0)],
    ['a store', 1_200, 1_500, [0x20, 0, 0x20, 0, 0x36, 2, 0]],
    ['a call', 1_900, 2_500, [0x10, 1]],
    ['a call of an import', 6_000, 7_500, [0x10, 0]],
    ['an indirect call', 7_000, 8_500, [0x20, 0, 0x11, 0, 0]],
    ['a reference to a function', 7_500, 10_000, [0xd2, 1, 0x1a]],
    ['a read of a table', 11_000, 13_000, [0x20, 0, 0x25, 0, 0x1a]],
    ['a write of a table', 3_000, 4_500, [0x20, 0, 0xd0, 0x70, 0x26, 0]],
    ['a division', 4_400, 6_000, [0x20, 0, 0x20, 0, 0x6d, 0x21, 1]],
    ['a remainder', 4_400, 6_000, [0x20, 0, 0x20, 0, 0x6f, 0x21, 1]],
    ['a conversion of a float', 3_000, 4_000, unary(0xb2, 0xa8)],
    ['a saturating conversion', 12_000, 15_000, unary(0xb2, 0xfc, 0)],
    ['a filled memory', 20_000, 22_000, [0x20, 0, 0x20, 0, 0x20, 0, 0xfc, 11, 0]],
    ['a grown memory', 1_800, 4_000, [0x20, 0, 0x40, 0, 0x1a]],
    ['an atomic addition', 3_800, 5_500, [0x20, 0, 0x20, 0, 0xfe, 0x1e, 2, 0, 0x1a]],
    ['a wait', 12_000, 14_000, [0x20, 0, 0x20, 0, 0x42, 0, 0xfe, 1, 2, 0, 0x1a]],
    ['a vector', 1_200, 4_000, [0x20, 0, 0xfd, 17, 0xfd, 21, 0, 0x1a]],
    ['a loop', 60_000, 70_000, [3, 0x40, 0x0b]],
    ['an if', 2_900, 4_000, [0x41, 0, 4, 0x40, 0x0b]],
    ['a return', 2_900, 7_000, [0x41, 0, 4, 0x40, 0x0f, 0x0b]],
    ['a try that catches', 21_000, 45_000, [6, 0x40, 0x10, 0, 7, 0, 0x0b]],
    [
      'a call of 13 values',
      3_000,
      6_000,
      [
        ...Array<number>(13)
          .fill(0x20)
          .flatMap((get) => [get, 0]),
        0x11,
        2,
        0,
      ],
    ],
  ])('counts %s', (_, least, most, unit) => {
    // An indirect call of 13 values needs the index, too.
    const code = unit.at(-3) === 0x11 && unit.at(-2) === 2 ? [0x20, 0, ...unit] : unit
    const cost = costOfOne(code)
    expect(cost).toBeGreaterThan(least)
    expect(cost).toBeLessThan(code === unit ? most : 20_000)
  })

  const atomic = (first: number, last = first) => range(codeOf(0xfe, first), codeOf(0xfe, last))

  test.each<readonly [string, string, readonly number[], readonly number[]]>([
    [
      'divisions and remainders',
      'multiplications',
      [...range(0x6d, 0x70), ...range(0x7f, 0x82)],
      [0x6c, 0x7e],
    ],
    [
      'minima, maxima and signs',
      'divisions of floats',
      [...range(0x96, 0x98), ...range(0xa4, 0xa6)],
      [0x95, 0xa3],
    ],
    ['floats to integers', 'integers to integers', [...range(0xa8, 0xab), ...range(0xae, 0xb1)], [0xa7]],
    [
      'floats to integers, saturating',
      'such that trap',
      range(codeOf(0xfc, 0), codeOf(0xfc, 7)),
      [0xa8, 0xb1],
    ],
    ['memories and tables in bulk', 'indirect calls', range(codeOf(0xfc, 8), codeOf(0xfc, 17)), [0x11, 0x13]],
    ['vectors', 'arithmetic', range(codeOf(0xfd, 13), codeOf(0xfd, 0x113)), [0x6a, 0x7c]],
    ['atomic accesses', 'loads and stores', atomic(0x10, 0x4e), range(0x28, 0x3e)],
    ['notify and wait', 'atomic accesses', atomic(0, 2), atomic(0x10, 0x4e)],
    ['calls of references', 'indirect calls', [0x14, 0x15], [0x11, 0x13]],
    ['indirect calls', 'calls', [0x11, 0x13], [0x10, 0x12]],
    ['calls at the end', 'other calls', [0x12], [0x10]],
    ['throws', 'branches', [0x08, 0x09, 0x0a], [0x0c, 0x0d, 0x0e, 0x0f]],
    ['clauses that catch', 'throws', [0x06, 0x07, 0x18, 0x19, 0x1f], [0x08, 0x09, 0x0a]],
    ['loops', 'clauses that catch', [0x03], [0x06, 0x07, 0x18, 0x19, 0x1f]],
    ['reads of a table', 'writes of a table', [0x25], [0x26]],
    ['arithmetic', 'drops', [0x6a, 0x7c, 0xa0], [0x01, 0x1a]],
    ['drops', 'blocks, locals and constants', [0x01, 0x1a], [0x02, 0x21, 0x22, ...range(0x41, 0x44)]],
  ])('of %s is more than of %s', (_, __, more, less) => {
    const costs = (codes: readonly number[]) => codes.map((code) => OPTIMISING_COST[code] ?? 0)
    expect(Math.min(...costs(more))).toBeGreaterThan(Math.max(...costs(less)))
  })

  test('counts the targets of a table of branches', () => {
    const table = (targets: number) =>
      costOf(bytesOf(2, 0x40, 0x20, 0, 0x0e, [targets, ...Array<number>(targets + 1).fill(0)], 0x0b))
    expect(table(100) - table(50)).toBeGreaterThan(50 * 1_300)
  })

  test.each<readonly [string, (count: number) => Uint8Array]>([
    [
      'conditions that join values',
      (count) => repeated(count, () => [0x20, 0, 4, 0x40, 0x20, 0, 0x41, 1, 0x6a, 0x21, 0, 0x0b]),
    ],
    [
      'such conditions with other instructions between',
      (count) => repeated(count, () => [0x01, 0x20, 0, 0x01, 0x45, 4, 0x40, 0x41, 1, 0x21, 0, 0x0b, 0x01]),
    ],
    [
      'results of blocks that are conditions',
      (count) =>
        bytesOf(
          0x20,
          0,
          repeated(count, () => [4, 0x7f, 0x41, 1, 5, 0x20, 1, 0x0b]),
          0x1a,
        ),
    ],
    [
      'branches',
      (count) => repeated(count, () => Array<number[]>(16).fill([0x41, 0, 0x28, 2, 0, 4, 0x40, 0x0b]).flat()),
    ],
    [
      'branches out of ifs that nothing else leaves',
      (count) =>
        bytesOf(
          2,
          0x40,
          repeated(count, (place) => [0x20, 0, 0x41, place % 64, 0x46, 4, 0x40, 0x0c, 1, 0x0b]),
          0x0b,
        ),
    ],
    ['conditions that are known', (count) => repeated(count, () => [0x20, 0, 4, 0x40, 0x0b])],
    [
      'branches to a loop',
      (count) =>
        bytesOf(
          3,
          0x40,
          repeated(count, () => [0x20, 0, 0x0d, 0]),
          0x0b,
        ),
    ],
    [
      'clauses that catch',
      (count) =>
        bytesOf(
          6,
          0x40,
          repeated(count, () => [7, 0]),
          0x0b,
        ),
    ],
    [
      'calls in a try',
      (count) =>
        bytesOf(
          6,
          0x40,
          repeated(count, () => [0x10, 1]),
          0x19,
          0x0b,
        ),
    ],
    ['indirect calls', (count) => repeated(count, () => [0x20, 0, 0x11, 0, 0])],
    ['reads of a table', (count) => repeated(count, () => [0x20, 0, 0x25, 0, 0x1a])],
    ['writes of a table', (count) => repeated(count, () => [0x20, 0, 0xd0, 0x70, 0x26, 0])],
    ['filled memories', (count) => repeated(count, () => [0x20, 0, 0x20, 0, 0x20, 0, 0xfc, 11, 0])],
    ['copied memories', (count) => repeated(count, () => [0x20, 0, 0x20, 0, 0x20, 0, 0xfc, 10, 0, 0])],
    ['saturating conversions', (count) => repeated(count, () => unary(0xb2, 0xfc, 0))],
    ['selected values', (count) => repeated(count, () => [0x20, 0, 0x20, 0, 0x20, 0, 0x1b, 0x1a])],
    [
      'selected values of a type',
      (count) => repeated(count, () => [0x20, 0, 0x20, 0, 0x20, 0, 0x1c, 1, 0x7f, 0x1a]),
    ],
    ['loads', (count) => repeated(count, () => unary(0x28, 2, 0))],
    ['calls', (count) => repeated(count, () => [0x10, 1])],
    [
      'blocks in one another',
      (count) =>
        bytesOf(
          repeated(count, () => [2, 0x40]),
          repeated(count, () => [0x0b]),
        ),
    ],
    [
      'loops in one another',
      (count) =>
        bytesOf(
          repeated(count, () => [3, 0x40]),
          repeated(count, () => [0x0b]),
        ),
    ],
    [
      'branches to one end',
      (count) =>
        bytesOf(
          2,
          0x40,
          repeated(count, () => [0x20, 0, 0x0d, 0]),
          0x0b,
        ),
    ],
    [
      'targets that continue at one end',
      (count) => cases(count, (place) => [0x0c, ...leb(count - place - 2)]),
    ],
  ])('grows with the square of %s', (_, code) => {
    const [once = 0, twice = 0, again = 0] = [500, 1_000, 2_000].map((count) => costOf(code(count)))
    const square = twice - 2 * once
    expect(square).toBeGreaterThan(0)
    expect((again - 2 * twice) / square).toBeGreaterThan(3.5)
  })

  test('code that returns is on no way to an end', () => {
    expect(costOf(cases(4_000, () => [0x0f]))).toBeLessThan(100_000_000)
  })

  test('code behind an end is on all ways to the next one if only one way leads to it', () => {
    const load = unary(0x28, 2, 0)
    const branch = [0x20, 0, 4, 0x40, 0x0c, 1, 0x0b]
    const blocks = (end: readonly number[]) =>
      costOf(
        bytesOf(
          [2, 0x40],
          repeated(500, () => [2, 0x40, ...branch, ...end, 0x0b, ...Array(20).fill(load).flat(), ...branch]),
          0x0b,
        ),
      )
    // The end of each block is reached by the branch only, or also by what is before it.
    expect(blocks([0x0f])).toBeGreaterThan(2 * blocks([0x01]))
  })

  test('code behind an instruction with a slow path is on all ways to the next end, too', () => {
    const loads = Array(20)
      .fill(unary(0x28, 2, 0))
      .flat()
    const blocks = (first: readonly number[]) =>
      costOf(
        bytesOf(
          [2, 0x40],
          repeated(500, () => [...first, ...loads, 0x20, 0, 0x0d, 0]),
          0x0b,
        ),
      )
    expect(blocks([0x20, 0, 0x25, 0, 0x1a])).toBeGreaterThan(2 * blocks([0x20, 0, 0x1a]))
  })

  test('a condition that is known costs more, whichever local it is', () => {
    const ifs = (localAt: (place: number) => number) =>
      costOf(
        repeated(500, (place) => [0x20, ...leb(localAt(place)), 4, 0x40, 0x0b]),
        1_000,
      )
    expect(ifs(() => 1_000)).toBe(ifs(() => 1))
    expect(ifs(() => 1)).toBeGreaterThan(ifs((place) => place) + 500 ** 2)
  })

  test('code before a try leads to none of its clauses', () => {
    const before = repeated(1_000, () => unary(0x28, 2, 0))
    const tries = bytesOf(
      [6, 0x40],
      repeated(100, () => [0x10, 1]),
      [0x19, 0x0b],
    )
    expect(costOf(bytesOf(before, tries))).toBeLessThan(1.5 * (costOf(before) + costOf(tries)))
  })

  test('a function of a megabyte of calls is refused, and all functions together have a limit', () => {
    const calls = new Uint8Array(1_000_000).map((_, place) => (place % 2 === 0 ? 0x10 : 1))
    expect(() => readModule(moduleWith(calls), {}, 'test')).toThrow(
      /function 2 has \d+ units of cost .*--module-limit optimisingCost=/,
    )
    const limits = { allOptimisingCost: 1_000_000 }
    const few = moduleWith(repeated(1_000, () => [0x10, 1]))
    expect(() => readModule(few, { limits }, 'test')).toThrow(/the module has \d+ units .*allOptimisingCost=/)
  })

  test('the message has the flags that accept the module', () => {
    const bytes = moduleWith(new Uint8Array(600_000).map((_, place) => (place % 2 === 0 ? 0x10 : 1)))
    const limits = { allOptimisingCost: 1_000_000, allCallValues: 0 }
    let message = ''
    try {
      readModule(bytes, { limits }, 'test')
    } catch (error) {
      message = String(error)
    }
    const flags = [...message.matchAll(/--module-limit (\w+)=(\d+)/g)].map(([, name, value]) => [
      name,
      Number(value),
    ])
    expect(flags.map(([name]) => name)).toEqual(['optimisingCost', 'allOptimisingCost'])
    expect(() =>
      readModule(bytes, { limits: { ...limits, ...Object.fromEntries(flags) } }, 'test'),
    ).not.toThrow()
  })
})

test('V8 optimises one function at a time, and copies no values into branches', () => {
  const flags: string[] = []
  const set = vi.spyOn(v8, 'setFlagsFromString').mockImplementation((flag) => void flags.push(flag))
  onTestFinished(() => {
    set.mockRestore()
    syncBuiltinESMExports()
  })
  syncBuiltinESMExports()
  boundOptimiser()
  expect(flags).toEqual(['--wasm-num-compilation-tasks=1', '--no-turbo-splitting'])
})
