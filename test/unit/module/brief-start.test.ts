import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { startsBriefly } from '../../../src/module/brief-start.ts'
import { readModule } from '../../../src/module/module.ts'
import { guestBytes } from '../../support/guest.ts'

function isBrief(bytes: Uint8Array): boolean {
  const view = readModule(bytes, {}, 'test')
  if (!view.bodies) throw new Error('its code was not read')
  return startsBriefly({ ...view, bodies: view.bodies })
}

const isBriefText = (items: string) =>
  isBrief(
    guestBytes(
      `(module (import "extism:host/env" "input_length" (func $host (result i64)))
        (import "env" "own" (func $own)) (memory 1) (table 1 funcref) (type $t (func)) ${items})`,
    ),
  )

/** Its start runs this code. */
const starting = (code: string, more = '') => `(func $start ${code}) (start $start) ${more}`

/** Functions that each call the next one twice. */
const doubling = (count: number) =>
  Array.from({ length: count }, (_, place) => {
    const next = place === count - 1 ? '(nop)' : `(call $f${place + 1}) (call $f${place + 1})`
    return `(func $f${place} ${next})`
  }).join('')

/** Functions that each call the next one. */
const chain = (count: number) =>
  Array.from({ length: count }, (_, place) => {
    const next = place === count - 1 ? '(nop)' : `(call $f${place + 1})`
    return `(func $f${place} ${next})`
  }).join('')

const LOOP = '(loop $l (br_if $l (i32.const 1)))'

test.each([
  ['nothing', '(func (export "run"))'],
  ['a loop that only calls reach', `(func (export "run") ${LOOP})`],
  ['stores', starting('(i32.store (i32.const 8) (i32.const 1)) (if (i32.const 0) (then (unreachable)))')],
  ['a function of the kernel at a call only', `(func (export "run") (drop (call $host)))`],
  ['other functions', starting('(call $f0)', chain(20))],
  ['some hundred calls', starting('(call $f0)', doubling(8))],
  ['constructors', '(func (export "__wasm_call_ctors") (i32.store (i32.const 8) (i32.const 1)))'],
])('a start is brief with %s', (_what, items) => {
  expect(isBriefText(items)).toBe(true)
})

test.each([
  ['a loop', starting(LOOP)],
  ['a loop in another function', starting('(call $f)', `(func $f ${LOOP})`)],
  ['recursion', starting('(call $f)', '(func $f (call $g)) (func $g (call $f))')],
  ['a function that calls itself last', starting('(call $f)', '(func $f (return_call $f))')],
  ['a call through a table', starting('(call_indirect (type $t) (i32.const 0))')],
  ['a last call through a table', starting('(return_call_indirect (type $t) (i32.const 0))')],
  ['a host function', starting('(call $own)')],
  ['a host function that is called last', starting('(return_call $own)')],
  ['a host function itself', '(start $own)'],
  ['millions of calls', starting('(call $f0)', doubling(30))],
  ['calls that are nested too deep', starting('(call $f0)', chain(1_000))],
  ['a fill of memory', starting('(memory.fill (i32.const 0) (i32.const 0) (i32.const 9))')],
  ['a memory that grows', starting('(drop (memory.grow (i32.const 1)))')],
  ['a wait', starting('(drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))')],
  ['long code', starting('(nop)'.repeat(20_000))],
  ['an initializer that loops', `(func (export "_initialize") ${LOOP})`],
  ['constructors that loop', `(func (export "__wasm_call_ctors") ${LOOP})`],
  ['a program that loops', `(func (export "_start") ${LOOP})`],
])('a start is not brief with %s', (_what, items) => {
  expect(isBriefText(items)).toBe(false)
})

test.each([
  ['hello-c', true],
  ['hello-cpp', true],
  ['hello-assemblyscript', true],
  ['hello', true],
  ['hello-tinygo', false],
])('the start of plugins/%s is brief: %s', (name, expected) => {
  expect(isBrief(readFileSync(new URL(`../../../plugins/${name}/hello.wasm`, import.meta.url)))).toBe(
    expected,
  )
})
