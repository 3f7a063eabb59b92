import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readModule } from '../../../src/module/module.ts'
import { makeTerminable } from '../../../src/module/terminable.ts'
import { guestBytes } from '../../support/guest.ts'
import { bytesOf, list, moduleOf, section } from '../../support/module-bytes.ts'
import { runs } from '../../support/runs.ts'

const read = (bytes: Uint8Array) => readModule(bytes, {}, 'test')

/** Its bulk instructions take their operands from the parameters, but for one with a short and one with a long constant. */
const TEXT = `(module (memory (export "memory") 1 3) (table $t (export "table") 10 20 funcref) (table $u 10 funcref)
  (data $d "0123456789") (elem $e func $f $f $f) (func $f)
  (func (export "0") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
  (func (export "1") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
  (func (export "2") (param i32 i32 i32) (memory.init $d (local.get 0) (local.get 1) (local.get 2)))
  (func (export "3") (param i32 i32 i32) (result i32) (memory.grow (local.get 2)))
  (func (export "4") (param i32 i32 i32) (table.fill $t (local.get 0) (ref.func $f) (local.get 2)))
  (func (export "5") (param i32 i32 i32) (table.copy $u $t (local.get 0) (local.get 1) (local.get 2)))
  (func (export "6") (param i32 i32 i32) (table.init $t $e (local.get 0) (local.get 1) (local.get 2)))
  (func (export "7") (param i32 i32 i32) (result i32) (table.grow $t (ref.null func) (local.get 2)))
  (func (export "8") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (i32.const 100)))
  (func (export "9") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (i32.const 40000))))`

/** Runs calls of its functions in a new instance. @returns results or traps, and what is left. */
function outcome(bytes: Uint8Array, calls: readonly (readonly [number, number, number, number])[]) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource))
  const { memory, table, ...functions } = exports
  if (!(memory instanceof WebAssembly.Memory && table instanceof WebAssembly.Table))
    throw new Error('no state')
  const results = calls.map(([index, ...operands]) => {
    const run = functions[index]
    if (typeof run !== 'function') throw new Error('no function')
    try {
      return run(...operands)
    } catch (error) {
      return String(error)
    }
  })
  const entries = Array.from({ length: table.length }, (_, place) => table.get(place) !== null)
  return { results, entries, memory: Buffer.from(memory.buffer).toString('latin1') }
}

test('a terminable module computes what the original does, and traps where it traps', () => {
  const original = guestBytes(TEXT)
  const { bytes } = makeTerminable(read(original))
  const operand = fc.oneof(fc.nat(12), fc.nat(70_000), fc.constantFrom(-1, -2, 0x7fffffff, -0x80000000))
  const call = fc.tuple(fc.nat(9), operand, operand, operand)
  fc.assert(
    fc.property(fc.array(call, { maxLength: 12 }), (calls) => {
      expect(outcome(bytes, calls)).toEqual(outcome(original, calls))
    }),
    { numRuns: runs(100) },
  )
})

test('the view of a terminable module is what its reader returns', () => {
  const made = makeTerminable(read(guestBytes(TEXT)))
  const { figures: _, ...expected } = read(made.bytes)
  const { figures: __, ...actual } = made
  const bulk = 64
  const uncounted = { work: undefined, optimisingCost: undefined, marks: undefined }
  expect({ ...actual, bodies: { ...actual.bodies, ...uncounted } }).toEqual({
    ...expected,
    bodies: { ...expected.bodies, ...uncounted },
  })
  expect([...(actual.bodies?.marks ?? [])].map((marks) => marks & bulk)).toEqual(
    [...(expected.bodies?.marks ?? [])].map((marks) => marks & bulk),
  )
})

test('a module without bulk instructions stays as it is', () => {
  const view = read(guestBytes('echo'))
  expect(makeTerminable(view)).toBe(view)
})

test('a function without such instructions keeps its bytes, also where they are longer than they need to be', () => {
  const plain = [0x80, 0, 0x0b] // no locals, in two bytes
  const filling = [0, 0x41, 0, 0x41, 0, 0x3f, 0, 0xfc, 11, 0, 0x0b]
  const original = moduleOf(
    section(1, list([0x60, 0, 0])),
    section(3, list(0, 0)),
    section(5, list([0, 1])),
    section(10, list(...[plain, filling].map((body) => bytesOf(body.length, body)))),
  )
  const { bytes, bodies } = makeTerminable(read(original))
  const [first, second] = [0, 1].map((place) => [
    ...bytes.subarray(bodies?.starts[place], bodies?.ends[place]),
  ])
  expect(first).toEqual(plain)
  expect(second).not.toEqual(filling)
})
