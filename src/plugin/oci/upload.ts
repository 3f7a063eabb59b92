import { DigestMismatchError } from '../../errors/errors.ts'
import { expectStatus } from './answer.ts'
import type { FetchedManifest } from './content.ts'
import type { Operation } from './operation.ts'
import { isDigest, type Repository } from './reference.ts'
import type { Requests } from './requests.ts'

const CHUNK_BYTES = 65_536

/** Uploads a blob in one piece (POST, then PUT), unless the registry has it. */
export async function uploadBlob(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  { bytes, digest }: Pick<FetchedManifest, 'bytes' | 'digest'>,
  onProgress: (done: number) => void,
): Promise<void> {
  const access = { repository, actions: 'pull,push' } as const
  const blobs = `/v2/${repository.repository}/blobs/`
  const isThere = await requests.send(
    operation,
    { ...access, method: 'HEAD', url: `${blobs}${digest}` },
    async (response) => {
      await expectStatus(operation, response, 200, 404)
      await response.body?.cancel()
      return response.status === 200
    },
  )
  if (isThere) return
  const upload = await requests.send(
    operation,
    { ...access, method: 'POST', url: `${blobs}uploads/` },
    async (response, url) => {
      await expectStatus(operation, response, 202)
      await response.body?.cancel()
      return requests.target(operation, repository.registry, response.headers.get('location'), url)
    },
  )
  // Appended as text: the query of an upload may be signed.
  upload.search += `${upload.search === '' ? '?' : '&'}digest=${encodeURIComponent(digest)}`
  const headers = { 'content-type': 'application/octet-stream', 'content-length': String(bytes.length) }
  const body = () => streamOf(bytes, onProgress)
  await requests.send(
    operation,
    { ...access, method: 'PUT', url: upload, headers, body },
    async (response) => {
      await expectStatus(operation, response, 201)
      await response.body?.cancel()
    },
  )
}

/** Uploads a manifest under a tag or digest. @throws {@link DigestMismatchError} if the registry stored something else. */
export async function uploadManifest(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  reference: string,
  { bytes, mediaType, digest }: FetchedManifest,
): Promise<void> {
  const url = `/v2/${repository.repository}/manifests/${reference}`
  const headers = { 'content-type': mediaType, 'content-length': String(bytes.length) }
  const body = () => streamOf(bytes, () => undefined)
  const request = {
    repository,
    actions: 'pull,push',
    method: 'PUT',
    url,
    headers,
    body,
  } as const
  const stored = await requests.send(operation, request, async (response) => {
    await expectStatus(operation, response, 201)
    await response.body?.cancel()
    return response.headers.get('docker-content-digest') ?? ''
  })
  if (isDigest(stored) && stored !== digest)
    throw new DigestMismatchError(operation.reference, digest, stored)
}

/** A body in chunks. Progress is reported when the connection asks for the next one. */
function streamOf(bytes: Uint8Array, onProgress: (done: number) => void): ReadableStream<Uint8Array> {
  let done = 0
  return new ReadableStream({
    pull(controller) {
      if (done > 0 || bytes.length === 0) onProgress(done)
      if (done === bytes.length) return controller.close()
      const chunk = bytes.subarray(done, done + CHUNK_BYTES)
      done += chunk.length
      controller.enqueue(chunk)
    },
  })
}
