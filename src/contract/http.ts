import { isUtf8 } from 'node:buffer'
import { parse } from 'node:querystring'
import type { FastifyRequest } from 'fastify'
import { ContractBrokenError } from '../errors/errors.ts'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { headerProblem, isKnown, isRepeatable, readHeaderLines } from './answer-headers.ts'
import type { Contract, ContractOptions } from './contract.ts'
import { AnswerProblem, type HttpAnswer, sendAnswer } from './http-answer.ts'
import { prepareMachine } from './json-machine.ts'
import { type JsonOutput, readJson, readStatus } from './json-output.ts'

/** A request as the guest's JSON input. The README describes it. */
export interface RequestEnvelope {
  readonly method: string
  /** As sent, including the query. */
  readonly url: string
  /** As sent, without the query. */
  readonly path: string
  /** Parameters of the route's URL, decoded; `*` is the value of a wildcard. */
  readonly params: unknown
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  /** The headers by their names in lower case. Nothing is joined or omitted. One character per byte. */
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly remoteAddress: string
  readonly requestId: string
  /** The body, if it is UTF-8. */
  readonly body?: string
  /** The body, if it is not UTF-8. */
  readonly bodyBase64?: string
}

/** The request as a JSON envelope, and an envelope that becomes the answer: full HTTP for guests that need it. */
export function openHttp({ contentType }: ContractOptions): Contract {
  prepareMachine()
  return {
    name: 'http',
    input: renderRequest,
    answer: (output, reply) => sendAnswer(readEnvelope(output), contentType, reply),
  }
}

/** The input of the contract for a request. */
export function renderRequest(request: FastifyRequest): Uint8Array {
  return renderEnvelope(renderHttpRequest(request))
}

/** The input of the contract. */
export function renderEnvelope(request: RequestEnvelope): Uint8Array {
  return Buffer.from(JSON.stringify(request))
}

function renderHttpRequest(request: FastifyRequest): RequestEnvelope {
  const { raw, method, params, ip, id } = request
  const url = raw.url ?? '/'
  const [, path = '/', query = ''] = URL_PARTS.exec(url) ?? []
  return {
    method,
    url,
    path,
    params,
    query: parse(query, '&', '=', { maxKeys: 0 }),
    headers: groupHeaders(raw.rawHeaders),
    remoteAddress: ip ?? '',
    requestId: id,
    ...renderBody(request.body as Uint8Array | undefined),
  }
}

/** A client may send an absolute URL, as to a proxy. */
const URL_PARTS = /^(?:[a-z][a-z\d+.-]*:\/\/[^/?#]*)?([^?#]*)(?:\?([^#]*))?/i

/** Groups alternating names and values by name. */
function groupHeaders(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.create(null) // a name may be __proto__
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = String(raw[i]).toLowerCase()
    const value = String(raw[i + 1])
    const before = headers[name]
    if (Array.isArray(before)) before.push(value)
    else headers[name] = before === undefined ? value : [before, value]
  }
  return headers
}

/** The member of an envelope with a body. */
export function renderBody(body: Uint8Array | undefined): { body: string } | { bodyBase64: string } {
  if (body === undefined) return { body: '' }
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return isUtf8(bytes) ? { body: bytes.toString() } : { bodyBase64: bytes.toString('base64') }
}

/**
 * Parses the answer of a guest with the `http` contract: `{ status?, headers?, body?, bodyBase64? }`.
 *
 * @throws {@link ContractBrokenError} naming the field and its problem.
 */
export function readEnvelope(output: Uint8Array): HttpAnswer {
  try {
    if (!isUtf8(output)) throw new AnswerProblem('the output is not UTF-8')
    return readJson(output, readFields)
  } catch (error) {
    throw error instanceof AnswerProblem ? new ContractBrokenError('http', error.message) : error
  }
}

const ENVELOPE_LIMITS = {
  what: 'the output',
  depth: GUEST_LIMITS.jsonDepth,
  items: GUEST_LIMITS.jsonFields,
  nameBytes: GUEST_LIMITS.jsonFieldName,
  headers: { name: 'headers', bytes: GUEST_LIMITS.headerJsonBytes },
}

/** Reads the fields of an answer. If a field is repeated, the last one counts. */
function readFields<Value>(output: JsonOutput<Value>): HttpAnswer {
  const fields: EnvelopeFields<Value> = {}
  for (const [name, value] of output.members(ENVELOPE_LIMITS)) {
    if (!isField(name)) throw new AnswerProblem(`the output has a field other than ${FIELDS.join(', ')}`)
    fields[name] = { value }
  }
  const { status, headers, body, bodyBase64 } = fields
  return {
    status: status ? readStatus(output, status.value, 'status') : 200,
    headers: headers ? readAnswerHeaders(output, headers.value) : new Map(),
    body: readAnswerBody(output, body, bodyBase64),
  }
}

const FIELDS = ['status', 'headers', 'body', 'bodyBase64'] as const

type Field = (typeof FIELDS)[number]

type EnvelopeFields<Value> = { [name in Field]?: { readonly value: Value } }

function isField(name: string): name is Field {
  return (FIELDS as readonly string[]).includes(name)
}

function readAnswerHeaders<Value>(output: JsonOutput<Value>, value: Value): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, texts] of readHeaderLines(output, value, 'headers')) {
    const lowerName = name.toLowerCase()
    const all = headers.get(lowerName) ?? []
    for (const text of texts) {
      const problem = headerProblem(name, text)
      if (problem !== undefined) {
        throw new AnswerProblem(`headers: ${isKnown(name) ? lowerName : 'one'} ${problem}`)
      }
      all.push(text)
    }
    if (all.length > 1 && !isRepeatable(lowerName)) {
      throw new AnswerProblem(`headers: ${lowerName} must have a single value`)
    }
    if (all.length > 0) headers.set(lowerName, all)
  }
  return headers
}

function readAnswerBody<Value>(
  output: JsonOutput<Value>,
  body: EnvelopeFields<Value>['body'],
  base64: EnvelopeFields<Value>['bodyBase64'],
): HttpAnswer['body'] {
  if (base64) {
    if (body) throw new AnswerProblem('body and bodyBase64 exclude each other')
    return { bytes: readBase64(output.text(base64.value)), type: 'application/octet-stream' }
  }
  if (!body) return undefined
  const text = output.text(body.value)
  if (text) return { bytes: text, type: 'text/plain; charset=utf-8' }
  // The guest's original text: JavaScript's numbers would change large ones.
  return { bytes: output.raw('body', body.value), type: 'application/json' }
}

/** Decodes in chunks: decoding and comparing the whole text would take memory that the system has to clear. */
function readBase64(value: Uint8Array | undefined): Uint8Array {
  if (!value) throw notBase64()
  const text = Buffer.from(value.buffer, value.byteOffset, value.length)
  const bytes = Buffer.allocUnsafe(Math.ceil((text.length / 4) * 3))
  let size = 0
  for (let at = 0; at < text.length; at += BASE64_PIECE) {
    if (size !== (at / 4) * 3) throw notBase64() // padding before the end
    const piece = text.toString('latin1', at, at + BASE64_PIECE)
    const end = size + bytes.write(piece, size, 'base64')
    if (bytes.toString('base64', size, end) !== piece) throw notBase64()
    size = end
  }
  return bytes.subarray(0, size)
}

/** Characters; four of them are three bytes. */
const BASE64_PIECE = 32_768

function notBase64(): AnswerProblem {
  return new AnswerProblem('bodyBase64 must be Base64 text, padded (RFC 4648, section 4)')
}
