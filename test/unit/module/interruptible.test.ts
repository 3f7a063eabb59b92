import { expect, test } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { CODE, readCode, skipImmediates } from '../../../src/module/instructions.ts'
import { makeInterruptible } from '../../../src/module/interruptible.ts'
import type { ModuleLimits } from '../../../src/module/limits.ts'
import { readModule } from '../../../src/module/module.ts'
import { SECTION } from '../../../src/module/module-view.ts'
import { CHECK_EXPORT } from '../../../src/module/names.ts'
import { readValueType } from '../../../src/module/types.ts'
import { guestBytes } from '../../support/guest.ts'

function interruptible(bytes: Uint8Array) {
  const view = makeInterruptible(readModule(bytes, {}, 'test'))
  if (!view) throw new Error('it cannot be interrupted')
  return view
}

/** Has each kind of check: at entries, in loops, and before bulk instructions. */
const CHECKED = guestBytes(`(module (import "host" "f" (func $f (param i64))) (memory (export "memory") 1 3)
  (global (mut i32) (i32.const 7)) (table (export "t") 1 funcref) (elem (i32.const 0) $plain) (start $start)
  (func $plain (result i32) (i32.const 1))
  (func $start (global.set 0 (i32.const 3)))
  (func (export "loop") (param $n i32) (local $i i32)
    (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (local.get $n)))))
  (func (export "turns") (param $n i32) (loop $l (local.set $n (i32.shr_u (local.get $n) (i32.const 1))) (br_if $l (local.get $n))))
  (func (export "calls") (loop $l (call $f (i64.const 1)) (br_if $l (call $plain))))
  (func $again (export "again") (param i32) (if (local.get 0) (then (call $again (i32.sub (local.get 0) (i32.const 1))))))
  (func (export "fill") (param i32) (memory.fill (i32.const 0) (i32.const 1) (local.get 0)))
  (func (export "grow") (result i32) (table.grow 0 (ref.null func) (i32.const 1))))`)

const IF = 0x04
const BRANCH_IF = 0x0d

test('the view of an interruptible module is what its reader returns', () => {
  const made = interruptible(CHECKED)
  const {
    figures: _,
    bodies: read,
    sections,
    hostExports: __,
    exports,
    ...expected
  } = readModule(made.bytes, {}, 'test')
  expect(made).toMatchObject({
    functions: expected.functions,
    imports: expected.imports,
    memories: expected.memories,
  })
  expect(made.types).toEqual(expected.types)
  expect(made.globals).toEqual(expected.globals)
  expect(made.tables).toEqual(expected.tables)
  expect(made.indexTypes).toEqual(expected.indexTypes)
  expect(made.processTypes).toEqual(expected.processTypes)
  expect(made.lowestData).toBe(expected.lowestData)
  expect(made.sections).toEqual(sections)
  expect([made.bodies?.starts, made.bodies?.ends, made.bodies?.locals]).toEqual([
    read?.starts,
    read?.ends,
    read?.locals,
  ])
  // Guests and users see what the module has of its own.
  expect(exports.slice(0, made.exports.length)).toEqual(made.exports)
  expect(exports.slice(made.exports.length).map(({ name }) => name)).toEqual(Object.values(CHECK_EXPORT))
})

test('branches to checks are said to be rare', () => {
  const { bodies, bytes, sections } = interruptible(CHECKED)
  expect(sections.map(({ id }) => id)).toContain(SECTION.hints)
  expect(bodies?.rare.size).toBeGreaterThan(5)
  for (const [place, offsets] of bodies?.rare ?? []) {
    const start = bodies?.starts[place] ?? 0
    for (const offset of offsets) expect([IF, BRANCH_IF]).toContain(bytes[start + offset])
  }
  expect(bodies?.rare.has(0)).toBe(false) // needs no check
})

test('where V8 unrolls no loop that calls, a loop around each inner one calls the check', () => {
  const { bodies, bytes } = interruptible(
    guestBytes('(module (func (param i32) (loop $l (br_if $l (local.get 0)))))'),
  )
  const reader = new ByteReader(bytes, bodies?.starts[0] ?? 0, bodies?.ends[0] ?? 0, 'test')
  for (let groups = reader.u32(); groups > 0; groups--) {
    reader.u32()
    readValueType(reader)
  }
  let loops = 0
  while (!reader.done) {
    const code = readCode(reader)
    skipImmediates(reader, code)
    if (code === CODE.loop) loops++
  }
  expect(loops).toBe(Number.parseInt(process.versions.v8, 10) < 13 ? 2 : 1)
})

test('it is valid, computes the same, and starts when the host says so', () => {
  const { bytes } = interruptible(CHECKED)
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as BufferSource), {
    host: { f: () => undefined },
  })
  const run = (name: string, ...args: unknown[]) => {
    const called = exports[name]
    if (typeof called !== 'function') throw new Error('no function')
    return called(...args)
  }
  expect(run(CHECK_EXPORT.start)).toBeUndefined()
  for (const name of ['loop', 'turns', 'again', 'fill']) expect(run(name, 3)).toBeUndefined()
  expect([run('grow'), run('grow')]).toEqual([1, 2])
  const { memory } = exports
  if (!(memory instanceof WebAssembly.Memory)) throw new Error('no memory')
  expect([...new Uint8Array(memory.buffer, 0, 4)]).toEqual([1, 1, 1, 0])
})

test.each([
  [
    'a local',
    '(func (loop (local.set 0 (i32.const 0))))',
    '(func (local i32) (loop (local.set 0 (i32.const 0))))',
  ],
  [
    'a global',
    '(func (global.set 0 (i32.const 0)))',
    '(global (mut i32) (i32.const 0)) (func (global.set 0 (i32.const 0)))',
  ],
  [
    'a table',
    '(func (table.set 0 (i32.const 0) (ref.null func)))',
    '(table 1 funcref) (func (table.set 0 (i32.const 0) (ref.null func)))',
  ],
  ['an exported function', '(func) (export "f" (func 1))', '(func) (func) (export "f" (func 1))'],
  ['an exported table', '(export "t" (table 0))', '(table 1 funcref) (export "t" (table 0))'],
])('a module does not become valid, with %s that is added', (_what, invalid, valid) => {
  const bytes = guestBytes(`(module ${invalid})`)
  expect(WebAssembly.validate(bytes as BufferSource)).toBe(false)
  expect(makeInterruptible(readModule(bytes, {}, 'test'))).toBeUndefined()
  interruptible(guestBytes(`(module ${valid})`))
})

test.each<[what: string, text: string, limits: ModuleLimits]>([
  [
    'that waits for other threads',
    '(module (memory 1 1 shared) (func (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))))',
    {},
  ],
  ['that exports the name of the table', `(module (func (export "wasm-serve:check")))`, {}],
  ['whose code would be too long', '(module (func (loop)))', { codeBytes: 8 }],
])('a module %s is not changed', (_what, text, limits) => {
  const view = readModule(guestBytes(text), {}, 'test')
  expect(makeInterruptible({ ...view, limits })).toBeUndefined()
})
