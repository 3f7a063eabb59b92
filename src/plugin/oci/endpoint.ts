import { isLoopback, refusalReason } from '../source/url.ts'

/** Settings of one registry. */
export interface RegistrySettings {
  /** Use http. Default: true for a registry on this machine without `ca`, else false. */
  readonly insecure?: boolean | undefined
  /** Path of a PEM file: certificate authorities that are trusted besides those of Node.js. */
  readonly ca?: string | undefined
}

/** Where requests to a registry go. */
export interface Endpoint {
  /** Scheme, host and port. */
  readonly origin: URL
  /** The settings permit http, also for the URLs that the registry names. */
  readonly isInsecure: boolean
}

/** The host of docker.io's API; the name is only one of references. */
const DOCKER_HUB = 'registry-1.docker.io'

/** The endpoint of a registry: https; http on this machine, or if the settings say so. */
export function endpointOf(registry: string, { insecure, ca }: RegistrySettings = {}): Endpoint {
  const host = registry === 'docker.io' ? DOCKER_HUB : registry
  const secure = new URL(`https://${host}`)
  const isHttp = insecure ?? (ca === undefined && isLoopback(secure))
  return { origin: isHttp ? new URL(`http://${host}`) : secure, isInsecure: insecure === true }
}

/**
 * The reason that a URL is not requested which a registry named: the target of a redirect, of an upload, or the realm of a
 * token.
 *
 * @param from - The URL that named it.
 */
export function problemWithTarget(url: URL, from: URL, { isInsecure }: Endpoint): string | undefined {
  if (url.username !== '' || url.password !== '') return 'it has credentials in it'
  const checked = new URL(url)
  if (isInsecure && from.protocol === 'http:' && url.protocol === 'http:') checked.protocol = 'https:'
  return refusalReason(checked, from)
}
