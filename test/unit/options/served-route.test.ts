import { expect, test } from 'vitest'
import { methodsOfAll, type RouteIdentity } from '../../../src/options/served-route.ts'

const SUPPORTED = ['GET', 'HEAD', 'POST']

test.each<[RouteIdentity, methods: readonly string[], ...others: RouteIdentity[]]>([
  [{ url: '/' }, ['POST']],
  [{ url: '/', method: 'GET' }, ['GET', 'HEAD']],
  [{ url: '/', method: ['GET', 'HEAD'] }, ['GET', 'HEAD']],
  [{ url: '/', method: '*' }, SUPPORTED],
  [{ url: '/', contract: 'websocket' }, ['GET']],
  [{ url: '/', method: 'GET' }, ['GET'], { url: '/', method: 'HEAD' }],
  [{ url: '/', method: 'GET' }, ['GET', 'HEAD'], { url: '/other', method: 'HEAD' }],
  [{ url: '/', method: 'GET' }, ['GET', 'HEAD'], { url: '/', host: 'a.example', method: 'HEAD' }],
])('the methods of %j are %j, beside %j', (route, methods, ...others) => {
  expect(methodsOfAll([route, ...others], SUPPORTED)(route)).toEqual(methods)
})

test('a method that a route of the app has is left to it, unless the route names it', () => {
  const isHead = (method: string) => method === 'HEAD'
  const methodsOf = (route: RouteIdentity) => methodsOfAll([route], SUPPORTED, isHead)(route)
  expect(methodsOf({ url: '/', method: 'GET' })).toEqual(['GET'])
  expect(methodsOf({ url: '/', method: '*' })).toEqual(['GET', 'POST'])
  expect(methodsOf({ url: '/', method: 'HEAD' })).toEqual(['HEAD'])
})
