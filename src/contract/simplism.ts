import type { FastifyRequest } from 'fastify'
import { SimplismBrokenError } from '../errors/errors.ts'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { headerProblem, isRepeatable, readHeaderLines } from './answer-headers.ts'
import type { Contract, ContractOptions } from './contract.ts'
import { AnswerProblem, type HttpAnswer, sendAnswer } from './http-answer.ts'
import { prepareMachine } from './json-machine.ts'
import { type JsonOutput, readJson, readStatus } from './json-output.ts'

/**
 * Runs unmodified plug-ins of Simplism 0.1.3 (bots-garden/simplism). As there, one function answers all methods, and its
 * failures are 500. Differences: `code` may be omitted (200), headers may be strings, all values of a header are sent, and
 * no line feed is added to the body.
 */
export function openSimplism({ contentType }: ContractOptions): Contract {
  prepareMachine()
  return {
    name: 'simplism',
    input: (request) => Buffer.from(JSON.stringify(renderSimplismRequest(request))),
    answer: (output, reply) => sendAnswer(readAnswer(output), contentType, reply),
  }
}

/** Replaces invalid UTF-8. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** All four fields are always present: guests written in Rust reject a request without one. */
function renderSimplismRequest({ raw, method, body }: FastifyRequest): object {
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
    return readJson(output, readSimplismAnswer)
  } catch (error) {
    throw error instanceof AnswerProblem ? new SimplismBrokenError(error.message) : error
  }
}

const SIMPLISM_LIMITS = {
  what: 'the output',
  depth: GUEST_LIMITS.jsonDepth,
  items: GUEST_LIMITS.jsonFields,
  nameBytes: GUEST_LIMITS.jsonFieldName,
  headers: { name: 'header', bytes: GUEST_LIMITS.headerJsonBytes },
}

function readSimplismAnswer<Value>(output: JsonOutput<Value>): HttpAnswer {
  const fields = presentFields(output)
  const [body, header, code] = [fields.get('body'), fields.get('header'), fields.get('code')]
  const text = body ? output.text(body.value) : NO_BYTES
  if (!text) throw new AnswerProblem('body must be a string')
  return {
    status: code ? readStatus(output, code.value, 'code') : 200,
    headers: header ? readHeaderField(output, header.value) : new Map(),
    body: { bytes: text, type: sniffType(text) },
  }
}

const NO_BYTES = new Uint8Array()

/** Go ignores the case of names, and accepts null for missing values. */
function presentFields<Value>(output: JsonOutput<Value>): ReadonlyMap<string, { readonly value: Value }> {
  const fields = new Map(output.members(SIMPLISM_LIMITS))
  const present = [...fields].filter(([, value]) => output.kindOf(value) !== 'null')
  return new Map(present.map(([name, value]) => [name.toLowerCase(), { value }]))
}

function readHeaderField<Value>(output: JsonOutput<Value>, value: Value): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, texts] of readHeaderLines(output, value, 'header', true)) {
    const values = texts.flatMap((text) => goHeader(name, text) ?? [])
    const lowerName = name.toLowerCase()
    if (values.length > 0) headers.set(lowerName, isRepeatable(lowerName) ? values : values.slice(0, 1))
  }
  return headers
}

/**
 * Headers like Go's `http.Header`: names in canonical form (`Content-Type`), all values in arrays. It excludes `Host` and
 * the headers that frame the body.
 *
 * @param raw - Alternating names and values.
 */
function readGoHeaders(raw: readonly string[]): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null) // a name may be __proto__
  for (let i = 0; i < raw.length; i += 2) {
    const name = canonical(String(raw[i]))
    if (name === 'Host' || name === 'Transfer-Encoding' || name === 'Trailer') continue
    headers[name] ??= []
    headers[name].push(decodeHeader(String(raw[i + 1])))
  }
  return headers
}

function canonical(name: string): string {
  return name.toLowerCase().replaceAll(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

/** Node maps a byte to a character; Go treats it as a part of UTF-8. */
function decodeHeader(value: string): string {
  return Buffer.from(value, 'latin1').toString()
}

/**
 * A value for an answer, as Go would write it: line breaks become spaces.
 *
 * @returns undefined if it is omitted: Go omits such names too, or only the server sets the header.
 */
function goHeader(name: string, value: string): string | undefined {
  const bytes = Buffer.from(value)
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if ((byte < SPACE && byte !== TAB) || byte === DELETE_BYTE) bytes[at] = SPACE
  }
  const text = bytes.toString('latin1').trim()
  return headerProblem(name, text) === undefined ? text : undefined
}

const TAB = 0x09
const SPACE = 0x20
const DELETE_BYTE = 0x7f

/** Number of bytes that Go examines. */
const SNIFFED = 512

/** Go's prefixes of HTML: one of these tags, then a space or `>`. */
const HTML =
  /^[\t\n\f\r ]*(?:<(?:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P|!--)[ >])/i

const XML = /^[\t\n\f\r ]*<\?xml/

// biome-ignore lint/suspicious/noControlCharactersInRegex: a text with control characters is binary
const BINARY = /[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]/

/**
 * The content type that Go's `http.DetectContentType` returns for a text: HTML, XML, text, or bytes if it contains control
 * characters. (Go also detects binary formats.)
 */
function sniffType(text: Uint8Array): string {
  const start = Buffer.from(text.subarray(0, SNIFFED)).toString('latin1')
  if (HTML.test(start)) return 'text/html; charset=utf-8'
  if (XML.test(start)) return 'text/xml; charset=utf-8'
  return BINARY.test(start) ? 'application/octet-stream' : 'text/plain; charset=utf-8'
}
