import { isIPv6 } from 'node:net'
import { OptionsError } from '../../errors/errors.ts'
import { fitsParts } from '../../platform/text.ts'

/** The addresses that a guest may reach at a URL: only public ones, or any address of the host's name. */
export type Reach = 'nowhere' | 'public' | 'anywhere'

/**
 * Makes the check of the URLs that a guest may request.
 *
 * A pattern is a host, in which `*` matches any text including dots. `host:port` matches only that port, `scheme://host`
 * only that scheme at its default port. Case is ignored. A pattern without `*` names its host, and so also allows addresses
 * that are not public.
 *
 * @param patterns - Valid for {@link hostProblem}.
 * @param opensPrivate - Whether the operator wrote them: hosts named by a plug-in's author allow public addresses only.
 * @throws {@link OptionsError} for an invalid pattern.
 */
export function allowHosts(patterns: readonly string[], opensPrivate = true): (url: URL) => Reach {
  const allowed = patterns.map((text) => {
    const pattern = parsePattern(text)
    if ('problem' in pattern) throw new OptionsError(`  allowedHosts: ${pattern.problem}`)
    return pattern
  })
  return (url) => {
    const reached = allowed.filter((pattern) => isMatch(pattern, url))
    if (reached.length === 0) return 'nowhere'
    return opensPrivate && reached.some(({ parts }) => parts.length === 1) ? 'anywhere' : 'public'
  }
}

/** The problem of a pattern of {@link allowHosts}; undefined if it is valid. */
export function hostProblem(text: string): string | undefined {
  const pattern = parsePattern(text)
  return 'problem' in pattern ? pattern.problem : undefined
}

interface Pattern {
  readonly protocol: string | undefined
  /** The host as in URLs, split at each `*`: one part without any. */
  readonly parts: readonly string[]
  /** 0: any port. */
  readonly port: number
}

/** Maximum length of a DNS name. */
const MAX_NAME = 253

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }

function parsePattern(text: string): Pattern | { readonly problem: string } {
  const refuse = (problem: string) => ({ problem: `${JSON.stringify(text.slice(0, 64))} ${problem}` })
  if (isIPv6(text)) return refuse('must have its IPv6 address in brackets')
  const [, scheme, rest = ''] = /^(?:([^:/]*):\/\/)?(.*)$/s.exec(text) ?? []
  const protocol = scheme === undefined ? undefined : `${scheme.toLowerCase()}:`
  if (protocol !== undefined && DEFAULT_PORTS[protocol] === undefined)
    return refuse('must use http or https: other schemes are not supported')

  const [, host = '', digits] = /^(\[[^\]]*\]|[^[\]:/?#@\\%\s]+)(?::(\d+))?$/.exec(rest) ?? []
  const name = hostName(host)
  if (name === undefined)
    return refuse('is not a host such as example.com, *.example.com, [::1], a.com:8080 or https://a.com')
  const port = digits === undefined ? (DEFAULT_PORTS[protocol ?? ''] ?? 0) : Number(digits)
  if (digits !== undefined && (port < 1 || port > 65_535)) return refuse('must have a port from 1 to 65535')
  return { protocol, parts: name.split('*'), port }
}

/** Normalises a host as in a URL: lower case, ASCII, addresses in canonical form; a `*` stays. */
function hostName(host: string): string | undefined {
  if (!URL.canParse(`http://${host}`)) return undefined
  const name = new URL(`http://${host}`).hostname.replace(/\.$/, '')
  return name.length <= MAX_NAME && /^(?:[\w.*-]+|\[.*\])$/.test(name) ? name : undefined
}

function isMatch({ protocol, parts, port }: Pattern, url: URL): boolean {
  if (protocol !== undefined && protocol !== url.protocol) return false
  if (port !== 0 && port !== (Number(url.port) || DEFAULT_PORTS[url.protocol])) return false
  const name = url.hostname.replace(/\.$/, '')
  return name.length <= MAX_NAME && fitsParts(name, parts)
}
