import { expect, test } from 'vitest'
import { routeNotFound } from '../../../src/route/route-error.ts'

test.each([
  ['/Ab', 'URLs are case-sensitive'],
  ['/a%3Ab', 'POST /a%3Ab'],
  ['/ab/', 'with the / at its end it is another URL than without'],
])('the hint for %s is about what it differs in: %s', (url, end) => {
  expect(routeNotFound('POST', url).message).toMatch(new RegExp(`${end}$`))
})
