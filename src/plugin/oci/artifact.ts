import { ArtifactUnsupportedError } from '../../errors/errors.ts'
import { problemWithFile } from '../../module/module.ts'
import { listed } from '../../platform/text.ts'
import { IMAGE_LAYER_TYPES, ImageModules } from './image.ts'
import {
  INDEX_TYPES,
  MANIFEST_TYPES,
  type OciIndex,
  type OciManifest,
  parseOciManifest,
} from './oci-manifest.ts'
import { type Repository, renderPinned } from './reference.ts'
import type { Descriptor, Registry } from './registry.ts'
import { UnpackBudget, UnpackError, unpackWhole } from './unpack.ts'

/** The media type of a module, as in the CNCF's layout of Wasm artifacts. */
export const WASM_LAYER_TYPE = 'application/wasm'

/**
 * The config of the CNCF's layout.
 *
 * @see {@link https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/}
 */
export const WASM_CONFIG_TYPE = 'application/vnd.wasm.config.v0+json'

/** Media types of a module of today: packed, it may say so. */
const MODULE_TYPES: readonly string[] = [
  WASM_LAYER_TYPE,
  `${WASM_LAYER_TYPE}+gzip`,
  `${WASM_LAYER_TYPE}+zstd`,
]

/** Media types of modules before {@link WASM_LAYER_TYPE}: of wasm-to-oci and Spin, and of wasmCloud. */
const LEGACY_LAYER_TYPES: readonly string[] = [
  'application/vnd.wasm.content.layer.v1+wasm',
  'application/vnd.module.wasm.content.layer.v1+wasm',
]

/** What may travel with a module: as an annotation of its manifest, or as an artifact that refers to the manifest. */
export const COMPANIONS = {
  /** An Extism manifest. */
  manifest: {
    annotation: 'dev.wasm-serve.extism-manifest',
    artifactType: 'application/vnd.extism.manifest.v1+json',
  },
  xtpSchema: { annotation: 'dev.wasm-serve.xtp-schema', artifactType: 'application/vnd.xtp.schema.v1+yaml' },
  /** The smoke request of the route. */
  smoke: { annotation: 'dev.wasm-serve.smoke', artifactType: 'application/vnd.wasm-serve.smoke.v1+json' },
} as const

type Companion = keyof typeof COMPANIONS

/** The module of an artifact, and what travels with it. */
export interface FoundModule {
  /** A core module, by its first bytes; the rest is not checked. */
  readonly bytes: Uint8Array
  /** How it was packed: see {@link findModule}. */
  readonly shape: 'cncf' | 'oras' | 'legacy' | 'image'
  /** The digest of the manifest with the module: `sha256:` and 64 hex digits. It differs from the requested digest if that is an index. */
  readonly manifestDigest: string
  /** Annotations of the manifest and, for names that it has not, of the module's layer. */
  readonly annotations: Readonly<Record<string, string>>
  /** An Extism manifest, as JSON text; its module is that of `manifestWithModule`. */
  readonly manifest: string | undefined
  /** An XTP schema, as YAML or JSON text. */
  readonly xtpSchema: string | undefined
  /** A smoke request, as JSON text. */
  readonly smoke: string | undefined
}

export interface FindOptions {
  /** Maximum bytes of all layers that are downloaded, in all. */
  readonly downloadLimit: number
  /** Maximum bytes that all layers unpack to. Default: `downloadLimit`. */
  readonly unpackedLimit?: number | undefined
  /**
   * Decides whether an artifact that refers to the manifest counts, e.g. by its signature. Every user who can push to the repository can
   * add one, and neither digest nor signature of the manifest covers it. Default: none counts, and the registry is not asked for them.
   */
  readonly acceptReferrer?: ((descriptor: Descriptor) => Promise<boolean>) | undefined
}

/**
 * Fetches an artifact and finds the plug-in in it. Everything is fetched by digest. The shapes, by the media types of the layers:
 *
 * - `cncf`: the config is `application/vnd.wasm.config.v0+json`, and there is one layer, `application/wasm`.
 * - `oras`: any other config, and one layer `application/wasm`, also with `+gzip` or `+zstd`; or without it, one layer
 *   `application/octet-stream` whose title ends in `.wasm`. Layers of other types are ignored.
 * - `legacy`: the same with one of the two media types that were used before.
 * - `image`: a container image, with exactly one `plugin.wasm` in the tar archives of its layers or, without that name, exactly one
 *   `*.wasm`. A layer may also be the module itself. A layer with a title that is neither is ignored.
 *
 * A module may be packed with gzip or zstd. Of an index, the manifest for `wasm` is taken; without one that for linux/amd64;
 * else the only one. Of several for the same platform, such as two variants, the first is taken. Attestations are skipped. The same
 * holds for an index in an index.
 *
 * @param digest - Of the manifest or index: `sha256:` and 64 hex digits.
 * @throws {@link ArtifactUnsupportedError} if it is not clear what the plug-in is, it is a component, or it is damaged.
 * @throws the errors of the registry.
 */
export async function findModule(
  registry: Pick<Registry, 'manifest' | 'blob' | 'referrers'>,
  repository: Repository,
  digest: string,
  options: FindOptions,
): Promise<FoundModule> {
  const search = new Search(registry, repository, renderPinned(repository, digest))
  try {
    return await search.module(digest, options)
  } catch (error) {
    throw error instanceof UnpackError ? search.refuse(error.message, error) : error
  }
}

/** Limit of a companion in an artifact of its own. In an annotation, the limit of manifests holds. */
const MAX_COMPANION = 1_048_576

/** Limit of indexes on the way to a manifest. An image of BuildKit is one, with its provenance, and several may be joined by another. */
const MAX_INDEXES = 3

/** Limit of referrers of one type that are considered. */
const MAX_REFERRERS = 16

/** One run of `findModule`. */
class Search {
  readonly #registry: Pick<Registry, 'manifest' | 'blob' | 'referrers'>
  readonly #repository: Repository
  /** The name in messages. */
  readonly #name: string

  constructor(
    registry: Pick<Registry, 'manifest' | 'blob' | 'referrers'>,
    repository: Repository,
    name: string,
  ) {
    this.#registry = registry
    this.#repository = repository
    this.#name = name
  }

  async module(digest: string, options: FindOptions): Promise<FoundModule> {
    const { manifest, digest: manifestDigest } = await this.#manifest(digest)
    const { bytes, shape, layer } = await this.#read(manifest, options)
    const problem = problemWithFile(bytes)
    if (problem !== undefined) throw this.refuse(problem)
    const texts = await this.#companions(manifest, manifestDigest, options)
    const annotations = Object.assign(Object.create(null), layer?.annotations, manifest.annotations)
    return { bytes, shape, manifestDigest, annotations, ...texts }
  }

  refuse(reason: string, cause?: Error): Error {
    return new ArtifactUnsupportedError(this.#name, reason, { cause })
  }

  /** @param depth - How many indexes led here. */
  async #manifest(digest: string, depth = 0): Promise<{ manifest: OciManifest; digest: string }> {
    const document = await this.#document(digest)
    if (document.kind === 'manifest') return { manifest: document, digest }
    if (depth === MAX_INDEXES) throw this.refuse(`more than ${MAX_INDEXES} indexes lead to its manifest`)
    return this.#manifest(this.#choose(document).digest, depth + 1)
  }

  async #document(digest: string): Promise<OciManifest | OciIndex> {
    const { bytes } = await this.#registry.manifest(this.#repository, digest)
    const document = parseOciManifest(bytes)
    if (document.kind === 'invalid') throw this.refuse(document.problem)
    return document
  }

  #choose({ manifests }: OciIndex): Descriptor {
    const plain = manifests.filter((each) => !isAttestation(each))
    const groups = [plain.filter(isForWasm), plain.filter(isForLinux), plain]
    const group = groups.find(({ length }) => length > 0) ?? []
    const [chosen, ...others] = group
    if (!chosen || !others.every((other) => isAlike(other, chosen))) {
      const found = plain.map(({ platform }) => `${platform?.os || 'any'}/${platform?.architecture || 'any'}`)
      throw this.refuse(`its index must have one manifest for wasm or linux/amd64; it has ${listed(found)}`)
    }
    if (![...MANIFEST_TYPES, ...INDEX_TYPES].includes(chosen.mediaType))
      throw this.refuse(`its index refers to ${listed([chosen.mediaType])}`)
    return chosen
  }

  async #read(manifest: OciManifest, options: FindOptions): Promise<ReadModule> {
    const { config, layers } = manifest
    const budget = new UnpackBudget(options.unpackedLimit ?? options.downloadLimit)
    if (config.mediaType === WASM_CONFIG_TYPE && layers.length !== 1)
      throw this.refuse(
        `a Wasm artifact has one layer, and it has ${layers.length}: ${listed(typesOf(layers))}`,
      )
    const typed = layers.filter(({ mediaType }) => MODULE_TYPES.includes(mediaType) || isLegacy(mediaType))
    const modules = typed.length > 0 ? typed : layers.filter(isNamedModule)
    const [layer, other] = modules
    if (other) throw this.refuse(`it has several modules: ${listed(modules.map(labelOf))}`)
    if (layer) {
      const bytes = await unpackWhole(await this.#blob(layer, options.downloadLimit), budget)
      const shape = config.mediaType === WASM_CONFIG_TYPE ? 'cncf' : 'oras'
      return { bytes, shape: isLegacy(layer.mediaType) ? 'legacy' : shape, layer }
    }
    if (!layers.some(({ mediaType }) => IMAGE_LAYER_TYPES.includes(mediaType))) {
      const found = listed([manifest.artifactType ?? config.mediaType, ...typesOf(layers)])
      throw this.refuse(`no layer is a module (${WASM_LAYER_TYPE}) or of a container image; it has ${found}`)
    }
    return { bytes: await this.#readImage(layers, options, budget), shape: 'image', layer: undefined }
  }

  async #readImage(
    layers: readonly Descriptor[],
    { downloadLimit }: FindOptions,
    budget: UnpackBudget,
  ): Promise<Uint8Array> {
    const images = layers.filter(({ mediaType }) => IMAGE_LAYER_TYPES.includes(mediaType))
    // A layer with a title is a file beside the image.
    const other = layers.find((layer) => !images.includes(layer) && titleOf(layer) === undefined)
    if (other) throw this.refuse(`it is an image with a layer of another kind, ${listed([other.mediaType])}`)
    const size = images.reduce((sum, layer) => sum + layer.size, 0)
    if (size > downloadLimit)
      throw this.refuse(`its layers have ${size} bytes, more than ${downloadLimit} (--download-limit)`)
    const modules = new ImageModules(budget)
    for (const layer of images) await this.#addLayer(modules, layer, downloadLimit)
    const candidates = modules.candidates()
    const [found, second] = candidates
    if (!found)
      throw this.refuse(`its image has no .wasm file; its layers are ${listed(layers.map(labelOf))}`)
    if (second)
      throw this.refuse(`its image has several modules: ${listed(candidates.map(({ path }) => path))}`)
    if (!found.bytes) throw this.refuse(`${listed([found.path])} in its image is a link or a special file`)
    return found.bytes
  }

  async #addLayer(modules: ImageModules, layer: Descriptor, maxBytes: number): Promise<void> {
    const bytes = await this.#blob(layer, maxBytes)
    try {
      await modules.add(bytes, titleOf(layer))
    } catch (error) {
      if (!(error instanceof UnpackError)) throw error
      throw this.refuse(`its layer ${listed([labelOf(layer)])}: ${error.message}`, error)
    }
  }

  #blob(descriptor: Descriptor, maxBytes: number): Promise<Uint8Array> {
    return this.#registry.blob(this.#repository, descriptor, maxBytes)
  }

  async #companions(
    { annotations }: OciManifest,
    digest: string,
    { acceptReferrer }: FindOptions,
  ): Promise<Record<Companion, string | undefined>> {
    const referrers = acceptReferrer ? await this.#registry.referrers(this.#repository, digest) : []
    const read = async (companion: Companion) => {
      const { annotation, artifactType } = COMPANIONS[companion]
      if (annotations[annotation] !== undefined || !acceptReferrer) return annotations[annotation]
      const offered = referrers.filter((referrer) => referrer.artifactType === artifactType)
      if (offered.length > MAX_REFERRERS)
        throw this.refuse(`more than ${MAX_REFERRERS} artifacts of type ${artifactType} refer to it`)
      const accepted: Descriptor[] = []
      for (const referrer of offered) if (await acceptReferrer(referrer)) accepted.push(referrer)
      const [only, other] = accepted
      if (other)
        throw this.refuse(
          `several artifacts of type ${artifactType} refer to it: ${listed(accepted.map((each) => each.digest))}`,
        )
      return only && this.#readReferrer(only, digest)
    }
    return {
      manifest: await read('manifest'),
      xtpSchema: await read('xtpSchema'),
      smoke: await read('smoke'),
    }
  }

  async #readReferrer({ digest }: Descriptor, subject: string): Promise<string> {
    const manifest = await this.#document(digest)
    if (manifest.kind === 'index' || manifest.subject?.digest !== subject)
      throw this.refuse(`${digest} is listed as its referrer, and does not refer to it`)
    const [layer, other] = manifest.layers
    if (!layer || other) throw this.refuse(`its referrer ${digest} must have one layer`)
    const bytes = await this.#blob(layer, MAX_COMPANION)
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    } catch (error) {
      throw new ArtifactUnsupportedError(this.#name, `its referrer ${digest} is not UTF-8 text`, {
        cause: error,
      })
    }
  }
}

interface ReadModule extends Pick<FoundModule, 'bytes' | 'shape'> {
  readonly layer: Descriptor | undefined
}

/** BuildKit lists attestations as manifests for an unknown platform. */
function isAttestation({ platform, annotations }: Descriptor): boolean {
  const isUnknown = platform?.os === 'unknown' && platform.architecture === 'unknown'
  return isUnknown || annotations['vnd.docker.reference.type'] !== undefined
}

/** Whether two manifests are the same, or for the same platform: their variants differ at most, which is nothing to a module. */
function isAlike(one: Descriptor, other: Descriptor): boolean {
  if (one.digest === other.digest) return true
  const { platform } = one
  return (
    platform !== undefined &&
    platform.os === other.platform?.os &&
    platform.architecture === other.platform.architecture
  )
}

function isForWasm({ platform }: Descriptor): boolean {
  return platform?.architecture === 'wasm' || platform?.os.startsWith('wasi') === true
}

function isForLinux({ platform }: Descriptor): boolean {
  return platform?.os === 'linux' && platform.architecture === 'amd64'
}

function typesOf(layers: readonly Descriptor[]): string[] {
  return layers.map(({ mediaType }) => mediaType)
}

function labelOf(layer: Descriptor): string {
  return titleOf(layer) ?? layer.digest
}

function isLegacy(mediaType: string): boolean {
  return LEGACY_LAYER_TYPES.includes(mediaType)
}

/** Programs that know no media type for a module call it a file, and its title says more. */
function isNamedModule(layer: Descriptor): boolean {
  return layer.mediaType === 'application/octet-stream' && /\.wasm$/i.test(titleOf(layer) ?? '')
}

/** The file name that ORAS gives a layer. */
function titleOf({ annotations }: Descriptor): string | undefined {
  return annotations['org.opencontainers.image.title']
}
