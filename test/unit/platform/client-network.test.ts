import { expect, test } from 'vitest'
import { networkOf } from '../../../src/platform/client-network.ts'

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:C000:0201', '192.0.2.1'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:DB8:0:0:ffff::2', '2001:db8:0:0::/64'],
  ['2001:db8:0:1::1', '2001:db8:0:1::/64'],
  ['2001:0db8:000a:000b:1:2:3:4', '2001:db8:a:b::/64'],
  ['::1', '0:0:0:0::/64'],
  ['1::', '1:0:0:0::/64'],
  ['1::2:3:4:5:6:7', '1:0:2:3::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['', 'none'],
  [undefined, 'none'],
  ['a client\u2028"of its own making"', 'unknown'],
])('for limits, the client at %s is %s', (ip, network) => {
  expect(networkOf(ip)).toBe(network)
})
