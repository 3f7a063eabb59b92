/** A descriptor of content, as in the OCI image specification. */
export interface Descriptor {
  readonly mediaType: string
  /** `sha256:` and 64 hex digits. */
  readonly digest: string
  /** In bytes. */
  readonly size: number
  readonly artifactType?: string | undefined
  readonly annotations: Readonly<Record<string, string>>
  /** The platform of a manifest in an index. */
  readonly platform?: { readonly os: string; readonly architecture: string } | undefined
}

/** A manifest or index as the registry sent it, whose digest was checked. */
export interface FetchedManifest {
  readonly bytes: Uint8Array
  readonly mediaType: string
  /** `sha256:` and 64 hex digits. */
  readonly digest: string
}
