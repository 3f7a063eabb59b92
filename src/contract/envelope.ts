import { isUtf8 } from 'node:buffer'
import { ContractBrokenError } from '../errors.ts'
import { GUEST_LIMITS } from '../guest-limits.ts'
import { headerProblem, isOfServer, isRepeatable } from './answer-headers.ts'
import { readGivenHeaders } from './given-headers.ts'
import type { HttpAnswer } from './http-answer.ts'
import { AnswerProblem, type JsonSpan, readRaw, readString, readText, scanObject } from './json-scanner.ts'
import { readStatus } from './status.ts'

/**
 * Reads what a guest of the `http` contract answers: `{ status?, headers?, body?, bodyBase64? }`.
 *
 * @throws {@link ContractBrokenError} naming the field and what is wrong with it.
 */
export function readEnvelope(output: Uint8Array): HttpAnswer {
  try {
    return readFields(output)
  } catch (error) {
    throw error instanceof AnswerProblem ? new ContractBrokenError('http', error.message) : error
  }
}

const FIELDS = ['status', 'headers', 'body', 'bodyBase64']

const LIMITS = { what: 'the output', depth: GUEST_LIMITS.jsonDepth, items: GUEST_LIMITS.jsonFields }

function readFields(output: Uint8Array): HttpAnswer {
  if (!isUtf8(output)) throw new AnswerProblem('the output is not UTF-8')
  const fields = new Map(scanObject(output, LIMITS))
  for (const field of fields.keys()) {
    if (!FIELDS.includes(field)) {
      throw new AnswerProblem(`the output has a field other than ${FIELDS.join(', ')}`)
    }
  }
  const [status, headers] = [fields.get('status'), fields.get('headers')]
  return {
    status: status ? readStatus(output, status, 'status') : 200,
    headers: headers ? readHeaders(output, headers) : new Map(),
    body: readBody(output, fields.get('body'), fields.get('bodyBase64')),
  }
}

function readHeaders(output: Uint8Array, span: JsonSpan): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, texts] of readGivenHeaders(output, span, 'headers')) {
    const lowerName = name.toLowerCase()
    const all = headers.get(lowerName) ?? []
    for (const text of texts) {
      const problem = headerProblem(name, text)
      if (problem !== undefined) {
        throw new AnswerProblem(`headers: ${isOfServer(name) ? lowerName : 'one'} ${problem}`)
      }
      all.push(text)
    }
    if (all.length > 1 && !isRepeatable(lowerName)) {
      throw new AnswerProblem(`headers: ${lowerName} has several values`)
    }
    if (all.length > 0) headers.set(lowerName, all)
  }
  return headers
}

function readBody(
  output: Uint8Array,
  body: JsonSpan | undefined,
  base64: JsonSpan | undefined,
): HttpAnswer['body'] {
  if (base64) {
    if (body) throw new AnswerProblem('body and bodyBase64 cannot both be there')
    return { bytes: readBase64(readString(output, base64)), type: 'application/octet-stream' }
  }
  if (!body) return undefined
  const text = readText(output, body)
  if (text) return { bytes: text, type: 'text/plain; charset=utf-8' }
  // As the guest wrote it: JavaScript's numbers would change large ones.
  return { bytes: readRaw(output, body), type: 'application/json' }
}

function readBase64(text: string | undefined): Uint8Array {
  if (text !== undefined) {
    const bytes = Buffer.from(text, 'base64')
    if (bytes.toString('base64') === text) return bytes
  }
  throw new AnswerProblem('bodyBase64 must be Base64 text, padded (RFC 4648, section 4)')
}
