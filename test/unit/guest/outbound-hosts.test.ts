import { networkInterfaces } from 'node:os'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addressList, ownAddresses, problemWithAddress } from '../../../src/guest/outbound/target.ts'
import { allowHosts, hostProblem } from '../../../src/plugin/source/allowed-hosts.ts'
import { runs } from '../../support/runs.ts'

const reach = (pattern: string, url: string) => allowHosts([pattern])(new URL(url))

test('nothing can be reached unless it is allowed', () => {
  expect(allowHosts([])(new URL('http://example.com/'))).toBe('nowhere')
})

test.each([
  ['example.com', 'http://example.com/', 'anywhere'],
  ['example.com', 'https://EXAMPLE.com./', 'anywhere'],
  ['EXAMPLE.com.', 'https://example.com:8443/x', 'anywhere'],
  ['example.com', 'http://www.example.com/', 'nowhere'],
  ['example.com', 'http://example.com.evil.test/', 'nowhere'],
  ['example.com', 'http://evilexample.com/', 'nowhere'],
  ['example.com', 'http://example.com@evil.test/', 'nowhere'],
  ['*.example.com', 'http://a.example.com/', 'public'],
  ['*.example.com', 'http://a.b.example.com/', 'public'],
  ['*.example.com', 'http://example.com/', 'nowhere'],
  ['*.example.com', 'http://a.example.com.evil.test/', 'nowhere'],
  ['api-*.example.*', 'http://api-1.example.org/', 'public'],
  ['*api*.example.org', 'http://api.example.org/', 'public'],
  ['*', 'http://93.184.216.34/', 'public'],
  ['*', 'https://[2606:2800::1]/', 'public'],
  ['example.com:8080', 'http://example.com:8080/', 'anywhere'],
  ['example.com:8080', 'http://example.com/', 'nowhere'],
  ['example.com:1', 'http://example.com:1/', 'anywhere'],
  ['example.com:65535', 'http://example.com:65535/', 'anywhere'],
  ['example.com:443', 'https://example.com/', 'anywhere'],
  ['*:443', 'https://example.com/', 'public'],
  ['https://example.com', 'https://example.com/', 'anywhere'],
  ['https://example.com', 'https://example.com:8443/', 'nowhere'],
  ['HTTPS://example.com', 'http://example.com/', 'nowhere'],
  ['http://example.com:8080', 'http://example.com:8080/', 'anywhere'],
  ['https://*', 'http://example.com/', 'nowhere'],
  ['[::1]', 'http://[0:0::1]:80/', 'anywhere'],
  ['[::1]:80', 'http://[::1]:81/', 'nowhere'],
  ['127.0.0.1', 'http://2130706433/', 'anywhere'],
  ['127.0.0.1', 'http://[::ffff:127.0.0.1]/', 'nowhere'],
  ['localhost', 'http://127.0.0.1/', 'nowhere'],
  ['*.bücher.example', 'http://a.xn--bcher-kva.example/', 'public'],
])('%s lets %s go %s', (pattern, url, expected) => {
  expect(reach(pattern, url)).toBe(expected)
})

test('a name in full opens more than a pattern that matches it too', () => {
  expect(allowHosts(['*', 'localhost'])(new URL('http://localhost/'))).toBe('anywhere')
  expect(allowHosts(['*', 'localhost:80'])(new URL('http://localhost:81/'))).toBe('public')
})

test("a stranger's list opens public addresses only", () => {
  expect(allowHosts(['localhost'], false)(new URL('http://localhost/'))).toBe('public')
})

test.each([
  '',
  ' ',
  'a b',
  'a\nb',
  'exam\tple.com',
  '::1',
  '[::1',
  '[*]',
  'ftp://example.com',
  '://example.com',
  'http://',
  'https://example.com/',
  'example.com/path',
  'user@example.com',
  'example.com?x',
  'example.com:',
  'example.com:0',
  'example.com:65536',
  'example.com:99999999999999999999',
  'a,b',
  '256.1.1.1',
  '%6cocalhost',
  'a'.repeat(254),
])('%j is no pattern', (pattern) => {
  expect(hostProblem(pattern)).toBeTypeOf('string')
  expect(() => allowHosts([pattern])).toThrowError(
    expect.objectContaining({ code: 'WASM_SERVE_OPTIONS_INVALID' }),
  )
})

test('whatever is given as a pattern, there is an answer', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.domain()), (pattern) => {
      if (hostProblem(pattern) === undefined) allowHosts([pattern])(new URL('http://example.com/'))
    }),
  )
})

/** A glob as one would write it on paper. */
function isGlobMatch(glob: string, text: string): boolean {
  if (glob === '') return text === ''
  if (glob.startsWith('*'))
    return isGlobMatch(glob.slice(1), text) || (text !== '' && isGlobMatch(glob, text.slice(1)))
  return text.startsWith(glob.charAt(0)) && isGlobMatch(glob.slice(1), text.slice(1))
}

test('a pattern matches what a simple model matches', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-'), maxLength: 8 })
  const globs = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-', '*'), maxLength: 8 })
  fc.assert(
    fc.property(globs, letters, (glob, name) => {
      // Letters around both, so that none begins or ends in a dot, which is not part of a name.
      fc.pre(hostProblem(`x${glob}x`) === undefined && URL.canParse(`http://x${name}x`))
      const expected = isGlobMatch(`x${glob}x`, `x${name}x`)
      expect(reach(`x${glob}x`, `http://x${name}x/`) !== 'nowhere').toBe(expected)
    }),
    { numRuns: runs(100) },
  )
})

test('a pattern with many wildcards costs no more time for a long name', () => {
  const url = new URL(`http://${'a'.repeat(60_000)}/`)
  expect(allowHosts([`${'*a'.repeat(60)}*b`])(url)).toBe('nowhere')
})

// Addresses.

test.each([
  ['0.0.0.0', 'unspecified'],
  ['0.1.2.3', 'unspecified'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['10.0.0.1', 'private'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['192.168.1.1', 'private'],
  ['100.64.0.1', 'shared'],
  ['100.127.255.255', 'shared'],
  ['169.254.169.254', 'link-local'],
  ['192.0.2.1', 'documentation'],
  ['198.19.255.255', 'documentation'],
  ['203.0.113.9', 'documentation'],
  ['192.0.0.170', 'reserved'],
  ['192.88.99.1', 'reserved'],
  ['224.0.0.1', 'multicast'],
  ['239.255.255.255', 'multicast'],
  ['240.0.0.1', 'reserved'],
  ['255.255.255.255', 'reserved'],
  ['::', 'unspecified'],
  ['::1', 'loopback'],
  ['fe80::1', 'link-local'],
  ['fe80::1%eth0', 'link-local'],
  ['febf::1', 'link-local'],
  ['fec0::1', 'private'],
  ['fc00::1', 'private'],
  ['fd12:3456::1', 'private'],
  ['ff02::1', 'multicast'],
  ['2001:db8::1', 'documentation'],
  ['3fff::1', 'documentation'],
  ['2001::1', 'relay'],
  ['2002:7f00:1::', 'relay'],
  ['2002:808:808::', 'relay'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:a9fe:a9fe', 'link-local'],
  ['::ffff:0.0.0.0', 'unspecified'],
  ['::127.0.0.1', 'reserved'],
  ['::ffff:0:127.0.0.1', 'reserved'],
  ['64:ff9b::10.0.0.1', 'private'],
  ['64:ff9b::7f00:1', 'loopback'],
  ['64:ff9b:1::1', 'reserved'],
  ['100::1', 'reserved'],
  ['4000::1', 'reserved'],
  ['5f00::1', 'reserved'],
  ['', 'no address'],
  ['localhost', 'no address'],
  ['168.63.129.16', 'cloud'],
  ['::ffff:168.63.129.16', 'cloud'],
  ['::ffff:a83f:8110', 'cloud'],
  ['64:ff9b::a83f:8110', 'cloud'],
  ['64:ff9b:1::a83f:8110', 'reserved'],
  ['2002:a83f:8110::1', 'relay'],
  ['::168.63.129.16', 'reserved'],
  ['fd00:ec2::254', 'private'],
  ['fd20:ce::254', 'private'],
  ['100.100.100.200', 'shared'],
  ['169.254.170.2', 'link-local'],
  ['192.0.0.192', 'reserved'],
  ['2001:0:a83f:8110::1', 'relay'],
  ['2001:2::1', 'relay'],
  ['2001:10::1', 'relay'],
  ['2001:20::1', 'relay'],
  ['100:0:0:1::1', 'reserved'],
  ['64:ff9b:1:fffe::7f00:1', 'reserved'],
  ['feff::1', 'private'],
])('%s is refused: it is %s', (address, kind) => {
  expect(problemWithAddress(address)).toContain(kind)
})

test.each([
  '1.1.1.1',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '169.253.255.255',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '223.255.255.255',
  '2606:4700::1111',
  '2001:4860:4860::8888',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
  '168.63.129.15',
  '168.63.129.17',
])('%s is public', (address) => {
  expect(problemWithAddress(address)).toBeUndefined()
})

test.each([
  '198.51.99.7',
  '::ffff:198.51.99.7',
  '::FFFF:c633:6307',
  '64:ff9b::198.51.99.7',
  '2606:4700::7',
  '2606:4700:0:0:0::0007',
  '2606:4700::7%eth0',
])('%s is refused where it is an address of this machine, and public elsewhere', (address) => {
  const own = addressList(['198.51.99.7', '2606:4700::7'])
  expect(problemWithAddress(address, own)).toContain('this machine')
  expect(problemWithAddress(address, addressList(['198.51.99.8', '2606:4700::8']))).toBeUndefined()
})

test('this machine’s own addresses are asked for anew, but not for each request', () => {
  let now = 0
  let asked = 0
  const own = ownAddresses(
    () => [++asked === 1 ? '198.51.99.7' : '198.51.99.8'],
    () => now,
  )
  expect(problemWithAddress('198.51.99.7', own())).toBeDefined()
  now = 900
  expect(problemWithAddress('198.51.99.7', own())).toBeDefined()
  expect(asked).toBe(1)
  now = 1_100
  expect(problemWithAddress('198.51.99.7', own())).toBeUndefined()
  expect(problemWithAddress('198.51.99.8', own())).toBeDefined()
})

test('they are those of all its interfaces', () => {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const own = ownAddresses()()
  expect(addresses.length).toBeGreaterThan(0)
  for (const { address, family } of addresses)
    expect(own.check(address, family === 'IPv6' ? 'ipv6' : 'ipv4')).toBe(true)
})
