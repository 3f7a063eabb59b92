import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { isObject } from '../platform/json-text.ts'
import { linesOf } from '../platform/lines.ts'
import {
  errorMessage,
  idOf,
  type Members,
  type RequestId,
  RPC_CODES,
  RpcError,
  resultMessage,
} from './json-rpc.ts'
import { levelsFrom } from './log-notifications.ts'
import { META, MODERN_REVISIONS } from './revisions.ts'
import {
  type AskedQuestions,
  askableCapabilities,
  GrowingProgress,
  questionsIn,
  SessionQuestions,
  withAnswers,
} from './session-questions.ts'
import { bridgeHeaders, type ClientSession } from './transport-headers.ts'

/*
 * MCP over standard input and output, for clients that start their servers: a message per line. Each is passed to the endpoint of
 * a server, so that both transports behave alike.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
 */

/** Where the endpoint is. */
interface BridgeTarget {
  /** The Unix socket of the server. */
  readonly socketPath: string
  /** The URL of the endpoint. */
  readonly path: string
}

/** Connections to the server. Further requests wait: more than 511 at once would be refused by the operating system. */
const MAX_CONNECTIONS = 256

/**
 * Passes messages to the endpoint, and its answers back.
 *
 * @param lines - The messages of the client.
 * @param write - Writes a line to the client.
 * @returns when the client has closed its side and all requests are answered.
 */
export async function bridgeStdio(
  target: BridgeTarget,
  lines: AsyncIterable<string>,
  write: (line: string) => void,
): Promise<void> {
  const bridge = new Bridge(target, write)
  for await (const line of lines) if (line.trim() !== '') bridge.take(line)
  await bridge.over()
}

class Bridge {
  readonly #target: BridgeTarget
  readonly #write: (line: string) => void
  readonly #agent = new Agent({ keepAlive: true, timeout: 5_000, maxSockets: MAX_CONNECTIONS })
  /** Requests without an answer, by the id of the client. */
  readonly #open = new Map<RequestId, AbortController>()
  readonly #ended = new Set<Promise<void>>()
  /** Requests that are answered for as long as the client wants. */
  readonly #streams = new Set<AbortController>()
  readonly #questions: SessionQuestions
  /** The revision of a client that began with `initialize`. */
  #revision: string | undefined
  #session: ClientSession = { capabilities: {} }
  #maySubscribe = false
  /** URIs of resources that the client waits for. */
  readonly #resources = new Set<string>()
  /** The stream of changes. */
  #changes: AbortController | undefined
  #listening: Promise<void> = Promise.resolve()

  constructor(target: BridgeTarget, write: (line: string) => void) {
    this.#target = target
    this.#write = write
    this.#questions = new SessionQuestions(write)
  }

  take(line: string): void {
    const message = parse(line)
    if (isObject(message) && message.method === 'notifications/cancelled') {
      const { requestId } = isObject(message.params) ? message.params : {}
      const open = this.#open.get(requestId as RequestId)
      open?.abort()
      if (open) return // requests of batches are known to the endpoint
    }
    if (this.#questions.take(message, line) || this.#answerHere(message)) return
    this.#run(this.#answer(line, message))
  }

  #run(work: Promise<void>): void {
    const ended = work.finally(() => this.#ended.delete(ended))
    this.#ended.add(ended)
  }

  async over(): Promise<void> {
    this.#questions.close()
    for (const stream of this.#streams) stream.abort()
    await Promise.all(this.#ended)
    this.#agent.destroy()
  }

  /** Answers requests about the session, which the endpoint does not know. @returns false if the message is another one. */
  #answerHere(message: unknown): boolean {
    const id = idOf(message)
    if (this.#revision === undefined || id === undefined || !isObject(message)) return false
    const params = isObject(message.params) ? message.params : {}
    switch (message.method) {
      case 'logging/setLevel':
        this.#run(this.#reply(id, message, async () => this.#setLevel(params)))
        return true
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        if (!this.#maySubscribe) return false
        this.#run(
          this.#reply(id, message, () => this.#subscribe(params, message.method === 'resources/subscribe')),
        )
        return true
      default:
        return false
    }
  }

  async #reply(id: RequestId, message: Members, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#write(resultMessage(id, '{}'))
    } catch (error) {
      this.#write(failureOf(error, id, message))
    }
  }

  #setLevel({ level }: Members): void {
    levelsFrom(String(level))
    this.#session = { ...this.#session, logLevel: String(level) }
  }

  /** @returns when the endpoint knows it. */
  async #subscribe({ uri }: Members, isWanted: boolean): Promise<void> {
    if (typeof uri !== 'string')
      throw new RpcError(RPC_CODES.invalidParams, 'Invalid params: uri must be a text')
    if (isWanted) this.#resources.add(uri)
    else this.#resources.delete(uri)
    const listened = this.#listening.then(() => this.#listen())
    this.#listening = listened.catch(() => void this.#resources.delete(uri))
    await listened
  }

  /** A request that is cancelled has no answer. */
  async #answer(line: string, message: unknown): Promise<void> {
    const id = idOf(message)
    const cancelled = new AbortController()
    if (id !== undefined) this.#open.set(id, cancelled)
    const isStream = isObject(message) && message.method === 'subscriptions/listen'
    if (isStream) this.#streams.add(cancelled)
    try {
      const progress = new GrowingProgress()
      let asked = await this.#send({ line, message, id, cancelled, progress })
      while (asked) {
        const answers = await this.#questions.ask(asked, cancelled.signal)
        const again = withAnswers(line, answers, asked)
        asked = await this.#send({ line: again, message, id, cancelled, progress })
      }
    } catch (error) {
      if (id !== undefined && !cancelled.signal.aborted) this.#write(failureOf(error, id, message))
    } finally {
      this.#streams.delete(cancelled)
      if (id !== undefined && this.#open.get(id) === cancelled) this.#open.delete(id)
    }
  }

  /** Sends a message to the endpoint, and its answers to the client. @returns what the client has to be asked first. */
  async #send({ line, message, id, cancelled, progress }: Sent): Promise<AskedQuestions | undefined> {
    const response = await this.#post(line, message, cancelled.signal)
    const isRefused = response.statusCode !== 200 && id !== undefined
    for await (const each of messagesOf(response)) {
      if (this.#revision !== undefined && !isComplete(message)) {
        const questions = questionsIn(each)
        if (questions) return questions
        if (!progress.grows(each)) continue
      }
      this.#pass(isRefused ? withId(each, id) : each, message)
    }
    return undefined
  }

  /** Which revision a client speaks that began with `initialize`, is known from the answer. */
  #pass(text: string, message: unknown): void {
    if (isObject(message) && message.method === 'initialize') {
      const answer = parse(text)
      const { result } = isObject(answer) ? answer : {}
      if (isObject(result) && typeof result.protocolVersion === 'string') {
        const params = isObject(message.params) ? message.params : {}
        this.#session = { capabilities: askableCapabilities(params) }
        this.#maySubscribe = hasSubscriptions(result)
        if (this.#revision === undefined) this.#listening = this.#listen().catch(() => undefined)
        this.#revision = result.protocolVersion
      }
    }
    this.#write(text)
  }

  /**
   * Passes on what has changed, to a client whose revision has no request for it. A new stream takes the place of the one before.
   *
   * @returns when the endpoint has accepted it.
   */
  #listen(): Promise<void> {
    const stream = new AbortController()
    return new Promise((resolve, reject) => {
      const begun = () => {
        this.#changes?.abort()
        this.#changes = stream
        resolve()
      }
      this.#run(this.#follow(stream, begun).then(resolve, reject))
    })
  }

  async #follow(stream: AbortController, begun: () => void): Promise<void> {
    this.#streams.add(stream)
    const request = listenRequest([...this.#resources])
    try {
      const response = await this.#post(request, JSON.parse(request), stream.signal)
      for await (const each of messagesOf(response)) {
        const { method, params, error } = JSON.parse(each)
        if (error) throw new RpcError(error.code, error.message)
        if (method === 'notifications/subscriptions/acknowledged') begun()
        else if (CHANGES.includes(method)) this.#write(changeMessage(method, params))
      }
    } catch (error) {
      if (!stream.signal.aborted) throw error
    } finally {
      this.#streams.delete(stream)
    }
  }

  #post(line: string, message: unknown, signal: AbortSignal): Promise<IncomingMessage> {
    const { socketPath, path } = this.#target
    const body = Buffer.from(line)
    const session = isComplete(message) ? undefined : this.#session
    const revision = session && this.#revision
    const headers = {
      ...bridgeHeaders(session),
      host: 'localhost',
      'content-type': 'application/json',
      'content-length': body.length,
      accept: 'application/json, text/event-stream',
      ...(revision !== undefined && { 'mcp-protocol-version': revision }),
    }
    const sent = request({ socketPath, path, method: 'POST', headers, agent: this.#agent, signal })
    sent.end(body)
    return responseTo(sent)
  }
}

/** The request for changes of all lists, and of some resources. */
function listenRequest(resourceSubscriptions: readonly string[]): string {
  const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
  const _meta = { [META.protocolVersion]: MODERN_REVISIONS[0], [META.clientCapabilities]: {} }
  const params = { notifications: { ...lists, resourceSubscriptions }, _meta }
  return JSON.stringify({ jsonrpc: '2.0', id: 'changes', method: 'subscriptions/listen', params })
}

const CHANGES: readonly unknown[] = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
]

/** The notification of a change without the name of the stream, which the client does not know. */
function changeMessage(method: string, { uri }: Members): string {
  return JSON.stringify({ jsonrpc: '2.0', method, ...(uri !== undefined && { params: { uri } }) })
}

/** A message of the client on its way. */
interface Sent {
  readonly line: string
  readonly message: unknown
  readonly id: RequestId | undefined
  readonly cancelled: AbortController
  readonly progress: GrowingProgress
}

/** Whether a client can wait for resources, by the result of `initialize`. */
function hasSubscriptions({ capabilities }: Members): boolean {
  const { resources } = isObject(capabilities) ? capabilities : {}
  return isObject(resources) && resources.subscribe === true
}

function responseTo(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => sent.once('response', resolve).once('error', reject))
}

/** A message that names its revision itself needs no header. */
function isComplete(message: unknown): boolean {
  const { params }: Members = isObject(message) ? message : {}
  return isObject(params) && isObject(params._meta) && META.protocolVersion in params._meta
}

/** What begins the line of a server-sent event that has the message. */
const DATA = 'data: '

/** The messages of an answer: a JSON text, or the data of server-sent events. */
async function* messagesOf(response: IncomingMessage): AsyncGenerator<string> {
  response.setEncoding('utf8')
  if (response.headers['content-type'] === 'text/event-stream') {
    for await (const line of linesOf(response)) if (line.startsWith(DATA)) yield line.slice(DATA.length)
    return
  }
  const whole = await text(response)
  if (whole !== '') yield whole
}

/** The endpoint refuses some requests unread, such as too large ones, and does not know their ids. */
function withId(answer: string, id: RequestId): string {
  const read = parse(answer)
  return isObject(read) && read.id === null ? JSON.stringify({ ...read, id }) : answer
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the endpoint answers with the error
  }
}

/** A client that refuses a question of a tool has a reason, which is one for the model. */
function failureOf(error: unknown, id: RequestId, message: unknown): string {
  if (!(error instanceof RpcError)) return errorMessage(id, lost(error))
  if (!isObject(message) || message.method !== 'tools/call') return errorMessage(id, error)
  const content = [{ type: 'text', text: error.message }]
  return resultMessage(id, JSON.stringify({ content, isError: true }))
}

function lost(error: unknown): RpcError {
  const reason = error instanceof Error ? error.message : String(error)
  return new RpcError(RPC_CODES.internalError, `The server did not respond: ${reason}`)
}
