import { GUEST_LIMITS } from '../guest-limits.ts'
import { AnswerProblem, isNull, type JsonSpan, readString, scanArray, scanObject } from './json-scanner.ts'

/** Lines of headers as a guest wrote them, by name. */
export type GivenHeaders = ReadonlyMap<string, readonly string[]>

/**
 * Reads the headers of an answer: an object of strings, or arrays of strings. Null counts as an empty array if
 * `acceptsNull`. Of names that are the same the last counts.
 *
 * @param field - Their name in the answer.
 * @throws {@link AnswerProblem} if they are something else, or go beyond a limit of {@link GUEST_LIMITS}.
 */
export function readGivenHeaders(
  output: Uint8Array,
  span: JsonSpan,
  field: string,
  acceptsNull = false,
): GivenHeaders {
  const { headerJsonBytes, headerLines, headerBytes } = GUEST_LIMITS
  if (output[span.start] !== OPENING_BRACE) throw new AnswerProblem(`${field} must be an object`)
  if (span.end - span.start > headerJsonBytes) {
    throw new AnswerProblem(`headers are larger than ${headerJsonBytes} bytes, as JSON`)
  }
  const limits = { what: field, items: headerLines, depth: GUEST_LIMITS.jsonDepth }
  const headers = new Map<string, readonly string[]>()
  let [lines, size] = [0, 0]
  for (const [name, value] of scanObject(output, limits, span)) {
    const values = isArray(output, value) ? scanArray(output, limits, value) : [value]
    const texts: string[] = []
    for (const each of values) {
      const text = readString(output, each)
      if (text !== undefined) {
        texts.push(text)
        size += name.length + text.length
      } else if (!acceptsNull || each !== value || !isNull(output, value)) {
        throw new AnswerProblem(`${field} must be strings, or arrays of strings`)
      }
    }
    lines += texts.length
    headers.set(name, texts)
  }
  if (lines > headerLines) throw new AnswerProblem(`headers have more than ${headerLines} lines`)
  if (size > headerBytes) throw new AnswerProblem(`headers are larger than ${headerBytes} bytes`)
  return headers
}

function isArray(output: Uint8Array, { start }: JsonSpan): boolean {
  return output[start] === OPENING_BRACKET
}

const OPENING_BRACKET = 0x5b
const OPENING_BRACE = 0x7b
