import { isObject, type JsonObject } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'
import { type Envelope, parseEnvelope } from './dsse.ts'
import { fromBase64, parseJsonBytes, unknownField } from './strict-json.ts'
import { parseMaterial, type VerificationMaterial } from './verification-material.ts'

/** A Sigstore bundle (https://github.com/sigstore/protobuf-specs, `sigstore_bundle.proto`). Nothing in it is verified. */
export interface Bundle extends VerificationMaterial {
  /** DSSE envelopes sign artifacts of registries. `cosign sign-blob` makes message signatures, for files. */
  readonly content: { readonly envelope: Envelope } | { readonly message: MessageSignature }
  readonly json: JsonObject
}

/** A signature of the bytes of a file. */
export interface MessageSignature {
  readonly signature: Uint8Array
  /** An unauthenticated hint. cosign leaves it out for Ed25519. */
  readonly digest: { readonly algorithm: DigestAlgorithm; readonly bytes: Uint8Array } | undefined
}

/** The names of Web Crypto. */
type DigestAlgorithm = 'SHA-256' | 'SHA-384' | 'SHA-512'

/** The media type of bundles, and of their layers and manifests in a registry. */
export const BUNDLE_TYPE = 'application/vnd.dev.sigstore.bundle.v0.3+json'

/** Limit of a bundle, in bytes. */
export const MAX_BUNDLE_BYTES = 1_048_576

/** Parses a bundle, version 0.3. An unknown field is refused, as Sigstore's Go parser does. */
export function parseBundle(bytes: Uint8Array): Bundle | Refusal {
  if (bytes.length > MAX_BUNDLE_BYTES) return { problem: `it is larger than ${MAX_BUNDLE_BYTES} bytes` }
  const parsed = parseJsonBytes(bytes)
  if ('problem' in parsed) return parsed
  const json = parsed.value
  if (!isObject(json)) return { problem: 'it is not a JSON object' }
  if (json.mediaType !== BUNDLE_TYPE) return { problem: `its media type is not ${BUNDLE_TYPE}` }
  const unknown = unknownField(json, FIELDS)
  if (unknown !== undefined) return { problem: `it has the unknown field ${unknown}` }
  const material = parseMaterial(json.verificationMaterial)
  if ('problem' in material) return material
  const content = parseContent(json)
  return 'problem' in content ? content : { ...material, content, json }
}

const FIELDS = ['mediaType', 'verificationMaterial', 'dsseEnvelope', 'messageSignature']

function parseContent({ dsseEnvelope, messageSignature }: JsonObject): Bundle['content'] | Refusal {
  if ((dsseEnvelope === undefined) === (messageSignature === undefined))
    return { problem: 'it does not have exactly one of dsseEnvelope and messageSignature' }
  if (messageSignature === undefined) {
    const envelope = parseEnvelope(dsseEnvelope)
    return 'problem' in envelope ? envelope : { envelope }
  }
  const message = parseMessage(messageSignature)
  return message ? { message } : { problem: 'its message signature cannot be read' }
}

function parseMessage(value: unknown): MessageSignature | undefined {
  if (!isObject(value) || unknownField(value, ['messageDigest', 'signature']) !== undefined) return undefined
  const signature = fromBase64(value.signature)
  const { messageDigest = {} } = value
  if (signature === undefined || !isObject(messageDigest)) return undefined
  if (Object.keys(messageDigest).length === 0) return { signature, digest: undefined }
  if (unknownField(messageDigest, ['algorithm', 'digest']) !== undefined) return undefined
  const algorithm = DIGESTS.get(messageDigest.algorithm)
  const bytes = fromBase64(messageDigest.digest)
  return algorithm && bytes && { signature, digest: { algorithm, bytes } }
}

const DIGESTS = new Map<unknown, DigestAlgorithm>([
  ['SHA2_256', 'SHA-256'],
  ['SHA2_384', 'SHA-384'],
  ['SHA2_512', 'SHA-512'],
])
