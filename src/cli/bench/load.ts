import { isAscii } from 'node:buffer'
import type autocannon from 'autocannon'
import { BenchServerError, PackageMissingError } from '../../errors/errors.ts'
import { errorCode } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'

/** The request and duration of a load. */
interface Load {
  readonly url: string
  readonly input: Uint8Array
  readonly connections: number
  readonly seconds: number
}

/** The result of a load. */
export interface LoadResult {
  readonly latencies: Latencies
  /** Duration in seconds. */
  readonly seconds: number
  /** Requests sent. Those in flight at the end got no answer. */
  readonly sent: number
  readonly answered: number
  readonly wrong: number
  /** Answers with a status other than 2xx. */
  readonly failed: number
  /** Broken connections, and answers that took longer than 10 s. */
  readonly errors: number
}

/** How often autocannon checks whether the time is up. */
const LOAD_TICK_MS = 50

type Autocannon = typeof autocannon

/**
 * Loads autocannon, an optional peer.
 *
 * @throws {@link PackageMissingError} with the command that installs it.
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

/** Puts a server under load: each connection sends its next request when the previous one is answered. */
export async function applyLoad(
  cannon: Autocannon,
  { url, input, connections, seconds }: Load,
  { isRight }: Reference,
): Promise<LoadResult> {
  // autocannon's own histogram has a resolution of whole milliseconds.
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

/** The ratio of each bucket's width to the one before: percentiles are accurate to 1%. */
const GROWTH = 1.02

/** Latencies above this many microseconds share one bucket. */
const MAX_LATENCY_US = 1e9

const CLASSES = classOf(MAX_LATENCY_US) + 1

/** A histogram of latencies: memory does not grow with the length of a run. */
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

  /** The given percentile of latency in milliseconds, accurate to 1%; 0 if there are none. */
  percentile(percent: number): number {
    const rank = Math.max(1, Math.ceil((percent / 100) * this.#count))
    let seen = 0
    for (const [index, count] of this.#counts.entries()) {
      seen += count
      if (count > 0 && seen >= rank) return Math.min(Math.max(middleMs(index), this.#min), this.#max)
    }
    return 0
  }

  /** Counts in this many buckets of geometrically growing width, from the shortest latency to the longest. */
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

/** The lower bound of a bucket. */
function edgeMs(index: number): number {
  return index === 0 ? 0 : GROWTH ** (index - 1) / 1_000
}

function middleMs(index: number): number {
  return (edgeMs(index) + edgeMs(index + 1)) / 2
}

/** Checks whether answers are correct. */
interface Reference {
  /** A description of the comparison, for the report. */
  readonly compared: string
  /** Whether a body is correct. */
  isRight(body: string): boolean
}

/** The number of sequential requests before the load. */
const ASKED = 10

/** Time limit for an answer of an otherwise idle server. */
const ANSWER_MS = 5_000

/**
 * Sends the same request several times. The first answer is the reference, unless the others differ, as with a guest
 * that counts.
 *
 * @throws {@link BenchServerError} if an answer is missing or not 200.
 */
export async function askReference(url: string, input: Uint8Array, words: string): Promise<Reference> {
  const answers: Buffer[] = []
  for (let number = 0; number < ASKED; number++) {
    const { status, body } = await ask(url, input).catch((error: Error) => {
      const reason = error.name === 'TimeoutError' ? `within ${ANSWER_MS} ms` : `(${error.message})`
      throw new BenchServerError(words, `it does not respond to this input ${reason}`, { cause: error })
    })
    if (status !== 200) {
      const said = printable(body.toString().slice(0, 500))
      throw new BenchServerError(words, `it responds to this input with ${status}: ${said}`)
    }
    answers.push(body)
  }
  const [first = Buffer.alloc(0), ...others] = answers
  const different = others.filter((answer) => !answer.equals(first)).length
  if (different > 0) {
    return {
      compared: `the status only: ${different} of ${ASKED} responses to the same input differ from the first`,
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
    compared: `each body, byte for byte, with the first response (${expected.length} bytes)`,
    isRight: (body) => body === expected,
  }
}

/**
 * autocannon decodes each chunk of a body as UTF-8. Binary data, and characters split between chunks, become
 * replacement characters: then only the ASCII part can be compared.
 */
function asText(expected: string): Reference {
  const ascii = onlyAscii(expected)
  return {
    compared: 'each body, as text, with the first response; differences outside ASCII may be missed',
    isRight: (body) => body === expected || onlyAscii(body) === ascii,
  }
}

function onlyAscii(text: string): string {
  return text.replaceAll(/[\u0080-\uffff]/g, '')
}
