import { createHash, type KeyObject, sign } from 'node:crypto'
import type { OciRegistry, StoredDescriptor } from './oci-registry.ts'
import { BUNDLE_TYPE, SIGNATURE_STATEMENT, signStatement } from './signatures.ts'

/** The repository of the plug-ins. */
export const REGISTRY_NAME = 'acme/hello'

/** Stores a plug-in in the layout of the CNCF. */
export function putPlugin(
  registry: OciRegistry,
  bytes: Uint8Array,
  tag: string | undefined,
  annotations: Record<string, string> = {},
): StoredDescriptor {
  const config = { mediaType: 'application/vnd.wasm.config.v0+json', bytes: '{}' }
  return registry.putArtifact(
    REGISTRY_NAME,
    { config, layers: [{ mediaType: 'application/wasm', bytes }], annotations },
    tag,
  )
}

/** Signs a manifest as cosign 3 does. */
export function signManifest(registry: OciRegistry, subject: StoredDescriptor, key: KeyObject): void {
  const sha256 = subject.digest.slice('sha256:'.length)
  const bundle = signStatement(key, { ...SIGNATURE_STATEMENT, subject: [{ digest: { sha256 } }] })
  registry.putReferrer(REGISTRY_NAME, subject, {
    artifactType: BUNDLE_TYPE,
    layers: [{ mediaType: BUNDLE_TYPE, bytes: JSON.stringify(bundle) }],
  })
}

/** Signs bytes as `cosign sign-blob --bundle` does. */
export function signBytes(bytes: Uint8Array, key: KeyObject): string {
  const digest = createHash('sha256').update(bytes).digest('base64')
  const signature = sign('sha256', bytes, key).toString('base64')
  return JSON.stringify({
    mediaType: BUNDLE_TYPE,
    verificationMaterial: { publicKey: { hint: 'a' } },
    messageSignature: { messageDigest: { algorithm: 'SHA2_256', digest }, signature },
  })
}
