import { ArtifactUnsupportedError, RegistryRefusedError } from '../../errors/registry.ts'
import { isObject, type JsonObject } from '../../platform/json-text.ts'
import { isDigest, type Repository, renderPinned } from '../oci/reference.ts'
import type { Descriptor, Registry } from '../oci/registry.ts'
import { BUNDLE_TYPE, MAX_BUNDLE_BYTES } from './bundle.ts'
import { SIGNATURE_ANNOTATION, SIMPLE_SIGNING } from './simple-signing.ts'
import { fromBase64, parseJsonBytes } from './strict-json.ts'

/**
 * What a registry has about a manifest: signatures and attestations. Nothing in it is verified. It stays valid as long
 * as the manifest's digest, so that it can be kept in a cache: {@link renderEvidence}, {@link parseEvidence}.
 */
export type Evidence = readonly EvidenceItem[]

/** A signature or attestation. */
export interface EvidenceItem {
  /** `simple-signing` and `dsse` are of cosign 2. `unreadable` is a signature that cannot be used; it says why. */
  readonly kind: 'bundle' | 'simple-signing' | 'dsse' | 'unreadable'
  /** The digest of the layer or manifest in the registry. */
  readonly origin: string
  readonly content: Uint8Array
  /** Base64. Only `simple-signing` has one; the other kinds contain theirs. */
  readonly signature?: string | undefined
}

const MAX_PIECES = 32

const MAX_TOTAL_BYTES = 4_194_304

/** The layers of cosign 2 attestations. */
const DSSE = 'application/vnd.dsse.envelope.v1+json'

/** A referrer may have this type, or none, instead of the type of its only layer. */
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json'

/**
 * Collects the signatures and attestations of a manifest: Sigstore bundles that refer to it, and the tags
 * `sha256-<hex>.sig` and `sha256-<hex>.att` of cosign 2.
 *
 * @param digest - Of the manifest: `sha256:` and 64 hex digits.
 * @returns no piece if there are none, or if the registry does not show them.
 * @throws {@link ArtifactUnsupportedError} if there are more than 32, one is larger than 1 MiB, or all are larger than
 * 4 MiB.
 * @throws {@link RegistryUnreachableError} and the other errors of the registry.
 */
export async function collectEvidence(
  registry: EvidenceRegistry,
  repository: Repository,
  digest: string,
): Promise<Evidence> {
  const collector = new Collector(registry, repository, digest)
  const pieces = await Promise.all([collector.bundles(), collector.tagged('sig'), collector.tagged('att')])
  return pieces.flat()
}

/** The evidence as JSON text. */
export function renderEvidence(evidence: Evidence): string {
  return JSON.stringify(
    evidence.map((piece) => ({ ...piece, content: Buffer.from(piece.content).toString('base64') })),
  )
}

/** Parses the text of {@link renderEvidence}. @returns undefined if it is another text. */
export function parseEvidence(text: string): Evidence | undefined {
  const parsed = parseJsonBytes(Buffer.from(text))
  if ('problem' in parsed || !Array.isArray(parsed.value)) return undefined
  const pieces = parsed.value.slice(0, MAX_PIECES + 1).map(parseItem)
  const known = pieces.filter((piece) => piece !== undefined)
  return known.length === parsed.value.length && known.length <= MAX_PIECES ? known : undefined
}

function parseItem(value: unknown): EvidenceItem | undefined {
  if (!isObject(value)) return undefined
  const { kind, origin, signature } = value
  const content = fromBase64(value.content)
  if (kind !== 'bundle' && kind !== 'simple-signing' && kind !== 'dsse' && kind !== 'unreadable')
    return undefined
  if (typeof origin !== 'string' || content === undefined) return undefined
  if (signature !== undefined && typeof signature !== 'string') return undefined
  return { kind, origin, content, ...(signature !== undefined && { signature }) }
}

/** What is read of a registry. */
type EvidenceRegistry = Pick<Registry, 'resolve' | 'manifest' | 'blob' | 'referrers'>

class Collector {
  readonly #registry: EvidenceRegistry
  readonly #repository: Repository
  readonly #digest: string
  #pieces = 0
  #bytes = 0

  constructor(registry: EvidenceRegistry, repository: Repository, digest: string) {
    this.#registry = registry
    this.#repository = repository
    this.#digest = digest
  }

  async bundles(): Promise<Evidence> {
    const referrers = await this.#registry.referrers(this.#repository, this.#digest)
    const candidates = referrers.filter(
      ({ artifactType }) =>
        artifactType === BUNDLE_TYPE || artifactType === undefined || artifactType === EMPTY_TYPE,
    )
    if (candidates.length > MAX_PIECES) throw this.#tooMany()
    for (const { size } of candidates) this.#count(size)
    const pieces = await Promise.all(candidates.map((candidate) => this.#bundlesOf(candidate)))
    return pieces.flat()
  }

  async #bundlesOf({ digest, artifactType }: Descriptor): Promise<Evidence> {
    const layers = await this.#layers(digest)
    if (layers === undefined) return [unreadable(digest, NO_MANIFEST)]
    const bundles = layers.filter(({ mediaType }) => mediaType === BUNDLE_TYPE)
    if (bundles.length === 0 && artifactType === BUNDLE_TYPE)
      return [unreadable(digest, `its manifest has no layer of type ${BUNDLE_TYPE}`)]
    return Promise.all(bundles.map((layer) => this.#piece('bundle', layer)))
  }

  /** What cosign 2 stored under a tag. */
  async tagged(suffix: 'sig' | 'att'): Promise<Evidence> {
    const digest = await this.#resolve(`${this.#digest.replace(':', '-')}.${suffix}`)
    if (digest === undefined) return []
    const layers = await this.#layers(digest)
    if (layers === undefined) return [unreadable(digest, NO_MANIFEST)]
    const [type, kind] =
      suffix === 'sig' ? ([SIMPLE_SIGNING, 'simple-signing'] as const) : ([DSSE, 'dsse'] as const)
    return Promise.all(
      layers.map((layer) =>
        layer.mediaType === type ? this.#piece(kind, layer) : this.#unknown(layer.digest, type),
      ),
    )
  }

  async #resolve(tag: string): Promise<string | undefined> {
    try {
      return await this.#registry.resolve(this.#repository, tag)
    } catch (error) {
      // There is no such tag. If the registry hides it, there is no signature, and the plug-in is refused.
      if (error instanceof RegistryRefusedError) return undefined
      throw error
    }
  }

  /** @returns undefined if the manifest is not one. */
  async #layers(digest: string): Promise<Layer[] | undefined> {
    const { bytes } = await this.#registry.manifest(this.#repository, digest)
    this.#count(bytes.length)
    const parsed = parseJsonBytes(bytes)
    if ('problem' in parsed || !isObject(parsed.value) || !Array.isArray(parsed.value.layers))
      return undefined
    if (parsed.value.layers.length > MAX_PIECES) throw this.#tooMany()
    const layers = parsed.value.layers.map(parseLayer).filter((layer) => layer !== undefined)
    return layers.length === parsed.value.layers.length ? layers : undefined
  }

  async #piece(kind: 'bundle' | 'simple-signing' | 'dsse', layer: Layer): Promise<EvidenceItem> {
    this.#countPiece()
    this.#count(layer.size)
    const content = await this.#registry.blob(this.#repository, layer, MAX_BUNDLE_BYTES)
    const signature = layer.annotations[SIGNATURE_ANNOTATION]
    if (kind !== 'simple-signing') return { kind, origin: layer.digest, content }
    if (typeof signature !== 'string')
      return unreadable(layer.digest, `its layer has no annotation ${SIGNATURE_ANNOTATION}`)
    return { kind, origin: layer.digest, content, signature }
  }

  #unknown(digest: string, type: string): EvidenceItem {
    this.#countPiece()
    return unreadable(digest, `its layer does not have the type ${type}`)
  }

  #countPiece(): void {
    if (++this.#pieces > MAX_PIECES) throw this.#tooMany()
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    if (bytes > MAX_BUNDLE_BYTES || this.#bytes > MAX_TOTAL_BYTES)
      throw this.#unsupported(
        `its signatures and attestations may have ${MAX_BUNDLE_BYTES} bytes each, and ${MAX_TOTAL_BYTES} together`,
      )
  }

  #tooMany(): Error {
    return this.#unsupported(`it has more than ${MAX_PIECES} signatures and attestations`)
  }

  #unsupported(problem: string): Error {
    return new ArtifactUnsupportedError(renderPinned(this.#repository, this.#digest), problem)
  }
}

const NO_MANIFEST = 'its manifest cannot be read'

/** A layer of a manifest of signatures. */
interface Layer {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly annotations: JsonObject
}

function parseLayer(value: unknown): Layer | undefined {
  if (!isObject(value)) return undefined
  const { mediaType, digest, size, annotations = {} } = value
  if (typeof mediaType !== 'string' || typeof digest !== 'string' || !isDigest(digest)) return undefined
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return undefined
  return isObject(annotations) ? { mediaType, digest, size, annotations } : undefined
}

function unreadable(origin: string, problem: string): EvidenceItem {
  return { kind: 'unreadable', origin, content: Buffer.from(problem) }
}
