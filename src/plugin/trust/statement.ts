import { isObject } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'
import { parseJsonBytes } from './strict-json.ts'

/** An in-toto statement about something that has the digest that the caller asked for. */
interface Statement {
  readonly predicateType: string
}

/** The predicate type of cosign's signatures, as opposed to attestations. */
export const SIGNATURE_PREDICATE = 'https://sigstore.dev/cosign/sign/v1'

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
export function parseStatement(payload: Uint8Array, sha256: string): Statement | Refusal {
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
