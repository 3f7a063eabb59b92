import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  jsonAt,
  jsonElements,
  jsonMembers,
  onOneLine,
  plainMember,
} from '../../../src/platform/json-parts.ts'
import { runs } from '../../support/runs.ts'

test('the parts of a text, put together, are its value, however it is written', () => {
  const text = fc.tuple(
    fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value))),
    fc.constantFrom(undefined, 1, '\t', ' \r\n'),
  )
  fc.assert(
    fc.property(text, ([value, space]) => {
      const written = JSON.stringify(value, undefined, space)
      const members = [...jsonMembers(written)].map(([key, part]) => [key, JSON.parse(part)])
      const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
      expect(members).toEqual(isObject ? Object.entries(value) : [])
      if (Array.isArray(value)) expect(jsonElements(written).map((part) => JSON.parse(part))).toEqual(value)
      expect(JSON.parse(onOneLine(written))).toEqual(value)
      expect(onOneLine(written)).not.toMatch(/[\r\n]/)
    }),
    { numRuns: runs(100) },
  )
})

test.each([
  ['{"a":{"b":1.0}}', ['a', 'b'], '1.0'],
  [' { "a" : 1 , "a" : 12345678901234567890 } ', ['a'], '12345678901234567890'],
  ['{"\\u0061":" :,{[\\"\\\\"}', ['a'], '" :,{[\\"\\\\"'],
  ['{"__proto__":1}', ['__proto__'], '1'],
  ['{"a":{},"b":[]}', ['b'], '[]'],
  ['{"a":[{"b":1}]}', ['a', 'b'], undefined],
  ['{}', ['toString'], undefined],
  ['"a"', ['a'], undefined],
])('of %s, the text at %j is %s', (text, keys, part) => {
  expect(jsonAt(text, ...keys)).toBe(part)
})

test('a plain member is the text that a scan finds', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (member, other) => {
      const value = JSON.parse(JSON.stringify(member))
      const text = JSON.stringify({ other, params: { member: value, last: 1 } })
      const plain = plainMember(text, 'member', value)
      if (plain !== undefined) expect(plain).toBe(jsonAt(text, 'params', 'member'))
      else expect(text.split('"member":').length).toBeGreaterThan(2)
    }),
    { numRuns: runs(200) },
  )
})

test.each([
  ['{"a": {"b":1}}', { b: 1 }],
  ['{"a":{"b": 1}}', { b: 1 }],
  ['{"a":{"b":1.0}}', { b: 1 }],
  ['{"a":{"b":2,"b":1}}', { b: 1 }],
  ['{"a":{"b":18446744073709551617}}', { b: 2 ** 64 }],
  ['{"x":{"a":{"b":1}},"a":{"b":1.0}}', { b: 1 }],
  ['{"a":{"b":2},"a":{"b":1}}', { b: 1 }],
  ['{"\\u0061":{"b":1}}', { b: 1 }],
])('in %s the member is not plain', (text, value) => {
  expect(plainMember(text, 'a', value)).toBeUndefined()
})
