import { type JsonObject, parseStrictJson } from '../../platform/json-text.ts'
import type { Refusal } from '../source/url.ts'

/** Parses JSON in UTF-8 without a byte order mark. No object may have a key twice: another verifier might read the other value. */
export function parseJsonBytes(bytes: Uint8Array): { readonly value: unknown } | Refusal {
  const text = decodeUtf8(bytes)
  const parsed = text === undefined ? undefined : parseStrictJson(text)
  if (parsed && 'value' in parsed) return parsed
  return { problem: parsed ? `it is not JSON: ${parsed.mistake.reason}` : 'it is not text in UTF-8' }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined // the caller says so
  }
}

/** The first field of an object that is not in the list. */
export function unknownField(object: JsonObject, known: readonly string[]): string | undefined {
  return Object.keys(object).find((name) => !known.includes(name))
}

/** Decodes base64 of RFC 4648, section 4. Only the canonical text is accepted, so that bytes have one spelling. */
export function fromBase64(text: unknown): Uint8Array | undefined {
  if (typeof text !== 'string') return undefined
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}
