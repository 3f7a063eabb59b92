import { expect, test } from 'vitest'
import { dropLastImports, orderImports } from '../../../src/module/function-imports.ts'
import { readModule } from '../../../src/module/module.ts'
import { guestBytes } from '../../support/guest.ts'

const read = (bytes: Uint8Array) => readModule(bytes, {}, 'test')

/** Imports `f0` to `f3`, which return their numbers, and exports what calls each of them. */
const MODULE = guestBytes(`(module
  (import "a" "f0" (func $f0 (result i32)))
  (import "a" "f1" (func $f1 (param i64) (result i32)))
  (import "a" "f2" (func $f2 (result i32)))
  (import "a" "f3" (func $f3 (param f64) (result i32)))
  (table 1 funcref) (elem (i32.const 0) $own)
  (func $own (result i32) (i32.const 7))
  (func (export "c0") (result i32) (call $f0))
  (func (export "c1") (result i32) (call $f1 (i64.const 1)))
  (func (export "c2") (result i32) (i32.add (call $f2) (i32.const 0)))
  (func (export "c3") (result i32) (if (result i32) (i32.const 1) (then (call $f3 (f64.const 1))) (else (i32.const 9))))
  (func (export "own") (result i32) (call_indirect (result i32) (i32.const 0))))`)

/** What each export returns, or that it traps. */
function results(bytes: Uint8Array): unknown[] {
  const module = new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
  const numbered = (number: number) => () => number
  const a = Object.fromEntries([0, 1, 2, 3].map((number) => [`f${number}`, numbered(number)]))
  const { exports } = new WebAssembly.Instance(module, { a })
  return Object.values(exports).map((call) => {
    try {
      return typeof call === 'function' ? call() : undefined
    } catch (error) {
      return (error as Error).message
    }
  })
}

const importsOf = (bytes: Uint8Array) => read(bytes).imports.map(({ name }) => name)

test('imports are ordered, and calls reach the same ones', () => {
  const rank = ({ name }: { readonly name: string }) => Number(name === 'f0' || name === 'f2')
  const ordered = orderImports(read(MODULE), rank)
  expect(ordered && importsOf(ordered)).toEqual(['f1', 'f3', 'f0', 'f2'])
  expect(ordered && results(ordered)).toEqual([0, 1, 2, 3, 7])
})

test('the last imports become functions that trap', () => {
  const less = dropLastImports(read(MODULE), 2)
  expect(importsOf(less)).toEqual(['f0', 'f1'])
  expect(results(less)).toEqual([0, 1, 'unreachable', 'unreachable', 7])
  expect(results(dropLastImports(read(MODULE), 0))).toEqual([0, 1, 2, 3, 7])
})

test.each([
  [
    '(module (import "a" "f" (func)) (table 1 funcref) (elem (i32.const 0) 0))',
    'a table has an imported function',
  ],
  ['(module (import "a" "f" (func)) (import "a" "m" (memory 1)))', 'it imports a memory'],
])('%s: %s, so its imports stay in their order', (text) => {
  expect(orderImports(read(guestBytes(text)), () => 0)).toBeUndefined()
})
