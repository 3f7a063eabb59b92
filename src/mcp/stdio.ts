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

  constructor(target: BridgeTarget, write: (line: string) => void) {
    this.#target = target
    this.#write = write
    this.#questions = new SessionQuestions(write)
  }

  take(line: string): void {
    const message = parse(line)
    if (isObject(message) && message.method === 'notifications/cancelled') {
      const { requestId } = isObject(message.params) ? message.params : {}
      this.#open.get(requestId as RequestId)?.abort()
      return
    }
    if (this.#questions.take(message, line) || this.#setLevel(message)) return
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

  /** @returns false if the message is another one. */
  #setLevel(message: unknown): boolean {
    const id = idOf(message)
    if (this.#revision === undefined || id === undefined || !isObject(message)) return false
    if (message.method !== 'logging/setLevel') return false
    const { level } = isObject(message.params) ? message.params : {}
    try {
      levelsFrom(String(level))
      this.#session = { ...this.#session, logLevel: String(level) }
      this.#write(resultMessage(id, '{}'))
    } catch (error) {
      this.#write(failureOf(error, id, message))
    }
    return true
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
        if (this.#revision === undefined) this.#run(this.#listen())
        this.#revision = result.protocolVersion
      }
    }
    this.#write(text)
  }

  /** Passes on that lists have changed, to a client whose revision has no request for it. */
  async #listen(): Promise<void> {
    const ended = new AbortController()
    this.#streams.add(ended)
    try {
      const response = await this.#post(LISTEN, JSON.parse(LISTEN), ended.signal)
      if (response.statusCode !== 200) return
      for await (const each of messagesOf(response)) {
        const { method } = JSON.parse(each)
        if (CHANGES.includes(method)) this.#write(JSON.stringify({ jsonrpc: '2.0', method }))
      }
    } catch {
      // The client or the server has ended, or the lists do not change.
    } finally {
      this.#streams.delete(ended)
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

/** The request for changes of all lists. */
const LISTEN = JSON.stringify({
  jsonrpc: '2.0',
  id: 'changes',
  method: 'subscriptions/listen',
  params: {
    notifications: { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true },
    _meta: { [META.protocolVersion]: MODERN_REVISIONS[0], [META.clientCapabilities]: {} },
  },
})

const CHANGES: readonly unknown[] = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
]

/** A message of the client on its way. */
interface Sent {
  readonly line: string
  readonly message: unknown
  readonly id: RequestId | undefined
  readonly cancelled: AbortController
  readonly progress: GrowingProgress
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
  return new RpcError(RPC_CODES.internalError, `The server did not answer: ${reason}`)
}
