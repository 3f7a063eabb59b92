import type { Refusal } from '../source/url.ts'
import { splitPin } from '../source/url.ts'

/** A repository of a registry. */
export interface Repository {
  /** `host[:port]` in lower case. */
  readonly registry: string
  /** The path, such as `team/hello`. */
  readonly repository: string
}

/** A parsed `oci://registry[:port]/name[:tag][@sha256:...][#sha256=...]`. */
export interface OciReference extends Repository {
  /** `latest` if neither a tag nor a digest is given. With a digest, it is only shown. */
  readonly tag: string | undefined
  /** The digest of the manifest: `sha256:` and 64 hex digits. It takes precedence over the tag. */
  readonly digest: string | undefined
  /** SHA-256 of the module's bytes in lower-case hex, from `#sha256=`. */
  readonly pin: string | undefined
}

/** The scheme of references to OCI registries. */
export const OCI_SCHEME = 'oci://'

/** Whether a text names an artifact of an OCI registry. */
export function isOciReference(text: string): boolean {
  return /^oci:\/\//i.test(text)
}

/** A host name, IPv4 or bracketed IPv6 address, with an optional port. */
const REGISTRY = /^(?:[a-z\d](?:[a-z\d.-]{0,253}[a-z\d])?|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/

/** `<name>`, and `<reference>` as a tag, of the OCI distribution specification. */
const NAME = /^[a-z\d]+(?:(?:\.|_|__|-+)[a-z\d]+)*(?:\/[a-z\d]+(?:(?:\.|_|__|-+)[a-z\d]+)*)*$/
const TAG = /^\w[\w.-]{0,127}$/

/** Limit of registry and name together, as in the specification. */
const MAX_NAME = 255

/** Parses a reference. @returns the problem, if it is not one. */
export function parseReference(text: string): OciReference | Refusal {
  if (!isOciReference(text)) return { problem: `it does not start with ${OCI_SCHEME}` }
  if (text.length > 1_024) return { problem: 'it is longer than 1024 characters' }
  const pinned = splitPin(text.slice(OCI_SCHEME.length))
  if ('problem' in pinned) return pinned
  const [first = '', ...names] = pinned.place.split('/')
  if (names.length > 0 && first.includes('@')) return { problem: NO_CREDENTIALS }
  const [path = '', digest, ...more] = pinned.place.split('@')
  if (more.length > 0 || (digest !== undefined && path.includes('#'))) return { problem: NO_CREDENTIALS }
  const slash = path.indexOf('/')
  if (slash <= 0)
    return {
      problem:
        'it names no repository: write oci://REGISTRY/NAME[:TAG], such as oci://ghcr.io/acme/hello:1.2',
    }
  const registry = registryName(path.slice(0, slash))
  if (!REGISTRY.test(registry) || Number(/:(\d+)$/.exec(registry)?.[1] ?? 0) > 65_535)
    return { problem: 'its registry is not HOST or HOST:PORT' }
  const [written = '', tag, ...tags] = path.slice(slash + 1).split(':')
  const repository = registry === 'docker.io' && !written.includes('/') ? `library/${written}` : written
  if (!NAME.test(repository) || registry.length + repository.length >= MAX_NAME)
    return {
      problem:
        'its name is not a repository: lower-case letters and digits, separated by ".", "_", "-" and "/"',
    }
  if (tags.length > 0 || (tag !== undefined && !TAG.test(tag)))
    return { problem: 'its tag has other characters than letters, digits, "_", "." and "-"' }
  if (digest !== undefined && !isDigest(digest))
    return { problem: '"@" must be followed by sha256: and 64 hex digits in lower case' }
  return {
    registry,
    repository,
    tag: tag ?? (digest === undefined ? 'latest' : undefined),
    digest,
    pin: pinned.digest,
  }
}

/** Other names of Docker Hub. Docker's configuration has the first; crane prints it. */
const DOCKER_HUB = ['index.docker.io', 'registry-1.docker.io']

/** The name that a registry has in references, policies and credentials: `host[:port]` in lower case, and `docker.io`. */
export function registryName(written: string): string {
  const host = written.toLowerCase()
  return DOCKER_HUB.includes(host) ? 'docker.io' : host
}

/**
 * What to write instead of a text that is probably a reference without the scheme, or with that of other programs.
 *
 * @returns nothing if the text does not look like one. A path that names a module or a manifest is none.
 */
export function referenceHint(text: string): string {
  const place = text.replace(/^docker:\/\//i, '')
  const [host = ''] = place.split('/', 1)
  const isHost = host === 'localhost' || /[^.][.:][^.]/.test(host)
  const meant = `${OCI_SCHEME}${place}`
  if (!isHost || /\.(?:wasm|json)$/i.test(place) || 'problem' in parseReference(meant)) return ''
  return `; for an artifact of a registry, write ${meant}`
}

const NO_CREDENTIALS =
  'it may have one "@", before the digest; credentials come from the Docker configuration (DOCKER_CONFIG)'

/** Whether a text is a digest that we accept: SHA-256, in lower case. */
export function isDigest(text: string): boolean {
  return /^sha256:[\da-f]{64}$/.test(text)
}

/** The reference as text, without the pin of the module. */
export function renderReference({ registry, repository, tag, digest }: OciReference): string {
  return `${OCI_SCHEME}${registry}/${repository}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`
}

/** Renders the artifact's reference with its digest. */
export function renderPinned({ registry, repository }: Repository, digest: string): string {
  return `${OCI_SCHEME}${registry}/${repository}@${digest}`
}
