import {
  AttestationMissingError,
  DownloadTimeoutError,
  PullNeverError,
  RegistryUnreachableError,
  SignatureInvalidError,
  SignatureMissingError,
  SourceInvalidError,
  TrustPolicyMissingError,
} from '../../errors/errors.ts'
import { type ContentCache, openContentCache } from '../source/content-cache.ts'
import { sha256 } from '../source/digest.ts'
import { showSource } from '../source/url.ts'
import { collectEvidence, parseEvidence, renderEvidence } from '../trust/evidence.ts'
import type { Policy, Trust } from '../trust/trust.ts'
import { type Verified, verifyArtifact } from '../trust/verify.ts'
import { type FindOptions, type FoundModule, findModule } from './artifact.ts'
import type { Descriptor, FetchedManifest } from './content.ts'
import {
  type OciReference,
  parseReference,
  type Repository,
  renderPinned,
  renderReference,
} from './reference.ts'
import { openRegistry, type Registry, type RegistryOptions, type Transfer } from './registry.ts'

/** When a plug-in is pulled, as for images of Kubernetes. */
type PullPolicy = 'IfNotPresent' | 'Always' | 'Never'

/** How artifacts are pulled: the same for all of a configuration. */
export interface PullSettings extends Pick<RegistryOptions, 'registries'> {
  /** Variables for credentials and proxies. Default: neither are used. */
  readonly environment?: RegistryOptions['environment'] | undefined
  /** Default: `Always` for the tag `latest`, else `IfNotPresent`. */
  readonly policy?: PullPolicy | undefined
  /** Receives the progress of blobs. */
  readonly onTransfer?: ((transfer: Transfer) => void) | undefined
  /** Whether an artifact to which no policy applies is refused. */
  readonly requireSignatures?: boolean | undefined
}

interface PullOptions extends PullSettings {
  /** undefined: no cache. */
  readonly cacheFolder?: string | undefined
  /** Maximum size of a module. Default: 256 MiB. */
  readonly maxBytes?: number | undefined
  /** Time limit of one operation. Default: 30 s. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  readonly trust?: Trust | undefined
  /** The digest that the tag has now, if it is known. */
  readonly digest?: string | undefined
}

/** A plug-in of a registry. */
export interface Pulled extends FoundModule {
  /** The digest of the referenced manifest or index: `sha256:` and 64 hex digits. */
  readonly digest: string
  /** undefined if no policy applies. */
  readonly signed: Verified | undefined
  readonly warnings: readonly string[]
}

/** Default maximum of a module. */
const MAX_BYTES = 268_435_456

/**
 * Pulls the plug-in of an artifact: its tag is resolved once, its signature is verified, and then everything is fetched by
 * digest, from the cache if it is there. A pinned artifact that is in the cache needs no request.
 *
 * @throws {@link PullNeverError}, the errors of the registry, of signatures and of {@link findModule}.
 */
export async function pullPlugin(reference: OciReference, options: PullOptions): Promise<Pulled> {
  const warnings: string[] = []
  const cache =
    options.cacheFolder === undefined ? undefined : openContentCache(options.cacheFolder, warnings)
  const client = options.policy === 'Never' ? undefined : openClient(reference, options)
  const source = new CachedRegistry(client, cache, renderReference(reference))
  const { digest, isCurrent } = await digestOf(reference, source, cache, options, warnings)
  const signed = await verify(reference, digest, source, cache, options)
  const companions = {
    manifest: source.manifest.bind(source),
    blob: source.blob.bind(source),
    referrers: source.knownReferrers.bind(source),
  }
  const found = await findModule(companions, reference, digest, {
    downloadLimit: options.maxBytes ?? MAX_BYTES,
    acceptReferrer: acceptReferrer(reference, source, cache, options),
  })
  const { tag } = reference
  if (isCurrent && tag !== undefined)
    await cache?.writeTag(tagKey(reference, tag), { digest: hexOf(digest), at: Date.now() })
  return { ...found, digest, signed, warnings }
}

/**
 * The digest that the tag of a reference has now, whatever the cache has.
 *
 * @throws the errors of the registry.
 */
export async function resolveSource(text: string, options: Omit<PullOptions, 'policy'>): Promise<string> {
  const reference = parseReference(text)
  if ('problem' in reference) throw new SourceInvalidError(showSource(text), reference.problem)
  const { digest, tag } = reference
  return digest ?? openClient(reference, options).resolve(reference, tag ?? '')
}

function openClient(reference: OciReference, options: PullOptions): Registry {
  const { environment = {}, registries, timeoutMs, signal, onTransfer } = options
  const name = renderReference(reference)
  const onProgress: RegistryOptions['onProgress'] = (done, total, digest) =>
    onTransfer?.({ name, digest, done, total })
  return openRegistry({ environment, registries, timeoutMs, signal, onProgress })
}

/** @returns the digest, and whether it is that of the tag now. */
async function digestOf(
  reference: OciReference,
  registry: Pick<Registry, 'resolve'>,
  cache: ContentCache | undefined,
  { policy, digest: known }: PullOptions,
  warnings: string[],
): Promise<{ digest: string; isCurrent: boolean }> {
  const { tag = '', digest } = reference
  if (digest !== undefined) return { digest, isCurrent: false }
  if (known !== undefined) return { digest: known, isCurrent: true }
  const isAsked = (policy ?? (tag === 'latest' ? 'Always' : 'IfNotPresent')) === 'Always'
  const kept = await cache?.tag(tagKey(reference, tag))
  const before = kept && `sha256:${kept.digest}`
  if (before !== undefined && !isAsked) return { digest: before, isCurrent: false }
  try {
    return { digest: await registry.resolve(reference, tag), isCurrent: true }
  } catch (error) {
    if (before === undefined || !isUnreachable(error)) throw error
    warnings.push(`${error.message}; using the digest that the tag had before, ${before}`)
    return { digest: before, isCurrent: false }
  }
}

function isUnreachable(error: unknown): error is Error {
  return error instanceof RegistryUnreachableError || error instanceof DownloadTimeoutError
}

function tagKey({ registry, repository }: Repository, tag: string): string {
  return `${registry}/${repository}:${tag}`
}

function hexOf(digest: string): string {
  return digest.slice('sha256:'.length)
}

/**
 * Verifies the signatures of an artifact. Those that were verified before are in the cache, and are verified again.
 *
 * @returns undefined if no policy applies to it.
 */
async function verify(
  reference: OciReference,
  digest: string,
  registry: CachedRegistry,
  cache: ContentCache | undefined,
  { trust, requireSignatures = false }: PullOptions,
): Promise<Verified | undefined> {
  const repository = `${reference.registry}/${reference.repository}`
  const name = renderPinned(reference, digest)
  const policy = trust?.policyFor(repository)
  if (!policy && !requireSignatures) return undefined
  if (!policy) throw new TrustPolicyMissingError(name, `add a policy for ${repository}`)
  const kept = await cache?.evidence(hexOf(digest))
  const before = kept && (await verifyKept(name, digest, kept, policy))
  if (before) return before
  const evidence = await collectEvidence(registry, reference, digest)
  const verified = await verifyArtifact(name, digest, evidence, policy)
  await cache?.writeEvidence(hexOf(digest), Buffer.from(renderEvidence(evidence)))
  return verified
}

/**
 * Whether an artifact that refers to the plug-in counts. No digest covers it: so it must be signed as the policy demands. Without
 * a policy, those of a tag count, and those of a pinned artifact do not.
 */
function acceptReferrer(
  reference: OciReference,
  registry: CachedRegistry,
  cache: ContentCache | undefined,
  options: PullOptions,
): FindOptions['acceptReferrer'] {
  const isUnderPolicy =
    options.trust?.policyFor(`${reference.registry}/${reference.repository}`) !== undefined
  if (!isUnderPolicy) return reference.digest === undefined ? async () => true : undefined
  return async ({ digest }) => {
    try {
      return (await verify(reference, digest, registry, cache, options)) !== undefined
    } catch (error) {
      if (REFUSALS.some((refusal) => error instanceof refusal)) return false
      throw error
    }
  }
}

/** @returns undefined if what was kept does not fulfil the policy, which may have changed: the registry may have more. */
async function verifyKept(
  name: string,
  digest: string,
  kept: Uint8Array,
  policy: Policy,
): Promise<Verified | undefined> {
  const evidence = parseEvidence(Buffer.from(kept).toString())
  if (!evidence) return undefined
  try {
    return await verifyArtifact(name, digest, evidence, policy)
  } catch (error) {
    if (REFUSALS.some((refusal) => error instanceof refusal)) return undefined
    throw error
  }
}

const REFUSALS = [AttestationMissingError, SignatureInvalidError, SignatureMissingError]

/** A registry whose manifests and blobs are kept. Without a client, only what was kept is there. */
class CachedRegistry implements Pick<Registry, 'resolve' | 'manifest' | 'blob' | 'referrers'> {
  readonly #client: Registry | undefined
  readonly #cache: ContentCache | undefined
  /** The name in messages. */
  readonly #name: string

  constructor(client: Registry | undefined, cache: ContentCache | undefined, name: string) {
    this.#client = client
    this.#cache = cache
    this.#name = name
  }

  async resolve(repository: Repository, tag: string): Promise<string> {
    return this.#online().resolve(repository, tag)
  }

  async referrers(repository: Repository, digest: string): Promise<readonly Descriptor[]> {
    return this.#online().referrers(repository, digest)
  }

  /** The referrers that a manifest had when it was pulled first, so that a later pull gives the same plug-in. */
  async knownReferrers(repository: Repository, digest: string): Promise<readonly Descriptor[]> {
    const key = `referrers ${renderPinned(repository, digest)}`
    const kept = await this.#cache?.request(key)
    const bytes = kept && (await this.#cache?.read(kept.digest))
    if (bytes) return JSON.parse(Buffer.from(bytes).toString())
    if (!this.#client) return []
    const found = await this.#client.referrers(repository, digest)
    const rendered = Buffer.from(JSON.stringify(found))
    await this.#cache?.write(sha256(rendered), rendered)
    await this.#cache?.writeRequest(key, { digest: sha256(rendered), etag: undefined })
    return found
  }

  async manifest(repository: Repository, digest: string): Promise<FetchedManifest> {
    const kept = await this.#cache?.read(hexOf(digest))
    if (kept) return { bytes: kept, mediaType: '', digest } // its content says what it is
    const fetched = await this.#online().manifest(repository, digest)
    await this.#cache?.write(hexOf(digest), fetched.bytes)
    return fetched
  }

  async blob(
    repository: Repository,
    descriptor: Pick<Descriptor, 'digest' | 'size'>,
    maxBytes: number,
  ): Promise<Uint8Array> {
    const kept = await this.#cache?.read(hexOf(descriptor.digest))
    if (kept && kept.length === descriptor.size && kept.length <= maxBytes) return kept
    const bytes = await this.#online().blob(repository, descriptor, maxBytes)
    await this.#cache?.write(hexOf(descriptor.digest), bytes)
    return bytes
  }

  #online(): Registry {
    if (this.#client) return this.#client
    throw new PullNeverError(this.#name)
  }
}
