import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/**
 * Why an address is no public one.
 *
 * @param address - As a resolver gives it or a URL has it, without brackets; a zone (`%eth0`) may follow.
 * @param own - Addresses of this machine, as {@link addressList} makes them. Default: none.
 * @returns what it is, such as "a private address"; undefined if it is public.
 * @see {@link https://www.iana.org/assignments/iana-ipv4-special-registry}
 * @see {@link https://www.iana.org/assignments/iana-ipv6-special-registry}
 */
export function whyNotPublic(address: string, own?: BlockList): string | undefined {
  const [plain = ''] = address.split('%')
  const family = FAMILIES[isIP(plain)]
  if (family === undefined) return 'no address'
  const kind = KINDS.find(({ ranges }) => ranges.check(plain, family))?.kind
  if (kind !== undefined) return kind
  if (family === 'ipv6' && !PUBLIC_IPV6.check(plain, family)) return 'a reserved address'
  return own?.check(plain, family) ? 'an address of this machine' : undefined
}

/** Single addresses; those of IPv4 also as IPv6 has them, mapped and behind NAT64. What is no address is left out. */
export function addressList(addresses: readonly string[]): BlockList {
  const plain = addresses.map((address) => address.split('%')[0] ?? '')
  return blockList(
    plain.filter((address) => isIP(address) === 4).map((address) => `${address}/32`),
    plain.filter((address) => isIP(address) === 6).map((address) => `${address}/128`),
  )
}

/** By what `isIP` says. */
const FAMILIES: Readonly<Record<number, 'ipv4' | 'ipv6'>> = { 4: 'ipv4', 6: 'ipv6' }

/** What {@link whyNotPublic} says of this machine's own interface. */
export const LOOPBACK = 'a loopback address'

const KINDS = [
  kind('an unspecified address', ['0.0.0.0/8'], ['::/128']),
  kind(LOOPBACK, ['127.0.0.0/8'], ['::1/128']),
  kind('a link-local address', ['169.254.0.0/16'], ['fe80::/10']),
  kind('a private address', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'], ['fc00::/7', 'fec0::/10']),
  kind('an address of a shared (carrier) network', ['100.64.0.0/10'], []),
  // Metadata of other clouds is at link-local, private or shared addresses. Azure's wire server is at a public one, and
  // hands machines their certificates and extensions: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  kind('an address of a cloud for its own machines', ['168.63.129.16/32'], []),
  kind('a multicast address', ['224.0.0.0/4'], ['ff00::/8']),
  kind(
    'an address for documentation or benchmarks',
    ['192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
    ['2001:db8::/32', '3fff::/20'],
  ),
  // What a relay makes of a 6to4 or Teredo address is an IPv4 address of the asker's choice. Nobody needs them now.
  kind(
    'an address that is reserved, or leads through a relay',
    ['192.0.0.0/24', '192.88.99.0/24', '240.0.0.0/4'],
    ['2001::/23', '2002::/16'],
  ),
]

/** Global unicast; IPv4 written as IPv6; IPv4 behind NAT64, which is how some networks reach all of it. */
const PUBLIC_IPV6 = blockList([], ['2000::/3', '::ffff:0:0/96', '64:ff9b::/96'])

function kind(kind: string, ipv4: readonly string[], ipv6: readonly string[]) {
  return { kind, ranges: blockList(ipv4, ipv6) }
}

/** A `BlockList` finds an IPv4 range in IPv4-mapped addresses by itself, but not behind NAT64. */
function blockList(ipv4: readonly string[], ipv6: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ipv4) {
    const [network = '', bits = ''] = range.split('/')
    list.addSubnet(network, Number(bits), 'ipv4')
    list.addSubnet(`64:ff9b::${network}`, 96 + Number(bits), 'ipv6')
  }
  for (const range of ipv6) {
    const [network = '', bits = ''] = range.split('/')
    list.addSubnet(network, Number(bits), 'ipv6')
  }
  return list
}

/** How long the addresses of the interfaces are remembered, in ms: to list them takes tens of microseconds. */
const REMEMBERED_MS = 1_000

/**
 * The addresses of this machine, public ones too: what listens on all interfaces is reached by each of them.
 *
 * @param list - Default: those of all network interfaces. An address that a router or a cloud translates to one of these
 * (NAT) is not among them.
 * @param now - In ms.
 * @returns a function that gives those of the present, or of a second ago.
 */
export function ownAddresses(
  list: () => readonly string[] = interfaceAddresses,
  now: () => number = () => performance.now(),
): () => BlockList {
  let known: BlockList | undefined
  let at = 0
  return () => {
    const time = now()
    if (!known || time - at >= REMEMBERED_MS) {
      known = addressList(list())
      at = time
    }
    return known
  }
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address))
}
