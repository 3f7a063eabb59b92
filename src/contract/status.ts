import { AnswerProblem } from './answer-problem.ts'
import type { JsonOutput } from './json-output.ts'

/** Reads the status of an answer. @throws {@link AnswerProblem} naming the field. */
export function readStatus<Value>(output: JsonOutput<Value>, given: Value, field: string): number {
  const status = output.number(given)
  if (Number.isInteger(status) && status >= 200 && status <= 599) return status
  throw new AnswerProblem(`${field} must be a whole number from 200 to 599`)
}
