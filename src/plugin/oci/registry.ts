import { DigestMismatchError, DownloadTooLargeError, RegistryRefusedError } from '../../errors/errors.ts'
import { sha256InSlices } from '../source/digest.ts'
import type { Descriptor, FetchedManifest } from './content.ts'
import type { RegistrySettings } from './endpoint.ts'
import { fetchBlob } from './fetch-blob.ts'
import { digestOf, fetchManifest, manifestRequest } from './fetch-manifest.ts'
import { isDigest, OCI_SCHEME, type Repository, registryName, renderPinned } from './reference.ts'
import { listReferrers } from './referrers.ts'
import { openRequests, type Requests } from './requests.ts'
import { uploadBlob, uploadManifest } from './upload.ts'

export type { Descriptor } from './content.ts'

/** A client of OCI registries (distribution specification 1.1). */
export interface Registry {
  /** The digest that a tag has now: by HEAD, which does not count as a pull, and by GET where HEAD does not do. */
  resolve(repository: Repository, tag: string): Promise<string>
  /** The manifest or index with this digest, at most 4 MiB. */
  manifest(repository: Repository, digest: string): Promise<FetchedManifest>
  /**
   * The bytes of a blob. Size and SHA-256 are checked while they arrive; no byte is returned if they are wrong.
   *
   * @param maxBytes - A larger blob is refused before it is requested.
   */
  blob(
    repository: Repository,
    descriptor: Pick<Descriptor, 'digest' | 'size'>,
    maxBytes: number,
  ): Promise<Uint8Array>
  /** What refers to a manifest by `subject`: by the referrers API, or where there is none by the tag `sha256-<hex>`. */
  referrers(repository: Repository, digest: string): Promise<readonly Descriptor[]>
  /** Uploads a blob, unless the registry has it. @returns its descriptor's digest. */
  pushBlob(repository: Repository, bytes: Uint8Array): Promise<string>
  /** Uploads a manifest under a tag or digest. @returns its digest. */
  pushManifest(
    repository: Repository,
    reference: string,
    manifest: Omit<FetchedManifest, 'digest'>,
  ): Promise<string>
}

/** The progress of one blob or manifest. */
export interface Transfer {
  /** The reference. */
  readonly name: string
  readonly digest: string
  /** Bytes so far. */
  readonly done: number
  readonly total: number
}

export interface RegistryOptions {
  /** The environment of the process: proxies, and where the credentials are. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Settings by `host[:port]`. */
  readonly registries?: Readonly<Record<string, RegistrySettings>> | undefined
  /** The limit of one operation with all its requests and repeats. Default: 30 s. */
  readonly timeoutMs?: number | undefined
  /** Aborts all operations, which fail with its reason. */
  readonly signal?: AbortSignal | undefined
  /** The bytes of a blob that were received or sent so far. May start again at 0 if the transfer is repeated. */
  readonly onProgress?: ((done: number, total: number, digest: string) => void) | undefined
  /** Delays before the attempts after the first. Default: 0.25, 0.5, 1 and 2 s. */
  readonly retryDelaysMs?: readonly number[] | undefined
}

/**
 * Opens a client. It uses https; a registry on this machine and one with `insecure` are reached by http. Nothing needs to be
 * closed. The operations throw:
 *
 * @throws {@link RegistryUnreachableError} if the registry does not answer, or answers 429 or 5xx, also after the repeats.
 * @throws {@link RegistryRefusedError} if it answers anything else that is not the expected.
 * @throws {@link CredentialsInvalidError} if it needs credentials, and their file or helper is broken.
 * @throws {@link DownloadTimeoutError} at the deadline.
 * @throws {@link DownloadTooLargeError} if a blob or manifest exceeds its limit.
 * @throws {@link DigestMismatchError} if the bytes are not those that were asked for.
 */
export function openRegistry(options: RegistryOptions): Registry {
  return new RegistryClient(options)
}

class RegistryClient implements Registry {
  readonly #requests: Requests
  readonly #onProgress: NonNullable<RegistryOptions['onProgress']>

  constructor(options: RegistryOptions) {
    this.#onProgress = options.onProgress ?? (() => undefined)
    this.#requests = openRequests({
      environment: options.environment,
      registries: Object.fromEntries(
        Object.entries(options.registries ?? {}).map(([name, settings]) => [registryName(name), settings]),
      ),
      timeoutMs: options.timeoutMs ?? 30_000,
      signal: options.signal,
      retryDelaysMs: options.retryDelaysMs ?? [250, 500, 1_000, 2_000],
    })
  }

  resolve(repository: Repository, tag: string): Promise<string> {
    return this.#requests.run(renderTagged(repository, tag), async (operation) => {
      const request = manifestRequest(repository, tag)
      // Whatever HEAD fails with, GET says more: its answer has the words of the registry.
      const digest = await this.#requests.tryOnce(
        operation,
        { ...request, method: 'HEAD' },
        async ({ status, header }) => (status === 200 ? header('docker-content-digest') : undefined),
      )
      if (digest !== undefined && isDigest(digest)) return digest
      return (await fetchManifest(this.#requests, operation, request)).digest
    })
  }

  async manifest(repository: Repository, digest: string): Promise<FetchedManifest> {
    const reference = checkedReference(repository, digest)
    return this.#requests.run(reference, async (operation) => {
      const request = manifestRequest(repository, digest)
      const manifest = await fetchManifest(this.#requests, operation, request)
      if (manifest.digest === digest) return manifest
      throw new DigestMismatchError(reference, digest, manifest.digest)
    })
  }

  async blob(
    repository: Repository,
    descriptor: Pick<Descriptor, 'digest' | 'size'>,
    maxBytes: number,
  ): Promise<Uint8Array> {
    const { digest, size } = descriptor
    const reference = checkedReference(repository, digest)
    if (size > maxBytes) throw new DownloadTooLargeError(reference, maxBytes)
    const onProgress = (done: number) => this.#onProgress(done, size, digest)
    return this.#requests.run(reference, (operation) =>
      fetchBlob(this.#requests, operation, repository, descriptor, onProgress),
    )
  }

  async referrers(repository: Repository, digest: string): Promise<readonly Descriptor[]> {
    const reference = checkedReference(repository, digest)
    return this.#requests.run(reference, (operation) =>
      listReferrers(this.#requests, operation, repository, digest),
    )
  }

  async pushBlob(repository: Repository, bytes: Uint8Array): Promise<string> {
    const digest = `sha256:${await sha256InSlices(bytes)}`
    const onProgress = (done: number) => this.#onProgress(done, bytes.length, digest)
    await this.#requests.run(renderPinned(repository, digest), (operation) =>
      uploadBlob(this.#requests, operation, repository, { bytes, digest }, onProgress),
    )
    return digest
  }

  async pushManifest(
    repository: Repository,
    reference: string,
    manifest: Omit<FetchedManifest, 'digest'>,
  ): Promise<string> {
    const digest = digestOf(manifest.bytes)
    const name = isDigest(reference)
      ? renderPinned(repository, reference)
      : renderTagged(repository, reference)
    await this.#requests.run(name, (operation) =>
      uploadManifest(this.#requests, operation, repository, reference, { ...manifest, digest }),
    )
    return digest
  }
}

function renderTagged({ registry, repository }: Repository, tag: string): string {
  return `${OCI_SCHEME}${registry}/${repository}:${tag}`
}

/** A digest may come from a manifest: it must not lead to another path. */
function checkedReference(repository: Repository, digest: string): string {
  if (isDigest(digest)) return renderPinned(repository, digest)
  const reference = `${OCI_SCHEME}${repository.registry}/${repository.repository}`
  throw new RegistryRefusedError(reference, 'it names content by a digest that is not SHA-256')
}
