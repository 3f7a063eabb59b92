import { expect, test } from 'vitest'
import { checkRequest } from '../../../src/guest/outbound/guest-request.ts'

const check = (headers: Record<string, string>) =>
  Object.fromEntries(checkRequest({ url: 'https://a.example', method: 'post', headers }, undefined).headers)

test.each([
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'proxy-authorization',
  'Proxy-Connection',
])('a guest cannot set %s, which is about the connection', (name) => {
  expect(check({ [name]: 'a', 'X-Other': 'b' })).toEqual({ 'x-other': 'b' })
})

test('nor what it names as such', () => {
  expect(check({ connection: 'close, X-Own', 'x-own': 'a', 'x-other': 'b' })).toEqual({ 'x-other': 'b' })
})
