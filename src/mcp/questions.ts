import { createHash } from 'node:crypto'
import { jsonAt, jsonMembers, jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import { type Members, parseJson, type Request, RPC_CODES, RpcError } from './json-rpc.ts'
import { MAX_STATE, type RequestStates } from './request-state.ts'
import { SHAPES, withoutNulls } from './shapes.ts'

/*
 * Questions of a guest to the user, the model or the program of its client, as from revision 2026-07-28 on: the request is answered with
 * the question, and the client repeats it with the answer. Then the guest runs again from its beginning, and gets the answers
 * that are known. A guest that waited would hold its thread, and the client would have to reach the same process again.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */

/** Answers that a request may collect. */
const MAX_ANSWERS = 32

/** How often in a row a guest may want to be called again without a question. */
const MAX_IDLE = 100

/** Requests that may be answered with a question. */
const ASKING_METHODS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** What a guest asks by a function of its host: the request to the client, and the capability that it needs. */
const KINDS = {
  create_elicitation: {
    method: 'elicitation/create',
    capability: 'elicitation',
    needs:
      'message, and requestedSchema with type and properties, each a text, number, boolean or choice; or mode "url", message and url',
  },
  create_message: {
    method: 'sampling/createMessage',
    capability: 'sampling',
    needs: 'messages with role and content, and maxTokens, an integer',
  },
  list_roots: { method: 'roots/list', capability: 'roots', needs: 'nothing' },
} as const

type Kind = (typeof KINDS)[keyof typeof KINDS]

/** A question and its answer: a digest, so that an answer is never that of another question, and a text in JSON. */
type Answered = readonly [question: string, answer: string]

/** A member of an object, and its text in JSON. */
type Member = readonly [key: string, text: string]

interface State {
  readonly answers: readonly Answered[]
  /** The question that the client was asked. */
  readonly asked?: string
  /** What the guest asked by its result: the keys, what it wants back, and how often in a row it has asked nothing. */
  readonly own?: {
    readonly keys: readonly string[]
    readonly requestState: unknown
    readonly idle: number
  }
}

/** The key of the only question of an answer. */
const KEY = 'question'

/** A guest's question, which ends its call. */
export class InputRequired extends Error {
  /** The result of the request. */
  readonly result: Members

  constructor(result: Members) {
    super('The client must answer a question first')
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
  readonly #idle: number
  #next = 0
  #end: InputRequired | RpcError | undefined

  /**
   * @param isRepeated - By the server itself, which keeps the state for as long as the answer takes.
   * @throws {@link RpcError} if the state of the request is not one of this server for it.
   */
  constructor(
    request: Request,
    client: Client,
    states: RequestStates,
    capabilities: Members,
    isRepeated = false,
  ) {
    const { params, text } = request
    this.#states = states
    this.#request = request
    this.#client = client
    this.#capabilities = capabilities
    const { requestState, inputResponses } = params
    const state =
      requestState === undefined
        ? undefined
        : (states.open(requestState, this.#binding(), isRepeated) as State)
    const answer = isObject(inputResponses) ? inputResponses[KEY] : undefined
    const asked = isObject(answer) ? state?.asked : undefined
    const latest: readonly Answered[] =
      asked === undefined ? [] : [[asked, jsonAt(text, 'params', 'inputResponses', KEY) ?? '{}']]
    this.#answers = [...(state?.answers ?? []), ...latest]
    this.#responses = state?.own ? responsesTo(state.own, text) : []
    this.#idle = state?.own?.idle ?? 0
  }

  /** The questions of the same request with answers, which the server repeats itself. */
  repeated(request: Request): Questions {
    return new Questions(request, this.#client, this.#states, this.#capabilities, true)
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
    const isEmpty = all.length === 0 && requestState === undefined // with a state alone, it wants to be called again
    if (isEmpty || all.length > MAX_ANSWERS) return undefined
    const asked: [key: string, request: Members][] = []
    for (const [key, request] of all) {
      const { method, params = {} } = isObject(request) ? request : {}
      const kind = Object.values(KINDS).find((each) => each.method === method)
      if (!kind || !isObject(params)) return undefined
      const question = given(kind, params)
      const problem = this.#problemWith(kind, question)
      if (problem) return problem
      asked.push([key, { method, params: question }])
    }
    const idle = all.length === 0 ? this.#idle + 1 : 0
    if (idle > MAX_IDLE) {
      const message = `The plug-in wants to be called again more than ${MAX_IDLE} times without a question`
      return new RpcError(RPC_CODES.internalError, message, 200)
    }
    const own = { keys: asked.map(([key]) => key), requestState, idle }
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
    const kind = KINDS[name]
    const { method } = kind
    const params = name === 'list_roots' ? {} : paramsOf(text)
    if (!isObject(params)) return undefined
    const { timeout: _, ...own } = params // of hyper-mcp; a state has a lifetime
    const question = given(kind, own)
    const digest = createHash('sha256')
      .update(JSON.stringify([method, question]))
      .digest('base64url')
    const known = this.#answers[this.#next]
    if (known?.[0] === digest) {
      this.#next++
      return known[1]
    }
    this.#end = this.#endWith(kind, question, digest)
    return undefined
  }

  #endWith(kind: Kind, question: Members, asked: string): InputRequired | RpcError {
    const problem = this.#problemWith(kind, question)
    if (problem) return problem
    const { method } = kind
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
    const hasQuestions = Object.keys(inputRequests).length > 0
    return new InputRequired({
      ...{ resultType: 'input_required', requestState },
      ...(hasQuestions && { inputRequests }),
    })
  }

  /** Why the client cannot be asked: official clients refuse an answer with a question that is not what MCP defines. */
  #problemWith(kind: Kind, question: Members): RpcError | undefined {
    const { method, capability, needs } = kind
    const missing = this.#missingCapability(capability, question)
    if (missing || SHAPES[capability](question)) return missing
    const message = `The plug-in has a question that is not one of MCP: ${method} needs ${needs}`
    return new RpcError(RPC_CODES.internalError, message, 200)
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
    ...(keys.length === 0 ? [] : [['inputResponses', jsonOf(answers)] as const]),
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

/** A question without what is null, which counts as missing. The messages to a model may have values that are null. */
function given({ capability }: Kind, params: Members): Members {
  const whole = capability === 'elicitation' ? withoutNulls(params) : undefined
  if (isObject(whole)) return whole
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null))
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
