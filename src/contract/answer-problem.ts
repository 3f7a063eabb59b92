/** What is wrong with an answer of a guest, without a word of it: the contract makes an error of its own of this. */
export class AnswerProblem extends Error {
  override readonly name = 'AnswerProblem'
}

export function notJson(): AnswerProblem {
  return new AnswerProblem('the output is not JSON')
}
