import { isAscii } from 'node:buffer'
import type autocannon from 'autocannon'
import { BenchServerError, PackageMissingError } from '../../errors/errors.ts'
import { errorCode } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'

/** The request of a load, and its duration. */
export interface Load {
  readonly url: string
  readonly input: Uint8Array
  readonly connections: number
  readonly seconds: number
}

/** The result of a load. */
export interface LoadResult {
  readonly latencies: Latencies
  /** How long it took, in seconds. */
  readonly seconds: number
  /** Requests that were sent; those under way when it ended were not answered. */
  readonly sent: number
  readonly answered: number
  readonly wrong: number
  /** Answers with another status than 2xx. */
  readonly failed: number
  /** Connections that broke, and answers that took longer than 10 s. */
  readonly errors: number
}

/** How often autocannon looks whether the time is up. */
const LOAD_TICK_MS = 50

type Autocannon = typeof autocannon

/**
 * Loads autocannon, an optional peer.
 *
 * @throws {@link PackageMissingError} with the line that helps.
 */
export async function loadAutocannon(): Promise<Autocannon> {
  try {
    return (await import('autocannon')).default
  } catch (error) {
    if (errorCode(error) !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new PackageMissingError(
      'autocannon',
      'wasm-serve bench',
      'run npm install autocannon, or: npx -y -p autocannon -p wasm-serve wasm-serve bench ...',
    )
  }
}

/** Loads a server: each connection sends its next request when it has its answer. */
export async function applyLoad(
  cannon: Autocannon,
  { url, input, connections, seconds }: Load,
  { isRight }: Reference,
): Promise<LoadResult> {
  // autocannon's own histogram counts in whole milliseconds.
  const latencies = new Latencies()
  const options = {
    url,
    connections,
    duration: seconds,
    sampleInt: LOAD_TICK_MS,
    method: 'POST' as const,
    headers: { 'content-type': 'application/octet-stream' },
    body: Buffer.from(input),
    verifyBody: (body: unknown) => isRight(String(body)),
  }
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = cannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    instance.on('response', (_client, _status, _bytes, ms) => latencies.record(ms))
  })
  return {
    latencies,
    seconds: result.duration,
    sent: result.requests.sent,
    answered: latencies.count,
    wrong: result.mismatches,
    failed: result.non2xx,
    errors: result.errors,
  }
}

/** How much wider each class of latencies is than the one before it: percentiles are right to 1%. */
const GROWTH = 1.02

/** Latencies above this, in microseconds, are one class. */
const MAX_LATENCY_US = 1e9

const CLASSES = classOf(MAX_LATENCY_US) + 1

/** Latencies, counted in classes: a long run needs no more memory than a short one. */
export class Latencies {
  readonly #counts = new Float64Array(CLASSES)
  #count = 0
  #sum = 0
  #min = Number.POSITIVE_INFINITY
  #max = 0

  get count(): number {
    return this.#count
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }

  record(ms: number): void {
    const index = Math.min(classOf(ms * 1_000), CLASSES - 1)
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#count++
    this.#sum += ms
    if (ms < this.#min) this.#min = ms
    if (ms > this.#max) this.#max = ms
  }

  /** The latency that `percent` of all do not exceed, in milliseconds, to 1%; 0 if there are none. */
  percentile(percent: number): number {
    const rank = Math.max(1, Math.ceil((percent / 100) * this.#count))
    let seen = 0
    for (const [index, count] of this.#counts.entries()) {
      seen += count
      if (count > 0 && seen >= rank) return Math.min(Math.max(middleMs(index), this.#min), this.#max)
    }
    return 0
  }

  /** Counts in so many classes, each as many times as wide as the one before, from the shortest to the longest. */
  bars(rows: number): { readonly fromMs: number; readonly toMs: number; readonly count: number }[] {
    if (this.#count === 0) return []
    const first = classOf(this.#min * 1_000)
    const last = Math.min(classOf(this.#max * 1_000), CLASSES - 1)
    const width = Math.max(1, Math.ceil((last - first + 1) / rows))
    return Array.from({ length: Math.ceil((last - first + 1) / width) }, (_, row) => {
      const from = first + row * width
      const count = this.#counts.slice(from, from + width).reduce((sum, each) => sum + each, 0)
      return { fromMs: edgeMs(from), toMs: edgeMs(from + width), count }
    })
  }
}

function classOf(micros: number): number {
  return micros < 1 ? 0 : Math.floor(Math.log(micros) / Math.log(GROWTH)) + 1
}

/** Where a class begins. */
function edgeMs(index: number): number {
  return index === 0 ? 0 : GROWTH ** (index - 1) / 1_000
}

function middleMs(index: number): number {
  return (edgeMs(index) + edgeMs(index + 1)) / 2
}

/** The check for right answers. */
interface Reference {
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
