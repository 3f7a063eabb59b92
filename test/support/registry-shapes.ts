import { gzipSync } from 'node:zlib'
import type { Repository } from '../../src/plugin/oci/reference.ts'
import type { Registry } from '../../src/plugin/oci/registry.ts'
import { tarOf } from './tar.ts'

export const OCI_MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const OCI_INDEX = 'application/vnd.oci.image.index.v1+json'
const IMAGE_CONFIG = 'application/vnd.oci.image.config.v1+json'

export interface Shape {
  readonly config: string
  readonly layer: string
  /** Default: none. */
  readonly pack?: (module: Uint8Array) => Uint8Array
}

const image = (module: Uint8Array) => tarOf({ name: 'plugin.wasm', content: module })

/** How a plug-in may be packed: the media types of the config and of the only layer. */
export const SHAPES = {
  cncf: { config: 'application/vnd.wasm.config.v0+json', layer: 'application/wasm' },
  oras: { config: 'application/vnd.acme.any+json', layer: 'application/wasm' },
  legacy: {
    config: 'application/vnd.wasm.config.v1+json',
    layer: 'application/vnd.wasm.content.layer.v1+wasm',
  },
  wasmcloud: {
    config: 'application/vnd.acme.any+json',
    layer: 'application/vnd.module.wasm.content.layer.v1+wasm',
  },
  tar: { config: IMAGE_CONFIG, layer: 'application/vnd.oci.image.layer.v1.tar', pack: image },
  image: {
    config: IMAGE_CONFIG,
    layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
    pack: (module) => gzipSync(image(module)),
  },
} satisfies Record<string, Shape>

/** Pushes a module in a shape, blob by blob, under the tag. @returns the digest of the manifest. */
export async function pushShape(
  registry: Registry,
  repository: Repository,
  tag: string,
  module: Uint8Array,
  { config, layer, pack = (bytes) => bytes }: Shape,
): Promise<string> {
  const settings = '{"architecture":"wasm","os":"wasip1","rootfs":{"type":"layers","diff_ids":[]}}'
  const put = async (mediaType: string, bytes: Uint8Array) => ({
    mediaType,
    digest: await registry.pushBlob(repository, bytes),
    size: bytes.length,
  })
  const manifest = {
    config: await put(config, Buffer.from(settings)),
    layers: [await put(layer, pack(module))],
  }
  return pushDocument(registry, repository, tag, OCI_MANIFEST, manifest)
}

/**
 * Pushes an index as BuildKit does: of an image for linux/arm64 with another module, of one for wasip1/wasm, and of an attestation.
 *
 * @returns the digest of the index.
 */
export async function pushIndex(
  registry: Registry,
  repository: Repository,
  tag: string,
  module: Uint8Array,
  other: Uint8Array,
): Promise<string> {
  const put = async (bytes: Uint8Array, os: string, architecture: string) => {
    const name = `${tag}-${os}`
    const digest = await pushShape(registry, repository, name, bytes, SHAPES.image)
    const { length: size } = (await registry.manifest(repository, digest)).bytes
    return { mediaType: OCI_MANIFEST, digest, size, platform: { os, architecture } }
  }
  const manifests = [
    await put(other, 'linux', 'arm64'),
    await put(module, 'wasip1', 'wasm'),
    await put(other, 'unknown', 'unknown'),
  ]
  return pushDocument(registry, repository, tag, OCI_INDEX, { manifests })
}

async function pushDocument(
  registry: Registry,
  repository: Repository,
  tag: string,
  mediaType: string,
  content: object,
): Promise<string> {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...content }))
  return registry.pushManifest(repository, tag, { bytes, mediaType })
}
