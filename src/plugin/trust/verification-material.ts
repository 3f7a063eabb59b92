import { isObject } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'
import { unknownField } from './strict-json.ts'

/** How a bundle names its signer. */
export interface VerificationMaterial {
  /** Whether the signer has a certificate. Otherwise the bundle names a public key by a hint. */
  readonly hasCertificate: boolean
}

/** Parses the `verificationMaterial` of a bundle. */
export function parseMaterial(material: unknown): VerificationMaterial | Refusal {
  if (!isObject(material) || unknownField(material, FIELDS) !== undefined) return { problem: NO_MATERIAL }
  const { publicKey, certificate, tlogEntries = [], timestampVerificationData = {} } = material
  if ((publicKey === undefined) === (certificate === undefined)) return { problem: NO_MATERIAL }
  if (!isObject(publicKey ?? certificate)) return { problem: NO_MATERIAL }
  const { rfc3161Timestamps = [] } = isObject(timestampVerificationData) ? timestampVerificationData : {}
  if (!isShortArray(tlogEntries) || !isShortArray(rfc3161Timestamps)) return { problem: TOO_MANY_ENTRIES }
  const problem = tlogEntries.map(problemWithLogEntry).find((problem) => problem !== undefined)
  return problem === undefined ? { hasCertificate: certificate !== undefined } : { problem }
}

const FIELDS = ['publicKey', 'certificate', 'tlogEntries', 'timestampVerificationData']

const NO_MATERIAL = 'it has neither one certificate nor one public key'

/** A signer uses one log and one timestamp authority. Each entry takes a millisecond to verify. */
const MAX_ENTRIES = 4

const TOO_MANY_ENTRIES = `it has more than ${MAX_ENTRIES} entries of logs or timestamps`

function isShortArray(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.length <= MAX_ENTRIES
}

/**
 * The reason not to verify an entry of a transparency log. `@sigstore/verify` uses the name in the signature of a
 * checkpoint as a regular expression, and parses numbers of any length, before it has verified a signature. A hostile
 * bundle could occupy the event loop for minutes.
 *
 * @returns undefined if the entry is harmless; the package checks that it is valid.
 */
function problemWithLogEntry(entry: unknown): string | undefined {
  if (!isObject(entry)) return 'an entry of its log is not an object'
  const { inclusionProof = {}, logIndex, integratedTime } = entry
  if (!isObject(inclusionProof)) return NO_PROOF
  const { hashes = [], checkpoint = {}, logIndex: proofIndex, treeSize } = inclusionProof
  if (![logIndex, integratedTime, proofIndex, treeSize].every(isShortNumber))
    return 'an entry of its log has a number of more than 20 digits'
  if (!Array.isArray(hashes) || hashes.length > MAX_HASHES || !isObject(checkpoint)) return NO_PROOF
  return problemWithCheckpoint(checkpoint.envelope)
}

const NO_PROOF = 'an entry of its log has a proof that cannot be read'

/** A proof has a hash per level of the tree. */
const MAX_HASHES = 64

/** Rekor's checkpoints have 300 bytes, and more with each witness. */
const MAX_CHECKPOINT = 8_192

/** 64-bit numbers are texts in the JSON of protocol buffers. */
function isShortNumber(value: unknown): boolean {
  return value === undefined || typeof value === 'number' || (typeof value === 'string' && value.length <= 20)
}

/** A checkpoint is a signed note: after an empty line, a line `— NAME SIGNATURE` for each signer. */
function problemWithCheckpoint(envelope: unknown): string | undefined {
  if (envelope === undefined) return undefined
  if (typeof envelope !== 'string' || envelope.length > MAX_CHECKPOINT) return NO_CHECKPOINT
  const [, treeSize = ''] = envelope.split('\n', 2)
  const names = [...envelope.matchAll(/\u2014\s(\S*)/g)].map(([, name = '']) => name)
  return treeSize.length <= 20 && names.every((name) => /^[\w./:-]*$/.test(name)) ? undefined : NO_CHECKPOINT
}

const NO_CHECKPOINT = 'an entry of its log has a checkpoint that cannot be read'
