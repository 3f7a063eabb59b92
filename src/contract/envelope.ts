import { isUtf8 } from 'node:buffer'
import { ContractBrokenError } from '../errors.ts'
import { headerProblem, isOfServer, isRepeatable } from './answer-headers.ts'
import type { HttpAnswer } from './http-answer.ts'
import { memberText } from './member-text.ts'

/** Bytes of names and values: what Node's own clients read. */
const HEADERS_MAX = 16_384

/**
 * Reads what a guest of the `http` contract answers: `{ status?, headers?, body?, bodyBase64? }`.
 *
 * @throws {@link ContractBrokenError} naming the field and what is wrong with it.
 */
export function readEnvelope(output: Uint8Array): HttpAnswer {
  const json = readText(output)
  const envelope = readObject(json)
  if (!Object.keys(envelope).every((field) => FIELDS.includes(field))) {
    throw broken(`the output has a field other than ${FIELDS.join(', ')}`)
  }
  return {
    status: readStatus(envelope.status),
    headers: envelope.headers === undefined ? new Map() : readHeaders(envelope.headers),
    body: readBody(envelope, json),
  }
}

const FIELDS = ['status', 'headers', 'body', 'bodyBase64']

function readText(output: Uint8Array): string {
  if (!isUtf8(output)) throw broken('the output is not UTF-8')
  return Buffer.from(output.buffer, output.byteOffset, output.byteLength).toString()
}

function readObject(json: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    throw broken('the output is not JSON') // why not would quote it
  }
  if (!isObject(value)) throw broken('the output is not a JSON object')
  return value
}

function readStatus(status: unknown = 200): number {
  if (Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599) return Number(status)
  throw broken('status must be a whole number from 200 to 599')
}

function readHeaders(given: unknown): Map<string, string[]> {
  if (!isObject(given)) throw broken('headers must be an object')
  const headers = new Map<string, string[]>()
  let size = 0
  for (const [name, value] of Object.entries(given)) {
    const lowerName = name.toLowerCase()
    const all = headers.get(lowerName) ?? []
    for (const text of [value].flat()) {
      if (typeof text !== 'string') throw broken('headers must be strings, or arrays of strings')
      const problem = headerProblem(name, text)
      if (problem !== undefined) throw broken(`headers: ${isOfServer(name) ? lowerName : 'one'} ${problem}`)
      size += name.length + text.length
      all.push(text)
    }
    if (all.length > 1 && !isRepeatable(lowerName)) throw broken(`headers: ${lowerName} has several values`)
    if (all.length > 0) headers.set(lowerName, all)
  }
  if (size > HEADERS_MAX) throw broken(`headers are larger than ${HEADERS_MAX} bytes`)
  return headers
}

function readBody(envelope: Readonly<Record<string, unknown>>, json: string): HttpAnswer['body'] {
  const { body, bodyBase64 } = envelope
  if (bodyBase64 !== undefined) {
    if (body !== undefined) throw broken('body and bodyBase64 cannot both be there')
    return { bytes: readBase64(bodyBase64), type: 'application/octet-stream' }
  }
  if (body === undefined) return undefined
  if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'text/plain; charset=utf-8' }
  // As the guest wrote it: JavaScript's numbers would change large ones.
  return { bytes: Buffer.from(memberText(json, 'body')), type: 'application/json' }
}

function readBase64(value: unknown): Uint8Array {
  if (typeof value === 'string') {
    const bytes = Buffer.from(value, 'base64')
    if (bytes.toString('base64') === value) return bytes
  }
  throw broken('bodyBase64 must be Base64 text, padded (RFC 4648, section 4)')
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function broken(problem: string) {
  return new ContractBrokenError('http', problem)
}
