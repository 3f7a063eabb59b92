import type { FastifyRequest } from 'fastify'
import { SimplismBrokenError } from '../errors.ts'
import { isRepeatable } from './answer-headers.ts'
import type { Contract } from './contract.ts'
import { goHeader, readGoHeaders } from './go-headers.ts'
import { sniffType } from './go-sniff.ts'
import { type HttpAnswer, sendAnswer } from './http-answer.ts'
import type { ContractOptions } from './named.ts'

/**
 * Runs plug-ins of Simplism 0.1.3 (bots-garden/simplism) unmodified. As there, one function answers all methods, and its
 * failures are 500. What differs: `code` may be left out (200), headers may be strings, all values of a header are sent,
 * and no line feed is added to the body.
 */
export function openSimplism({ contentType }: ContractOptions): Contract {
  return {
    name: 'simplism',
    input: (request) => Buffer.from(JSON.stringify(renderRequest(request))),
    answer: (output, reply) => sendAnswer(readAnswer(output), contentType, reply),
  }
}

/** Replaces what is no UTF-8. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** All four are always there: guests written in Rust refuse a request without one. */
function renderRequest({ raw, method, body }: FastifyRequest): object {
  return {
    body: body === undefined ? '' : utf8.decode(body as Uint8Array),
    header: readGoHeaders(raw.rawHeaders),
    method,
    uri: raw.url ?? '/',
  }
}

/** @throws {@link SimplismBrokenError} */
function readAnswer(output: Uint8Array): HttpAnswer {
  const { body = '', header = {}, code = 200 } = readFields(output)
  if (typeof body !== 'string') throw new SimplismBrokenError('body must be a string')
  if (!Number.isInteger(code) || Number(code) < 200 || Number(code) > 599) {
    throw new SimplismBrokenError('code must be a whole number from 200 to 599')
  }
  const bytes = Buffer.from(body)
  return { status: Number(code), headers: readHeaders(header), body: { bytes, type: sniffType(bytes) } }
}

/** Go takes names in any case, and null for what is not there. */
function readFields(output: Uint8Array): Record<string, unknown> {
  const value = parse(output)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SimplismBrokenError('the output is not a JSON object')
  }
  const present = Object.entries(value).filter(([, field]) => field !== null)
  return Object.fromEntries(present.map(([name, field]) => [name.toLowerCase(), field]))
}

function parse(output: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(output.buffer, output.byteOffset, output.byteLength).toString())
  } catch {
    throw new SimplismBrokenError('the output is not JSON') // why not would quote it
  }
}

function readHeaders(header: unknown): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw new SimplismBrokenError('header must be an object')
  }
  for (const [name, value] of Object.entries(header)) {
    const texts = [value ?? []].flat()
    if (!texts.every((text) => typeof text === 'string')) {
      throw new SimplismBrokenError('header must hold strings, or arrays of strings')
    }
    const values = texts.flatMap((text) => goHeader(name, text) ?? [])
    const lowerName = name.toLowerCase()
    if (values.length > 0) headers.set(lowerName, isRepeatable(lowerName) ? values : values.slice(0, 1))
  }
  return headers
}
