import { OCI_SCHEME, parseReference, registryName } from '../oci/reference.ts'
import { isUrl, type Refusal } from '../source/url.ts'

/** The prefix of the policy for everything that no other prefix matches, including files and uploads. */
const ANY_NAME = '*'

/**
 * The canonical form of a prefix: `*`, a repository or a part of one (`ghcr.io/acme`), or a URL. It has no slash at its
 * end: a prefix always ends at a slash of the name.
 */
export function parsePrefix(text: string): { readonly prefix: string } | Refusal {
  if (text === ANY_NAME) return { prefix: ANY_NAME }
  const place = text.replace(/\/$/, '')
  if (/^https?:\/\//i.test(text)) return parseUrlPrefix(place)
  const name = place.startsWith(OCI_SCHEME) ? place.slice(OCI_SCHEME.length) : place
  if (isUrl(name) || 'problem' in parseReference(`${OCI_SCHEME}${name}/x`)) return { problem: NO_PREFIX }
  const [registry = '', ...path] = name.split('/')
  return { prefix: [registryName(registry), ...path].join('/') }
}

const NO_PREFIX =
  'a policy is for REGISTRY/NAME, a part of it that ends before a slash, an https URL, or "*"; tags are not possible'

function parseUrlPrefix(text: string): { readonly prefix: string } | Refusal {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || url.username !== '' || url.password !== '' || /[?#]/.test(text)) return { problem: NO_PREFIX }
  return { prefix: nameOfUrl(url) }
}

/**
 * The policy with the longest prefix of a name.
 *
 * @param name - `registry/repository` of an artifact, or the URL of a download; undefined for a file or an upload.
 */
export function longestPrefix<Policy>(
  policies: ReadonlyMap<string, Policy>,
  name: string | undefined,
): Policy | undefined {
  let rest = name !== undefined && isUrl(name) && URL.canParse(name) ? nameOfUrl(new URL(name)) : (name ?? '')
  while (rest !== '') {
    const policy = policies.get(rest)
    if (policy !== undefined) return policy
    rest = rest.slice(0, Math.max(0, rest.lastIndexOf('/')))
  }
  return policies.get(ANY_NAME)
}

/** The name of a URL, without its query. `URL` has resolved `.` and `..`, and made scheme and host canonical. */
function nameOfUrl({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`.replace(/\/$/, '')
}
