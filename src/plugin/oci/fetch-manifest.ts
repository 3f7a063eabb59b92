import { DownloadTooLargeError } from '../../errors/errors.ts'
import { parseObject } from '../../platform/json-text.ts'
import { sha256 } from '../source/digest.ts'
import { expectStatus, readAtMost } from './answer.ts'
import type { FetchedManifest } from './content.ts'
import type { Operation } from './operation.ts'
import type { Repository } from './reference.ts'
import type { RegistryRequest, Requests } from './requests.ts'
import type { HttpResponse } from './transport.ts'

/** The media type of an OCI index. */
export const OCI_INDEX = 'application/vnd.oci.image.index.v1+json'

const MANIFEST_TYPES = [
  'application/vnd.oci.image.manifest.v1+json',
  OCI_INDEX,
  'application/vnd.docker.distribution.manifest.v2+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
].join(', ')

/** The size that registries must accept, according to the OCI distribution specification. */
const MAX_BYTES = 4_194_304

/** The request of a manifest by tag or digest. */
export function manifestRequest(repository: Repository, reference: string): RegistryRequest {
  return {
    repository,
    actions: 'pull',
    method: 'GET',
    url: `/v2/${repository.repository}/manifests/${reference}`,
    headers: () => ({ accept: MANIFEST_TYPES }),
  }
}

/** Fetches a manifest or index. Its digest is that of its bytes; the caller compares it. */
export function fetchManifest(
  requests: Requests,
  operation: Operation,
  request: RegistryRequest,
): Promise<FetchedManifest> {
  return requests.send(operation, request, async (response) => {
    await expectStatus(operation, response, 200)
    const bytes = await readManifest(operation, response)
    // The type in the document comes first: the digest covers it, and not the header.
    const mediaType = parseObject(bytes)?.mediaType
    const type = typeof mediaType === 'string' ? mediaType : contentType(response)
    return { bytes, mediaType: type, digest: digestOf(bytes) }
  })
}

/** Reads the bytes of a manifest or index. @throws {@link DownloadTooLargeError} above 4 MiB. */
export async function readManifest({ reference }: Operation, response: HttpResponse): Promise<Uint8Array> {
  const bytes = await readAtMost(response, MAX_BYTES)
  if (bytes) return bytes
  throw new DownloadTooLargeError(reference, MAX_BYTES)
}

/** The media type of a response, without parameters. */
export function contentType({ header }: HttpResponse): string {
  return mediaTypeIn(header('content-type') ?? '')
}

/** A media type without parameters, in lower case. */
export function mediaTypeIn(text: string): string {
  return text.replace(/;.*/s, '').trim().toLowerCase()
}

/** The digest as in a descriptor. */
export function digestOf(bytes: Uint8Array): string {
  return `sha256:${sha256(bytes)}`
}
