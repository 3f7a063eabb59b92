import type { RouteAnswer } from './admin-api.ts'
import { headersOf } from './call-view.tsx'
import { fromBase64, toBase64, toText } from './format.ts'
import type { LiveServer } from './live-server.ts'

/* The tools of the MCP endpoint, which is asked through the admin API. */

/** A tool as clients see it. */
interface ListedTool {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly inputSchema: Schema
}

export interface Schema {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

/** The result of a call: parts of which only texts are shown as they are. */
interface ToolResult {
  readonly content: readonly { readonly type: string; readonly text?: string }[]
  readonly isError?: boolean
}

/** Pages of the list that are read. */
const MAX_PAGES = 10

export interface RpcAnswer<Result = ToolResult> {
  readonly result?: Result
  readonly error?: { readonly message: string }
}

interface Page {
  readonly tools: readonly ListedTool[]
  readonly nextCursor?: string
}

interface ToolList {
  readonly tools: readonly ListedTool[]
  /** Why there is no list. */
  readonly refusal?: string
}

/** Reads the list, page by page. */
export async function listTools(server: LiveServer, url: string, headers: string): Promise<ToolList> {
  const tools: ListedTool[] = []
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const { answer, status } = await askEndpoint<Page>(server, url, headers, 'tools/list', {
      ...(cursor !== undefined && { cursor }),
    })
    const list = answer.result
    if (!list)
      return { tools, refusal: answer.error?.message ?? `The endpoint responded with status ${status}.` }
    tools.push(...list.tools)
    cursor = list.nextCursor
    if (cursor === undefined) break
  }
  return { tools }
}

/** Sends a request of MCP to the endpoint, in a revision that needs no more than this. */
export async function askEndpoint<Result = ToolResult>(
  server: LiveServer,
  url: string,
  headers: string,
  method: string,
  params: object,
): Promise<{ readonly answer: RpcAnswer<Result>; readonly status: number; readonly ms: number }> {
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const own = headersOf({ method: 'POST', path: url, kind: 'json', text: '', headers })
  const { status, body, ms } = await server.api.send<RouteAnswer>('POST', '/api/call', {
    method: 'POST',
    url,
    headers: { ...own, 'mcp-protocol-version': '2025-11-25' },
    body: toBase64(new TextEncoder().encode(message)),
  })
  const answer: RpcAnswer<Result> = parseObject(toText(fromBase64(body) ?? new Uint8Array()) ?? '') ?? {}
  return { answer, status, ms }
}

/** An object of JSON; undefined if the text is something else. */
export function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined // the caller shows that it is none
  }
}

const EXAMPLES: Readonly<Record<string, unknown>> = {
  ...{ string: '', number: 0, integer: 0, boolean: false },
  ...{ array: [], object: {}, null: null },
}

/** Arguments with all required parameters, as JSON. */
export function exampleOf(tool: ListedTool | undefined): string {
  const { properties = {}, required = [] } = tool?.inputSchema ?? {}
  const exampleFor = ({ type = 'string', enum: allowed, default: usual }: Schema = {}) =>
    usual ?? allowed?.[0] ?? EXAMPLES[type]
  return JSON.stringify(
    Object.fromEntries(required.map((name) => [name, exampleFor(properties[name])])),
    null,
    2,
  )
}
