import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { checkValue, type Problem, type Schema } from '../../../src/options/schema.ts'

function problemsIn(value: unknown, schema: Schema): string[] {
  const found: Problem[] = []
  checkValue(value, schema, found)
  return found.map(({ option, message }) => `${option}: ${message}`)
}

const contract = { name: 'a', input: () => 0, answer: () => 0 }
const either: readonly Schema[] = [{ enum: ['a'] }, { type: 'array', items: { enum: ['a'] } }]

test.each<[Schema, fits: readonly unknown[], not: readonly unknown[]]>([
  [{ type: 'string' }, ['', 'a'], [undefined, null, 1, true, [], {}]],
  [{ type: 'boolean' }, [true, false], [null, 0, 'true']],
  [{ type: 'integer' }, [0, -1, 1e12], [1.5, Number.NaN, Number.POSITIVE_INFINITY, '1', null]],
  [{ type: 'object' }, [{}, { a: 1 }], [null, [], 'a', undefined]],
  [{ type: 'array' }, [[], [1]], [null, {}, 'a', { length: 0 }]],
  [{ type: 'integer', minimum: 1, maximum: 3 }, [1, 2, 3], [0, 4, -1]],
  [{ type: 'integer', minimum: 0 }, [0], [-1]],
  [{ type: 'integer', maximum: 0 }, [0], [1]],
  [{ type: 'string', minLength: 1, maxLength: 2 }, ['a', '😀😀'], ['', 'abc', '😀😀😀']],
  [{ type: 'string', pattern: '^a.$' }, ['ab', 'a😀'], ['a', 'abc']],
  [{ type: 'string', allowedHost: true }, ['a.example.com', '*'], ['a b', 'a/b']],
  [{ enum: ['a', 1] }, ['a', 1], ['b', '1', null, undefined]],
  [{ anyOf: either }, ['a', ['a'], []], ['b', ['b'], ['a', 'b'], {}]],
  [{ type: 'array', minItems: 1, uniqueItems: true }, [[1, 2]], [[], [1, 1]]],
  [{ type: 'array', items: { type: 'string' } }, [[], ['a']], [[1], ['a', null], new Array(1)]],
  [{ properties: { a: {} }, required: ['a'] }, [{ a: 0 }, { a: 0, b: 0 }], [{}, { a: undefined }]],
  [{ properties: {}, additionalProperties: false }, [{}], [{ a: 0 }, { toString: 0 }]],
  [{ additionalProperties: { type: 'string' } }, [{}, { a: 'b' }], [{ a: 0 }, { 'a\nb': 0 }]],
  [{ patternProperties: { '^.*$': { type: 'string' } } }, [{ a: 'b' }], [{ a: 0 }, { 'a\nb': 0 }]],
  [
    { patternProperties: { '^/': {} }, additionalProperties: false },
    [{}, { '/a': 1 }],
    [{ a: 1 }, JSON.parse('{"__proto__":1}')],
  ],
  [{ pluginSource: true }, ['a', {}, Uint8Array.of()], ['', 1, null, undefined]],
  [{ hostFunctions: true }, ['a', {}], ['', 1, null]],
  [{ callHook: true }, [() => 0], [null, {}, 'a']],
  [{ threadCount: true }, [0, 256, 'auto'], [-1, 257, 1.5, '1', null]],
  [{ nameOrContract: ['raw'] }, ['raw', contract], ['http', null, { ...contract, name: 1 }, { name: 'a' }]],
])('%j', (schema, fits, not) => {
  for (const value of fits) expect(problemsIn(value, schema)).toEqual([])
  for (const value of not) expect(problemsIn(value, schema), inspect(value)).toHaveLength(1)
})

test('a problem names the place and what is right', () => {
  const inner: Schema = {
    type: 'object',
    properties: {
      port: { type: 'integer', minimum: 1, maximum: 9 },
      url: { type: 'string', hint: 'must be x' },
    },
    required: ['url'],
    additionalProperties: false,
  }
  const schema: Schema = { properties: { list: { type: 'array', items: inner } } }
  expect(problemsIn({ list: [{ prot: 1 }, { url: 1, port: 10 }] }, schema)).toEqual([
    'list[0].url: is missing',
    'list[0].prot: unknown option; did you mean "port"?',
    'list[1].port: must be from 1 to 9',
    'list[1].url: must be text: put it in quotes',
  ])
  expect(problemsIn(null, { type: 'object' })).toEqual([
    'options: has no value: it must be an object of names and values',
  ])
})

test('a copy has the defaults, at every depth, and each its own', () => {
  const schema: Schema = {
    properties: {
      a: { default: {}, properties: { b: { type: 'integer', default: 7 } } },
      list: { items: { properties: { c: { items: {}, default: [] } } } },
    },
  }
  const given = { list: [{}, { c: [1] }], a: undefined }
  const copies = [checkValue(given, schema, []), checkValue(given, schema, [])]
  for (const copy of copies) expect(copy).toEqual({ a: { b: 7 }, list: [{ c: [] }, { c: [1] }] })
  const [first, second] = copies as { a: object; list: { c: object }[] }[]
  expect(first?.a).not.toBe(second?.a)
  expect(first?.list[0]?.c).not.toBe(second?.list[0]?.c)
  expect(given).toEqual({ list: [{}, { c: [1] }], a: undefined })
})
