import { openAccess } from '../../../src/mcp/access.ts'
import {
  errorMessage,
  idOf,
  parseJson,
  RpcError,
  readMessage,
  resultMessage,
} from '../../../src/mcp/json-rpc.ts'
import { type Methods, openMethods } from '../../../src/mcp/methods.ts'
import { RequestStates } from '../../../src/mcp/request-state.ts'
import { revisionOf } from '../../../src/mcp/revisions.ts'
import { Tasks } from '../../../src/mcp/tasks.ts'
import { ToolNotes } from '../../../src/mcp/tool-notes.ts'
import { isObject } from '../../../src/platform/json-text.ts'
import { clientOf } from '../../../src/route/client.ts'
import type { FuzzTarget } from '../target.ts'

const DESCRIPTION = {
  ...{ name: 'a', version: '1', title: undefined, instructions: undefined },
  ...{ pageSize: 2, ttlMs: 1 },
}

const methods: Methods = openMethods(DESCRIPTION, {
  ...{ tools: [], guests: [], access: openAccess(undefined), audit: undefined, isChanging: false },
  ...{ notes: new ToolNotes(), tasks: new Tasks(), states: new RequestStates('a secret') },
})

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}

const SEEDS: readonly unknown[] = [
  ...[null, 7, 'text', [], {}, { jsonrpc: '2.0' }],
  { jsonrpc: '2.0', method: 'notifications/initialized' },
  { jsonrpc: '2.0', id: 1, result: {} },
  { jsonrpc: '2.0', id: 'é', method: 'initialize', params: { protocolVersion: '2025-06-18' } },
  ...['ping', 'tools/list', 'tools/call', 'server/discover', 'prompts/list', '__proto__'].flatMap(
    (method) => [
      { jsonrpc: '2.0', id: 1, method },
      { jsonrpc: '2.0', id: 1, method, params: { name: 'a', cursor: 'b', arguments: {}, _meta: META } },
    ],
  ),
  { jsonrpc: '2.0', id: 2 ** 53, method: 'ping', params: { __proto__: 7 } },
]

/** The messages of clients of the MCP endpoint, as they come in a body. */
export const target: FuzzTarget = {
  name: 'mcp-message',
  seeds: () => SEEDS.map((seed) => Buffer.from(JSON.stringify(seed))),
  async run(input) {
    let value: unknown
    try {
      const read = parseJson(input)
      value = read.value
      const message = readMessage(read)
      if (message.kind !== 'request') return message.kind
      const revision = revisionOf(message, undefined)
      const caller = { request: {}, log: {}, isGone: false } as never
      const client = clientOf({ ip: '127.0.0.1' } as never, [])
      const grant = { client, allows: () => true, isWhole: true }
      const exchange = {
        id: message.id,
        revision,
        headers: undefined,
        meta: {},
        text: message.text,
        caller,
        questions: undefined,
        hasSession: false,
        wantsLevel: undefined,
        grant,
        notify: () => undefined,
      }
      const answer = resultMessage(message.id, await methods.answer(message, exchange))
      return `${revision.name} ${Object.keys(asRead(answer, message.id).result ?? {}).join()}`
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      asRead(errorMessage(idOf(value), error), idOf(value) ?? null)
      return String(error.code)
    }
  },
}

/** What a client reads. @throws if it has another id than the request. */
function asRead(answer: string, id: unknown): { readonly result?: object } {
  const read: unknown = JSON.parse(answer)
  if (!isObject(read) || read.id !== id) throw new Error(`the answer has the id ${JSON.stringify(read)}`)
  return read
}
