import fc from 'fast-check'
import { expect, test } from 'vitest'
import { makeInterruptible } from '../../../src/module/interruptible.ts'
import { readModule } from '../../../src/module/module.ts'
import { CHECK_EXPORT } from '../../../src/module/names.ts'
import { guestBytes } from '../../support/guest.ts'
import { runs } from '../../support/runs.ts'

/*
 * Random programs do the same when they are interruptible, and check in time. They count their turns down to a limit, at which
 * they trap.
 */

/** Text of a program. @param labels - Number of blocks around it. */
type Code = (labels: number) => string

const FUNCTIONS = 3
const LOCALS = 4
const MAX_TURNS = 1_000_000
const MAX_DEPTH = 40

/** Programs with functions that call each other run at most so many turns without a check: see `UNIT` and `MAX_WORK`. */
const UNCHECKED_TURNS = 500_000

/** The same for a program with one loop. */
const UNCHECKED_TURNS_OF_LOOP = 1_024

const local = fc.nat(LOCALS - 1)
const step = fc.constantFrom(1, -1, 3, 8, 1_024, 1 << 22, 1 << 23, -(2 ** 31))

/** Statements with or without inner loops and calls. */
function statements(isOneLoop: boolean): fc.Arbitrary<Code> {
  const { list } = fc.letrec<{ value: Code; list: Code; statement: Code }>((tie) => {
    const [value, list] = [tie('value'), tie('list')]
    const simple: fc.Arbitrary<Code>[] = [
      fc.tuple(local, step).map(
        ([at, by]) =>
          () =>
            `(local.set ${at} (i32.add (local.get ${at}) (i32.const ${by})))`,
      ),
      fc.tuple(local, local, step).map(
        ([to, at, by]) =>
          () =>
            `(local.set ${to} (i32.sub (local.get ${at}) (i32.const ${by})))`,
      ),
      fc.tuple(local, value).map(
        ([to, from]) =>
          (labels) =>
            `(local.set ${to} ${from(labels)})`,
      ),
      fc.tuple(value, value).map(
        ([at, of]) =>
          (labels) =>
            `(i32.store ${at(labels)} ${of(labels)})`,
      ),
      fc.tuple(value, fc.nat()).map(
        ([when, to]) =>
          (labels) =>
            `(br_if ${to % labels} ${when(labels)})`,
      ),
      fc.nat().map((to) => (labels) => `(br ${to % labels})`),
      fc.tuple(value, fc.array(fc.nat(), { minLength: 1, maxLength: 3 })).map(
        ([of, to]) =>
          (labels) =>
            `(br_table ${to.map((label) => label % labels).join(' ')} ${of(labels)})`,
      ),
      value.map((when) => (labels) => `(if ${when(labels)} (then (return ${when(labels)})))`),
    ]
    const nested: fc.Arbitrary<Code>[] = [
      list.map((body) => (labels) => `(block ${body(labels + 1)})`),
      fc.tuple(value, list, list).map(
        ([when, then, other]) =>
          (labels) =>
            `(if ${when(labels)} (then ${then(labels + 1)}) (else ${other(labels + 1)}))`,
      ),
    ]
    const calling: fc.Arbitrary<Code>[] = [
      loopOf(list, value),
      fc.tuple(local, fc.nat(FUNCTIONS - 1), value).map(
        ([to, of, from]) =>
          (labels) =>
            `(local.set ${to} (call $f${of} ${from(labels)}))`,
      ),
      fc.tuple(value, fc.constantFrom(0, 1, 5_000)).map(
        ([at, length]) =>
          (labels) =>
            `(memory.fill ${at(labels)} (i32.const 7) (i32.const ${length}))`,
      ),
    ]
    return {
      value: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(0, 1, 2, 1_000, 65_000).map((number) => () => `(i32.const ${number})`),
        local.map((at) => () => `(local.get ${at})`),
        fc.tuple(fc.constantFrom('add', 'mul', 'and', 'lt_u', 'eq', 'div_u', 'rem_u'), value, value).map(
          ([name, a, b]) =>
            (labels: number) =>
              `(i32.${name} ${a(labels)} ${b(labels)})`,
        ),
        value.map((at) => (labels: number) => `(i32.load (i32.and ${at(labels)} (i32.const 65532)))`),
      ),
      statement: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        ...simple,
        ...nested,
        ...(isOneLoop ? [] : calling),
      ),
      list: fc
        .array(tie('statement'), { minLength: 1, maxLength: 5 })
        .map((all) => (labels) => all.map((each) => each(labels)).join('\n')),
    }
  })
  return list
}

/** A loop that counts a turn at its start, and mostly continues at its end. */
function loopOf(body: fc.Arbitrary<Code>, value: fc.Arbitrary<Code>): fc.Arbitrary<Code> {
  const again = fc.option(value, { freq: 1 })
  return fc.tuple(body, again).map(
    ([code, when]) =>
      (labels) =>
        `(loop ${TURN} ${code(labels + 1)} (br_if 0 ${when?.(labels + 1) ?? '(i32.const 1)'}))`,
  )
}

const TURN = `(global.set $turns (i32.add (global.get $turns) (i32.const 1)))
  (if (i32.gt_u (global.get $turns) (i32.const ${MAX_TURNS})) (then (unreachable)))`

function program(functions: readonly Code[]): string {
  const bodies = functions.map(
    (code, place) => `(func $f${place} (export "f${place}") (param i32) (result i32) (local i32 i32 i32)
      (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
      (if (i32.gt_u (global.get $depth) (i32.const ${MAX_DEPTH})) (then (return (i32.const 0))))
      ${TURN}
      (block ${code(1)})
      (global.set $depth (i32.sub (global.get $depth) (i32.const 1)))
      (local.get 1))`,
  )
  return `(module (memory (export "memory") 1) (global $depth (mut i32) (i32.const 0))
    (global $turns (export "turns") (mut i32) (i32.const 0)) ${bodies.join('\n')})`
}

/** Runs the first function of a program. */
function run(bytes: Uint8Array) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource))
  const { f0, memory, turns } = exports
  const table = exports[CHECK_EXPORT.table]
  const counting = new WebAssembly.Instance(new WebAssembly.Module(COUNTING as BufferSource)).exports
  if (table instanceof WebAssembly.Table) table.set(0, counting.check)
  if (typeof f0 !== 'function' || !(memory instanceof WebAssembly.Memory)) throw new Error('no program')
  let result: unknown
  try {
    result = f0(3)
  } catch (error) {
    result = String(error)
  }
  const number = (value: unknown) => (value instanceof WebAssembly.Global ? Number(value.value) : 0)
  const done = { result, turns: number(turns), memory: Buffer.from(memory.buffer) }
  return { done, checks: number(counting.count) }
}

const COUNTING = guestBytes(`(module (global $count (export "count") (mut i32) (i32.const 0))
  (func (export "check") (global.set $count (i32.add (global.get $count) (i32.const 1)))))`)

function expectSame(text: string, uncheckedTurns: number): void {
  const bytes = guestBytes(text)
  const made = makeInterruptible(readModule(bytes, {}, 'test'))
  if (!made) throw new Error('it cannot be interrupted')
  const [before, after] = [run(bytes), run(made.bytes)]
  expect(after.done.result, text).toBe(before.done.result)
  expect(after.done.turns, text).toBe(before.done.turns)
  expect(after.done.memory.equals(before.done.memory), text).toBe(true)
  expect(after.checks, text).toBeGreaterThanOrEqual(Math.floor(before.done.turns / uncheckedTurns))
}

test('a program with one loop does the same, and checks in time', () => {
  const code = loopOf(
    statements(true),
    fc.constant(() => '(i32.const 1)'),
  )
  fc.assert(
    fc.property(code, (loop) => expectSame(program([loop]), UNCHECKED_TURNS_OF_LOOP)),
    { numRuns: runs(150) },
  )
})

test('programs of several functions do the same, and check in time', () => {
  const functions = fc.array(statements(false), { minLength: FUNCTIONS, maxLength: FUNCTIONS })
  fc.assert(
    fc.property(functions, (all) => expectSame(program(all), UNCHECKED_TURNS)),
    { numRuns: runs(150) },
  )
})
