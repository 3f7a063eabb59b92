import { ArtifactUnsupportedError } from '../../errors/errors.ts'
import { sha256 } from '../source/digest.ts'
import { WASM_CONFIG_TYPE, WASM_LAYER_TYPE } from './artifact.ts'
import { type OciReference, renderReference } from './reference.ts'
import type { Registry } from './registry.ts'

const OCI_MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'

/** A plug-in to push. */
interface PushedPlugin {
  /** A core module. */
  readonly bytes: Uint8Array
  /** The file name of the layer. */
  readonly title: string
  /** Annotations of the manifest. */
  readonly annotations: Readonly<Record<string, string>>
  /** The time of the artifact, as ISO 8601. */
  readonly created: string
}

/** The pushed artifact. */
interface Pushed {
  /** The digest of the manifest: `sha256:` and 64 hex digits. */
  readonly digest: string
  /** Bytes of module, config and manifest. */
  readonly bytes: number
}

/** Registries accept manifests of 4 MiB (distribution specification); annotations are part of them. */
const MAX_MANIFEST = 4_194_304

/**
 * Pushes a plug-in in the layout of the CNCF: a config and one layer.
 *
 * The same plug-in, annotations and time give the same digest.
 *
 * @throws {@link ArtifactUnsupportedError} if the annotations are too large; the errors of the registry.
 * @see {@link https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/}
 */
export async function pushPlugin(
  registry: Registry,
  reference: OciReference,
  { bytes, title, annotations, created }: PushedPlugin,
): Promise<Pushed> {
  const layer = {
    mediaType: WASM_LAYER_TYPE,
    digest: `sha256:${sha256(bytes)}`,
    size: bytes.length,
    annotations: { 'org.opencontainers.image.title': title },
  }
  // `os` must be a name that Go knows: `wasip1` also for modules without WASI, as the layout says.
  const config = jsonBytes({ created, architecture: 'wasm', os: 'wasip1', layerDigests: [layer.digest] })
  const manifest = jsonBytes({
    schemaVersion: 2,
    mediaType: OCI_MANIFEST_TYPE,
    config: { mediaType: WASM_CONFIG_TYPE, digest: `sha256:${sha256(config)}`, size: config.length },
    layers: [layer],
    annotations,
  })
  if (manifest.length > MAX_MANIFEST)
    throw new ArtifactUnsupportedError(
      renderReference(reference),
      `its manifest has ${manifest.length} bytes with the annotations, and registries accept ${MAX_MANIFEST}`,
    )
  await registry.pushBlob(reference, bytes)
  await registry.pushBlob(reference, config)
  const { tag = `sha256:${sha256(manifest)}` } = reference
  const digest = await registry.pushManifest(reference, tag, {
    bytes: manifest,
    mediaType: OCI_MANIFEST_TYPE,
  })
  return { digest, bytes: bytes.length + config.length + manifest.length }
}

function jsonBytes(value: object): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}
