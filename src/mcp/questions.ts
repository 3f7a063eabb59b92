import { createHash } from 'node:crypto'
import { jsonAt, jsonMembers, jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import { type Members, parseJson, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import { MAX_STATE, type RequestStates } from './request-state.ts'

/*
 * Questions of a guest to the user, the model or the program of its client, as from revision 2026-07-28 on: the request is answered with
 * the question, and the client repeats it with the answer. Then the guest runs again from its beginning, and gets the answers
 * that are known. A guest that waited would hold its thread, and the client would have to reach the same process again.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */

/** Answers that a request may collect. */
const MAX_ANSWERS = 32

/** Requests that may be answered with a question. */
const ASKING_METHODS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** What a guest asks by a function of its host: the request to the client, and the capability that it needs. */
const KINDS = {
  create_elicitation: { method: 'elicitation/create', capability: 'elicitation' },
  create_message: { method: 'sampling/createMessage', capability: 'sampling' },
  list_roots: { method: 'roots/list', capability: 'roots' },
} as const

/** A question and its answer: a digest, so that an answer is never that of another question, and a text in JSON. */
type Answered = readonly [question: string, answer: string]

/** A member of an object, and its text in JSON. */
type Member = readonly [key: string, text: string]

interface State {
  readonly answers: readonly Answered[]
  /** The question that the client was asked. */
  readonly asked?: string
  /** What the guest asked by its result: the keys, and what it wants back. */
  readonly own?: { readonly keys: readonly string[]; readonly requestState: unknown }
}

/** The key of the only question of an answer. */
const KEY = 'question'

/** A guest's question, which ends its call. */
export class InputRequired extends Error {
  /** The result of the request. */
  readonly result: Members

  constructor(result: Members) {
    super('The client has to answer a question first')
    this.result = result
  }
}

/** The output of a guest. @throws its question, if it has asked what is not known, whatever became of the call. */
export async function unlessAsked<Output>(
  called: Promise<Output>,
  questions: Questions | undefined,
): Promise<Output> {
  const output = await called.catch((error: unknown) => {
    throw questions?.end ?? error
  })
  if (questions?.end) throw questions.end
  return output
}

/** Whether the call of a guest failed because it has a question. */
export function isQuestion(error: unknown): boolean {
  return error instanceof InputRequired || error instanceof RpcError
}

/** What a guest has asked during the request of a client. */
export class Questions {
  readonly #states: RequestStates
  readonly #request: Request
  readonly #client: Client
  readonly #capabilities: Members
  readonly #answers: readonly Answered[]
  readonly #responses: readonly Member[]
  #next = 0
  #end: InputRequired | RpcError | undefined

  /** @throws {@link RpcError} if the state of the request is not one of this server for it. */
  constructor(request: Request, client: Client, states: RequestStates, capabilities: Members) {
    const { params, text } = request
    this.#states = states
    this.#request = request
    this.#client = client
    this.#capabilities = capabilities
    const { requestState, inputResponses } = params
    const state =
      requestState === undefined ? undefined : (states.open(requestState, this.#binding()) as State)
    const answer = isObject(inputResponses) ? inputResponses[KEY] : undefined
    const asked = isObject(answer) ? state?.asked : undefined
    const latest: readonly Answered[] =
      asked === undefined ? [] : [[asked, jsonAt(text, 'params', 'inputResponses', KEY) ?? '{}']]
    this.#answers = [...(state?.answers ?? []), ...latest]
    this.#responses = state?.own ? responsesTo(state.own, text) : []
  }

  /** What a guest gets besides its request, if it has asked by its result: `inputResponses`, and its own `requestState`. */
  get responses(): readonly Member[] {
    return this.#responses
  }

  /**
   * Passes on the questions that a guest asks by its result.
   *
   * @returns undefined if they are not what MCP defines.
   */
  forward({ inputRequests, requestState }: Members): InputRequired | RpcError | undefined {
    const all = isObject(inputRequests) ? Object.entries(inputRequests) : []
    if (all.length === 0 || all.length > MAX_ANSWERS) return undefined
    const asked: [key: string, request: Members][] = []
    for (const [key, request] of all) {
      const { method, params = {} } = isObject(request) ? request : {}
      const kind = Object.values(KINDS).find((each) => each.method === method)
      if (!kind || !isObject(params)) return undefined
      const missing = this.#missingCapability(kind.capability, params)
      if (missing) return missing
      asked.push([key, { method, params }])
    }
    const own = { keys: asked.map(([key]) => key), requestState }
    return this.#requiring(Object.fromEntries(asked), { answers: this.#answers, own })
  }

  /** What a state is valid for. Most guests ask nothing. */
  #binding(): string {
    const { method, text } = this.#request
    const members = jsonMembers(jsonAt(text, 'params'))
    const given = ['name', 'uri', 'arguments'].map((key) => members.get(key))
    return JSON.stringify([this.#client.kind, this.#client.id, method, given])
  }

  /** The end of the request, if the guest has asked what is not known. */
  get end(): Error | undefined {
    return this.#end
  }

  /**
   * Asks the client.
   *
   * @param name - The function of the host.
   * @param text - Its input, JSON.
   * @returns the answer, JSON; undefined if it is not known, or the client cannot answer: the call must end.
   */
  ask(name: string, text: string): string | undefined {
    if (!isKind(name) || this.#end) return undefined
    const { method, capability } = KINDS[name]
    const params = name === 'list_roots' ? {} : paramsOf(text)
    if (!isObject(params)) return undefined
    const { timeout: _, ...question } = params // of hyper-mcp; a state has a lifetime
    const digest = createHash('sha256')
      .update(JSON.stringify([method, question]))
      .digest('base64url')
    const known = this.#answers[this.#next]
    if (known?.[0] === digest) {
      this.#next++
      return known[1]
    }
    this.#end = this.#endWith(method, capability, question, digest)
    return undefined
  }

  #endWith(method: string, capability: string, question: Members, asked: string): InputRequired | RpcError {
    const missing = this.#missingCapability(capability, question)
    if (missing) return missing
    const answers = this.#answers.slice(0, this.#next)
    if (answers.length >= MAX_ANSWERS)
      return new RpcError(RPC_CODES.internalError, `The plug-in asks more than ${MAX_ANSWERS} questions`, 200)
    return this.#requiring({ [KEY]: { method, params: question } }, { answers, asked })
  }

  #requiring(inputRequests: Members, state: State): InputRequired | RpcError {
    const requestState = this.#states.seal(state, this.#binding())
    if (requestState === undefined) {
      const message = `The plug-in cannot ask: the answers that are known, and its own state, take more than ${MAX_STATE} characters`
      return new RpcError(RPC_CODES.internalError, message, 200)
    }
    return new InputRequired({ resultType: 'input_required', inputRequests, requestState })
  }

  #missingCapability(capability: string, { mode }: Members): RpcError | undefined {
    const declared = this.#capabilities[capability]
    const parts = isObject(declared) ? declared : undefined
    const isForm = mode !== 'url'
    const hasForm = parts?.form !== undefined || parts?.url === undefined // without parts, forms are meant
    if (parts && (isForm ? hasForm : isObject(parts.url))) return undefined
    const requiredCapabilities = { [capability]: isForm ? {} : { url: {} } }
    const message = `The plug-in has a question that needs the client's capability ${capability}`
    return new RpcError(RPC_CODES.missingCapability, message, 400, { requiredCapabilities })
  }
}

/** The answers that were asked for, in the client's own text. */
function responsesTo({ keys, requestState }: NonNullable<State['own']>, text: string): readonly Member[] {
  const given = jsonMembers(jsonAt(text, 'params', 'inputResponses'))
  const answers = keys.flatMap((key): Member[] => {
    const answer = given.get(key)
    return answer === undefined ? [] : [[key, answer]]
  })
  return [
    ['inputResponses', jsonOf(answers)],
    ...(requestState === undefined ? [] : [['requestState', JSON.stringify(requestState)] as const]),
  ]
}

/** The questions of a request; undefined if it cannot be answered with one. */
export function questionsOf(
  request: Request,
  client: Client,
  states: RequestStates,
  capabilities: Members,
): Questions | undefined {
  return ASKING_METHODS.has(request.method) ? new Questions(request, client, states, capabilities) : undefined
}

function isKind(name: string): name is keyof typeof KINDS {
  return Object.hasOwn(KINDS, name)
}

function paramsOf(text: string): unknown {
  try {
    return parseJson(Buffer.from(text)).value
  } catch {
    return undefined
  }
}
