import { isIP, SocketAddress } from 'node:net'

/**
 * The part of a client's address that is the client's own, for limits: an IPv4 address, or the first 64 bits of an IPv6
 * address, of which a client has all others.
 *
 * @param ip - undefined or empty for a client of a Unix socket. A proxy may name something that is no address.
 */
export function networkOf(ip: string | undefined): string {
  if (!ip) return 'none'
  const [address = ''] = ip.split('%') // without the zone
  const version = isIP(address)
  if (version !== 6) return version === 4 ? address : 'unknown'
  const canonical = new SocketAddress({ address, family: 'ipv6' }).address
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(canonical) ?? []
  return mapped ?? `${firstGroups(canonical)}::/64`
}

/** The first 4 of 8 groups. */
function firstGroups(canonical: string): string {
  const [before = [], after = []] = canonical.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  return [...before, ...zeros, ...after].slice(0, 4).join(':')
}
