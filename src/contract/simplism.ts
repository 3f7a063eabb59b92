import type { FastifyRequest } from 'fastify'
import { SimplismBrokenError } from '../errors/errors.ts'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { isRepeatable } from './answer-headers.ts'
import { AnswerProblem } from './answer-problem.ts'
import type { Contract, ContractOptions } from './contract.ts'
import { readGivenHeaders } from './given-headers.ts'
import { goHeader, readGoHeaders } from './go-headers.ts'
import { sniffType } from './go-sniff.ts'
import { type HttpAnswer, sendAnswer } from './http-answer.ts'
import { prepareMachine } from './json-machine.ts'
import { type JsonOutput, readJson } from './json-output.ts'
import { readStatus } from './status.ts'

/**
 * Runs plug-ins of Simplism 0.1.3 (bots-garden/simplism) unmodified. As there, one function answers all methods, and its
 * failures are 500. What differs: `code` may be left out (200), headers may be strings, all values of a header are sent,
 * and no line feed is added to the body.
 */
export function openSimplism({ contentType }: ContractOptions): Contract {
  prepareMachine()
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
  try {
    return readJson(output, readFields)
  } catch (error) {
    throw error instanceof AnswerProblem ? new SimplismBrokenError(error.message) : error
  }
}

const LIMITS = {
  what: 'the output',
  depth: GUEST_LIMITS.jsonDepth,
  items: GUEST_LIMITS.jsonFields,
  nameBytes: GUEST_LIMITS.jsonFieldName,
  headers: { name: 'header', bytes: GUEST_LIMITS.headerJsonBytes },
}

function readFields<Value>(output: JsonOutput<Value>): HttpAnswer {
  const fields = presentFields(output)
  const [body, header, code] = [fields.get('body'), fields.get('header'), fields.get('code')]
  const text = body ? output.text(body.value) : EMPTY
  if (!text) throw new AnswerProblem('body must be a string')
  return {
    status: code ? readStatus(output, code.value, 'code') : 200,
    headers: header ? readHeaders(output, header.value) : new Map(),
    body: { bytes: text, type: sniffType(text) },
  }
}

const EMPTY = new Uint8Array()

/** Go takes names in any case, and null for what is not there. */
function presentFields<Value>(output: JsonOutput<Value>): ReadonlyMap<string, { readonly value: Value }> {
  const fields = new Map(output.members(LIMITS))
  const present = [...fields].filter(([, value]) => output.kindOf(value) !== 'null')
  return new Map(present.map(([name, value]) => [name.toLowerCase(), { value }]))
}

function readHeaders<Value>(output: JsonOutput<Value>, given: Value): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, texts] of readGivenHeaders(output, given, 'header', true)) {
    const values = texts.flatMap((text) => goHeader(name, text) ?? [])
    const lowerName = name.toLowerCase()
    if (values.length > 0) headers.set(lowerName, isRepeatable(lowerName) ? values : values.slice(0, 1))
  }
  return headers
}
