import {
  createHash,
  generateKeyPairSync,
  type KeyObject,
  type KeyPairKeyObjectResult,
  sign,
} from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RegistryRefusedError } from '../../src/errors/registry.ts'
import type { Repository } from '../../src/plugin/oci/reference.ts'
import type { Descriptor, Registry } from '../../src/plugin/oci/registry.ts'

/** Fixtures of cosign 2 and 3 and of @sigstore/mock; their README has the commands. */
const FOLDER = fileURLToPath(new URL('signatures/', import.meta.url))

/** The repository of the fixtures. */
export const REPOSITORY = { registry: 'registry.example', repository: 'acme/hello' }

/** The signed file: an empty module. */
export const FILE = Buffer.from('0061736d01000000', 'hex')

/** The digest of the signed artifact's manifest. */
export const DIGEST = 'sha256:9d0cf3d2dc923e37dead5c9c2c5b5b9a633c07dbe64e8f912d1190362d2dc7a3'

export const BUNDLE_TYPE = 'application/vnd.dev.sigstore.bundle.v0.3+json'

/** The identity of `keyless-signature.json`. */
export const KEYLESS = {
  issuer: 'https://token.actions.githubusercontent.com',
  identity: 'https://github.com/acme/hello/.github/workflows/release.yml@refs/tags/v1',
}

/** The path of a fixture. */
export function fixture(name: string): string {
  return join(FOLDER, name)
}

/** The content of a registry, by tag and digest. */
export interface Snapshot {
  readonly digest: string
  readonly tags: Record<string, string>
  readonly manifests: Record<string, { readonly mediaType: string; readonly text: string }>
  readonly blobs: Record<string, string>
}

/** What cosign stored in a registry. */
export function snapshot(name: string): Snapshot {
  return JSON.parse(readFileSync(fixture(`${name}.json`), 'utf8'))
}

/** A registry with this content, without the referrers API. It returns what it has, also if a digest is wrong. */
export function registryWith({ tags, manifests, blobs }: Snapshot): Registry {
  const find = <Value>(values: Record<string, Value>, name: string): Value => {
    const value = values[name]
    if (value === undefined) throw new RegistryRefusedError(name, 'not found')
    return value
  }
  return {
    resolve: async (_repository, tag) => find(tags, tag),
    async manifest(_repository, digest) {
      const { mediaType, text } = find(manifests, digest)
      return { bytes: Buffer.from(text), mediaType, digest }
    },
    blob: async (_repository, { digest }) => Buffer.from(find(blobs, digest)),
    async referrers(_repository, digest) {
      const index = tags[digest.replace(':', '-')]
      if (index === undefined) return []
      try {
        const { manifests: entries }: { manifests: Descriptor[] } = JSON.parse(find(manifests, index).text)
        return entries.map((entry) => ({ ...entry, annotations: entry.annotations ?? {} }))
      } catch (error) {
        throw new RegistryRefusedError(index, 'the index is broken', { cause: error })
      }
    },
    pushBlob: () => Promise.reject(new Error('read-only')),
    pushManifest: () => Promise.reject(new Error('read-only')),
  }
}

/** A key made for a test, in a folder of its own. */
export interface TestKey {
  readonly privateKey: KeyObject
  /** The file of the public key. */
  readonly path: string
  close(): void
}

/** @param type - Default: ECDSA P-256. */
export function makeKey(type: 'p256' | 'p384' | 'ed25519' | 'rsa' = 'p256'): TestKey {
  const { privateKey, publicKey } = generate(type)
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-key-'))
  const path = join(folder, 'test.pub')
  writeFileSync(path, publicKey.export({ type: 'spki', format: 'pem' }))
  return { privateKey, path, close: () => rmSync(folder, { recursive: true }) }
}

function generate(type: 'p256' | 'p384' | 'ed25519' | 'rsa'): KeyPairKeyObjectResult {
  if (type === 'ed25519') return generateKeyPairSync('ed25519')
  if (type === 'rsa') return generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return generateKeyPairSync('ec', { namedCurve: type === 'p256' ? 'prime256v1' : 'secp384r1' })
}

const STATEMENT_TYPE = 'application/vnd.in-toto+json'

/** The fields of a statement that is a signature of the artifact. */
export const SIGNATURE_STATEMENT = {
  _type: 'https://in-toto.io/Statement/v1',
  subject: [{ digest: { sha256: DIGEST.slice('sha256:'.length) } }],
  predicateType: 'https://sigstore.dev/cosign/sign/v1',
  predicate: {},
}

/** A bundle with a DSSE envelope, signed by the key. */
export function signStatement(
  key: KeyObject,
  statement: unknown,
  { payloadType = STATEMENT_TYPE, hash = 'sha256' }: { payloadType?: string; hash?: string } = {},
): Record<string, unknown> {
  const payload = Buffer.from(typeof statement === 'string' ? statement : JSON.stringify(statement))
  const head = `DSSEv1 ${Buffer.byteLength(payloadType)} ${payloadType} ${payload.length} `
  const bytes = Buffer.concat([Buffer.from(head), payload])
  const sig = sign(key.asymmetricKeyType === 'ed25519' ? undefined : hash, bytes, key).toString('base64')
  return {
    mediaType: BUNDLE_TYPE,
    verificationMaterial: { publicKey: { hint: 'a' } },
    dsseEnvelope: { payload: payload.toString('base64'), payloadType, signatures: [{ sig }] },
  }
}

/** SHA-256 with its prefix. */
function digestOf(bytes: Uint8Array | string): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/**
 * Signs an artifact as cosign 3 does.
 *
 * @param list - Writes the tag `sha256-<hex>`, as where the registry has no referrers API. Default: true.
 */
export async function signArtifact(
  registry: Registry,
  { registry: host, repository, digest = '' }: Repository & { readonly digest: string | undefined },
  key: KeyObject,
  list = true,
): Promise<void> {
  const place = { registry: host, repository }
  const put = async (mediaType: string, text: string) => {
    const bytes = Buffer.from(text)
    return { mediaType, digest: await registry.pushBlob(place, bytes), size: bytes.length }
  }
  const push = async (reference: string | undefined, mediaType: string, manifest: object) => {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...manifest }))
    const pushed = await registry.pushManifest(place, reference ?? digestOf(bytes), { bytes, mediaType })
    return { mediaType, digest: pushed, size: bytes.length }
  }
  const subject = await registry.manifest(place, digest)
  const sha256 = digest.slice('sha256:'.length)
  const bundle = signStatement(key, { ...SIGNATURE_STATEMENT, subject: [{ digest: { sha256 } }] })
  const manifest = {
    artifactType: BUNDLE_TYPE,
    config: await put('application/vnd.oci.empty.v1+json', '{}'),
    layers: [await put(BUNDLE_TYPE, JSON.stringify(bundle))],
    subject: { mediaType: subject.mediaType, digest, size: subject.bytes.length },
  }
  const stored = await push(undefined, 'application/vnd.oci.image.manifest.v1+json', manifest)
  if (!list) return
  await push(`sha256-${sha256}`, 'application/vnd.oci.image.index.v1+json', {
    manifests: [{ ...stored, artifactType: BUNDLE_TYPE }],
  })
}
