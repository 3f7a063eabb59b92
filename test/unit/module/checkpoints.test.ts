import { describe, expect, test } from 'vitest'
import { findCheckpoints, type LoopCheck } from '../../../src/module/checkpoints.ts'
import { CodeScan } from '../../../src/module/code-scan.ts'
import { readModule } from '../../../src/module/module.ts'
import { guestBytes } from '../../support/guest.ts'

function viewOf(functions: string) {
  const view = readModule(
    guestBytes(`(module (memory 1) (table 1 funcref) (type $t (func)) ${functions})`),
    {},
    'test',
  )
  if (!view.bodies) throw new Error('its code was not read')
  return { ...view, bodies: view.bodies }
}

const checkpointsOf = (functions: string) => findCheckpoints(viewOf(functions))

/** What checks the loops of a function with these instructions. Its local 0 counts, its local 1 says whether a loop goes on. */
const loopsOf = (code: string) => checkpointsOf(`(func (param i32 i32) ${code}) (func $leaf)`).loopsOf(0)

const GO_ON = '(br_if 0 (local.get 1))'
const loop = (code: string) => `(loop ${code} ${GO_ON})`
const step = (by: number, local = 0, of = 'add') =>
  `(local.set ${local} (i32.${of} (local.get ${local}) (i32.const ${by})))`

function whenOf(code: string): LoopCheck['when'] | undefined {
  return loopsOf(code)[0]?.when
}

const TURNS = 512

describe('a loop that adds a number to a local', () => {
  test.each([
    1,
    -1,
    2,
    3,
    8,
    -12,
    1 << 22,
    1 << 23,
  ])('checks once in so many turns, by the local: %i', (by) => {
    for (const of of ['add', 'sub']) {
      const when = whenOf(loop(step(by, 0, of)))
      if (!when || !('mask' in when)) throw new Error('it does not use the local')
      expect(when.local).toBe(0)
      for (const start of [0, 1, 77, -1_000_000, 2 ** 31 - 5]) {
        const values = Array.from({ length: TURNS }, (_, turn) => start + turn * by)
        // As 32 bits: the bits of a product beyond 2 ** 53 do not matter here.
        const checks = values.filter((value) => (Number(BigInt.asIntN(32, BigInt(value))) & when.mask) === 0)
        expect(checks).toHaveLength(1)
      }
    }
  })

  test.each([
    ['that has too few other values', step(1 << 24)],
    ['that is nothing', step(0)],
    ['in some turns only', `(if (local.get 1) (then ${step(1)}))`],
    ['and sets it', `${step(1)} (local.set 0 (local.get 1))`],
    ['and may set it', `${step(1)} (if (local.get 1) (then (local.set 0 (local.get 1))))`],
    [
      'and sets it behind a block that a branch leaves',
      `(block (local.set 0 (local.get 1)) (br_if 0 (local.get 1))) ${step(1)}`,
    ],
    ['of another local', '(local.set 0 (i32.add (local.get 1) (i32.const 1)))'],
    ['behind something else', '(local.set 0 (i32.add (i32.const 1) (local.get 0)))'],
  ])('counts its turns if it is a number %s', (_, code) => {
    expect(whenOf(loop(code))).toEqual({ turns: TURNS })
  })

  test('uses the local though code that leaves the loop sets it', () => {
    const leaving = `(block ${loop(`${step(1)} (if (local.get 1) (then (local.set 0 (i32.const 9)) (br 2)))`)})`
    expect(whenOf(leaving)).toMatchObject({ local: 0 })
  })

  test('uses the local that has a step', () => {
    expect(whenOf(loop(`(local.set 0 (local.get 1)) ${step(1, 1)}`))).toMatchObject({ local: 1 })
  })
})

test('the work of a loop that counts its own turns is not that of the entry', () => {
  const loads = '(drop (i32.load (local.get 0)))'.repeat(1_000)
  const entryOf = (code: string) => checkpointsOf(`(func (param i32 i32) ${code}) (func $leaf)`).atEntry(0)
  expect(entryOf(loop(`${loads} (call $leaf)`))).toBe(0)
  expect(entryOf(`(loop ${loads})`)).toBe(0) // has one turn
  expect(entryOf(loop(loads))).toBeGreaterThan(0)
})

test('a local that a loop sets again and again is noted once: it is looked for at each set', () => {
  const sets = '(local.set 0 (local.get 1))'.repeat(100)
  const [found] = new CodeScan(viewOf(`(func (param i32 i32) ${loop(sets)})`)).read(0).loops
  expect(found?.others.map(({ local }) => local)).toEqual([0])
})

describe('a loop', () => {
  test('with one turn needs no check', () => {
    expect(loopsOf('(loop (nop))')).toEqual([undefined])
  })

  test('with more work in a turn checks after fewer turns: a power of 2', () => {
    const turnsOf = (loads: number) => {
      const when = whenOf(loop(`${step(1)} ${'(drop (i32.load (local.get 0)))'.repeat(loads)}`))
      return when && 'turns' in when ? when.turns : undefined
    }
    const found = [400, 800, 1_600].map(turnsOf)
    const [first = 0] = found
    expect(first).toBeLessThan(TURNS)
    expect(Math.log2(first) % 1).toBe(0)
    expect(found).toEqual([first, first / 2, first / 4])
    expect(turnsOf(10)).toBeUndefined() // by the local
  })

  test.each([
    ['calls', '(call $leaf)'],
    ['calls through a table', '(call_indirect (type $t) (local.get 0))'],
    ['has a loop', loop(step(1))],
    ['fills memory', '(memory.fill (local.get 0) (local.get 0) (local.get 0))'],
  ])('that %s counts units, as entries of functions do', (_, code) => {
    const when = whenOf(loop(code))
    expect(when).toEqual({ units: expect.any(Number) })
    expect(when && 'units' in when && when.units).toBeGreaterThan(0)
  })

  test('that calls what reports a panic is still a loop without calls', () => {
    expect(whenOf(loop(`(if (local.get 1) (then (call $leaf) (unreachable)))`))).toEqual({ turns: TURNS })
  })

  test.each([
    [1, 1],
    [2, 2],
    [3, 0],
  ])('with %i branches to its start has %i checks before them, and else one at its start', (branches, checks) => {
    const [check] = loopsOf(`(loop ${step(1)} ${GO_ON.repeat(branches)})`)
    expect(check?.branches).toHaveLength(checks)
    expect(check?.end !== undefined).toBe(checks > 0)
  })

  test.each([
    ['a table of branches leads', `(loop ${step(1)} (br_table 0 0 (local.get 1)))`, 0],
    ['a parameter leads', `(local.get 1) (loop (param i32) (br_if 0 (local.get 0)) (drop))`, 0],
  ])('to whose start %s checks at its start', (_, code, checks) => {
    expect(loopsOf(code)[0]?.branches).toHaveLength(checks)
  })
})

describe('a function', () => {
  const atEntry = (functions: string, place = 0) => checkpointsOf(functions).atEntry(place)
  const LOADS = '(drop (i32.load (i32.const 0)))'

  test.each([
    ['does little', '(func)'],
    ['calls what does little', '(func (call 1)) (func)'],
    ['reads much', `(func ${LOADS.repeat(1_000)})`],
  ])('that %s counts nothing at its entry', (_, functions) => {
    expect(atEntry(functions)).toBe(0)
  })

  test.each([
    ['calls itself', '(func (call 0))'],
    ['calls through a table', '(func (call_indirect (type $t) (i32.const 0)))'],
    ['fills memory often', `(func ${'(memory.fill (i32.const 0) (i32.const 0) (i32.const 9))'.repeat(60)})`],
    ['has loops that read much', `(func (param i32) ${loop(LOADS.repeat(100)).replace('1)', '0)')})`],
    ['calls many that read much', `(func ${'(call 1)'.repeat(30)}) (func ${LOADS.repeat(1_000)})`],
  ])('that %s counts at its entry', (_, functions) => {
    expect(atEntry(functions)).toBeGreaterThan(0)
  })

  test('of a cycle: at least one counts at its entry', () => {
    const cycle = checkpointsOf('(func (call 1)) (func (call 2)) (func (call 0))')
    expect([0, 1, 2].filter((place) => cycle.atEntry(place) > 0).length).toBeGreaterThan(0)
  })
})
