import { isUtf8 } from 'node:buffer'
import {
  headerProblem,
  isKnown,
  isOfServer,
  isRepeatable,
  readHeaderLines,
} from '../../contract/answer-headers.ts'
import { AnswerProblem } from '../../contract/http-answer.ts'
import { type JsonOutput, readJson, readStatus } from '../../contract/json-output.ts'
import { GUEST_LIMITS } from '../../platform/guest-limits.ts'

/** The head of an answer whose body is streamed. */
export interface AnswerHead {
  /** From 200 to 599. */
  readonly status: number
  /** The headers by their names in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>
  /** Names of the trailers that follow the body, in lower case. */
  readonly trailers: ReadonlySet<string>
}

/**
 * Parses the head of an answer: `{ "status", "headers", "trailers" }`, each optional; no bytes are an empty object.
 *
 * @throws {@link AnswerProblem}
 */
export function readAnswerHead(json: Uint8Array): AnswerHead {
  return read(json, (output) => {
    const fields = new Map(output.members(limitsOf('the head')))
    const [status, headers, trailers] = ['status', 'headers', 'trailers'].map((name) => fields.get(name))
    if ([...fields.keys()].some((name) => !FIELDS.has(name)))
      throw new AnswerProblem(`the head has a field other than ${[...FIELDS].join(', ')}`)
    return {
      status: status === undefined ? 200 : readStatus(output, status, 'status'),
      headers: headers === undefined ? new Map() : readHeaders(output, headers, headerProblem),
      trailers: trailers === undefined ? new Set() : readNames(output, trailers),
    }
  })
}

const FIELDS: ReadonlySet<string> = new Set(['status', 'headers', 'trailers'])

/**
 * Parses the trailers of an answer: an object like `headers`.
 *
 * @param announced - Names that the head has announced.
 * @throws {@link AnswerProblem}
 */
export function readTrailers(
  json: Uint8Array,
  announced: ReadonlySet<string>,
): ReadonlyMap<string, readonly string[]> {
  return read(json, (output) =>
    readHeaders(output, undefined, (name, value) =>
      announced.has(name.toLowerCase()) ? problemWithTrailer(name, value) : 'was not announced',
    ),
  )
}

function read<Result>(json: Uint8Array, parse: <Value>(output: JsonOutput<Value>) => Result): Result {
  if (!isUtf8(json)) throw new AnswerProblem('the JSON is not UTF-8')
  return readJson(json.length === 0 ? NO_FIELDS : json, parse)
}

const NO_FIELDS = Buffer.from('{}')

function limitsOf(what: string) {
  return { what, items: GUEST_LIMITS.headerLines, depth: GUEST_LIMITS.jsonDepth }
}

/** @param value - undefined: the output as a whole. */
function readHeaders<Value>(
  output: JsonOutput<Value>,
  value: Value | undefined,
  problemWith: (name: string, value: string) => string | undefined,
): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, texts] of readHeaderLines(output, value, 'headers')) {
    const lowerName = name.toLowerCase()
    const all = headers.get(lowerName) ?? []
    for (const text of texts) {
      const problem = problemWith(name, text)
      if (problem !== undefined)
        throw new AnswerProblem(`${isKnown(name) ? lowerName : 'a header'} ${problem}`)
      all.push(text)
    }
    if (all.length > 1 && !isRepeatable(lowerName))
      throw new AnswerProblem(`${lowerName} must have a single value`)
    if (all.length > 0) headers.set(lowerName, all)
  }
  return headers
}

function readNames<Value>(output: JsonOutput<Value>, value: Value): Set<string> {
  if (output.kindOf(value) !== 'array') throw new AnswerProblem('trailers must be an array of names')
  const names = output.elements(limitsOf('trailers'), value).map((value) => output.string(value))
  return new Set(
    names.map((name) => {
      if (name === undefined || problemWithTrailer(name, ''))
        throw new AnswerProblem('a trailer is not allowed')
      return name.toLowerCase()
    }),
  )
}

/**
 * Fields that must be known before the body, and so have no effect in a trailer or a dangerous one. (RFC 9110, section
 * 6.5.1)
 */
const NOT_IN_TRAILERS: ReadonlySet<string> = new Set([
  ...[
    'authorization',
    'cache-control',
    'content-encoding',
    'content-range',
    'content-type',
    'cookie',
    'host',
  ],
  ...['location', 'max-forwards', 'set-cookie', 'vary', 'www-authenticate'],
])

function problemWithTrailer(name: string, value: string): string | undefined {
  if (isOfServer(name) || NOT_IN_TRAILERS.has(name.toLowerCase())) return 'cannot be a trailer'
  return headerProblem(name, value)
}
