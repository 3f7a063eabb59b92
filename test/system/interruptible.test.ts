import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ByteReader } from '../../src/module/bytes.ts'
import { makeInterruptible } from '../../src/module/interruptible.ts'
import { capMemory } from '../../src/module/memory-cap.ts'
import { mergeKernel, planMerge } from '../../src/module/merge.ts'
import { findSections, readModule } from '../../src/module/module.ts'
import { HINTS_NAME, SECTION } from '../../src/module/module-view.ts'
import { CHECK_EXPORT } from '../../src/module/names.ts'
import { guestBytes } from '../support/guest.ts'
import { runs } from '../support/runs.ts'

function interruptible(bytes: Uint8Array) {
  const view = makeInterruptible(readModule(bytes, {}, 'test'))
  if (!view) throw new Error('it cannot be interrupted')
  return view
}

/** A function that guests call to check: it traps when it has been called so often. */
function checkThatTraps(after: number): {
  readonly check: WebAssembly.ExportValue
  readonly count: () => number
} {
  const bytes =
    guestBytes(`(module (global $left (mut i32) (i32.const ${after})) (global $count (export "count") (mut i32) (i32.const 0))
    (func (export "check")
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (if (i32.gt_u (global.get $count) (global.get $left)) (then (unreachable)))))`)
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource))
  const { check, count } = exports
  if (!check || !(count instanceof WebAssembly.Global)) throw new Error('no check')
  return { check, count: () => count.value }
}

/** An instance whose check traps after so many calls. */
function open(bytes: Uint8Array, after = 20) {
  const made = checkThatTraps(after)
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource))
  const table = exports[CHECK_EXPORT.table]
  if (!(table instanceof WebAssembly.Table)) throw new Error('no table')
  table.set(0, made.check)
  const call = (name: string, ...args: unknown[]) => {
    const run = exports[name]
    if (typeof run !== 'function') throw new Error('no function')
    return run(...args)
  }
  return { call, count: made.count, exports }
}

/** Each does not return. */
const ENDLESS = {
  'an empty loop': '(func (export "run") (loop $l (br $l)))',
  'nested loops': '(func (export "run") (loop $a (loop $b (br_if $b (i32.const 0))) (br $a)))',
  'a loop that steps through numbers': `(func (export "run") (local $i i32)
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop that steps down by an even number': `(func (export "run") (local $i i32)
    (loop $l (local.set $i (i32.sub (local.get $i) (i32.const 24))) (br $l)))`,
  'a loop that sets back what it counts': `(func (export "run") (local $i i32)
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (block $b (br_if $b (i32.const 0)) (local.set $i (i32.const 0))) (br $l)))`,
  'a loop that sets back what it counts, in a block that it leaves to an inner label': `(func (export "run") (local $i i32)
    (loop $l
      (block $b (local.set $i (i32.const 0)) (br_if $b (i32.const 1)) (return))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop that steps in one of two ways only': `(func (export "run") (local $i i32)
    (loop $l (if (i32.const 1) (then) (else (local.set $i (i32.add (local.get $i) (i32.const 1))))) (br $l)))`,
  'a loop that steps forth and back': `(func (export "run") (local $i i32)
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop that steps in a block, and back behind it': `(func (export "run") (local $i i32)
    (loop $l (block $b (br_if $b (i32.const 0)) (local.set $i (i32.add (local.get $i) (i32.const 1))))
      (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop that sets back what it counts in a block, and may return in another': `(func (export "run") (local $i i32)
    (loop $l (block (local.set $i (i32.const 0))) (if (i32.const 0) (then (return)))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop that steps behind the branch to its start': `(func (export "run") (local $i i32)
    (loop $l (br_if $l (i32.const 1)) (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $l)))`,
  'a loop with a switch': `(func (export "run") (local $i i32)
    (loop $l (block $a (block $b (br_table $l $a $b (local.get $i)))) (br $l)))`,
  'a loop that branches to its start in three places': `(func (export "run") (param $i i32)
    (loop $l (br_if $l (local.get $i)) (br_if $l (i32.eqz (local.get $i))) (br $l)))`,
  'a loop that branches to its start in a block, with a value of what is around it': `(func (export "run") (result i32) (local $i i32)
    (block $out (result i32) (i32.const 7)
      (loop $l (block (block (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $out (i32.const 8) (i32.const 0)) (drop) (br_table 2 2 (i32.const 0))))
        (br_if $out (i32.const 9) (i32.const 0)) (drop) (br $l))))`,
  'a loop whose inner loop continues it': `(func (export "run")
    (loop $a (loop $b (loop $c (br $b)))))`,
  'a loop with a result': `(func (export "run") (result i32)
    (loop $l (result i32) (br_if $l (i32.const 1)) (i32.const 1)))`,
  'a loop with parameters':
    '(func (export "run") (i32.const 1) (loop $l (param i32) (result i32) (br $l)) (drop))',
  'a loop that catches': `(tag $t) (func $f (throw $t))
    (func (export "run") (loop $l (try (do (call $f)) (catch_all (br $l)))))`,
  'a loop that sets back what it counts, and throws': `(tag $t) (func (export "run") (local $i i32)
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (try (do (local.set $i (i32.const 0)) (if (i32.const 1) (then (throw $t))) (return)) (catch_all))
      (br $l)))`,
  'a loop in a handler': `(tag $t)
    (func (export "run") (try (do (throw $t)) (catch_all (loop $l (br $l)))))`,
  'a loop that calls': '(func $f) (func (export "run") (loop $l (call $f) (br $l)))',
  'a loop that calls through a table': `(table funcref (elem $f)) (func $f)
    (func (export "run") (loop $l (call_indirect (i32.const 0)) (br $l)))`,
  'a function that calls itself last': '(func $f (export "run") (return_call $f))',
  'two functions that call each other last': `(func $f (export "run") (return_call $g)) (func $g (return_call $f))`,
  'a function that calls itself last through a table': `(table funcref (elem $f)) (type $t (func))
    (func $f (export "run") (return_call_indirect (type $t) (i32.const 0)))`,
  'a function that calls itself twice': `(func $f (param i32) (if (local.get 0)
      (then (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 1))))))
    (func (export "run") (call $f (i32.const 60)))`,
  'functions that call the next one twice': `${Array.from({ length: 60 }, (_, n) => `(func $f${n} ${`(call $f${n + 1})`.repeat(2)})`).join('\n')}
    (func $f60) (func (export "run") (call $f0))`,
  'a loop that fills memory': `(memory 16) (func (export "run")
    (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 1000000)) (br $l)))`,
  'a loop that fills a table': `(table 10000 funcref) (func (export "run")
    (loop $l (table.fill (i32.const 0) (ref.null func) (i32.const 10000)) (br $l)))`,
  'a loop that grows memory by nothing': `(memory 1) (func (export "run")
    (loop $l (drop (memory.grow (i32.const 0))) (br $l)))`,
  'a loop of vectors': `(func (export "run") (local $v v128)
    (loop $l (local.set $v (i32x4.add (local.get $v) (local.get $v))) (br $l)))`,
  'a loop of atomic instructions': `(memory 1 1 shared) (func (export "run")
    (loop $l (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1))) (br $l)))`,
}

test.each(Object.entries(ENDLESS))('%s ends when its check traps', (_what, text) => {
  const { call, count } = open(interruptible(guestBytes(`(module ${text})`)).bytes)
  expect(() => call('run')).toThrow(WebAssembly.RuntimeError)
  expect(count()).toBe(21)
})

/** Each returns numbers, from loops whose branches lead out of them in several ways. */
const LEAVING = `(module (func (export "run") (param $n i32) (result i32) (local $i i32) (local $sum i32)
  (block $out (result i32) (block $two (block $one
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (block $b
        (br_if $b (i32.and (local.get $i) (i32.const 1)))
        (local.set $sum (i32.add (local.get $sum) (local.get $i)))
        (br_if $out (i32.const -1) (i32.gt_u (local.get $sum) (i32.const 9000000)))
        (drop)
        (if (i32.gt_u (local.get $i) (local.get $n))
          (then (br_table $b $one $two $l (i32.rem_u (local.get $n) (i32.const 3))))))
      (br_if $l (i32.lt_u (local.get $i) (i32.const 5000)))))
    (br $out (i32.add (local.get $sum) (i32.const 1))))
    (i32.add (local.get $sum) (i32.const 2)))))`

/** Inner loops that continue what is around them. */
const CONTINUING = `(module (func (export "run") (param $n i32) (result i32) (local $i i32) (local $outer i32)
  (loop $a
    (local.set $outer (i32.add (local.get $outer) (i32.const 1)))
    (block (block
      (loop $b
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $a (i32.lt_u (local.get $i) (local.get $n)))
        (if (i32.eq (local.get $i) (i32.const 700)) (then (br $a)))
        (br_if $b (i32.lt_u (local.get $i) (i32.const 1500)))))))
  (i32.add (i32.mul (local.get $outer) (i32.const 10000)) (local.get $i))))`

test.each([
  ['is left in several ways', LEAVING],
  ['continues another one', CONTINUING],
])('a loop that %s returns what it did', (_what, text) => {
  const bytes = guestBytes(text)
  const plain = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource)).exports.run
  const { call } = open(interruptible(bytes).bytes, 0x7fff_ffff)
  if (typeof plain !== 'function') throw new Error('no function')
  for (const n of [0, 1, 2, 511, 512, 1_000, 1_024, 1_025, 4_998, 4_999, 6_000, 9_000])
    expect(call('run', n), `${n}`).toBe(plain(n))
})

/** Loops that continue by the handler of a `try_table`, which the assembler does not know. */
test.for([
  ['only', ''],
  ['or by a branch', '41000d00'],
])('a loop that continues by a handler, %s, ends when its check traps', ([, branch = ''], { skip }) => {
  const body = `000340${branch}1f4001020008000b0b0b`
  const size = (bytes: number) => bytes.toString(16).padStart(2, '0')
  const code = `0a${size(body.length / 2 + 2)}01${size(body.length / 2)}${body}`
  const run = Buffer.from('run').toString('hex')
  const bytes = Buffer.from(`0061736d01000000010401600000030201000d0301000007070103${run}0000${code}`, 'hex')
  if (!WebAssembly.validate(bytes)) skip('this version has no try_table')
  expect(() => open(interruptible(bytes).bytes).call('run')).toThrow(WebAssembly.RuntimeError)
})

/** Nested loops that count in locals, in a function that is called: each call begins anew. */
const nested = (code: string) => `(global $n (mut f64) (f64.const 3)) (func $h (local $i i32) (local $j i32)
  (loop $a (local.set $i (i32.const 1))
    (loop $b ${code} (br_if $b (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 511))))
    (br_if $a (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 126)))))`
const ROOTS = `(global.set $n (f64.add (global.get $n) ${'(f64.sqrt '.repeat(200)}(global.get $n)${')'.repeat(200)}))`

test.each([
  ['a loop', `(func (export "run") (loop $l ${'(call $h)'.repeat(100)} (br $l)))`],
  ['itself', '(func $r (export "run") (call $h) (return_call $r))'],
  [
    'a table',
    '(table funcref (elem $h)) (func (export "run") (loop $l (call_indirect (i32.const 0)) (br $l)))',
  ],
  ['a loop of one turn in a loop', '(func (export "run") (loop $l (loop $once (call $h)) (br $l)))'],
])('a function that works for long is checked in time, called by %s', (_what, text) => {
  const { call } = open(interruptible(guestBytes(`(module ${nested(ROOTS)} ${text})`)).bytes, 20)
  const begun = performance.now()
  expect(() => call('run')).toThrow(WebAssembly.RuntimeError)
  expect(performance.now() - begun).toBeLessThan(20_000) // minutes if calls did not add up
})

test('an inner loop is work of the loop that repeats it, not of one around it that has one turn', () => {
  const inner = `(local.set $i (i32.const 1))
    (loop $b ${ROOTS.replaceAll('f64.sqrt', 'f64.neg')}
      (br_if $b (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 511))))`
  const countOf = (code: string) => {
    const text = `(module (global $n (mut f64) (f64.const 3)) (func (export "run") (local $i i32) (local $j i32)
      (loop $a ${code} (br_if $a (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 500))))))`
    const { call, count } = open(interruptible(guestBytes(text)).bytes, 0x7fff_ffff)
    call('run')
    return count()
  }
  expect(countOf(inner)).toBeGreaterThan(4)
  expect(countOf(`(loop $once ${inner})`)).toBe(countOf(inner))
})

/** A function that takes 4,000 turns, each loop of which ends before it checks. */
const TURNS = `(func $f (local $i i32) ${`(local.set $i (i32.const 0))
  (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 1000))))`.repeat(
  4,
)})`

/** Each returns, after work of some seconds. */
const LONG = {
  'a row of calls of a function with loops': `${TURNS} (func $g ${'(call $f)'.repeat(1_000)}) (func (export "run") (call $g))`,
  'a row of calls through a table': `(table funcref (elem $f)) ${TURNS}
    (func (export "run") ${'(call_indirect (i32.const 0))'.repeat(500)})`,
  'a loop of fills, with another constant before each': `(memory 1024) (func (export "run") (local $i i32)
    (loop $l (i32.const 0) (i32.const 7) (i32.const 0x3ffffff) (br_if $l (i32.const 0)) (memory.fill)
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 8)))))`,
  'a row of fills with short constants': `(memory 1)
    (func $f ${'(memory.fill (i32.const 0) (i32.const 1) (i32.const 4096))'.repeat(100)})
    (func (export "run") ${'(call $f)'.repeat(500)})`,
  'a row of fills of a table': `(table 10 funcref) (func $f (param i32)
    ${'(table.fill (i32.const 0) (ref.null func) (local.get 0))'.repeat(50)})
    (func (export "run") ${'(call $f (i32.const 7))'.repeat(1_000)})`,
  'loops with much code in one another': `(func (export "run") (local $i i32) (local $j i32)
    (loop $o (local.set $j (i32.const 0))
      (loop $l ${'(drop (i32.mul (local.get $i) (i32.const 3)))'.repeat(500)}
        (local.set $j (i32.add (local.get $j) (i32.const 1))) (br_if $l (i32.lt_u (local.get $j) (i32.const 60))))
      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $o (i32.lt_u (local.get $i) (i32.const 2000)))))`,
}

test.each(Object.entries(LONG))('%s is checked', (_what, text) => {
  const { call, count } = open(interruptible(guestBytes(`(module ${text})`)).bytes, 0x7fff_ffff)
  call('run')
  expect(count()).toBeGreaterThan(4)
})

test('a length of 64 bits does not take back what was counted', ({ skip }) => {
  const pages = ((1n << 32n) - 60n) << 3n
  const bytes = guestBytes(`(module (memory i64 1) (func (export "run") (local $i i32) (loop $l
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 64))) (then (drop (memory.grow (i64.const ${pages})))))
    (br_if $l (i32.lt_u (local.get $i) (i32.const 10000))))))`)
  if (!WebAssembly.validate(bytes as BufferSource))
    return skip('this version has no memories with 64-bit addresses')
  const { call, count } = open(interruptible(bytes).bytes, 0x7fff_ffff)
  call('run')
  expect(count()).toBeGreaterThan(20)
})

test('a guest cannot catch the trap', () => {
  const text = `(module (func (export "run") (result i32)
    (try (result i32) (do (loop $l (br $l)) (i32.const 1)) (catch_all (i32.const 2)))))`
  const { call } = open(interruptible(guestBytes(text)).bytes)
  expect(() => call('run')).toThrow(WebAssembly.RuntimeError)
})

test('the start function runs when the host calls it', () => {
  const text = `(module (global $n (export "n") (mut i32) (i32.const 0)) (start $s)
    (func $s (global.set $n (i32.const 7))))`
  const { exports, call } = open(interruptible(guestBytes(text)).bytes)
  const { n } = exports
  expect(n).toMatchObject({ value: 0 })
  call(CHECK_EXPORT.start)
  expect(n).toMatchObject({ value: 7 })
})

test('a guest without a check computes what the original does', () => {
  const text = `(module (memory 1)
    (func $fib (export "fib") (param i32) (result i32) (if (result i32) (i32.lt_u (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
    (func (export "sum") (param $n i32) (result i32) (local $i i32) (local $s i32)
      (block $e (loop $l
        (br_if $e (i32.ge_u (local.get $i) (local.get $n)))
        (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) (local.get $i)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $l)))
      (local.get $s))
    (func (export "collatz") (param $n i32) (result i32) (local $steps i32)
      (block $e (loop $l
        (br_if $e (i32.le_u (local.get $n) (i32.const 1)))
        (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
        (if (i32.and (local.get $n) (i32.const 1))
          (then (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 3)) (i32.const 1))) (br $l)))
        (local.set $n (i32.shr_u (local.get $n) (i32.const 1)))
        (br $l)))
      (local.get $steps)))`
  const original = new WebAssembly.Instance(new WebAssembly.Module(guestBytes(text) as BufferSource)).exports
  const { call } = open(interruptible(guestBytes(text)).bytes, 0x7fff_ffff)
  fc.assert(
    fc.property(fc.constantFrom('sum', 'collatz'), fc.nat(5_000), fc.nat(18), (name, n, small) => {
      const run = original[name]
      const fib = original.fib
      expect(call(name, n)).toBe(typeof run === 'function' ? run(n) : undefined)
      expect(call('fib', small)).toBe(typeof fib === 'function' ? fib(small) : undefined)
    }),
    { numRuns: runs(50) },
  )
})

test('branch hints still name an `if` when the kernel is merged', ({ skip }) => {
  const text = `(module (import "extism:host/env" "load_u8" (func $load (param i64) (result i32))) (memory (export "memory") 1)
    (func (export "run") (local $i i64) (loop $l
      (br_if $l (i32.lt_u (call $load (i64.const 1024)) (i32.const 7))) (br $l))))`
  const capped = capMemory(interruptible(guestBytes(text)), 10)
  const plan = planMerge(capped)
  if (typeof plan === 'string') return skip(plan)
  const merged = mergeKernel(capped, plan)
  if (typeof merged === 'string') throw new Error(merged)
  const { bytes } = merged
  const sections = findSections(bytes, 'test')
  const code = sections.find(({ id }) => id === SECTION.code)?.content ?? 0
  const hints = new ByteReader(
    bytes,
    sections.find(({ id }) => id === SECTION.hints)?.content ?? 0,
    bytes.length,
    'test',
  )
  expect(hints.name()).toBe(HINTS_NAME)
  const functions = hints.u32()
  const [first, count] = [hints.u32(), hints.u32()]
  expect([functions > 0, first, count > 0]).toEqual([true, 1, true])
  const reader = new ByteReader(bytes, code, bytes.length, 'test')
  reader.u32()
  reader.u32()
  for (let left = count; left > 0; left--) {
    expect(bytes[reader.at + hints.u32()]).toBe(0x04)
    expect([hints.byte(), hints.byte()]).toEqual([1, 0])
  }
})
