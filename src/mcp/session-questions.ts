import { jsonAt, jsonMembers, jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import { type Members, type RequestId, RPC_CODES, RpcError } from './json-rpc.ts'

/*
 * Questions to a client of a revision of 2025, which has a session: they are requests to the client. The endpoint answers as to clients
 * of later revisions, with `input_required`; the bridge asks, and repeats the request with the answers. So the guest sees no difference.
 */

/** Writes a line to the client. */
type Write = (line: string) => void

/** The names of capabilities that matter for questions, with the names of their parts. */
const CAPABILITIES: Readonly<Record<string, readonly string[]>> = {
  elicitation: ['form', 'url'],
  sampling: ['tools', 'context'],
  roots: [],
}

/** What the client of `initialize` can be asked for. */
export function askableCapabilities({ capabilities }: Members): Members {
  const given = isObject(capabilities) ? capabilities : {}
  const known = Object.entries(CAPABILITIES).flatMap(([name, parts]) => {
    const declared = given[name]
    if (!isObject(declared)) return []
    return [
      [name, Object.fromEntries(parts.filter((part) => isObject(declared[part])).map((part) => [part, {}]))],
    ]
  })
  return Object.fromEntries(known)
}

/** The question of a guest in an answer of the endpoint. */
export interface AskedQuestions {
  /** Requests to the client, by the keys of their answers. */
  readonly inputRequests: Members
  readonly requestState: unknown
}

/** The questions in an answer of the endpoint; undefined if it is another message. */
export function questionsIn(text: string): AskedQuestions | undefined {
  if (!text.includes('"resultType":"input_required"')) return undefined
  const answer: unknown = JSON.parse(text)
  const { result } = isObject(answer) ? answer : {}
  if (!isObject(result) || result.resultType !== 'input_required') return undefined
  const { inputRequests = {}, requestState } = result
  return isObject(inputRequests) ? { inputRequests, requestState } : undefined
}

/** The request again, with the answers. */
export function withAnswers(
  request: string,
  answers: ReadonlyMap<string, string>,
  { requestState }: Pick<AskedQuestions, 'requestState'>,
): string {
  const message = new Map(jsonMembers(request))
  const params = new Map(jsonMembers(message.get('params')))
  params.set('inputResponses', jsonOf(answers))
  params.set('requestState', JSON.stringify(requestState))
  return jsonOf(message.set('params', jsonOf(params)))
}

/** A guest that runs again tells its progress again. Clients expect that it grows. */
export class GrowingProgress {
  #last = Number.NEGATIVE_INFINITY

  /** @returns false if the message is progress that is not more than before. */
  grows(text: string): boolean {
    if (!text.includes('"method":"notifications/progress"')) return true
    const message: unknown = JSON.parse(text)
    const params = isObject(message) && isObject(message.params) ? message.params : {}
    const progress = Number(params.progress)
    if (progress <= this.#last) return false
    this.#last = progress
    return true
  }
}

/** The requests to a client that have no response. */
export class SessionQuestions {
  readonly #write: Write
  readonly #waiting = new Map<
    RequestId,
    (response: { readonly value: Members; readonly text: string }) => void
  >()
  readonly #end = new AbortController()
  #next = 1

  constructor(write: Write) {
    this.#write = write
  }

  /** Takes a response of the client. @returns false if the message is none, or nobody waits for it. */
  take(value: unknown, text: string): boolean {
    if (!isObject(value) || value.method !== undefined) return false
    const settle = this.#waiting.get(value.id as RequestId)
    settle?.({ value, text })
    return settle !== undefined
  }

  /** The client answers no more. */
  close(): void {
    this.#end.abort(unanswered('it has closed its side'))
  }

  /**
   * Asks all questions at the same time.
   *
   * @param cancelled - Aborted if the client has cancelled its request.
   * @returns the answers, JSON.
   * @throws {@link RpcError} if the client refuses one of them.
   */
  async ask({ inputRequests }: AskedQuestions, cancelled: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const failed = new AbortController()
    const signal = AbortSignal.any([cancelled, failed.signal, this.#end.signal])
    const answers = Object.entries(inputRequests).map(async ([key, request]) => {
      const { method, params = {} } = isObject(request) ? request : {}
      return [key, await this.#request(String(method), params, signal)] as const
    })
    try {
      return new Map(await Promise.all(answers))
    } catch (error) {
      failed.abort(error)
      await Promise.allSettled(answers)
      throw error
    }
  }

  /** A question that nobody waits for is cancelled. */
  #request(method: string, params: unknown, signal: AbortSignal): Promise<string> {
    const id = `question-${this.#next++}`
    return new Promise<string>((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.delete(id)
        this.#send({ method: 'notifications/cancelled', params: { requestId: id } })
        reject(signal.reason)
      }
      if (signal.aborted) return reject(signal.reason)
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.set(id, ({ value, text }) => {
        signal.removeEventListener('abort', giveUp)
        this.#waiting.delete(id)
        const result = isObject(value.result) ? jsonAt(text, 'result') : undefined
        if (result === undefined) reject(unanswered(reasonIn(value)))
        else resolve(result)
      })
      this.#send({ id, method, params })
    })
  }

  #send(message: object): void {
    this.#write(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }
}

function reasonIn({ error }: Members): string {
  return isObject(error) && typeof error.message === 'string' ? error.message : 'it gave no result'
}

function unanswered(reason: string): RpcError {
  return new RpcError(
    RPC_CODES.internalError,
    `The client did not answer a question of the plug-in: ${reason}`,
  )
}
