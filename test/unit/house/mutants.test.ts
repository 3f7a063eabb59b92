import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'rolldown/utils'
import { describe, expect, test } from 'vitest'
import { apply, applyAll, mutantsOf } from '../../long/mutants.ts'
import { Reached } from '../../long/reached.ts'
import { findImporters, relatedTests } from '../../long/related-tests.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** What each mutant makes of the source. */
const made = (source: string) => mutantsOf('a.ts', source).map((mutant) => apply(source, mutant))

/** What a program calls, for all values of its conditions, and what it leaves in `a`. */
function traceOf(program: string, active: number): unknown[] {
  const code = program.replace(/^#!.*/, '')
  const run = new Function('$isActive', 'f', 'g', 'a', 'b', 'c', `${code}\nreturn a`)
  return [0, 1, 2, 5].flatMap((a) =>
    [0, 2, 3].map((b) => {
      const calls: unknown[] = []
      const note = (name: string) => (value: unknown) => calls.push([name, value])
      return [calls, run((mutant: number) => mutant === active, note('f'), note('g'), a, b, 1)]
    }),
  )
}

describe('mutants', () => {
  test.each([
    ['f(5)', [';', 'f(0)']],
    ['a = 0', ['a = 1']],
    ['a = 2n', ['a = 0n']],
    ['a = true', ['a = false']],
    ["a = b === 'fresh'", ["a = b !== 'fresh'", "a = b === ''"]],
    ["a = ''", ["a = 'mutant'"]],
    ['a = b && c', ['a = b || c']],
    ['a = b ?? c', ['a = (c)']],
    ['a = b + c', ['a = b - c']],
    ['a = !b', ['a = (b)']],
    ['a += b', ['a -= b']],
    ['a++', ['a--']],
    ['a = b < c', ['a = b <= c', 'a = b < (c) * 4']],
    ['if (a) b = c', ['if (!(a)) b = c']],
    ['async () => { await f() }', ['async () => { ; }']],
  ])('of %s', (source, expected) => {
    expect(made(source)).toEqual(expected)
  })

  test.each([
    "import { a } from './1.ts'",
    "export * from './1.ts'",
    "export { a } from './1.ts'",
    "export const a = () => import('./1.ts')",
    'type A = 1 | 2 | "three"',
    'interface A { readonly a: true }',
    'let a: 1 | undefined',
    'a = b as 5',
    'a = b<5>',
    '/** 1 < 2 */ // 3',
    "class A { 'b' = c }",
    "a = { 'content-type': b }",
    "throw new RangeError('0')",
    "a = new NoSuchExportError('0', 1)",
    "a = 'three words here'",
  ])('there are none in %s', (source) => {
    expect(made(source)).toEqual([])
  })

  test('a line is logged or not; its text has none', () => {
    expect(made("log.warn({ code: 1 }, '2')")).toEqual([';'])
  })

  test('they have places', () => {
    const [first, second] = mutantsOf('a.ts', 'a = b\na = true\n\na = false')
    expect(first).toMatchObject({ file: 'a.ts', line: 2, start: 10, end: 14, code: 'false' })
    expect(second).toMatchObject({ line: 4 })
  })

  test.each([
    ['a = b < 2 + c', 'a = b <= 2 + c'],
    ['if (a) f(1)\nelse g(2)', 'if (a) f(1)\nelse ;'],
    ['#!/usr/bin/env node\nf(1)', '#!/usr/bin/env node\nf(0)'],
    ['if (a > 1) f(1)\na++', 'if (a > 1) f(1)\na--'],
    ['c = b\na && f(2)', 'c = b\na || f(2)'],
    ['if (b) a++\nelse g(2)', 'if (b) a--\nelse g(2)'],
  ])('all of %j can be in one source, and one of them runs', (source, wanted) => {
    const all = new Map(mutantsOf('a.ts', source).map((mutant, place) => [place + 1, mutant]))
    const [number] = [...all].find(([, mutant]) => apply(source, mutant) === wanted) ?? []
    const program = applyAll(source, all, './switch.ts').replace(/import .*?;/, '')
    expect(traceOf(program, number ?? 0)).toEqual(traceOf(wanted, 0))
    expect(traceOf(program, 0)).toEqual(traceOf(source, 0))
  })

  test('each of them can be parsed, and differs from the source', () => {
    const sources = readdirSync(new URL('../../../src/contract', import.meta.url))
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `src/contract/${name}`)
    for (const file of sources) {
      const source = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
      for (const mutant of mutantsOf(file, source)) {
        const mutated = apply(source, mutant)
        expect(mutated).not.toBe(source)
        expect(parseSync(file, mutated).errors).toEqual([])
      }
      const all = new Map(mutantsOf(file, source).map((mutant, place) => [place + 1, mutant]))
      expect(parseSync(file, applyAll(source, all, './switch.ts')).errors).toEqual([])
    }
  })

  test('a source that is no TypeScript is refused', () => {
    expect(() => mutantsOf('a.ts', 'a = = b')).toThrow('a.ts')
  })
})

describe('the tests of a source', () => {
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(new URL(`../../../${folder}`, import.meta.url), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts'))
      .map((path) => `${folder}/${path.replaceAll('\\', '/')}`),
  )
  const importers = findImporters(ROOT, files)

  test('are those that import it: the nearest first', () => {
    const tests = relatedTests(importers, 'test/long/mutants.ts')
    expect([...tests]).toEqual([['test/unit/house/mutants.test.ts', 1]])
    const nearest = [...relatedTests(importers, 'src/module/few-exports.ts').keys()]
    expect(nearest[0]).toBe('test/unit/module/few-exports.test.ts')
    expect(nearest.length).toBeGreaterThan(10)
  })

  test('are also found if only a thread runs it', () => {
    const tests = relatedTests(importers, 'src/engine/workers/worker-thread.ts')
    expect([...tests.keys()]).toContain('test/integration/engine.test.ts')
  })
})

describe('the cases that reach a mutant', () => {
  const durations = {
    near: { n1: 10, n2: 20 },
    far: { f1: 10, f2: 30 },
    slow: { s1: 100_000 },
    other: { o1: 60_000 },
  }
  const related = new Map([
    ['near', 1],
    ['far', 3],
    ['slow', 1],
    ['unknown', 1],
  ])
  const testsOf = (hits: string) => new Reached([{ hits, durations }]).testsOf(1, related)

  test('run, and no others, with the near and quick ones first', () => {
    expect(testsOf('1 far f1\n1 near n2\n2 near n1\n1 far f2\n')).toEqual([
      { file: 'near', cases: ['n2'] },
      { file: 'far', cases: ['f1', 'f2'] },
    ])
    expect(testsOf('2 near n1\n')).toEqual([])
  })

  test('are those of the whole file, if a hook or a thread reaches it', () => {
    expect(testsOf('1 near n2\n1 near\n')).toEqual([{ file: 'near' }])
  })

  test('are those of all files that import it, if it runs when they are loaded', () => {
    expect(testsOf('1 \n1 other o1\n')).toEqual([{ file: 'near' }, { file: 'far' }])
  })

  test('are left out after a part of the time of all tests, but for the first', () => {
    expect(testsOf('1 slow s1\n1 other o1\n')).toEqual([{ file: 'slow', cases: ['s1'] }])
  })
})
