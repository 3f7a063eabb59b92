import { expect, test } from 'vitest'
import { returnCode } from '../../../src/runtime/return-code.ts'
import { guestBytes } from '../../support/guest.ts'

const { exports } = new WebAssembly.Instance(
  new WebAssembly.Module(
    new Uint8Array(
      guestBytes(`(module
        (func (export "zero") (result i32) (i32.const 0))
        (func (export "code") (result i32) (i32.const -7))
        (func (export "float") (result f32) (f32.const 3))
        (func (export "double") (result f64) (f64.const 4))
        (func (export "long") (result i64) (i64.const 5))
        (func (export "two") (result i32 i32) (i32.const 1) (i32.const 2))
        (func (export "none")))`),
    ),
  ),
)

test.each([
  ['zero', 0],
  ['code', -7],
  ['float', 0],
  ['double', 0],
  ['long', 0],
  ['two', 0],
  ['none', 0],
])('the function %s returns the code %i', (name, code) => {
  const run = exports[name]
  if (typeof run !== 'function') throw new Error('no function')
  expect(returnCode(run(), run)).toBe(code)
})

test('what is no number is no code', () => {
  expect(returnCode('7', exports.code)).toBe(0)
})
