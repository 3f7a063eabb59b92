import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import { AnswerProblem } from './http-answer.ts'
import type { JsonOutput } from './json-output.ts'
import { headersTooLarge } from './json-scan.ts'

/** Header lines as written by a guest, by name. */
export type GivenHeaders = ReadonlyMap<string, readonly string[]>

/**
 * Parses the headers of an answer: an object of strings, or arrays of strings. Null counts as an empty array if
 * `acceptsNull`. Of duplicate names the last one counts.
 *
 * @param field - The name of the headers' field in the answer.
 * @throws {@link AnswerProblem} if they are anything else, or exceed a limit of {@link GUEST_LIMITS}.
 */
export function readGivenHeaders<Value>(
  output: JsonOutput<Value>,
  given: Value,
  field: string,
  acceptsNull = false,
): GivenHeaders {
  const { headerJsonBytes, headerLines, headerBytes, jsonDepth } = GUEST_LIMITS
  if (output.kindOf(given) !== 'object') throw new AnswerProblem(`${field} must be an object`)
  if (output.sizeOf(given) > headerJsonBytes) {
    throw headersTooLarge(headerJsonBytes)
  }
  const limits = { what: field, items: headerLines, depth: jsonDepth }
  const headers = new Map<string, readonly string[]>()
  let [lines, size] = [0, 0]
  for (const [name, value] of output.members(limits, given)) {
    const values = output.kindOf(value) === 'array' ? output.elements(limits, value) : [value]
    const texts: string[] = []
    for (const each of values) {
      const text = output.string(each)
      if (text !== undefined) {
        texts.push(text)
        size += name.length + text.length
      } else if (!acceptsNull || each !== value || output.kindOf(value) !== 'null') {
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
