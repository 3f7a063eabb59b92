import { createHash } from 'node:crypto'
import type { Descriptor, Registry } from '../../src/plugin/oci/registry.ts'

/** The digest of bytes as registries write it. */
function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** A descriptor as in a manifest. */
export type WrittenDescriptor = Pick<Descriptor, 'mediaType' | 'digest' | 'size'> & Partial<Descriptor>

/** A registry in memory with one repository, and what was requested of it. */
export class MemoryRegistry implements Pick<Registry, 'manifest' | 'blob' | 'referrers'> {
  readonly requests: string[] = []
  readonly #content = new Map<string, Uint8Array>()
  readonly #referrers = new Map<string, Descriptor[]>()

  /** Adds a blob. @returns its descriptor. */
  add(mediaType: string, bytes: Uint8Array, more: Partial<Descriptor> = {}): WrittenDescriptor {
    const digest = digestOf(bytes)
    this.#content.set(digest, bytes)
    return { mediaType, digest, size: bytes.length, ...more }
  }

  /** Adds a manifest or index. @returns its descriptor. */
  addDocument(document: object, more: Partial<Descriptor> = {}): WrittenDescriptor {
    const isIndex = 'manifests' in document
    const type = `application/vnd.oci.image.${isIndex ? 'index' : 'manifest'}.v1+json`
    return this.add(type, Buffer.from(JSON.stringify({ schemaVersion: 2, ...document })), more)
  }

  /** Adds an artifact with these layers. @returns the descriptor of its manifest. */
  addArtifact(config: string, layers: readonly WrittenDescriptor[], more: object = {}): WrittenDescriptor {
    return this.addDocument({ config: this.add(config, Buffer.from('{}')), layers, ...more })
  }

  /** Adds an artifact that refers to a manifest. */
  addReferrer(
    subject: WrittenDescriptor,
    artifactType: string,
    content: Uint8Array,
    listedAt = subject,
  ): void {
    const layer = this.add(artifactType, content)
    const manifest = this.addArtifact('application/vnd.oci.empty.v1+json', [layer], { artifactType, subject })
    const listed = this.#referrers.get(listedAt.digest) ?? []
    this.#referrers.set(listedAt.digest, [...listed, { ...manifest, artifactType, annotations: {} }])
  }

  async manifest(_repository: unknown, digest: string) {
    return { bytes: this.#get(digest), mediaType: 'application/octet-stream', digest }
  }

  async blob(_repository: unknown, { digest, size }: Pick<Descriptor, 'digest' | 'size'>, maxBytes: number) {
    if (size > maxBytes) throw Object.assign(new Error(), { code: 'WASM_SERVE_DOWNLOAD_TOO_LARGE' })
    return this.#get(digest)
  }

  async referrers(_repository: unknown, digest: string) {
    this.requests.push(`referrers ${digest}`)
    return this.#referrers.get(digest) ?? []
  }

  #get(digest: string): Uint8Array {
    this.requests.push(digest)
    const bytes = this.#content.get(digest)
    if (!bytes) throw Object.assign(new Error(digest), { code: 'WASM_SERVE_REGISTRY_REFUSED' })
    return bytes
  }
}
