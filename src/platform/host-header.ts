import { isIP, isIPv6 } from 'node:net'

/** A literal address of version 6, or a name, each with an optional port. (RFC 9110, section 7.2; RFC 3986, section 3.2.2) */
const HOST = /^(?:\[([\d:.a-f]+)\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})+)(?::(\d*))?$/i

/** Whether a text is a host with an optional port, as in the `Host` header of a URL that has a host. */
export function isHost(text: string): boolean {
  const parts = HOST.exec(text)
  if (!parts) return false
  const [, address, port = ''] = parts
  return (address === undefined || isIPv6(address)) && Number(port) <= 65_535
}

/** Whether a `Host` header is that of this URL. The default port of its scheme may be left out. */
export function isHostOf({ protocol, host: expected }: URL, host: string): boolean {
  const url = `${protocol}//${host}`
  return URL.canParse(url) && new URL(url).host === expected
}

/**
 * Whether the name in a `Host` header is an IP address, which no page in a browser can point elsewhere, or one of these.
 *
 * @param names - In lower case.
 */
export function isKnownHost(host: string, names: ReadonlySet<string>): boolean {
  const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '')
  return isIP(name.replaceAll(/^\[|\]$/g, '')) !== 0 || names.has(name)
}
