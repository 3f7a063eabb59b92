import { RegistryRefusedError } from '../../errors/errors.ts'
import { isObject, parseObject } from '../../platform/json-text.ts'
import { type Answer, expectStatus } from './answer.ts'
import type { Descriptor } from './content.ts'
import { contentType, digestOf, manifestRequest, OCI_INDEX, readManifest } from './fetch-manifest.ts'
import type { Operation } from './operation.ts'
import { isDigest, type Repository } from './reference.ts'
import type { Requests } from './requests.ts'

const MAX_REFERRERS = 256
const MAX_PAGES = 10

/** Statuses of registries without the referrers API. The specification permits only 404. */
const NO_REFERRERS_API = [400, 404, 405, 406, 501]

/**
 * Lists the referrers of a manifest: by the referrers API, or where there is none by the tag `sha256-<hex>`. The first 256 of
 * at most ten pages are returned. One that is malformed or has a digest other than SHA-256 is left out.
 */
export async function listReferrers(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  digest: string,
): Promise<readonly Descriptor[]> {
  const listed = await listByApi(requests, operation, repository, digest)
  return (listed ?? (await listByTag(requests, operation, repository, digest))).slice(0, MAX_REFERRERS)
}

/** @returns undefined if the registry has no referrers API. */
async function listByApi(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  digest: string,
): Promise<Descriptor[] | undefined> {
  const found: Descriptor[] = []
  let next: URL | string | undefined = `/v2/${repository.repository}/referrers/${digest}`
  for (let pages = 0; next !== undefined && pages < MAX_PAGES && found.length < MAX_REFERRERS; pages++) {
    const page: Page = await fetchPage(requests, operation, repository, next)
    if (!page.descriptors && pages === 0) return undefined
    if (!page.descriptors)
      throw new RegistryRefusedError(operation.reference, 'a page of its referrers is not an index')
    found.push(...page.descriptors)
    next = page.next
  }
  return found
}

interface Page {
  /** undefined if the answer is not an index. */
  readonly descriptors: Descriptor[] | undefined
  /** undefined on the last page. */
  readonly next: URL | undefined
}

function fetchPage(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  url: URL | string,
): Promise<Page> {
  const headers = () => ({ accept: OCI_INDEX })
  const request = { repository, actions: 'pull', method: 'GET', url, headers } as const
  return requests.send(operation, request, async (answer, from) => {
    const bytes = await readIndex(operation, answer, [200, ...NO_REFERRERS_API])
    const descriptors = bytes && descriptorsIn(bytes)
    const next = descriptors && nextPage(answer.header('link'))
    return { descriptors, next: next === undefined ? undefined : pageAfter(operation, from, next) }
  })
}

/** A page is requested with the authorization, so from the same origin only. */
function pageAfter({ reference }: Operation, from: URL, next: string): URL {
  if (URL.canParse(next, from) && new URL(next, from).origin === from.origin) return new URL(next, from)
  throw new RegistryRefusedError(reference, 'the next page of its referrers has another origin')
}

/** The tag schema of the distribution specification. */
async function listByTag(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  digest: string,
): Promise<Descriptor[]> {
  const request = manifestRequest(repository, digest.replace(':', '-'))
  const bytes = await requests.send(operation, request, (answer) => readIndex(operation, answer, [200, 404]))
  // Some registries take this tag for the digest: the manifests of an index do not refer to it.
  if (!bytes || digestOf(bytes) === digest) return []
  return descriptorsIn(bytes) ?? []
}

/** @returns undefined if the answer is not an index. */
async function readIndex(
  operation: Operation,
  answer: Answer,
  statuses: readonly number[],
): Promise<Uint8Array | undefined> {
  await expectStatus(operation, answer, ...statuses)
  const isIndex = answer.status === 200 && contentType(answer) === OCI_INDEX
  return isIndex ? readManifest(operation, answer) : undefined
}

/** @returns undefined if the document has no list of manifests. */
function descriptorsIn(bytes: Uint8Array): Descriptor[] | undefined {
  const { manifests } = parseObject(bytes) ?? {}
  if (!Array.isArray(manifests)) return undefined
  return manifests.map(readDescriptor).filter((descriptor) => descriptor !== undefined)
}

function readDescriptor(value: unknown): Descriptor | undefined {
  if (!isObject(value)) return undefined
  const { mediaType, digest, size, artifactType, annotations } = value
  if (typeof mediaType !== 'string' || typeof digest !== 'string' || !isDigest(digest)) return undefined
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return undefined
  return {
    mediaType,
    digest,
    size,
    artifactType: typeof artifactType === 'string' && artifactType !== '' ? artifactType : undefined,
    annotations: readAnnotations(annotations),
  }
}

function readAnnotations(value: unknown): Record<string, string> {
  if (!isObject(value)) return {}
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

/** The target of `rel="next"` of a `Link` header (RFC 8288). @returns undefined on the last page. */
function nextPage(link: string | undefined): string | undefined {
  const links = link?.matchAll(/<([^<>]*)>([^<]*)/g) ?? []
  for (const [, target, parameters = ''] of links)
    if (/;\s*rel\s*=\s*"?next"?/i.test(parameters)) return target
  return undefined
}
