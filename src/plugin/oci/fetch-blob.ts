import { createHash } from 'node:crypto'
import { DigestMismatchError, RegistryRefusedError } from '../../errors/errors.ts'
import { type Answer, expectStatus } from './answer.ts'
import type { Descriptor } from './content.ts'
import { type Operation, TemporaryFailure } from './operation.ts'
import type { Repository } from './reference.ts'
import type { Requests } from './requests.ts'

/**
 * Fetches a blob. If the connection breaks, the next attempt asks for the rest only. Size and SHA-256 are those of the whole.
 *
 * @throws {@link DigestMismatchError}, and {@link RegistryRefusedError} if it has another size.
 */
export function fetchBlob(
  requests: Requests,
  operation: Operation,
  repository: Repository,
  { digest, size }: Pick<Descriptor, 'digest' | 'size'>,
  onProgress: (done: number) => void,
): Promise<Uint8Array> {
  const { reference } = operation
  const bytes = new Uint8Array(size)
  let hash = createHash('sha256')
  let done = 0
  const request = {
    repository,
    actions: 'pull',
    method: 'GET',
    url: `/v2/${repository.repository}/blobs/${digest}`,
    // With an end: some registries refuse a range without one.
    headers: (): Readonly<Record<string, string>> =>
      done > 0 && done < size ? { range: `bytes=${done}-${size - 1}` } : {},
  } as const
  return requests.send(operation, request, async (answer) => {
    if (done === 0 || !isRest(answer, done, size)) {
      const wasPartial = done > 0
      done = 0
      hash = createHash('sha256')
      if (wasPartial && answer.status !== 200)
        throw new TemporaryFailure(`a part of the blob cannot be fetched (status ${answer.status})`)
      await expectStatus(operation, answer, 200)
    }
    for await (const chunk of answer.body) {
      if (done + chunk.length > size)
        throw new RegistryRefusedError(
          reference,
          `the blob has more than the ${size} bytes of its descriptor`,
        )
      bytes.set(chunk, done)
      hash.update(chunk)
      done += chunk.length
      onProgress(done)
    }
    if (done < size)
      throw new RegistryRefusedError(reference, `the blob has ${done} bytes, and its descriptor says ${size}`)
    const actual = `sha256:${hash.digest('hex')}`
    if (actual !== digest) throw new DigestMismatchError(reference, digest, actual)
    return bytes
  })
}

/** Whether an answer is what follows the first bytes. In a content coding, positions would be others. */
function isRest({ status, header }: Answer, from: number, size: number): boolean {
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(header('content-range') ?? '') ?? []
  const isSame = Number(start) === from && (total === '*' || Number(total) === size)
  return status === 206 && isSame && (header('content-encoding') ?? 'identity') === 'identity'
}
