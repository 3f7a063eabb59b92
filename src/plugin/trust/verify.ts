import { webcrypto } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AttestationMissingError,
  SignatureInvalidError,
  SignatureMissingError,
} from '../../errors/registry.ts'
import { printable } from '../../platform/text.ts'
import { sha256InSlices } from '../source/digest.ts'
import type { Refusal } from '../source/url.ts'
import { type Bundle, MAX_BUNDLE_BYTES, type MessageSignature, parseBundle } from './bundle.ts'
import { parseEnvelope, signedBytes } from './dsse.ts'
import type { Evidence, EvidencePiece } from './evidence.ts'
import type { Identity } from './keyless.ts'
import { problemWithPayload } from './simple-signing.ts'
import { parseStatement, SIGNATURE_PREDICATE } from './statement.ts'
import { fromBase64, parseJsonBytes } from './strict-json.ts'
import type { Policy } from './trust.ts'

/** A plug-in that fulfils a policy. */
export interface Verified {
  /** Of the first valid signature. */
  readonly signer: Signer
  readonly format: 'bundle' | 'cosign2'
  /** The predicate types of attestations by signers of the policy, in alphabetical order. */
  readonly predicateTypes: readonly string[]
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
 * Verifies the signatures and attestations of an artifact in a registry.
 *
 * @param source - The artifact, for messages.
 * @param digest - Of its manifest: `sha256:` and 64 hex digits.
 * @throws {@link SignatureMissingError}
 * @throws {@link SignatureInvalidError} with the reason for each signature.
 * @throws {@link AttestationMissingError}
 */
export async function verifyArtifact(
  source: string,
  digest: string,
  evidence: Evidence,
  policy: Policy,
): Promise<Verified> {
  const claims: Claim[] = []
  for (const piece of evidence) claims.push(withOrigin(await verifyPiece(piece, digest, policy), piece))
  return decide(source, policy, claims)
}

/**
 * Verifies a file by a detached bundle, as `cosign sign-blob --bundle` and `cosign attest-blob --bundle` write it.
 *
 * @param source - The file, for messages.
 * @param bundles - One bundle, or one in each line (JSON Lines).
 * @throws the errors of {@link verifyArtifact}.
 */
export async function verifyFile(
  source: string,
  file: Uint8Array,
  bundles: Uint8Array,
  policy: Policy,
): Promise<Verified> {
  const digest = await sha256InSlices(file)
  const claims: Claim[] = []
  for (const bytes of splitBundles(bundles)) {
    const bundle = parseBundle(bytes)
    claims.push('problem' in bundle ? bundle : await verifyFileBundle(bundle, file, digest, policy))
  }
  return decide(source, policy, claims)
}

/** A verified statement of a trusted signer, or the reason that it is none. `predicateType` is that of an attestation. */
type Claim =
  | { readonly signer: Signer; readonly format: Verified['format']; readonly predicateType?: string }
  | Refusal

function withOrigin(claim: Claim, { origin }: EvidencePiece): Claim {
  // Twelve digits identify the layer in the registry.
  return 'problem' in claim ? { problem: `${origin.slice(0, 19)}: ${claim.problem}` } : claim
}

async function verifyPiece(piece: EvidencePiece, digest: string, policy: Policy): Promise<Claim> {
  switch (piece.kind) {
    case 'unreadable':
      return { problem: Buffer.from(piece.content).toString() }
    case 'bundle': {
      const bundle = parseBundle(piece.content)
      return 'problem' in bundle ? bundle : verifyStatement(bundle, hexOf(digest), policy)
    }
    case 'dsse':
      return verifyAttestation(piece.content, hexOf(digest), policy)
    case 'simple-signing':
      return verifySimpleSigning(piece, digest, policy)
  }
}

function hexOf(digest: string): string {
  return digest.slice('sha256:'.length)
}

async function verifyStatement(bundle: Bundle, hex: string, policy: Policy): Promise<Claim> {
  const { content } = bundle
  if ('message' in content)
    return { problem: 'it signs a file (cosign sign-blob), not an artifact of a registry' }
  const { envelope } = content
  const signer = await findSigner(policy, bundle, signedBytes(envelope), envelope.signature)
  if ('problem' in signer) return signer
  return claimOf(parseStatement(envelope.payload, hex), signer, 'bundle')
}

function claimOf(
  statement: ReturnType<typeof parseStatement>,
  signer: Signer,
  format: Verified['format'],
): Claim {
  if ('problem' in statement) return statement
  const { predicateType } = statement
  return predicateType === SIGNATURE_PREDICATE ? { signer, format } : { signer, format, predicateType }
}

async function verifyAttestation(content: Uint8Array, hex: string, policy: Policy): Promise<Claim> {
  const parsed = parseJsonBytes(content)
  if ('problem' in parsed) return parsed
  const envelope = parseEnvelope(parsed.value)
  if ('problem' in envelope) return envelope
  const signer = await findKey(policy, signedBytes(envelope), envelope.signature)
  if ('problem' in signer) return signer
  const claim = claimOf(parseStatement(envelope.payload, hex), signer, 'cosign2')
  if ('problem' in claim || claim.predicateType !== undefined) return claim
  return { problem: 'a signature must not be stored as an attestation' }
}

async function verifySimpleSigning(
  { content, signature: text }: EvidencePiece,
  digest: string,
  policy: Policy,
): Promise<Claim> {
  const signature = fromBase64(text)
  if (signature === undefined) return { problem: 'its signature is not base64' }
  const signer = await findKey(policy, content, signature)
  if ('problem' in signer) return signer
  const problem = problemWithPayload(content, digest)
  return problem === undefined ? { signer, format: 'cosign2' } : { problem }
}

/** A file that is not JSON as a whole may have a bundle in each line. */
function splitBundles(bundles: Uint8Array): Uint8Array[] {
  if (bundles.length > MAX_BUNDLE_BYTES || !('problem' in parseJsonBytes(bundles))) return [bundles]
  const lines = Buffer.from(bundles)
    .toString()
    .split('\n')
    .filter((line) => line.trim() !== '')
  return lines.length > MAX_LINES ? [bundles] : lines.map((line) => Buffer.from(line))
}

const MAX_LINES = 32

async function verifyFileBundle(
  bundle: Bundle,
  file: Uint8Array,
  digest: string,
  policy: Policy,
): Promise<Claim> {
  const { content } = bundle
  if ('envelope' in content) return verifyStatement(bundle, digest, policy)
  if (await isOfOtherFile(content.message, file)) return { problem: 'it was made for another file' }
  const signer = await findSigner(policy, bundle, file, content.message.signature, file)
  return 'problem' in signer ? signer : { signer, format: 'bundle' }
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

function decide(source: string, policy: Policy, claims: readonly Claim[]): Verified {
  const problems = claims.flatMap((claim) => ('problem' in claim ? [claim.problem] : []))
  const valid = claims.flatMap((claim) => ('problem' in claim ? [] : [claim]))
  const signature = valid.find(({ predicateType }) => predicateType === undefined)
  if (!signature && problems.length === 0) throw new SignatureMissingError(source, policy.name)
  if (!signature) throw new SignatureInvalidError(source, policy.name, renderProblems(problems))
  const types = new Set(valid.map(({ predicateType }) => predicateType))
  const missing = policy.attestations.find((type) => !types.has(type))
  if (missing !== undefined) throw new AttestationMissingError(source, policy.name, missing)
  const predicateTypes = [...types].filter((type) => type !== undefined).sort()
  return { signer: signature.signer, format: signature.format, predicateTypes }
}

const MAX_PROBLEMS = 3

const MAX_PROBLEM_CHARACTERS = 300

/** The text is of whoever wrote the signatures. */
function renderProblems(problems: readonly string[]): string {
  const shown = problems
    .slice(0, MAX_PROBLEMS)
    .map((problem) => printable(problem.slice(0, MAX_PROBLEM_CHARACTERS)))
  const more = problems.length - shown.length
  return `${shown.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}
