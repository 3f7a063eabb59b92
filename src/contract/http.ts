import { isUtf8 } from 'node:buffer'
import { parse } from 'node:querystring'
import type { FastifyRequest } from 'fastify'
import type { Contract, ContractOptions } from './contract.ts'
import { readEnvelope } from './envelope.ts'
import { sendAnswer } from './http-answer.ts'
import { prepareMachine } from './json-machine.ts'

/** What the guest gets of a request, as JSON. The README describes it. */
export interface RequestEnvelope {
  readonly method: string
  /** As sent, with the query. */
  readonly url: string
  /** As sent, without it. */
  readonly path: string
  /** What the route's URL names, decoded; `*` is what a wildcard stands for. */
  readonly params: unknown
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  /** By name in lower case; nothing is joined or left out. A character stands for a byte. */
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly remoteAddress: string
  readonly requestId: string
  /** The body, if it is UTF-8. */
  readonly body?: string
  /** The body, if it is not. */
  readonly bodyBase64?: string
}

/** The request as a JSON envelope, and an envelope that becomes the answer: all of HTTP for guests that want it. */
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

/** A client may send the URL in full, as to a proxy. */
const URL_PARTS = /^(?:[a-z][a-z\d+.-]*:\/\/[^/?#]*)?([^?#]*)(?:\?([^#]*))?/i

/** From names and values in turn. */
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
