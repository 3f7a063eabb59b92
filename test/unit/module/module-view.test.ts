import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { LIMIT_NAMES, type ModuleLimits } from '../../../src/module/limits.ts'
import { capMemory } from '../../../src/module/memory-cap.ts'
import { readModule } from '../../../src/module/module.ts'
import { makeResettable } from '../../../src/module/resettable.ts'
import { loadModule, type ModuleJob } from '../../../src/plugin/load-module.ts'
import { guestBytes } from '../../support/guest.ts'
import { list, moduleOf, section } from '../../support/module-bytes.ts'

const INVALID = { code: 'WASM_SERVE_PLUGIN_INVALID' }
const JOB: ModuleJob = { name: 'test', memoryMax: 100, needsModule: true, resettable: 'yes' }

/** Is rewritten: it grows its memory, and writes below its data. */
const REWRITTEN = guestBytes(`(module (import "host" "a" (func)) (import "host" "b" (func))
  (memory (export "memory") 9) (global (mut i32) (i32.const 7)) (table 1 funcref) (elem (i32.const 0) 2)
  (data (i32.const 524288) "first") (data (i32.const 400000) "second")
  (func (export "store") (param i32) (local i64)
    (block (loop (i64.store offset=3 (local.get 0) (local.get 1)) (br_if 1 (local.get 0)) (br 0))))
  (func (export "grow") (result i32) (memory.grow (i32.const 1)))
  (func (export "fill") (memory.fill (i32.const 1) (i32.const 2) (i32.const 3))))`)

test.each([
  ['to compile it and the form that can be put back', JOB],
  ['to check it for a process of its own', { ...JOB, staysBytes: true }],
])('a load reads each section, each function and each name of a module once: %s', async (_what, job) => {
  const part = vi.spyOn(ByteReader.prototype, 'part')
  const name = vi.spyOn(ByteReader.prototype, 'name')
  try {
    const { resettable } = await loadModule(REWRITTEN, job)
    expect(resettable !== undefined).toBe(job === JOB)
    const { sections, bodies, imports, exports, customSections } = readModule(REWRITTEN, {}, 'test')
    const parts = sections.length + (bodies?.count ?? 0)
    const names = 2 * imports.length + exports.length + customSections.length
    expect([parts, names]).toEqual([14, 9])
    // Those of the load, and those of the reading here.
    expect([part.mock.calls.length, name.mock.calls.length]).toEqual([2 * parts, 2 * names])
  } finally {
    part.mockRestore()
    name.mockRestore()
  }
})

const plugin = (name: string) => readFileSync(new URL(`../../../plugins/${name}.wasm`, import.meta.url))

test.each([
  ['a module that records its lowest write', REWRITTEN, 'lowest'],
  ['one that marks blocks', REWRITTEN, 'blocks'],
  ['one that records nothing', guestBytes('grow'), 'lowest'],
  ['a plug-in', plugin('hello-zig/hello'), 'lowest'],
] as const)('the form of %s asks of the compiler what was counted while it was written', (_what, bytes, records) => {
  const form = (limits: ModuleLimits) =>
    makeResettable(capMemory(readModule(bytes, { limits }, 'test'), 1_000), records)
  const made = form({})
  if (!made) throw new Error('not resettable')
  const { figures } = readModule(made.bytes, { allowGc: true }, 'test')
  expect(form(figures)).toEqual(made)
  const before = readModule(bytes, {}, 'test').figures
  const grown = LIMIT_NAMES.filter((name) => figures[name] > before[name])
  expect(grown).toEqual(expect.arrayContaining(['moduleBytes', 'globals', 'exports', 'codeBytes', 'allWork']))
  for (const name of grown) expect([name, form({ [name]: figures[name] - 1 })]).toEqual([name, undefined])
})

test('a module with several parts of data says what it wrote below all of them', () => {
  expect(makeResettable(capMemory(readModule(REWRITTEN, {}, 'test'), 100), 'lowest')?.untrackedFrom).toBe(
    400_000,
  )
})

test.each([
  ['the memory behind the globals', moduleOf(section(6, list()), section(5, list()))],
  ['the code behind the data', moduleOf(section(11, list()), section(10, list()))],
  ['two of the same', moduleOf(section(5, list()), section(5, list()))],
])('a module with sections in another order is refused: %s', (_what, bytes) => {
  expect(WebAssembly.validate(Uint8Array.from(bytes))).toBe(false)
  expect(() => readModule(bytes, {}, 'test')).toThrow(expect.objectContaining(INVALID))
})
