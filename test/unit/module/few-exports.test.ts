import { expect, test } from 'vitest'
import { FunctionUnknownError, GuestError } from '../../../src/errors/errors.ts'
import { makeFewExports, shortened } from '../../../src/module/few-exports.ts'
import { MODULE_LIMITS } from '../../../src/module/limits.ts'
import { alreadyCapped } from '../../../src/module/memory-cap.ts'
import { readModule } from '../../../src/module/module.ts'
import { loadModule } from '../../../src/plugin/load-module.ts'
import { loadInThread } from '../../../src/plugin/load-threads.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import { exportAccessor } from '../../../src/runtime/export-accessor.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import { planLinks } from '../../../src/runtime/link-plan.ts'
import { guestBytes } from '../../support/guest.ts'
import { keepLog, openInstance, settingsOf } from '../../support/instance.ts'
import { linkedPlugin } from '../../support/linked.ts'

/** Functions of which each returns its number. */
function functions(count: number): string {
  return Array.from(
    { length: count },
    (_, i) => `(func (export "f${i}") (result i32) (i32.const ${i}))`,
  ).join('')
}

const read = (bytes: Uint8Array) => alreadyCapped(readModule(bytes, {}, 'test'))
const moduleExports = (bytes: Uint8Array) => read(bytes).view.exports

function open(bytes: Uint8Array, imports?: WebAssembly.Imports) {
  const form = makeFewExports(read(bytes))
  if (!form) throw new Error('there is no other form')
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(form as BufferSource), imports)
  return { own: Object.keys(exports), exports: exportAccessor(exports, moduleExports(bytes)) }
}

const call = (value: unknown) => (typeof value === 'function' ? value() : undefined)

test.each([33, 256, 257, 1_000])('of %d functions an instance exports none, and gives each', (count) => {
  const { own, exports } = open(guestBytes(`(module ${functions(count)})`))
  expect(own.length).toBe(Math.ceil(count / 256))
  for (let i = 0; i < count; i++) expect(call(exports[`f${i}`])).toBe(i)
  expect(exports[`f${count}`]).toBeUndefined()
  expect(exports.f0).toBe(exports.f0)
})

test('a module with few exports has no other form', () => {
  expect(makeFewExports(read(guestBytes(`(module ${functions(32)})`)))).toBeUndefined()
  expect(makeFewExports(read(guestBytes('echo')))).toBeUndefined()
})

test('functions that are imported, in a table, or exported by several names are given too', () => {
  const names = Array.from(
    { length: 40 },
    (_, i) => `(export "same${i}" (func $in)) (export "own${i}" (func $own))`,
  )
  const text = `(module (import "a" "b" (func $in (result i32))) (table funcref (elem $own)) (memory (export "memory") 1)
    (func $own (result i32) (i32.const 7)) (func (export "indirect") (result i32) (call_indirect (result i32) (i32.const 0)))
    ${names.join('')})`
  const { exports } = open(guestBytes(text), { a: { b: () => 9 } })
  expect([exports.same39, exports.own39, exports.indirect].map(call)).toEqual([9, 7, 7])
  expect(exports.memory).toBeInstanceOf(WebAssembly.Memory)
})

test('names of a guest that look like ours are those of its functions', () => {
  const ours = '(func (export "wasm-serve:functions 0") (result i32) (i32.const -1))'
  const { own, exports } = open(guestBytes(`(module ${ours} ${functions(40)})`))
  expect(own).toEqual(['wasm-serve:functions 0'])
  expect(call(exports['wasm-serve:functions 0'])).toBe(-1)
  expect(call(exports.f39)).toBe(39)
})

test('whatever a module exports, and by however many names, an instance has few exports', () => {
  const many = Array.from(
    { length: 300 },
    (_, i) =>
      `(export "m${i}" (memory 0)) (export "g${i}" (global 0)) (export "t${i}" (table 0)) (export "e${i}" (tag 0))`,
  )
  const text = `(module (memory 1) (global i32 (i32.const 1)) (table 1 funcref) (tag) ${functions(300)} ${many.join('')})`
  expect(open(guestBytes(text)).own.length).toBe(3) // a memory, and the functions of two parts
})

test('the form that can be put back has few exports too, and its functions', async () => {
  const text = `(module (memory (export "memory") 1) (global $g (mut i32) (i32.const 0))
    ${functions(300)} (func (export "up") (result i32) (global.set $g (i32.add (global.get $g) (i32.const 1))) (global.get $g)))`
  const job = { name: 'test', memoryMax: 10, needsModule: true, resettable: 'yes' } as const
  const { resettable } = await loadModule(guestBytes(text), job)
  expect(resettable).toBeDefined()
  if (resettable) expect(WebAssembly.Module.exports(resettable.module).length).toBeLessThan(10)
})

test('what a thread is sent of many exports is little, and enough to call', async () => {
  const bytes = guestBytes(`(module (memory (export "memory") 1) ${functions(1_000)})`)
  const { exports } = new WebAssembly.Instance(
    new WebAssembly.Module(makeFewExports(read(bytes)) as BufferSource),
  )
  const items = shortened(moduleExports(bytes), ['f999', '_initialize'])
  expect(items).toEqual([
    { name: 'memory', kind: 'memory' },
    { name: 'f999', kind: 'function', place: 999 },
  ])
  expect(call(exportAccessor(exports, items).f999)).toBe(999)
})

test('names of memories are sent only as many as there may be memories', () => {
  const memories = Array.from({ length: 100 }, (_, place) => ({ name: `m${place}`, kind: 'memory' as const }))
  const called = { name: 'f', kind: 'function' as const }
  const { limit } = MODULE_LIMITS.memories
  expect(shortened([...memories, called], ['f'])).toEqual([
    ...memories.slice(0, limit),
    { ...called, place: 0 },
  ])
  const ofWasi = { name: 'memory', kind: 'memory' as const }
  expect(shortened([...memories, ofWasi], [])).toContainEqual(ofWasi)
  const few = [...memories.slice(0, 31), called]
  expect(shortened(few, [])).toBe(few)
})

test('a module of many exports is told of by a thread as it is', async () => {
  const bytes = guestBytes(`(module ${functions(1_000)})`)
  const job = { name: 'test', memoryMax: 10, needsModule: true, resettable: 'no' } as const
  const [here, there] = await Promise.all([loadModule(bytes, job), loadInThread(bytes, job)])
  expect(there.facts).toEqual(here.facts)
  expect(there.facts.functions.length).toBe(1_000)
})

test('an instance of a plug-in with many functions runs its initialiser, and what is called', async () => {
  const text = `(module (memory (export "memory") 1) (global $g (mut i32) (i32.const 9)) ${functions(300)}
    (func (export "_initialize") (global.set $g (i32.const 0))) (func (export "last") (result i32) (global.get $g)))`
  const bytes = guestBytes(text)
  expect((await loadPlugin(bytes)).fewExports).toBeInstanceOf(WebAssembly.Module)
  const instance = await openInstance(kernel, bytes)
  const callIt = (name: string) => instance.call(name, Buffer.of(), { log: keepLog() })
  expect(callIt('last')).toHaveLength(0)
  expect(() => callIt('f1')).toThrow(GuestError)
  expect(() => callIt('f300')).toThrow(FunctionUnknownError)
})

test('a plug-in of one module is linked in the form with few exports, and one of several as it is', async () => {
  const many = `(module (memory (export "memory") 1) ${functions(300)})`
  const main = `(module (import "side" "f7" (func $side (result i32))) ${functions(300)} (func (export "run") (result i32) (call $side)))`
  const [one, two] = [await linkedPlugin(many), await linkedPlugin(main, { side: many })]
  expect([one.fewExports, two.fewExports].map((form) => form instanceof WebAssembly.Module)).toEqual([
    true,
    true,
  ])
  expect(planLinks(one, settingsOf()).fewExports).toBe(one.fewExports)
  expect(planLinks(two, settingsOf()).fewExports).toBeUndefined()
})
