import { isAscii } from 'node:buffer'
import { BenchServerError } from '../../errors/errors.ts'
import { printable } from '../../observe/log/printable.ts'

/** What right answers look like. */
export interface Reference {
  /** For people: what is compared with what. */
  readonly compared: string
  /** Whether a body is right. */
  isRight(body: string): boolean
}

/** Answers that are asked for before the load, one after the other. */
const ASKED = 10

/** How long a guest may take to answer when nothing else is asked of it. */
const ANSWER_MS = 5_000

/**
 * Asks a server some times for the same: the first answer is the reference, unless the others differ, as those of a
 * guest that counts do.
 *
 * @throws {@link BenchServerError} if an answer is not 200, or does not come.
 */
export async function askReference(url: string, input: Uint8Array, words: string): Promise<Reference> {
  const answers: Buffer[] = []
  for (let number = 0; number < ASKED; number++) {
    const { status, body } = await ask(url, input).catch((error: Error) => {
      const reason = error.name === 'TimeoutError' ? `within ${ANSWER_MS} ms` : `(${error.message})`
      throw new BenchServerError(words, `it gives this input no answer ${reason}`, { cause: error })
    })
    if (status !== 200) {
      const said = printable(body.toString().slice(0, 500))
      throw new BenchServerError(words, `it answers this input with ${status}: ${said}`)
    }
    answers.push(body)
  }
  const [first = Buffer.alloc(0), ...others] = answers
  const different = others.filter((answer) => !answer.equals(first)).length
  if (different > 0) {
    return {
      compared: `the status only: of ${ASKED} answers to the same input ${different} differ from the first`,
      isRight: () => true,
    }
  }
  return isAscii(first) ? exactly(first.toString('latin1')) : asText(first.toString())
}

async function ask(url: string, input: Uint8Array): Promise<{ status: number; body: Buffer }> {
  const signal = AbortSignal.timeout(ANSWER_MS)
  const response = await fetch(url, { method: 'POST', body: Buffer.from(input), signal })
  return { status: response.status, body: Buffer.from(await response.arrayBuffer()) }
}

function exactly(expected: string): Reference {
  return {
    compared: `each body, byte for byte, with the first answer (${expected.length} bytes)`,
    isRight: (body) => body === expected,
  }
}

/**
 * autocannon decodes each piece of a body as UTF-8: what is no text, or is cut within a character, has replacement
 * characters in it, and only its ASCII can be compared.
 */
function asText(expected: string): Reference {
  const ascii = onlyAscii(expected)
  return {
    compared: 'each body, as text, with the first answer; a difference in what is not ASCII may go unseen',
    isRight: (body) => body === expected || onlyAscii(body) === ascii,
  }
}

function onlyAscii(text: string): string {
  return text.replaceAll(/[\u0080-\uffff]/g, '')
}
