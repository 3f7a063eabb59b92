import { expect, test } from 'vitest'
import { isHostOf, isKnownHost } from '../../../src/platform/host-header.ts'

test.each([
  ['127.0.0.1', true],
  ['[::1]:80', true],
  ['LocalHost:1', true],
  ['localhost.', true],
  ['a.example.:80', true],
  ['a.example:', true],
  ['localhost.evil.example', false],
  ['a.example..', false],
  ['', false],
])('a name is known if it is an address, or in a list: %s', (host, isKnown) => {
  expect(isKnownHost(host, new Set(['localhost', 'a.example']))).toBe(isKnown)
})

test.each([
  ['http://a.example', 'A.Example', true],
  ['http://a.example', 'a.example:80', true],
  ['https://a.example:443', 'a.example', true],
  ['https://a.example', 'a.example:80', false],
  ['http://a.example:8080', 'a.example', false],
  ['http://a.example', 'b.example', false],
  ['http://[::1]:8080', '[::1]:8080', true],
  ['http://a.example', '', false],
])('the origin %s is that of the host %s: %s', (origin, host, isSame) => {
  expect(isHostOf(new URL(origin), host)).toBe(isSame)
})
