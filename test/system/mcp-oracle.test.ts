import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { guest } from '../support/guest.ts'
import { MODERN } from '../support/mcp.ts'

/* The official server with the same tool is the oracle: statuses, error codes and results are compared. */

const official = createMcpHandler(() => {
  const server = new McpServer({ name: 'a', version: '1' }, { capabilities: { tools: {} } })
  const inputSchema = fromJsonSchema<{ input: string }>({
    type: 'object',
    properties: { input: { type: 'string' } },
    required: ['input'],
    additionalProperties: false,
  })
  server.registerTool('a', { description: 'a', inputSchema }, ({ input }) => ({
    content: [{ type: 'text', text: input }],
  }))
  return server
})

const meta = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
}

const modernHeaders = (method: string, name?: string) => ({
  'mcp-protocol-version': MODERN,
  'mcp-method': method,
  ...(name !== undefined && { 'mcp-name': name }),
})

const call = { name: 'a', arguments: { input: 'abc' } }
const initialize = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'a', version: '1' },
}

const rpc = (method: string, params: object = {}, id: unknown = 1) => ({ jsonrpc: '2.0', id, method, params })
const modern = (method: string, params: object = {}) => rpc(method, { ...params, _meta: meta })

const REQUESTS: readonly [what: string, body: unknown, headers?: Record<string, string>][] = [
  ['discover', modern('server/discover'), modernHeaders('server/discover')],
  ['list', modern('tools/list'), modernHeaders('tools/list')],
  ['call', modern('tools/call', call), modernHeaders('tools/call', 'a')],
  ['encoded name', modern('tools/call', call), modernHeaders('tools/call', '=?base64?YQ==?=')],
  ['unknown tool', modern('tools/call', { ...call, name: 'b' }), modernHeaders('tools/call', 'b')],
  ['unknown method', modern('tools/steal'), modernHeaders('tools/steal')],
  ['ping of the new era', modern('ping'), modernHeaders('ping')],
  ['another name', modern('tools/call', call), modernHeaders('tools/call', 'b')],
  ['no name', modern('tools/call', call), modernHeaders('tools/call')],
  ['another method', modern('tools/call', call), modernHeaders('tools/list', 'a')],
  ['no headers', modern('tools/list')],
  ['no envelope', rpc('tools/list'), modernHeaders('tools/list')],
  [
    'half an envelope',
    rpc('tools/list', { _meta: { [Object.keys(meta)[0] ?? '']: MODERN } }),
    modernHeaders('tools/list'),
  ],
  [
    'a revision that does not exist',
    rpc('tools/list', { _meta: { ...meta, 'io.modelcontextprotocol/protocolVersion': '2030-01-01' } }),
    { 'mcp-protocol-version': '2030-01-01', 'mcp-method': 'tools/list' },
  ],
  ['initialize', rpc('initialize', initialize)],
  ['list of the old era', rpc('tools/list'), { 'mcp-protocol-version': '2025-06-18' }],
  ['call of the old era', rpc('tools/call', call)],
  ['ping', rpc('ping')],
  ['unknown method of the old era', rpc('tools/steal')],
  ['notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
  ['not JSON', '{'],
  ['not a message', { a: 1 }],
  ['a content type', rpc('ping'), { 'content-type': 'text/plain' }],
  ['an accepted type', rpc('ping'), { accept: 'application/json' }],
]

/** New servers should not use it: the revision 2026-07-28 leaves it to those that do. Ours is `invalid request`. */
const UNDEFINED_CODE = -32_000

async function readAnswer(response: Response) {
  const text = await response.text()
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text
  const { result, error } = data === '' ? {} : JSON.parse(data)
  return {
    status: response.status,
    code: error?.code === UNDEFINED_CODE ? undefined : error?.code,
    content: result?.content,
    resultType: result?.resultType,
    tools: result?.tools?.map(({ name }: { name: string }) => name),
    versions: [result?.supportedVersions, result?.protocolVersion],
  }
}

test('answers are those of the official server', async () => {
  const routes = [{ url: '/a', plugin: guest('echo'), engine: 'inline' as const }]
  const app = await createServer({ logLevel: 'silent', port: 0, stallMs: 0, mcp: {}, routes })
  onTestFinished(() => app.close())
  onTestFinished(() => official.close())
  const url = `${await app.listen()}/mcp`
  for (const [what, given, more] of REQUESTS) {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...more },
      body: typeof given === 'string' ? given : JSON.stringify(given),
    }
    const theirs = await readAnswer(await official.fetch(new Request(url, init)))
    const ours = await readAnswer(await fetch(url, init))
    if (theirs.code === undefined && theirs.status >= 400)
      expect([what, ours.status]).toEqual([what, theirs.status])
    else expect([what, ours]).toEqual([what, theirs])
  }
})
