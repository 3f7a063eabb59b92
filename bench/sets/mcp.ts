import { COMMAND, HELLO, HELLO_BODY, ours, type Scenario, type ScenarioSet } from '../scenario.ts'

const REVISION = '2026-07-28'

/** A call of a tool as clients of the newest revision send it. */
const CALL = {
  path: '/mcp',
  headers: {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': REVISION,
    'mcp-method': 'tools/call',
    'mcp-name': 'hello',
  },
  body: HELLO_BODY,
  encode(body: string) {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': REVISION,
      'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const params = { name: 'hello', arguments: { input: body }, _meta }
    return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  },
  answer: (body: string) => `{"message":"🦀 Hello ${body}"}`,
  isRight(body: string, answer: string) {
    const { id, result } = JSON.parse(answer)
    return id === 1 && result.content[0].text === CALL.answer(body)
  },
} as const

/** The endpoint without a line in the log for each call. */
const UNLOGGED = ['-c', 'bench/servers/mcp-unlogged.json']

/** A call of hello.wasm as a tool. */
function tool(name: string, ...flags: string[]): Scenario {
  return { ...CALL, name, command: [process.execPath, ...COMMAND, ...flags, HELLO] }
}

/** The same tool in JavaScript, on the official server. */
export const official: Scenario = {
  ...CALL,
  name: 'official server, JavaScript',
  command: [process.execPath, 'bench/servers/mcp-official.js'],
}

/** The tool without and with lines in the log. */
export const inlineTool = tool('tool, inline', '--engine', 'inline', ...UNLOGGED)
const loggedTool = tool('tool, inline, with audit lines', '--engine', 'inline', '--mcp')

/** A call of a tool, beside the official server and beside a request to our own route. */
export const mcp: ScenarioSet = {
  name: 'mcp',
  connections: [100],
  scenarios: [
    ours('route, inline'),
    inlineTool,
    loggedTool,
    ours('route, 1 worker', '--workers', '1'),
    tool('tool, 1 worker', '--workers', '1', ...UNLOGGED),
    official,
  ],
  compared: [
    [inlineTool.name, official.name],
    [loggedTool.name, official.name],
  ],
  floors: [
    { scenario: inlineTool.name, to: 'route, inline', maxCpu: 1.5 },
    { scenario: 'tool, 1 worker', to: 'route, 1 worker', maxCpu: 1.7 },
    { scenario: inlineTool.name, to: official.name, maxCpu: 0.2 },
    { scenario: loggedTool.name, to: official.name, maxCpu: 0.2 },
  ],
}
