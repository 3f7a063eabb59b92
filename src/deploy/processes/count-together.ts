import type { RateCount, RateCounter, RateTable } from '../../platform/rate-counts.ts'

/** A request to count. */
export type RateQuestion = readonly [table: RateTable, client: string, timeWindowMs: number]

/**
 * Counts requests for all serving processes, which send those of one turn of the event loop together. A share of the limit
 * for each process would be wrong: all requests of a connection go to one of them.
 */
export function countTogether(
  ask: (questions: readonly RateQuestion[]) => Promise<readonly RateCount[]>,
): RateCounter {
  let questions: RateQuestion[] = []
  let answers: Promise<readonly RateCount[]> | undefined
  const send = () => {
    const all = questions
    questions = []
    answers = undefined
    return ask(all)
  }
  return {
    async count(...question) {
      const place = questions.push(question) - 1
      answers ??= new Promise((resolve) => setImmediate(() => resolve(send())))
      const found = (await answers)[place]
      if (!found) throw new Error('a request was not counted')
      return found
    },
  }
}
