import { expect, test } from 'vitest'
import { fitTable } from '../../../src/route/route-table.ts'

const route = (url: string, more: object = {}) => ({ options: { url, ...more }, methods: ['POST'] })

test.each([
  ['a URL', route('/a/b-c.d'), true],
  ['a URL with a colon, which is written twice', route('/v1::run'), true],
  ['a URL with two colons', route('/a::::b'), true],
  ['a parameter', route('/a/:id'), false],
  ['a parameter behind a colon', route('/a:::id'), false],
  ['a wildcard', route('/a/*'), false],
  ['an encoded character', route('/a%20b'), false],
  ['a host', route('/a', { host: 'a.example' }), false],
])('whether a route with %s can be in a table: %#', (_what, { options, methods }, fits) => {
  const all = [route('/other'), { options, methods }]
  expect(fitTable({ hasRoute: () => false } as never, all as never)).toBe(fits)
})

test('a route for OPTIONS is not in a table if the app answers all of them', () => {
  const routes = [{ options: { url: '/a' }, methods: ['GET', 'OPTIONS'] }]
  const fits = (hasRoute: boolean) => fitTable({ hasRoute: () => hasRoute } as never, routes as never)
  expect([fits(false), fits(true)]).toEqual([true, false])
})
