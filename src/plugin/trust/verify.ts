import {
  AttestationMissingError,
  SignatureInvalidError,
  SignatureMissingError,
} from '../../errors/registry.ts'
import { printable } from '../../platform/text.ts'
import { sha256InSlices } from '../source/digest.ts'
import type { Refusal } from '../source/url.ts'
import { MAX_BUNDLE_BYTES } from './bundle.ts'
import { type Claim, type Signer, verifyFileBundle, verifyItem } from './claim.ts'
import type { Evidence } from './evidence.ts'
import { parseJsonBytes } from './strict-json.ts'
import type { Policy } from './trust.ts'

/** A plug-in that fulfils a policy. */
export interface Verified {
  /** The signer of the first valid signature. */
  readonly signer: Signer
  /** The format of that signature. */
  readonly format: Claim['format']
  /** The predicate types of attestations by signers of the policy, in alphabetical order. */
  readonly predicateTypes: readonly string[]
}

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
  const results: (Claim | Refusal)[] = []
  for (const piece of evidence) {
    const result = await verifyItem(piece, digest, policy)
    // Twelve digits identify the layer in the registry.
    const origin = piece.origin.slice(0, 'sha256:'.length + 12)
    results.push('problem' in result ? { problem: `${origin}: ${result.problem}` } : result)
  }
  return decide(source, policy, results)
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
  const hex = await sha256InSlices(file)
  const results: (Claim | Refusal)[] = []
  for (const bytes of splitBundles(bundles)) results.push(await verifyFileBundle(bytes, file, hex, policy))
  return decide(source, policy, results)
}

const MAX_LINES = 32

/** A file that is not JSON as a whole may have a bundle in each line. */
function splitBundles(bundles: Uint8Array): Uint8Array[] {
  if (bundles.length > MAX_BUNDLE_BYTES || !('problem' in parseJsonBytes(bundles))) return [bundles]
  const lines = Buffer.from(bundles)
    .toString()
    .split('\n')
    .filter((line) => line.trim() !== '')
  return lines.length > MAX_LINES ? [bundles] : lines.map((line) => Buffer.from(line))
}

function decide(source: string, policy: Policy, results: readonly (Claim | Refusal)[]): Verified {
  const problems = results.flatMap((result) => ('problem' in result ? [result.problem] : []))
  const claims = results.flatMap((result) => ('problem' in result ? [] : [result]))
  const signature = claims.find(({ predicateType }) => predicateType === undefined)
  if (!signature && problems.length === 0) throw new SignatureMissingError(source, policy.name)
  if (!signature) throw new SignatureInvalidError(source, policy.name, renderProblems(problems))
  const types = new Set(claims.map(({ predicateType }) => predicateType))
  const missing = policy.attestations.find((type) => !types.has(type))
  if (missing !== undefined) throw new AttestationMissingError(source, policy.name, missing)
  const predicateTypes = [...types].filter((type) => type !== undefined).sort()
  return { signer: signature.signer, format: signature.format, predicateTypes }
}

const MAX_PROBLEMS = 3

const MAX_PROBLEM_CHARACTERS = 300

/** Parts of the text come from the signatures. */
function renderProblems(problems: readonly string[]): string {
  const shown = problems
    .slice(0, MAX_PROBLEMS)
    .map((problem) => printable(problem.slice(0, MAX_PROBLEM_CHARACTERS)))
  const more = problems.length - shown.length
  return `${shown.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}
