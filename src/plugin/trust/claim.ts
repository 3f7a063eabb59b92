import { webcrypto } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isObject } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'
import { type Bundle, type MessageSignature, parseBundle } from './bundle.ts'
import { parseEnvelope, signedBytes } from './dsse.ts'
import type { EvidenceItem } from './evidence.ts'
import type { Identity } from './keyless.ts'
import { problemWithPayload } from './simple-signing.ts'
import { fromBase64, parseJsonBytes } from './strict-json.ts'
import type { Policy } from './trust.ts'

/** A verified signature or attestation by a signer whom the policy trusts. */
export interface Claim {
  readonly signer: Signer
  readonly format: 'bundle' | 'cosign2'
  /** The predicate type of an attestation; undefined for a signature. */
  readonly predicateType: string | undefined
}

/** Who signed. */
export type Signer =
  | {
      readonly kind: 'key'
      /** The name of the key's file. */
      readonly name: string
      /** SHA-256 of the key's SubjectPublicKeyInfo, in hex. */
      readonly keyId: string
    }
  | ({ readonly kind: 'identity' } & Identity)

/**
 * Verifies what a registry has about a manifest.
 *
 * @param digest - Of the manifest: `sha256:` and 64 hex digits.
 */
export async function verifyItem(
  piece: EvidenceItem,
  digest: string,
  policy: Policy,
): Promise<Claim | Refusal> {
  const hex = digest.slice('sha256:'.length)
  switch (piece.kind) {
    case 'unreadable':
      return { problem: Buffer.from(piece.content).toString() }
    case 'bundle': {
      const bundle = parseBundle(piece.content)
      return 'problem' in bundle ? bundle : verifyStatement(bundle, hex, policy)
    }
    case 'dsse':
      return verifyAttestation(piece.content, hex, policy)
    case 'simple-signing':
      return verifySimpleSigning(piece, digest, policy)
  }
}

/**
 * Verifies a detached bundle of a file.
 *
 * @param hex - SHA-256 of the file.
 */
export async function verifyFileBundle(
  bytes: Uint8Array,
  file: Uint8Array,
  hex: string,
  policy: Policy,
): Promise<Claim | Refusal> {
  const bundle = parseBundle(bytes)
  if ('problem' in bundle) return bundle
  const { content } = bundle
  if ('envelope' in content) return verifyStatement(bundle, hex, policy)
  if (await isOfOtherFile(content.message, file)) return { problem: 'it was made for another file' }
  const signer = await findSigner(policy, bundle, file, content.message.signature, file)
  return 'problem' in signer ? signer : { signer, format: 'bundle', predicateType: undefined }
}

async function verifyStatement(bundle: Bundle, hex: string, policy: Policy): Promise<Claim | Refusal> {
  const { content } = bundle
  if ('message' in content)
    return { problem: 'it signs a file (cosign sign-blob), not an artifact of a registry' }
  const { envelope } = content
  const signer = await findSigner(policy, bundle, signedBytes(envelope), envelope.signature)
  if ('problem' in signer) return signer
  const statement = parseStatement(envelope.payload, hex)
  if ('problem' in statement) return statement
  const { predicateType } = statement
  const isSignature = predicateType === SIGNATURE_PREDICATE
  return { signer, format: 'bundle', predicateType: isSignature ? undefined : predicateType }
}

/** Verifies an attestation of cosign 2. */
async function verifyAttestation(content: Uint8Array, hex: string, policy: Policy): Promise<Claim | Refusal> {
  const parsed = parseJsonBytes(content)
  const envelope = 'problem' in parsed ? parsed : parseEnvelope(parsed.value)
  if ('problem' in envelope) return envelope
  const signer = await findKey(policy, signedBytes(envelope), envelope.signature)
  if ('problem' in signer) return signer
  const statement = parseStatement(envelope.payload, hex)
  if ('problem' in statement) return statement
  const { predicateType } = statement
  if (predicateType === SIGNATURE_PREDICATE)
    return { problem: 'a signature must not be stored as an attestation' }
  return { signer, format: 'cosign2', predicateType }
}

/** Verifies a signature of cosign 2. */
async function verifySimpleSigning(
  { content, signature: text }: EvidenceItem,
  digest: string,
  policy: Policy,
): Promise<Claim | Refusal> {
  const signature = fromBase64(text)
  if (signature === undefined) return { problem: 'its signature is not base64' }
  const signer = await findKey(policy, content, signature)
  if ('problem' in signer) return signer
  const problem = problemWithPayload(content, digest)
  return problem === undefined ? { signer, format: 'cosign2', predicateType: undefined } : { problem }
}

/** The digest in a message signature does not decide, but gives a better reason than the signature. */
async function isOfOtherFile({ digest }: MessageSignature, file: Uint8Array): Promise<boolean> {
  if (digest === undefined) return false
  const actual = await webcrypto.subtle.digest(digest.algorithm, file)
  return !Buffer.from(actual).equals(digest.bytes)
}

/** @param file - The signed bytes of a message signature. */
async function findSigner(
  policy: Policy,
  bundle: Bundle,
  data: Uint8Array,
  signature: Uint8Array,
  file?: Uint8Array,
): Promise<Signer | Refusal> {
  if (!bundle.hasCertificate) return findKey(policy, data, signature)
  if (!policy.identity) return { problem: 'it was made with a certificate, and the policy has only keys' }
  await nextTurn() // the verification takes some milliseconds of the event loop
  const identity = policy.identity.verify(bundle, file)
  return 'problem' in identity ? identity : { kind: 'identity', ...identity }
}

/** The hint in a bundle is not used: each key of the policy is tried. */
async function findKey({ keys }: Policy, data: Uint8Array, signature: Uint8Array): Promise<Signer | Refusal> {
  if (keys.length === 0) return { problem: NO_KEYS }
  for (const { id, name, verify } of keys)
    if (await verify(data, signature)) return { kind: 'key', name, keyId: id }
  const hint = keys.find(({ hint }) => hint !== undefined)?.hint
  return { problem: `no key of the policy made it${hint === undefined ? '' : ` (${hint})`}` }
}

/** Certificates in cosign 2's annotations are not read. */
const NO_KEYS =
  'it is a signature by a key, or of cosign 2, and the policy has only an identity: sign with an identity and cosign 3'

/** An in-toto statement about something that has the digest that the caller asked for. */
interface Statement {
  readonly predicateType: string
}

/** The predicate type of cosign's signatures, as opposed to attestations. */
const SIGNATURE_PREDICATE = 'https://sigstore.dev/cosign/sign/v1'

const STATEMENT_V1 = 'https://in-toto.io/Statement/v1'

/** cosign (also version 3) writes attestations in this version. */
const STATEMENT_V0 = 'https://in-toto.io/Statement/v0.1'

/** Sigstore's Go verifier has the same limit. */
const MAX_SUBJECTS = 1_024

const MAX_PREDICATE_TYPE = 1_024

/**
 * Parses an in-toto statement, and checks that one of its subjects has a digest.
 *
 * @param payload - Bytes whose signature was verified.
 * @param sha256 - In lower-case hex.
 */
function parseStatement(payload: Uint8Array, sha256: string): Statement | Refusal {
  const parsed = parseJsonBytes(payload)
  if ('problem' in parsed || !isObject(parsed.value)) return { problem: 'its statement is not a JSON object' }
  const { _type: type, subject, predicateType } = parsed.value
  if (typeof predicateType !== 'string' || predicateType === '' || predicateType.length > MAX_PREDICATE_TYPE)
    return { problem: 'its statement has no predicate type' }
  if (type !== STATEMENT_V1 && (type !== STATEMENT_V0 || predicateType === SIGNATURE_PREDICATE))
    return { problem: 'its statement is not an in-toto Statement v1' }
  if (!Array.isArray(subject) || subject.length > MAX_SUBJECTS)
    return { problem: `its statement does not have 1 to ${MAX_SUBJECTS} subjects` }
  if (!subject.some((entry) => hasDigest(entry, sha256))) return { problem: OTHER_DIGEST }
  return { predicateType }
}

const OTHER_DIGEST = 'it was made for another digest'

function hasDigest(subject: unknown, sha256: string): boolean {
  return isObject(subject) && isObject(subject.digest) && subject.digest.sha256 === sha256
}
