import { isUtf8 } from 'node:buffer'
import { parse } from 'node:querystring'
import type { FastifyRequest } from 'fastify'
import type { Contract, ContractOptions } from './contract.ts'
import { readEnvelope } from './envelope.ts'
import { sendAnswer } from './http-answer.ts'
import { prepareMachine } from './json-machine.ts'

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
  /** By name in lower case. Nothing is joined or omitted. One character per byte. */
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
    input: (request) => Buffer.from(JSON.stringify(renderHttpRequest(request))),
    answer: (output, reply) => sendAnswer(readEnvelope(output), contentType, reply),
  }
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

/** From alternating names and values. */
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

function renderBody(body: Uint8Array | undefined): { body: string } | { bodyBase64: string } {
  if (body === undefined) return { body: '' }
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return isUtf8(bytes) ? { body: bytes.toString() } : { bodyBase64: bytes.toString('base64') }
}
