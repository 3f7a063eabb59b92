import { basename } from 'node:path'

/** Something that may end in `#sha256=<hex>`, without it. */
export interface Pinned<Place> {
  readonly place: Place
  /** SHA-256 in lower-case hex. */
  readonly digest: string | undefined
}

/** Why something cannot be used, to be put into an error by who knows its name. */
export interface Refusal {
  readonly problem: string
}

/** The environment variable whose value is sent as `Authorization`. */
export const AUTHORIZATION_VARIABLE = 'WASM_SERVE_SOURCE_AUTH'

/** Whether a text names something on the network, and not a file: it begins with a scheme and `//`. */
export function isUrl(text: string): boolean {
  return /^[a-z][a-z\d+.-]+:\/\//i.test(text)
}

/**
 * Reads the URL of a plug-in: https, or http on this machine, without credentials in it.
 *
 * @param base - What a relative URL is relative to. If it is a URL of the network, none of this machine is taken.
 */
export function parseSourceUrl(text: string | URL, base?: URL): Pinned<URL> | Refusal {
  if (!URL.canParse(String(text), base)) return { problem: 'it is not a URL' }
  const url = new URL(text, base)
  const pinned = splitPin(url.hash)
  if ('problem' in pinned) return pinned
  if (pinned.place !== '' && pinned.place !== '#')
    return { problem: 'the only thing that may follow "#" is sha256=<64 hex digits>' }
  url.hash = ''
  const problem = whyRefused(url, base)
  return problem === undefined ? { place: url, digest: pinned.digest } : { problem }
}

/**
 * Why a plug-in is not taken from this URL.
 *
 * @param from - The URL that named this one, by a redirect or in a manifest.
 * @returns undefined if it may be.
 */
export function whyRefused(url: URL, from?: URL): string | undefined {
  if (url.username !== '' || url.password !== '')
    return `credentials in a URL end up in logs: put the header's value into ${AUTHORIZATION_VARIABLE} instead`
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return `only https is supported, not ${url.protocol.slice(0, -1)}`
  if (from && !isLoopback(from) && isLoopback(url)) return 'the network must not send us to this machine'
  if (url.protocol === 'http:' && (from?.protocol === 'https:' || !isLoopback(url)))
    return 'http can be changed on its way: use https (http is for this machine only)'
  return undefined
}

/** Whether a URL's host is this machine, by its name or address; WHATWG URLs have addresses in one form. */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname)
}

/** A URL for messages: without query and credentials, which may be secret. */
export function showUrl({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`
}

/** Takes `#sha256=<hex>` off the end of a path or of a URL's fragment. */
export function splitPin(text: string): Pinned<string> | Refusal {
  const at = text.lastIndexOf('#sha256=')
  if (at < 0) return { place: text, digest: undefined }
  const digest = parseDigest(text.slice(at + '#sha256='.length))
  if (digest === undefined) return { problem: '"#sha256=" must be followed by 64 hex digits' }
  return { place: text.slice(0, at), digest }
}

/** A SHA-256 digest in lower case; undefined if it is none. */
export function parseDigest(text: string): string | undefined {
  return /^[\da-f]{64}$/i.test(text) ? text.toLowerCase() : undefined
}

/** A module that the plug-in imports from. */
export interface LinkOption {
  /** What the plug-in imports it by. */
  readonly name: string
  /** Path or URL of a `.wasm`; may end in `#sha256=<hex>`. */
  readonly source: string
}

/**
 * Reads `[name=]path|url`; without a name it is the file's, without `.wasm`. A name may have slashes and colons, such
 * as `extism:host/user`, so a relative path with `=` in it has to begin with `../../source/`.
 */
export function parseLink(text: string): LinkOption {
  const match = isPlace(text) ? null : /^([^=#?\\]+)=(.+)$/s.exec(text)
  if (match) return { name: match[1] ?? '', source: match[2] ?? '' }
  return { name: sourceName(text).replace(/\.wasm$/, ''), source: text }
}

/** Whether a text begins as only paths and URLs do. */
function isPlace(text: string): boolean {
  return isUrl(text) || /^(?:\.{0,2}[/\\]|[a-z]:[/\\])/i.test(text)
}

/** The name of the file that a path or URL leads to; of a URL without one, its host. */
export function sourceName(source: string): string {
  const place = source.replace(/#sha256=[^#]*$/, '')
  if (!isUrl(place) || !URL.canParse(place)) return basename(place)
  const { pathname, host } = new URL(place)
  return basename(pathname) || host
}
