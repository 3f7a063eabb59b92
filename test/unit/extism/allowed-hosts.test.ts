import { expect, test } from 'vitest'
import { hostMatcher } from '../../../src/extism/guest-requests.ts'

test.each([
  ['a.example', ['a.example'], ['b.example', 'a.example.org', 'aXexample', '']],
  ['*', ['a.example', 'localhost'], ['', '.hidden']],
  ['*.example', ['a.example', 'a.b.example'], ['example', '.example', 'a.example.org']],
  ['a?c.example', ['abc.example', 'a-c.example'], ['ac.example', 'abbc.example']],
  ['[a-c].example', ['a.example', 'c.example'], ['d.example', 'ab.example', '-.example']],
  ['[!a-c].example', ['d.example'], ['a.example', 'c.example']],
  ['{a,b}.{example,test}', ['a.example', 'b.test'], ['c.example', 'a.b']],
  ['!a.example', ['b.example', ''], ['a.example']],
  ['.*', ['.hidden'], ['a.example']],
])('the pattern %s allows %j and not %j', (pattern, allowed, others) => {
  const fits = hostMatcher([pattern])
  expect(allowed.filter((host) => !fits(host))).toEqual([])
  expect(others.filter((host) => fits(host))).toEqual([])
})

test('a pattern with thousands of choices is refused', () => {
  expect(() => hostMatcher(['{a,b}'.repeat(12)])).toThrow('too many choices')
})
