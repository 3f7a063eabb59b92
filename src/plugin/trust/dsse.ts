import { isObject } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'
import { fromBase64, unknownField } from './strict-json.ts'

/** A DSSE envelope with an in-toto statement and one signature. */
export interface Envelope {
  readonly payload: Uint8Array
  readonly signature: Uint8Array
}

/** The media type of in-toto statements. */
const PAYLOAD_TYPE = 'application/vnd.in-toto+json'

/**
 * Parses a DSSE envelope (https://github.com/secure-systems-lab/dsse, protocol and envelope 1.0). Other payload types
 * are refused. So are several signatures, as the Sigstore bundle's specification demands.
 */
export function parseEnvelope(value: unknown): Envelope | Refusal {
  if (!isObject(value)) return { problem: 'its DSSE envelope is not an object' }
  const unknown = unknownField(value, ['payload', 'payloadType', 'signatures'])
  if (unknown !== undefined) return { problem: `its DSSE envelope has the unknown field ${unknown}` }
  if (value.payloadType !== PAYLOAD_TYPE)
    return { problem: `the payload type of its DSSE envelope is not ${PAYLOAD_TYPE}` }
  const payload = fromBase64(value.payload)
  if (payload === undefined) return { problem: 'the payload of its DSSE envelope is not base64' }
  const { signatures } = value
  if (!Array.isArray(signatures) || signatures.length !== 1)
    return { problem: 'its DSSE envelope does not have exactly one signature' }
  const [first]: unknown[] = signatures
  // `keyid` is an unauthenticated hint.
  if (!isObject(first) || unknownField(first, ['sig', 'keyid']) !== undefined)
    return { problem: 'the signature of its DSSE envelope has unknown fields' }
  const signature = fromBase64(first.sig)
  if (signature === undefined) return { problem: 'the signature of its DSSE envelope is not base64' }
  return { payload, signature }
}

/** The signed bytes of an envelope: DSSE's pre-authentication encoding. */
export function signedBytes({ payload }: Envelope): Uint8Array {
  const head = `DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `
  return Buffer.concat([Buffer.from(head), payload])
}
