import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { isObject } from '../platform/json-text.ts'
import { linesOf } from '../platform/lines.ts'
import { errorMessage, idOf, type Members, type RequestId, RPC_CODES, RpcError } from './json-rpc.ts'
import { META } from './revisions.ts'
import { BRIDGED } from './transport-headers.ts'

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
  readonly #open = new Map<RequestId, ClientRequest>()
  readonly #ended = new Set<Promise<void>>()
  /** Requests that are answered for as long as the client wants. */
  readonly #streams = new Set<ClientRequest>()
  /** Requests that get no answer any more. */
  readonly #cancelled = new WeakSet<ClientRequest>()
  /** The revision of a client that began with `initialize`. */
  #revision: string | undefined

  constructor(target: BridgeTarget, write: (line: string) => void) {
    this.#target = target
    this.#write = write
  }

  take(line: string): void {
    const message = parse(line)
    if (isObject(message) && message.method === 'notifications/cancelled') {
      const { requestId } = isObject(message.params) ? message.params : {}
      this.#cancel(this.#open.get(requestId as RequestId))
      return
    }
    const ended = this.#send(line, message).finally(() => this.#ended.delete(ended))
    this.#ended.add(ended)
  }

  async over(): Promise<void> {
    for (const sent of this.#streams) this.#cancel(sent)
    await Promise.all(this.#ended)
    this.#agent.destroy()
  }

  #cancel(sent: ClientRequest | undefined): void {
    if (!sent) return
    this.#cancelled.add(sent)
    sent.destroy()
  }

  async #send(line: string, message: unknown): Promise<void> {
    const id = idOf(message)
    const sent = this.#post(line, message)
    if (id !== undefined) this.#open.set(id, sent)
    try {
      const response = await responseTo(sent)
      const isRefused = response.statusCode !== 200 && id !== undefined
      for await (const each of messagesOf(response))
        this.#answer(isRefused ? withId(each, id) : each, message)
    } catch (error) {
      if (id !== undefined && !this.#cancelled.has(sent)) this.#write(errorMessage(id, lost(error)))
    } finally {
      if (id !== undefined && this.#open.get(id) === sent) this.#open.delete(id)
    }
  }

  /** Which revision a client speaks that began with `initialize`, is known from the answer. */
  #answer(text: string, message: unknown): void {
    if (isObject(message) && message.method === 'initialize') {
      const answer = parse(text)
      const { result } = isObject(answer) ? answer : {}
      if (isObject(result) && typeof result.protocolVersion === 'string')
        this.#revision = result.protocolVersion
    }
    this.#write(text)
  }

  #post(line: string, message: unknown): ClientRequest {
    const { socketPath, path } = this.#target
    const body = Buffer.from(line)
    const revision = isComplete(message) ? undefined : this.#revision
    const headers = {
      ...BRIDGED,
      host: 'localhost',
      'content-type': 'application/json',
      'content-length': body.length,
      accept: 'application/json, text/event-stream',
      ...(revision !== undefined && { 'mcp-protocol-version': revision }),
    }
    const sent = request({ socketPath, path, method: 'POST', headers, agent: this.#agent })
    if (isObject(message) && message.method === 'subscriptions/listen') {
      this.#streams.add(sent)
      sent.once('close', () => this.#streams.delete(sent))
    }
    sent.end(body)
    return sent
  }
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

function lost(error: unknown): RpcError {
  const reason = error instanceof Error ? error.message : String(error)
  return new RpcError(RPC_CODES.internalError, `The server did not answer: ${reason}`)
}
