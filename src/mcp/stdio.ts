import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import {
  errorMessage,
  idOf,
  isObject,
  type Members,
  type RequestId,
  RPC_CODES,
  RpcError,
} from './json-rpc.ts'
import { encodeHeader, META, NAMED_BY } from './revisions.ts'

/*
 * MCP over standard input and output, for clients that start their servers: a message per line. Each is passed to the endpoint of
 * a server, so that both transports behave alike.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
 */

/** Where the endpoint is. */
export interface BridgeTarget {
  /** The Unix socket of the server. */
  readonly socketPath: string
  /** The URL of the endpoint. */
  readonly path: string
}

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
  /** Requests without an answer, by the id of the client. */
  readonly #open = new Map<RequestId, ClientRequest>()
  readonly #ended = new Set<Promise<void>>()
  /** Requests that are answered for as long as the client wants. */
  readonly #streams = new Set<ClientRequest>()
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
      this.#open.get(requestId as RequestId)?.destroy()
      return
    }
    const ended = this.#send(line, message).finally(() => this.#ended.delete(ended))
    this.#ended.add(ended)
  }

  async over(): Promise<void> {
    for (const sent of this.#streams) sent.destroy()
    await Promise.all(this.#ended)
  }

  async #send(line: string, message: unknown): Promise<void> {
    const id = idOf(message)
    try {
      const response = await this.#post(line, message, id)
      for await (const text of messagesOf(response)) this.#answer(text, message)
    } catch (error) {
      const isCancelled = id !== undefined && this.#open.get(id)?.destroyed === true
      if (!isCancelled && id !== undefined) this.#write(errorMessage(id, lost(error)))
    } finally {
      if (id !== undefined) this.#open.delete(id)
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

  #post(line: string, message: unknown, id: RequestId | undefined): Promise<IncomingMessage> {
    const { socketPath, path } = this.#target
    const body = Buffer.from(line)
    const headers = {
      host: 'localhost',
      'content-type': 'application/json',
      'content-length': body.length,
      accept: 'application/json, text/event-stream',
      ...headersOf(message, this.#revision),
    }
    return new Promise((resolve, reject) => {
      const sent = request({ socketPath, path, method: 'POST', headers }, resolve)
      sent.once('error', reject)
      sent.end(body)
      if (id !== undefined) this.#open.set(id, sent)
      if (isObject(message) && message.method === 'subscriptions/listen') {
        this.#streams.add(sent)
        sent.once('close', () => this.#streams.delete(sent))
      }
    })
  }
}

/** The headers that repeat parts of the message. */
function headersOf(message: unknown, revision: string | undefined): Record<string, string> {
  const { method, params }: Members = isObject(message) ? message : {}
  const own: Members = isObject(params) ? params : {}
  const claimed = isObject(own._meta) ? own._meta[META.protocolVersion] : undefined
  if (typeof method !== 'string' || typeof claimed !== 'string') {
    return revision === undefined ? {} : { 'mcp-protocol-version': revision }
  }
  const member = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined
  const name = member && own[member]
  return {
    'mcp-protocol-version': encodeHeader(claimed),
    'mcp-method': encodeHeader(method),
    ...(typeof name === 'string' && { 'mcp-name': encodeHeader(name) }),
  }
}

/** The messages of an answer: a JSON text, or the data of server-sent events. */
async function* messagesOf(response: IncomingMessage): AsyncGenerator<string> {
  const isStream = response.headers['content-type'] === 'text/event-stream'
  let rest = ''
  for await (const chunk of response.setEncoding('utf8')) {
    rest += chunk
    if (!isStream) continue
    const events = rest.split('\n\n')
    rest = events.pop() ?? ''
    for (const event of events) yield* /^data: (.*)$/m.exec(event)?.slice(1) ?? []
  }
  if (!isStream && rest !== '') yield rest
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
