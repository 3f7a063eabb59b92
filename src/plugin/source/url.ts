import { basename, extname, isAbsolute, normalize, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isScript } from '../../script/script.ts'

/** Text without its optional `#sha256=` suffix. */
export interface Pinned<Place> {
  readonly place: Place
  /** SHA-256 in lower-case hex. */
  readonly digest: string | undefined
}

/** The reason that a source cannot be used; the caller adds its name. */
export interface Refusal {
  readonly problem: string
}

/** The environment variable whose value is sent as `Authorization`. */
export const AUTHORIZATION_VARIABLE = 'WASM_SERVE_SOURCE_AUTH'

/** Whether a text names a network location, not a file: it starts with a scheme and `//`. */
export function isUrl(text: string): boolean {
  return /^[a-z][a-z\d+.-]+:\/\//i.test(text)
}

/**
 * Parses the URL of a plug-in: https, or http on this machine, without credentials in it.
 *
 * @param base - Resolves a relative URL. If it is a network URL, URLs of this machine are refused.
 */
export function parseSourceUrl(text: string | URL, base?: URL): Pinned<URL> | Refusal {
  if (!URL.canParse(String(text), base)) return { problem: 'it is not a URL' }
  const url = new URL(text, base)
  const pinned = splitPin(url.hash)
  if ('problem' in pinned) return pinned
  if (pinned.place !== '' && pinned.place !== '#')
    return { problem: 'the only thing that may follow "#" is sha256=<64 hex digits>' }
  url.hash = ''
  const problem = refusalReason(url, base)
  return problem === undefined ? { place: url, digest: pinned.digest } : { problem }
}

/**
 * The reason that a plug-in is not loaded from this URL.
 *
 * @param from - The URL that named this one, by a redirect or in a manifest.
 * @returns undefined if it is permitted.
 */
export function refusalReason(url: URL, from?: URL): string | undefined {
  if (url.username !== '' || url.password !== '')
    return `credentials in a URL end up in logs: set ${AUTHORIZATION_VARIABLE} to the header's value instead`
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return `only https is supported, not ${url.protocol.slice(0, -1)}`
  if (from && !isLoopback(from) && isLoopback(url)) return 'a remote server must not redirect to this machine'
  if (url.protocol === 'http:' && (from?.protocol === 'https:' || !isLoopback(url)))
    return 'http is not protected against modification: use https (http is accepted only for this machine)'
  return undefined
}

/** Whether a URL's host is this machine, by name or address; WHATWG URLs have canonical addresses. */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname)
}

/** A URL for messages, without query and credentials, which may be secret. */
export function showUrl({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`
}

/** A refused source for messages, without its secret parts. */
export function showSource(text: string): string {
  if (!isUrl(text)) return text
  return URL.canParse(text) ? showUrl(new URL(text)) : text.replace(/\/\/.*/s, '//...')
}

/** Splits `#sha256=<hex>` off the end of a path or of a URL's fragment. */
export function splitPin(text: string): Pinned<string> | Refusal {
  const at = text.lastIndexOf('#sha256=')
  if (at < 0) return { place: text, digest: undefined }
  const digest = parseDigest(text.slice(at + '#sha256='.length))
  if (digest === undefined) return { problem: '"#sha256=" must be followed by 64 hex digits' }
  return { place: text.slice(0, at), digest }
}

/** A SHA-256 digest in lower case; undefined if it is not one. */
export function parseDigest(text: unknown): string | undefined {
  return typeof text === 'string' && /^[\da-f]{64}$/i.test(text) ? text.toLowerCase() : undefined
}

/** A module that the plug-in imports from. */
export interface LinkOption {
  /** The name by which the plug-in imports it. */
  readonly name: string
  /** Path or URL of a `.wasm`; may end in `#sha256=<hex>`. */
  readonly source: string
}

/**
 * Parses `[name=]path|url`. The default name is the file's, without `.wasm`. A name may contain slashes and colons, such as
 * `extism:host/user`, so a relative path with `=` in it must start with `./`.
 */
export function parseLink(text: string): LinkOption {
  const match = isPathOrUrl(text) ? null : /^([^=#?\\]+)=(.+)$/s.exec(text)
  if (match) return { name: match[1] ?? '', source: match[2] ?? '' }
  return { name: sourceName(text).replace(/\.wasm$/, ''), source: text }
}

/** Whether a text starts like a path or URL. */
function isPathOrUrl(text: string): boolean {
  return isUrl(text) || /^(?:\.{0,2}[/\\]|[a-z]:[/\\])/i.test(text)
}

/**
 * The name of a plug-in that has none in the configuration: its relative path without its ending, or the file of an absolute
 * one, because clients get names in answers; its URL without credentials and query; its artifact without tag and digest.
 * An update has the name of its predecessor.
 */
export function nameOfSource(source: string): string {
  const place = placeOf(source)
  if (!isUrl(place)) return pathName(isAbsolute(place) ? basename(place) : place)
  if (/^oci:\/\//i.test(place)) return `oci:${withoutTag(place).slice('oci:'.length)}`
  return URL.canParse(place) ? showUrl(new URL(place)) : place
}

function pathName(path: string): string {
  const name = normalize(path).replaceAll(sep, '/')
  const ending = extname(name)
  return ending.toLowerCase() === '.wasm' || isScript(name)
    ? name.slice(0, name.length - ending.length)
    : name
}

/**
 * Whether a script of a folder is served. Those that only others use begin with `_`, as does their folder, or are tests or
 * configurations of tools.
 *
 * @param path - Relative to the folder.
 */
export function isServedScript(path: string): boolean {
  return isScript(path) && !/(?:^|[/\\])_/.test(path) && !/\.(?:test|spec|config)\.[a-z]+$/i.test(path)
}

/** The file name of a path or URL; for a URL without one, its host; for an artifact of a registry, the end of its name. */
export function sourceName(source: string): string {
  const place = withoutPin(source)
  if (/^oci:\/\//i.test(place)) return basename(withoutTag(place))
  if (!isUrl(place) || !URL.canParse(place)) return basename(place)
  const { pathname, host } = new URL(place)
  return basename(pathname) || host
}

/** Equal texts are the same file or resource. */
export function placeKey(source: string): string {
  const place = placeOf(source)
  return isUrl(place) ? place : resolve(place)
}

/** A path or URL without its pin; a `file:` URL as a path. */
function placeOf(source: string): string {
  const place = withoutPin(source)
  return /^file:/i.test(place) && URL.canParse(place) ? fileURLToPath(place) : place
}

function withoutPin(source: string): string {
  return source.replace(/#sha256=[^#]*$/, '')
}

/** A reference of a registry without tag and digest, which follow the last slash. */
function withoutTag(reference: string): string {
  const name = reference.lastIndexOf('/') + 1
  const end = reference.slice(name).search(/[:@]|$/)
  return reference.slice(0, name + end)
}
