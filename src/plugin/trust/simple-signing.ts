import { isObject } from '../../platform/json-text.ts'
import { parseJsonBytes } from './strict-json.ts'

/** The media type of the layer whose bytes cosign 2 signs. */
export const SIMPLE_SIGNING = 'application/vnd.dev.cosign.simplesigning.v1+json'

/** The layer's annotation with the signature in base64. */
export const SIGNATURE_ANNOTATION = 'dev.cosignproject.cosign/signature'

const TYPE = 'cosign container image signature'

/**
 * Checks a payload of cosign's SIGNATURE_SPEC (the "simple signing" format). The reference in it is not compared: an
 * artifact keeps its signatures when it is copied to another registry.
 *
 * @param payload - Bytes whose signature was verified.
 * @param digest - `sha256:` and 64 hex digits.
 * @returns undefined if it is a signature of this digest.
 */
export function problemWithPayload(payload: Uint8Array, digest: string): string | undefined {
  const parsed = parseJsonBytes(payload)
  if ('problem' in parsed || !isObject(parsed.value) || !isObject(parsed.value.critical))
    return 'its payload is not a JSON object with the field critical'
  const { type, image } = parsed.value.critical
  if (type !== TYPE) return `the type in its payload is not "${TYPE}"`
  if (!isObject(image) || image['docker-manifest-digest'] !== digest) return 'it was made for another digest'
  return undefined
}
