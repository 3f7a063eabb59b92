import { lookup as resolve } from 'node:dns/promises'
import { type BlockList, isIP, type LookupFunction } from 'node:net'
import { OutboundRefusedError } from '../../errors/errors.ts'
import type { Reach } from '../../plugin/source/allowed-hosts.ts'
import { LOOPBACK, whyNotPublic } from './address.ts'

/** Finds the addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>

/** Asks as every other program of this machine does, `/etc/hosts` included. */
export const resolveBySystem: Resolve = async (name) =>
  (await resolve(name, { all: true })).map(({ address }) => address)

/** What a check of a target asks of this machine. */
export interface Surroundings {
  readonly resolve: Resolve
  /** Addresses of this machine at present. */
  readonly own: () => BlockList
}

/** Where one request goes: a URL that has been checked, and the check of the addresses behind its name. */
export interface Target {
  readonly url: URL
  /** For messages. */
  readonly name: string
  /** Name or address, without brackets. */
  readonly host: string
  /** Gives Node.js the addresses that were checked, so that it connects to one of those and to no other. */
  readonly lookup: LookupFunction
  /** Looks at a connection before anything is sent: what is wrong with where it leads; undefined if nothing is. */
  problemWithPeer(local: string | undefined, remote: string | undefined): Error | undefined
}

/**
 * Checks where a request goes, the first or one that a server redirects to.
 *
 * Node.js asks `lookup` whenever it opens a connection to a name. It never does for an address, which is checked here:
 * a URL has those in one form, whether they were written in decimal, octal or hex.
 *
 * @param name - For messages.
 * @throws {@link OutboundRefusedError}
 */
export function checkTarget(
  from: URL,
  name: string,
  reachOf: (url: URL) => Reach,
  { resolve, own }: Surroundings,
): Target {
  const url = plainUrl(from)
  const refuse = (reason: string) => new OutboundRefusedError(name, reason)
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw refuse(`only http and https can be requested, not ${url.protocol.slice(0, 32)}`)
  if (url.username !== '' || url.password !== '')
    throw refuse('credentials belong into the header Authorization, not into the URL')
  if (url.port === '0') throw refuse('there is no port 0')
  const reach = reachOf(url)
  if (reach === 'nowhere') throw refuse(`this host is not allowed: --allow-host ${url.host.slice(0, 253)}`)

  const host = url.hostname.replace(/^\[|\]$/g, '')
  const refusalOf = (address: string): Error | undefined => {
    const kind = reach === 'public' ? whyNotPublic(address, own()) : undefined
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
      // A route may make addresses this machine's that no interface has, as load balancers do. Linux then connects from
      // that address; with IPv6, where no interface has a global one, from ::1.
      if (reach !== 'public' || local === undefined || remote === undefined) return undefined
      if (local !== remote && whyNotPublic(local) !== LOOPBACK) return undefined
      return refuse(
        `${remote} is an address of this machine: only --allow-host ${url.host}, which has no "*", opens it`,
      )
    },
  }
}

/**
 * One address that is refused refuses the name. A name with public and private addresses is what an attack looks like,
 * and which of them is used must not depend on their order.
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

/** A dot at the end changes nothing of what a name means, but servers and certificates do not know it. */
function plainUrl(from: URL): URL {
  const url = new URL(from)
  url.hash = ''
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  return url
}

/** A URL for messages: without credentials and query, which may be secret, and not too long. */
export function showTarget({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`.slice(0, 256)
}
