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
  // Whatever else HEAD is answered with, POST says more: its answer has the words of the registry.
  const isThere = await requests.tryOnce(
    operation,
    { ...access, method: 'HEAD', url: `${blobs}${digest}` },
    async ({ status }) => status === 200,
  )
  if (isThere) return
  const upload = await requests.send(
    operation,
    { ...access, method: 'POST', url: `${blobs}uploads/` },
    async (answer, url) => {
      await expectStatus(operation, answer, 202)
      return requests.target(operation, repository.registry, answer.header('location'), url)
    },
  )
  // Appended as text: the query of an upload may be signed.
  upload.search += `${upload.search === '' ? '?' : '&'}digest=${encodeURIComponent(digest)}`
  const headers = () => ({
    'content-type': 'application/octet-stream',
    'content-length': String(bytes.length),
  })
  const body = () => chunksOf(bytes, onProgress)
  await requests.send(operation, { ...access, method: 'PUT', url: upload, headers, body }, (answer) =>
    expectStatus(operation, answer, ...STORED),
  )
}

/** The specification permits 201 only. */
const STORED = [200, 201, 202, 204]

/** Uploads a manifest under a tag or digest. @throws {@link DigestMismatchError} if the registry stored something else. */
export async function uploadManifest(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  reference: string,
  { bytes, mediaType, digest }: FetchedManifest,
): Promise<void> {
  const url = `/v2/${repository.repository}/manifests/${reference}`
  const headers = () => ({ 'content-type': mediaType, 'content-length': String(bytes.length) })
  const request = {
    repository,
    actions: 'pull,push',
    method: 'PUT',
    url,
    headers,
    body: () => chunksOf(bytes, () => undefined),
  } as const
  const stored = await requests.send(operation, request, async (answer) => {
    await expectStatus(operation, answer, ...STORED)
    return answer.header('docker-content-digest') ?? ''
  })
  if (isDigest(stored) && stored !== digest)
    throw new DigestMismatchError(operation.reference, digest, stored)
}

/** A body in chunks. Progress is reported when the connection asks for the next one. */
function* chunksOf(bytes: Uint8Array, onProgress: (done: number) => void): Generator<Uint8Array> {
  for (let done = 0; done < bytes.length; onProgress(done)) {
    const chunk = bytes.subarray(done, done + CHUNK_BYTES)
    done += chunk.length
    yield chunk
  }
}
