import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseFirstObject, parseObject, parseStrictJson } from '../../../src/platform/json-text.ts'
import { runs } from '../../support/runs.ts'

/** Texts of the characters that parsers of JSON look at. */
const text = fc.string({ unit: fc.constantFrom('"', '\\', '{', '}', '[', ':', ',', 'a', 'é') })
const { value: object } = fc.letrec((tie) => ({
  value: fc.dictionary(
    text,
    fc.oneof({ maxDepth: 3 }, text, fc.boolean(), fc.array(tie('value')), tie('value')),
    {
      noNullPrototype: true,
    },
  ),
}))

test('the first object of a text is read whole, whatever is in its texts and behind it', () => {
  fc.assert(
    fc.property(object, fc.constantFrom('', '\n', '}', ' {"more": 1}', '"'), (value, more) => {
      const written = JSON.stringify(value)
      expect(parseFirstObject(written + more)).toEqual(JSON.parse(written))
    }),
    { numRuns: runs(100) },
  )
  for (const none of ['', 'text', '[]', '{', '{"a": "}', '"{}"', '{"a"}'])
    expect(parseFirstObject(none), none).toBeUndefined()
})

test('only an object is an object', () => {
  expect(parseObject(Buffer.from(' {"a": [1]} '))).toEqual({ a: [1] })
  for (const other of ['[]', 'null', '1', '"{}"', '{', '{} {}', ''])
    expect(parseObject(Buffer.from(other)), other).toBeUndefined()
  expect(parseObject(undefined)).toBeUndefined()
})

test.each([
  ['{"a": 1, "b": {"a": 1}}', true],
  ['{"a": 1, "a": 1}', false],
  ['{"a": 1, "\\u0061": 2}', false],
  ['[{"b": {"a": "\\":{", "c": ":"}}]', true],
  ['[{"b": {"a": 1, "c": 2, "a": 3}}]', false],
  ['{"__proto__": 1}', true],
])('whether each key of %s is given once: %s', (written, isOnce) => {
  expect('value' in parseStrictJson(written)).toBe(isOnce)
})
