import { expect, test } from 'vitest'
import { redirectedRequest } from '../../../src/guest/outbound/redirect.ts'

const HARMLESS = [
  'accept',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-encoding',
  'content-language',
  'content-type',
  'range',
  'traceparent',
  'user-agent',
]
const OTHERS = ['authorization', 'cookie', 'x-api-key', 'content-location', '']

const request = {
  url: new URL('https://a.example/b'),
  method: 'POST',
  headers: new Map([...HARMLESS, ...OTHERS].map((name) => [name, 'v'])),
  body: Buffer.from('a body'),
}

const follow = (status: number, location?: string) => {
  const next = redirectedRequest(request, { status, headers: location === undefined ? {} : { location } })
  return next && { ...next, url: String(next.url), headers: [...next.headers.keys()] }
}

test('another origin gets the headers that hold no credentials, and the body if the method stays', () => {
  expect(follow(308, 'https://b.example/c')).toEqual({
    ...request,
    url: 'https://b.example/c',
    headers: HARMLESS,
  })
  expect(follow(308, 'http://a.example/c')?.headers).toEqual(HARMLESS)
  expect(follow(308, 'https://a.example:444/c')?.headers).toEqual(HARMLESS)
})

test('the same origin gets all headers', () => {
  expect(follow(307, '/c?d')).toEqual({
    ...request,
    url: 'https://a.example/c?d',
    headers: [...request.headers.keys()],
  })
})

test.each([301, 302, 303])('after %i it is a GET without a body and without headers of one', (status) => {
  const { method, body, headers = [] } = follow(status, '/c') ?? {}
  expect([method, body]).toEqual(['GET', undefined])
  expect(headers.filter((name) => name.startsWith('content-'))).toEqual([])
  expect(headers).toContain('authorization')
})

test.each([
  [200, '/c'],
  [304, '/c'],
  [302, undefined],
])('%i with the location %s is no redirect', (status, location) => {
  expect(follow(status, location)).toBeUndefined()
})

test('a location that is no URL is refused', () => {
  expect(() => follow(302, 'https://')).toThrow('redirected to an invalid URL')
})

test.each([
  [301, 'PUT', 'PUT'],
  [302, 'DELETE', 'DELETE'],
  [303, 'PUT', 'GET'],
  [303, 'HEAD', 'HEAD'],
  [307, 'POST', 'POST'],
])('after %i the method of a %s is %s', (status, method, next) => {
  const headers = { location: '/c' }
  expect(redirectedRequest({ ...request, method }, { status, headers })?.method).toBe(next)
})
