import { lookup as resolve } from 'node:dns/promises'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { OutboundRefusedError } from '../../errors/errors.ts'
import type { Reach } from '../../plugin/source/allowed-hosts.ts'

/** Resolves a name to its addresses. */
export type Resolve = (name: string) => Promise<readonly string[]>

/** Uses the resolver of the system, including `/etc/hosts`. */
export const resolveBySystem: Resolve = async (name) =>
  (await resolve(name, { all: true })).map(({ address }) => address)

/** The information about this machine that a check of a target needs. */
export interface NetworkView {
  readonly resolve: Resolve
  /** Addresses of this machine at present. */
  readonly own: () => BlockList
}

/** The checked target of one request: a URL, and the check of the addresses behind its name. */
export interface Target {
  readonly url: URL
  /** The name in messages. */
  readonly name: string
  /** Name or address, without brackets. */
  readonly host: string
  /** Resolves to the checked addresses, so that Node.js connects to one of them and to no other. */
  readonly lookup: LookupFunction
  /** Checks a connection before anything is sent. @returns the reason why its peer is refused, or undefined. */
  problemWithPeer(local: string | undefined, remote: string | undefined): Error | undefined
}

/**
 * Checks the target of a request or of a redirect.
 *
 * Node.js calls `lookup` whenever it opens a connection to a name. It never does for an address, which is checked here:
 * a parsed URL has one form for an address, whether it was written in decimal, octal or hex.
 *
 * @param name - For messages.
 * @throws {@link OutboundRefusedError}
 */
export function checkTarget(
  from: URL,
  name: string,
  reachOf: (url: URL) => Reach,
  { resolve, own }: NetworkView,
): Target {
  const url = plainUrl(from)
  const refuse = (reason: string) => new OutboundRefusedError(name, reason)
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw refuse(`only http and https can be requested, not ${url.protocol.slice(0, 32)}`)
  if (url.username !== '' || url.password !== '')
    throw refuse('send credentials in the header Authorization, not in the URL')
  if (url.port === '0') throw refuse('port 0 is not valid')
  const reach = reachOf(url)
  if (reach === 'nowhere') throw refuse(`this host is not allowed: --allow-host ${url.host.slice(0, 253)}`)

  const host = url.hostname.replace(/^\[|\]$/g, '')
  const refusalOf = (address: string): Error | undefined => {
    const kind = reach === 'public' ? problemWithAddress(address, own()) : undefined
    if (kind === undefined) return undefined
    const what = address === host ? `${host} is ${kind}` : `${host} resolves to ${address}, ${kind}`
    return refuse(`${what}: only --allow-host ${url.host}, which has no "*", opens it`)
  }
  const refusal = isIP(host) === 0 ? undefined : refusalOf(host)
  if (refusal) throw refusal
  return {
    url,
    name,
    host,
    lookup: checkedLookup(resolve, refusalOf),
    problemWithPeer(local, remote) {
      // A routing-table entry can assign this machine an address that no interface has, as load balancers do. Linux then connects
      // from that address, or from ::1 where no interface has a global IPv6 address.
      if (reach !== 'public' || local === undefined || remote === undefined) return undefined
      if (local !== remote && problemWithAddress(local) !== LOOPBACK) return undefined
      return refuse(
        `${remote} is an address of this machine: only --allow-host ${url.host}, which has no "*", opens it`,
      )
    },
  }
}

/**
 * One refused address refuses the name. A name with public and private addresses looks like an attack, and the result
 * must not depend on their order.
 */
function checkedLookup(resolve: Resolve, refusalOf: (address: string) => Error | undefined): LookupFunction {
  return (name, _options, callback) => {
    const found = resolve(name).then((addresses) => {
      for (const address of addresses) {
        const refusal = refusalOf(address)
        if (refusal) throw refusal
      }
      if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
      return addresses.map((address) => ({ address, family: isIP(address) }))
    })
    found.then(
      (addresses) => callback(null, addresses),
      (error: NodeJS.ErrnoException) => callback(error, []),
    )
  }
}

/**
 * Removes the dot at the end of a name: it does not change the meaning, but servers and certificates do not match it.
 */
function plainUrl(from: URL): URL {
  const url = new URL(from)
  url.hash = ''
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  return url
}

/** A URL for messages: without credentials and query, which may be secret, and truncated. */
export function showTarget({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`.slice(0, 256)
}

/**
 * Why an address is not public.
 *
 * @param address - As from a resolver or a URL, without brackets; a zone (`%eth0`) may follow.
 * @param own - Addresses of this machine, as {@link addressList} makes them. Default: none.
 * @returns the kind of address, such as "a private address"; undefined if it is public.
 * @see {@link https://www.iana.org/assignments/iana-ipv4-special-registry}
 * @see {@link https://www.iana.org/assignments/iana-ipv6-special-registry}
 */
export function problemWithAddress(address: string, own?: BlockList): string | undefined {
  const [plain = ''] = address.split('%')
  const family = FAMILIES[isIP(plain)]
  if (family === undefined) return 'no address'
  const kind = SPECIAL_RANGES.find(({ ranges }) => ranges.check(plain, family))?.kind
  if (kind !== undefined) return kind
  if (family === 'ipv6' && !PUBLIC_IPV6.check(plain, family)) return 'a reserved address'
  return own?.check(plain, family) ? 'an address of this machine' : undefined
}

/**
 * Single addresses; each IPv4 address also in its IPv6 forms, mapped and behind NAT64. Invalid addresses are left out.
 */
export function addressList(addresses: readonly string[]): BlockList {
  const plain = addresses.map((address) => address.split('%')[0] ?? '')
  return blockList(
    plain.filter((address) => isIP(address) === 4).map((address) => `${address}/32`),
    plain.filter((address) => isIP(address) === 6).map((address) => `${address}/128`),
  )
}

/** Keyed by the result of `isIP`. */
const FAMILIES: Readonly<Record<number, 'ipv4' | 'ipv6'>> = { 4: 'ipv4', 6: 'ipv6' }

/** The result of {@link problemWithAddress} for the loopback interface. */
const LOOPBACK = 'a loopback address'

const SPECIAL_RANGES = [
  specialRange('an unspecified address', ['0.0.0.0/8'], ['::/128']),
  specialRange(LOOPBACK, ['127.0.0.0/8'], ['::1/128']),
  specialRange('a link-local address', ['169.254.0.0/16'], ['fe80::/10']),
  specialRange(
    'a private address',
    ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
    ['fc00::/7', 'fec0::/10'],
  ),
  specialRange('an address of a shared (carrier) network', ['100.64.0.0/10'], []),
  // Metadata of other clouds is at link-local, private or shared addresses. Azure's wire server is at a public one, and
  // hands machines their certificates and extensions: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  specialRange('an address of a cloud for its own machines', ['168.63.129.16/32'], []),
  specialRange('a multicast address', ['224.0.0.0/4'], ['ff00::/8']),
  specialRange(
    'an address for documentation or benchmarks',
    ['192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
    ['2001:db8::/32', '3fff::/20'],
  ),
  // A 6to4 or Teredo relay turns the address into an IPv4 address that the sender chose. Neither is in use today.
  specialRange(
    'an address that is reserved, or leads through a relay',
    ['192.0.0.0/24', '192.88.99.0/24', '240.0.0.0/4'],
    ['2001::/23', '2002::/16'],
  ),
]

/** Global unicast; IPv4 written as IPv6; IPv4 behind NAT64, through which some networks reach all IPv4 hosts. */
const PUBLIC_IPV6 = blockList([], ['2000::/3', '::ffff:0:0/96', '64:ff9b::/96'])

function specialRange(kind: string, ipv4: readonly string[], ipv6: readonly string[]) {
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

/** How long the interface addresses are cached, in ms: listing them takes tens of microseconds. */
const INTERFACES_CACHE_MS = 1_000

/**
 * The addresses of this machine, including public ones: a service that listens on all interfaces is reachable at each.
 *
 * @param list - Default: those of all network interfaces. Addresses that a router or a cloud translates to one of these
 * (NAT) are not included.
 * @param now - The current time in ms.
 * @returns a function that returns the addresses, at most a second old.
 */
export function ownAddresses(
  list: () => readonly string[] = interfaceAddresses,
  now: () => number = () => performance.now(),
): () => BlockList {
  let known: BlockList | undefined
  let at = 0
  return () => {
    const time = now()
    if (!known || time - at >= INTERFACES_CACHE_MS) {
      known = addressList(list())
      at = time
    }
    return known
  }
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address))
}
