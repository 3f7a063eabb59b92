import { AnswerProblem, type JsonSpan } from './json-scanner.ts'

/** Bytes of a number that may be a status: it can be written as `2e2`. */
const MAX_BYTES = 32

/** Reads the status of an answer. @throws {@link AnswerProblem} naming the field. */
export function readStatus(output: Uint8Array, { start, end }: JsonSpan, field: string): number {
  if (end - start <= MAX_BYTES) {
    const status: unknown = JSON.parse(Buffer.from(output.subarray(start, end)).toString())
    if (typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599)
      return status
  }
  throw new AnswerProblem(`${field} must be a whole number from 200 to 599`)
}
