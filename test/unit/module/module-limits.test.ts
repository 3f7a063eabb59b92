import { readFileSync } from 'node:fs'
import { describe, expect, test, vi } from 'vitest'
import { renderModuleLimits } from '../../../scripts/reference.ts'
import { loadPlugin } from '../../../src/index.ts'
import { leb } from '../../../src/module/bytes.ts'
import { LIMIT_NAMES, type LimitName, MODULE_LIMITS, TypeBudget } from '../../../src/module/limits.ts'
import { readModule } from '../../../src/module/module.ts'
import type { ReadOptions } from '../../../src/module/section-reader.ts'
import { resolveRoute } from '../../../src/options/resolved-route.ts'
import { chooseEngine } from '../../../src/route/engine-choice.ts'
import { guestBytes } from '../../support/guest.ts'
import {
  bytesOf,
  codeOf,
  codeSection,
  functions,
  list,
  moduleOf,
  repeated,
  section,
} from '../../support/module-bytes.ts'
import { checkedRoute } from '../../support/route.ts'

const check = (bytes: Uint8Array, options: ReadOptions = {}) => readModule(bytes, options, 'test')

const TOO_COMPLEX = 'WASM_SERVE_PLUGIN_TOO_COMPLEX'
const UNBOUNDED = 'WASM_SERVE_PLUGIN_UNBOUNDED'
const INVALID = 'WASM_SERVE_PLUGIN_INVALID'

/** `local.get 0; br_if 0` in a block. */
const BRANCH = [0x02, 0x40, 0x20, 0, 0x0d, 0, 0x0b]

/** A constant expression of 4,003 bytes: `i32.const 1`, and `i32.const 1; i32.add` again and again. */
const LONG_SUM = bytesOf(
  [0x41, 1],
  repeated(1_333, () => [0x41, 1, 0x6a]),
  0x0b,
)

describe('a compile bomb', () => {
  const I32 = 0x7f
  const setAll = (locals: number) => repeated(locals, (place) => [0x20, 0, 0x21, ...leb(place + 1)])
  const BOMBS: readonly (readonly [string, Uint8Array])[] = [
    ['of 40,000 locals', functions({ locals: [[40_000, I32]], code: repeated(3_000, () => BRANCH) })],
    [
      'of 9,000 locals and many branches',
      functions({
        locals: [[9_000, I32]],
        code: bytesOf(
          setAll(9_000),
          repeated(3_000, () => BRANCH),
        ),
      }),
    ],
    [
      'of many values on the stack and branches',
      functions({
        code: bytesOf(
          repeated(4_900, () => [0x20, 0]),
          repeated(2_000, () => BRANCH),
          repeated(4_900, () => 0x1a),
        ),
      }),
    ],
    [
      'of ifs in one another',
      functions({
        locals: [[3_000, I32]],
        code: bytesOf(
          repeated(10_000, () => [0x20, 0, 0x04, 0x40]),
          repeated(10_000, () => 0x0b),
        ),
      }),
    ],
    [
      'of blocks in one another',
      functions({
        code: bytesOf(
          repeated(50_000, () => [2, 0x40]),
          repeated(50_000, () => 0x0b),
        ),
      }),
    ],
    [
      'of loops in one another',
      functions({
        code: bytesOf(
          repeated(4_000, () => [3, 0x40]),
          repeated(4_000, () => [0x20, 0, 0x0d, 0, 0x0b]),
        ),
      }),
    ],
    [
      'of a loop that many branches repeat',
      functions({
        locals: [[700, I32]],
        code: bytesOf(
          3,
          0x40,
          setAll(700),
          repeated(700, () => [0x20, 0, 0x0d, 0]),
          0x0b,
        ),
      }),
    ],
    [
      'of long constant expressions, which are within their limit each',
      moduleOf(section(6, list(...Array.from({ length: 1_000 }, () => bytesOf(I32, 0, LONG_SUM))))),
    ],
    [
      'of branch tables',
      functions({
        locals: [[2_000, I32]],
        code: bytesOf(2, 0x40, 0x20, 0, 0x0e, leb(20_000), new Uint8Array(20_001), 0x0b),
      }),
    ],
    [
      'of locals that are set again and again',
      functions({
        locals: [[9_000, I32]],
        code: repeated(50_000, (place) => [0x20, 0, 0x21, ...leb(place % 9_000)]),
      }),
    ],
    [
      'of calls with many values',
      moduleOf(
        section(
          1,
          list(
            [0x60, 0, 200, 1, ...Array<number>(200).fill(I32)],
            [0x60, 200, 1, ...Array<number>(200).fill(I32), 0],
          ),
        ),
        section(3, list(0, 1)),
        codeSection({ code: 0 }, { code: repeated(4_000, () => [0x10, 0, 0x10, 1]) }),
      ),
    ],
    [
      'of a type with 1,000 parameters',
      moduleOf(section(1, list([0x60, ...leb(1_000), ...Array<number>(1_000).fill(I32), 0]))),
    ],
    ['of 20,000 types', moduleOf(section(1, list(...Array.from({ length: 20_000 }, () => [0x60, 0, 0]))))],
    [
      'of a million functions',
      moduleOf(
        section(1, list([0x60, 0, 0])),
        section(3, bytesOf(leb(1_000_000), new Uint8Array(1_000_000))),
      ),
    ],
    ['of 100 memories', moduleOf(section(5, list(...Array.from({ length: 100 }, () => [0, 0]))))],
    [
      'of a constant without an end',
      moduleOf(
        section(
          6,
          list(
            bytesOf(
              I32,
              0,
              0x41,
              0,
              repeated(5_000, () => [0x41, 0, 0x6a]),
              0x0b,
            ),
          ),
        ),
      ),
    ],
    [
      'a long name of an export',
      moduleOf(
        section(1, list([0x60, 0, 0])),
        section(3, list(0)),
        section(
          7,
          list(
            bytesOf(
              leb(5_000),
              repeated(5_000, () => [0x61]),
              0,
              0,
            ),
          ),
        ),
        codeSection({ code: [] }),
      ),
    ],
  ]

  test.each(BOMBS)('%s is refused before it is compiled', async (_, bytes) => {
    const compile = vi.spyOn(WebAssembly, 'compile')
    try {
      await expect(loadPlugin(bytes)).rejects.toMatchObject({ code: TOO_COMPLEX })
      expect(compile).not.toHaveBeenCalled()
    } finally {
      compile.mockRestore()
    }
  })

  test('that says it is larger than it is costs nothing', () => {
    for (const id of [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13]) {
      expect(codeOf(() => check(moduleOf(section(id, leb(0xffff_ffff)))))).toMatch(/TOO_COMPLEX|INVALID/)
    }
    const many = functions({
      locals: Array.from({ length: 100 }, () => [0xffff_ffff, I32] as const),
      code: 1,
    })
    expect(codeOf(() => check(many))).toBe(TOO_COMPLEX)
  })
})

describe('each limit', () => {
  const WAT = `(module
    (type (func (param i32 i64) (result i32)))
    (import "host" "a" (func (type 0)))
    (memory 1) (table 3 funcref) (tag (param i32 i32))
    (global i32 (i32.const 70000)) (elem (i32.const 0) 0 1)
    (data (i32.const 0) "a") (export "f" (func 1))
    (func (param i32) (local i32 i32)
      (local.set 1 (local.get 0))
      (block (loop
        (local.set 2 (local.get 0))
        (br_if 1 (local.get 1))
        (br_if 0 (local.get 1))
        (br_table 0 1 0 (local.get 0))))
      (drop (call 0 (i32.const 1) (i64.const 2)))))`
  const figures = { ...check(guestBytes(WAT)).figures }

  test.each(LIMIT_NAMES)('%s holds, can be lifted, and is above what was seen', (name) => {
    const { limit, seen } = MODULE_LIMITS[name]
    expect(limit).toBeGreaterThan(seen)
    const found = figures[name]
    expect(found).toBeGreaterThan(0)
    const limits = Object.fromEntries(LIMIT_NAMES.map((each) => [each, figures[each]]))
    expect(codeOf(() => check(guestBytes(WAT), { limits }))).toBe('accepted')
    const below = { ...limits, [name]: found - 1 }
    expect(codeOf(() => check(guestBytes(WAT), { limits: below }))).toBe(TOO_COMPLEX)
    expect(() => check(guestBytes(WAT), { limits: below })).toThrow(new RegExp(` has ${found} \\w{4,}`))
  })

  test('names the function, the number, the limit and the flag that lifts it', () => {
    const bytes = functions({ locals: [[20_000, 0x7f]], code: 1 })
    expect(() => check(bytes)).toThrow(/function 0 has 20001 .*10000.*--module-limit locals=20001/)
    expect(codeOf(() => check(bytes, { limits: { locals: 20_001 } }))).toBe('accepted')
  })

  test('counts what the function has', () => {
    const expected: Partial<Record<LimitName, number>> = {
      ...{ types: 2, imports: 1, functions: 2, memories: 1, tables: 1, tags: 1, tagValues: 2, globals: 1 },
      ...{ exports: 1, elementSegments: 1, elements: 2, dataSegments: 1, signatureValues: 3, locals: 3 },
      ...{ nesting: 3, stackValues: 2, branchTargets: 2, callValues: 3, expressionBytes: 5 },
      allExpressionBytes: 5 + 3 + 3, // of the global, the elements and the data
    }
    expect(figures).toMatchObject({ ...expected, types: figures.types })
  })
})

describe('what allocates outside of the memory', () => {
  const type = (...types: readonly (readonly number[])[]) => moduleOf(section(1, list(...types)))
  const body = (code: readonly number[], locals: readonly (readonly [number, number])[] = []) =>
    functions({ locals, code })

  test.each([
    ['a structure', type([0x5f, 0])],
    ['an array', type([0x5e, 0x7f, 1])],
    ['a recursive group', type([0x4e, 1, 0x60, 0, 0])],
    ['a subtype', type([0x50, 0, 0x60, 0, 0])],
    ['a parameter', type([0x60, 1, 0x6e, 0])],
    ['a nullable reference', type([0x60, 1, 0x63, 0x6d, 0])],
    ['a heap type of two bytes', type([0x60, 1, 0x64, 0xeb, 0x7f, 0])],
    ['a local', body([1], [[1, 0x6c]])],
    ['a block', body([0x02, 0x6a, 0x00, 0x0b, 0x1a])],
    ['an instruction', body([0x41, 1, 0xfb, 0x1c, 0x1a])],
    ['an instruction of more bytes than it needs', body([0x41, 1, 0xfb, 0x9c, 0x80, 0x00, 0x1a])],
    ['a null', body([0xd0, 0x71, 0x1a])],
    ['a table', moduleOf(section(4, list([0x6e, 0, 1])))],
    ['a global', moduleOf(section(6, list([0x6e, 0, 0xd0, 0x6e, 0x0b])))],
    ['an import', moduleOf(section(2, list([1, 97, 1, 98, 3, 0x6d, 0])))],
    ['elements', moduleOf(section(9, list([5, 0x6e, 0])))],
    ['a constant', moduleOf(section(6, list([0x70, 0, 0x41, 1, 0xfb, 0x1c, 0x0b])))],
  ])('is refused unless it is allowed: %s', (_, bytes) => {
    expect(codeOf(() => check(bytes))).toBe(UNBOUNDED)
    expect(check(bytes, { allowGc: true }).needsProcess).toBe('garbage-collected types')
  })

  test.each([
    ['a table', moduleOf(section(4, list([0x69, 0, 1])))],
    ['a global', moduleOf(section(6, list([0x69, 1, 0xd0, 0x69, 0x0b])))],
    ['another exception', moduleOf(section(1, list([0x60, 1, 0x69, 0])), section(13, list([0, 0])))],
  ])('is refused unless it is allowed: an exception that is kept in %s', (_, bytes) => {
    expect(codeOf(() => check(bytes))).toBe(UNBOUNDED)
    expect(check(bytes, { allowGc: true }).needsProcess).toContain('exceptions')
  })

  test('an exception on the stack is a local like others', () => {
    expect(check(functions({ locals: [[1, 0x69]], code: 1 })).needsProcess).toBeUndefined()
  })

  test.each([
    ['strings', body([0xfb, 0x80, 0x01, 0, 0, 0x1a])],
    ['continuations', type([0x5d, 0])],
    ['an instruction for them', body([0xe0, 0])],
    ['half floats', body([0xfd, 0xa0, 0x02])],
    ['a section of strings', moduleOf(section(14, list()))],
    ['a shared type', type([0x65, 0x5f, 0])],
  ])('that V8 runs only if it is told to experiment is not understood, and refused: %s', (_, bytes) => {
    expect(codeOf(() => check(bytes, { allowGc: true }))).toBe(INVALID)
  })

  test('strings of JavaScript are imports that nobody provides', async () => {
    const bytes = guestBytes(
      '(module (import "wasm:js-string" "length" (func (param externref) (result i32))) (func (export "f")))',
    )
    const plugin = await loadPlugin(bytes)
    expect(plugin.imports).toEqual([{ module: 'wasm:js-string', name: 'length', kind: 'function' }])
    expect(WebAssembly.Module.imports(plugin.module)).toEqual(plugin.imports) // they were not built in
  })

  test('runs neither on the event loop nor in a thread', async () => {
    const loaded = await loadPlugin(guestBytes('echo'))
    const plugin = { ...loaded, needsProcess: 'garbage-collected types' }
    for (const engine of ['inline', 'workers'] as const) {
      const route = resolveRoute(checkedRoute({ engine }), plugin)
      expect(codeOf(() => chooseEngine(route, plugin, []))).toBe('WASM_SERVE_OPTIONS_INVALID')
    }
  })
})

describe('types are of the process', () => {
  test('equal ones count once, and too many are refused before they are compiled', () => {
    const budget = new TypeBudget(3)
    const types = (...shared: string[]) => ({ shared, own: 0 })
    budget.take(types('a', 'b'), 'first', 'test')
    budget.take(types('b', 'c'), 'second', 'test')
    expect(budget.used).toBe(3)
    expect(codeOf(() => budget.take(types('a', 'd'), 'third', 'test'))).toBe(TOO_COMPLEX)
    expect(budget.used).toBe(3)
    expect(codeOf(() => budget.take({ shared: ['a'], own: 1 }, 'fourth', 'test'))).toBe(TOO_COMPLEX)
  })

  test('those that name others count once for each module', () => {
    const budget = new TypeBudget(3)
    for (let again = 0; again < 3; again++) budget.take({ shared: [], own: 2 }, 'same', 'test')
    expect(budget.used).toBe(2)
    expect(codeOf(() => budget.take({ shared: [], own: 2 }, 'other', 'test'))).toBe(TOO_COMPLEX)
  })

  test('a module says which it has', () => {
    const { processTypes } = check(
      moduleOf(section(1, list([0x60, 0, 0], [0x60, 1, 0x7f, 0], [0x60, 0, 0], [0x60, 1, 0x63, 0, 0]))),
    )
    expect(processTypes).toEqual({ shared: ['\x60\0\0', '\x60\x01\x7f\0'], own: 1 })
  })
})

test('the figures of a plug-in are far below the limits', () => {
  const hello = readFileSync(new URL('../../../plugins/hello/hello.wasm', import.meta.url))
  const { figures } = check(hello)
  for (const name of LIMIT_NAMES) expect(figures[name] * 4).toBeLessThan(MODULE_LIMITS[name].limit)
})

test('the page of the limits has all of them, as they are', () => {
  const page = readFileSync(new URL('../../../docs/protect/module-limits.md', import.meta.url), 'utf8')
  expect(page).toBe(renderModuleLimits(page))
  for (const name of LIMIT_NAMES) expect(page).toContain(`\`${name}\``)
})
