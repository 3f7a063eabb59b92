import { UsageError } from '../../errors/errors.ts'
import type { Host } from '../command.ts'

/** A question at a terminal. */
interface Question<Answer> {
  readonly text: string
  /** The answer of an empty line. */
  readonly fallback: string
  /** Reads an answer. @throws UsageError if it is none: the question is asked again. */
  read(word: string): Answer
}

/** Asks one question after another. */
export type Ask = <Answer>(question: Question<Answer>) => Promise<Answer>

/** Whether there is somebody to ask. */
export function canAsk({ keyboard, isOutTerminal }: Host): boolean {
  return keyboard !== undefined && isOutTerminal
}

/**
 * Lets a function ask the user.
 *
 * @throws UsageError at the end of the input.
 */
export async function asking<Result>(
  { out, readLines }: Host,
  run: (ask: Ask) => Promise<Result>,
): Promise<Result> {
  const lines = readLines()[Symbol.asyncIterator]()
  try {
    return await run(async ({ text, fallback, read }) => {
      for (;;) {
        out.write(`${text} [${fallback}]: `)
        const { done, value } = await lines.next()
        if (done) throw new UsageError('new: the input has ended before the last answer')
        try {
          return read(value.trim() || fallback)
        } catch (error) {
          if (!(error instanceof UsageError)) throw error
          out.write(`${error.message}\n`)
        }
      }
    })
  } finally {
    await lines.return?.() // an open input would keep the process alive
  }
}
