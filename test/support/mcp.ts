import { onTestFinished } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../src/index.ts'

/** The revision whose requests are complete. */
export const MODERN = '2026-07-28'

/** A message of the server. A test compares what it expects of it. */
interface Body {
  readonly id: string | number | null
  readonly result: Result
  readonly error: {
    readonly code: number
    readonly message: string
    readonly data: { readonly code: string }
  }
}

export interface Result {
  readonly [member: string]: unknown
  readonly tools: readonly { readonly name: string }[]
  readonly content: readonly { readonly type: string; readonly text: string }[]
}

/** A notification of the server. */
interface Notification {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/** Params by which a header names what a request is about. */
interface Named {
  readonly _meta?: object
  readonly name?: string
  readonly uri?: string
  readonly taskId?: string
}

/** A server with an MCP endpoint that listens; closed when the test ends. */
export async function serveMcp(
  routes: RouteOptions[],
  mcp: CreateServerOptions['mcp'] = {},
  options: Partial<CreateServerOptions> = {},
): Promise<McpUser> {
  const app = await createServer({
    logLevel: 'silent',
    port: 0,
    stallMs: 0,
    ...options,
    mcp: mcp ?? {},
    routes,
  })
  onTestFinished(() => app.close())
  return new McpUser(await app.listen())
}

/** A client that sends whatever a test wants. */
export class McpUser {
  readonly url: string
  readonly base: string
  #id = 0

  constructor(base: string) {
    this.base = base
    this.url = `${base}/mcp`
  }

  /** Sends a request of the revision 2026-07-28. */
  async modern(method: string, params: object = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const { message, own } = this.#complete(method, params)
    return this.send(message, { ...own, ...headers })
  }

  /** Sends a request of the revision 2026-07-28. @returns the answer while it arrives. */
  async open(
    method: string,
    params: object,
    signal: AbortSignal,
    headers: Record<string, string> = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { message, own } = this.#complete(method, params)
    const sent = { ...HEADERS, ...own, ...headers }
    const { body } = await fetch(this.url, {
      ...{ method: 'POST', headers: sent, body: JSON.stringify(message), signal },
    })
    if (!body) throw new Error('no answer')
    return body
  }

  /** A request with all that the revision requires. */
  #complete(method: string, params: object): { message: object; own: Record<string, string> } {
    const { _meta, ...rest } = params as Named
    const name = rest.name ?? rest.uri ?? rest.taskId
    const meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientCapabilities': {},
      ..._meta,
    }
    return {
      message: { jsonrpc: '2.0', id: ++this.#id, method, params: { ...rest, _meta: meta } },
      own: {
        'mcp-protocol-version': MODERN,
        'mcp-method': method,
        ...(typeof name === 'string' && { 'mcp-name': name }),
      },
    }
  }

  /** Sends a request of a revision with `initialize`. */
  async legacy(method: string, params: object = {}, revision = '2025-11-25'): Promise<Answer> {
    const message = { jsonrpc: '2.0', id: ++this.#id, method, params }
    return this.send(message, { 'mcp-protocol-version': revision })
  }

  /** Sends anything. */
  async send(message: unknown, headers: Record<string, string> = {}, method = 'POST'): Promise<Answer> {
    const sent = typeof message === 'string' ? message : JSON.stringify(message)
    const response = await fetch(this.url, {
      method,
      headers: { ...HEADERS, ...headers },
      ...(method === 'POST' && { body: sent }),
    })
    const text = await response.text()
    const isStream = response.headers.get('content-type') === 'text/event-stream'
    const messages = isStream ? eventsOf(text) : [text]
    const body = JSON.parse(messages.at(-1) || '{}')
    const events = messages.slice(0, -1).map((event) => JSON.parse(event))
    return { status: response.status, headers: response.headers, body, events }
  }

  /** Calls a tool. */
  async call(name: string, args: object = {}, meta: object = {}): Promise<Result> {
    const { body } = await this.modern('tools/call', { name, arguments: args, _meta: meta })
    return body.result
  }
}

const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** The last message. */
  readonly body: Body
  /** The notifications before it. */
  readonly events: readonly Notification[]
}

function eventsOf(text: string): string[] {
  return text.split('\n\n').flatMap((event) => /^data: (.*)$/m.exec(event)?.[1] ?? [])
}
