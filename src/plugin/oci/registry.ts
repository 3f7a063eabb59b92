import type { Repository } from './reference.ts'

/** A descriptor of content, as in the OCI image specification. */
export interface Descriptor {
  readonly mediaType: string
  /** `sha256:` and 64 hex digits. */
  readonly digest: string
  /** In bytes. */
  readonly size: number
  readonly artifactType?: string | undefined
  readonly annotations: Readonly<Record<string, string>>
  /** Of a manifest in an index. */
  readonly platform?: { readonly os: string; readonly architecture: string } | undefined
}

/** A manifest or index as the registry sent it, whose digest was checked. */
export interface FetchedManifest {
  readonly bytes: Uint8Array
  readonly mediaType: string
  /** `sha256:` and 64 hex digits. */
  readonly digest: string
}

/** A client of OCI registries (distribution specification 1.1). */
export interface Registry {
  /** The digest that a tag has now, by HEAD. */
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
