import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions } from '../../src/index.ts'
import { file, guestBytes } from '../support/guest.ts'
import { cannedGuest, hyperGuest, QUESTION } from '../support/hyper-guest.ts'
import { McpUser, serveMcp } from '../support/mcp.ts'

const HYPER = file('hyper.wasm', guestBytes(hyperGuest()))

const hyper = (plugin: string | Uint8Array = HYPER, more: Partial<RouteOptions> = {}): RouteOptions => ({
  ...{ url: '/hyper', plugin, contract: 'hyper-mcp', ...more },
})

/** A plug-in with these answers. */
const canned = (...given: Parameters<typeof cannedGuest>) => guestBytes(cannedGuest(...given))

async function names(user: McpUser, method: string, member: string): Promise<unknown[]> {
  const { body } = await user.modern(method)
  return (body.result[member] as { name: string }[]).map(({ name }) => name)
}

test.each([
  'inline',
  'workers',
  'subprocess',
] as const)('a plug-in made for hyper-mcp has tools of its own (%s), and is not at its URL', async (engine) => {
  const user = await serveMcp([hyper(HYPER, { engine })])
  expect(await names(user, 'tools/list', 'tools')).toContain('test_simple_text')
  expect(await user.call('test_simple_text')).toMatchObject({
    content: [{ text: expect.stringContaining('simple') }],
  })
  expect(await user.call('test_error_handling')).toMatchObject({ isError: true })
  const meta = { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'info' }
  const { body, events } = await user.modern('tools/call', { name: 'test_tool_with_progress', _meta: meta })
  expect(body.result).toMatchObject({ content: [{ text: 'done' }] })
  expect(events.map(({ params }) => params)).toEqual([
    ...[0, 50, 100].map((progress) => ({ progressToken: 'mine', progress, total: 100 })),
    { level: 'warning', logger: 'me', data: { n: 1 } },
  ])
  const silent = await user.modern('tools/call', { name: 'test_tool_with_progress' })
  expect(silent.events).toEqual([])
  const odd = { progressToken: {}, 'io.modelcontextprotocol/logLevel': 'no level' }
  const old = await user.legacy('tools/call', { name: 'test_tool_with_progress', _meta: odd })
  expect([old.events, old.body.result]).toEqual([[], { content: [{ type: 'text', text: 'done' }] }])
  expect((await user.modern('tools/call', { name: 'test_ask' })).body.error.code).toBe(-32_021)
  const asked = (await user.legacy('tools/call', { name: 'test_ask' })).body.result
  expect(asked).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('create_elicitation') }],
  })
  expect((await fetch(`${user.base}/hyper`, { method: 'POST' })).status).toBe(404)
})

test('it has resources, prompts and completion', async () => {
  const user = await serveMcp([hyper()])
  const { body } = await user.modern('server/discover')
  expect(body.result.capabilities).toMatchObject({ tools: {}, resources: {}, prompts: {}, completions: {} })
  expect(await names(user, 'resources/list', 'resources')).toEqual([
    'test://static-text',
    'test://static-binary',
  ])
  expect(await names(user, 'resources/templates/list', 'resourceTemplates')).toEqual(['template'])
  expect(await names(user, 'prompts/list', 'prompts')).toContain('test_simple_prompt')
  const read = await user.modern('resources/read', { uri: 'test://template/123/data' })
  expect(read.body.result).toMatchObject({
    contents: [{ text: expect.stringContaining('123') }],
    ttlMs: 0,
    cacheScope: 'private',
  })
  const prompt = await user.modern('prompts/get', { name: 'test_simple_prompt' })
  expect(prompt.body.result).toMatchObject({ messages: [{ role: 'user' }] })
  const ref = { type: 'ref/prompt', name: 'test_simple_prompt' }
  const complete = await user.modern('completion/complete', { ref, argument: { name: 'a', value: 'p' } })
  expect(complete.body.result).toMatchObject({ completion: { values: ['paris', 'park'], total: 2 } })
  for (const [method, params] of [
    ['prompts/get', { name: 'none' }],
    ['prompts/get', { name: { toString: 1 } }],
    ['resources/read', { uri: { toString: 1 } }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'none' }, argument: {} }],
    ['completion/complete', {}],
  ] as const)
    expect((await user.modern(method, params)).body.error.code, method).toBe(-32_602)
})

test('version 1 of its interface has describe and call', async () => {
  const plugin = canned({
    describe: [
      { when: '', output: '{"tools":[{"name":"old","description":"","inputSchema":{"type":"object"}}]}' },
    ],
    call: [{ when: '{"params":{"name":"old"', output: '{"content":[{"type":"text","text":"yes"}]}' }],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  expect(await names(user, 'tools/list', 'tools')).toEqual(['old'])
  expect(await user.call('old', { a: 1 })).toMatchObject({ content: [{ text: 'yes' }] })
  expect((await user.modern('prompts/list')).status).toBe(404)
})

/** A tool that asks the user, with the answer as the next question, and answers with the second answer. */
const ASKING = {
  list_tools: [{ when: '', output: '{"tools":[{"name":"erase","inputSchema":{"type":"object"}}]}' }],
  call_tool: [
    {
      when: '',
      output: QUESTION.replace('{', '{"timeout":5,'),
      ask: ['create_elicitation', 'create_elicitation'],
    },
  ],
}

const CAPABLE = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }

test.each<[string, Partial<RouteOptions>]>([
  ['a thread', {}],
  ['the event loop', { engine: 'inline' }],
])('the questions of a plug-in in %s are answered by the client, in as many requests', async (_, options) => {
  const user = await serveMcp([hyper(canned(ASKING), options)])
  const call = async (more: object = {}) =>
    (await user.modern('tools/call', { name: 'erase', arguments: { a: 1 }, ...more, _meta: CAPABLE })).body
  const first = (await call()).result
  const asking = (params: object) => ({
    resultType: 'input_required',
    inputRequests: { question: { method: 'elicitation/create', params } },
    requestState: expect.any(String),
  })
  expect(first).toMatchObject(asking({ message: 'Sure?' }))
  const { requestState } = first
  const answer = { ...JSON.parse(QUESTION), action: 'accept', content: { n: 1 } }
  const second = (await call({ requestState, inputResponses: { question: answer, other: 7 } })).result
  expect(second).toMatchObject(asking(answer))
  const last = {
    requestState: second.requestState,
    inputResponses: { question: { content: [{ type: 'text', text: 'erased' }] } },
  }
  expect((await call(last)).result).toMatchObject({ resultType: 'complete', content: [{ text: 'erased' }] })
  expect((await call({ requestState })).result).toMatchObject(asking({ message: 'Sure?' }))
})

/** A tool that asks by its result, and gets its own state back with the answers. */
const ASKING_BY_RESULT = {
  list_tools: ASKING.list_tools,
  call_tool: [
    {
      when: '"inputResponses":{"a":{"n":9007199254740993}},"requestState":"mine"',
      output: '{"content":[{"type":"text","text":"answered"}]}',
    },
    {
      when: '"wrong"',
      output: '{"resultType":"input_required","inputRequests":{"a":{"method":"tools/list"}}}',
    },
    {
      when: '',
      output: JSON.stringify({
        resultType: 'input_required',
        inputRequests: {
          a: { method: 'elicitation/create', params: { ...JSON.parse(QUESTION), message: 'A?' } },
          b: { method: 'roots/list' },
        },
        requestState: 'mine',
      }),
    },
  ],
}

test('a plug-in asks several questions at once by its result, and gets the answers with its own state', async () => {
  const user = await serveMcp([hyper(canned(ASKING_BY_RESULT), { engine: 'inline' })])
  const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {}, roots: {} } }
  const call = (more: object, _meta: object = capabilities) =>
    user.modern('tools/call', { name: 'erase', arguments: {}, ...more, _meta })
  const { result } = (await call({})).body
  expect(result).toMatchObject({
    resultType: 'input_required',
    inputRequests: {
      a: { method: 'elicitation/create', params: { message: 'A?' } },
      b: { method: 'roots/list', params: {} },
    },
  })
  expect(result.requestState).not.toContain('mine')
  const id = 'NUMBER'
  const repeated = { requestState: result.requestState, inputResponses: { other: 7, a: { n: id } } }
  const params = {
    name: 'erase',
    arguments: {},
    ...repeated,
    _meta: { ...META_OF_REVISION, ...capabilities },
  }
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'erase' }
  const last = await user.send(message.replace(`"${id}"`, '9007199254740993'), headers)
  expect(last.body.result).toMatchObject({ resultType: 'complete', content: [{ text: 'answered' }] })
  const unsealed = await call({ requestState: 'mine', inputResponses: { a: {} } })
  expect(unsealed.body.error.code).toBe(-32_602)
  expect(await call({}, CAPABLE)).toMatchObject({
    body: { error: { code: -32_021, data: { requiredCapabilities: { roots: {} } } } },
  })
  const wrong = await call({ arguments: { wrong: 1 } })
  expect(wrong.body.result).toMatchObject({
    isError: true,
    _meta: { 'wasm-serve/code': 'WASM_SERVE_TOOL_RESULT_INVALID' },
  })
})

const META_OF_REVISION = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }

test('a state is of one client and request, and no client is asked what it cannot answer', async () => {
  const keys = ['one-key-0123456789', 'other-key-0123456789']
  const access = keys.map((key) => ({ key, tools: ['*'] }))
  const plugin = canned(ASKING)
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })], {
    toolsOnly: true,
    access,
    stateSecret: 'a'.repeat(16),
  })
  const call = (key: string | undefined, more: object, meta: object = CAPABLE) =>
    user.modern(
      'tools/call',
      { name: 'erase', arguments: {}, ...more, _meta: meta },
      { 'x-api-key': key ?? '' },
    )
  const { requestState } = (await call(keys[0], {})).body.result
  const state = String(requestState)
  const changed = `${state.slice(0, -2)}${state.endsWith('AA') ? 'BB' : 'AA'}`
  const code = async (answer: ReturnType<typeof call>) => (await answer).body.error?.code
  expect(await code(call(keys[0], { requestState }))).toBeUndefined()
  for (const wrong of [changed, '', 7, 'a'.repeat(200_000)])
    expect(await code(call(keys[0], { requestState: wrong }))).toBe(-32_602)
  expect(await code(call(keys[1], { requestState }))).toBe(-32_602)
  expect(await code(call(keys[0], { requestState, arguments: { a: 1 } }))).toBe(-32_602)
  expect(await call(keys[0], {}, {})).toMatchObject({
    status: 400,
    body: { error: { code: -32_021, data: { requiredCapabilities: { elicitation: {} } } } },
  })
  const other = await serveMcp([hyper(plugin, { engine: 'inline' })], {
    toolsOnly: true,
    access,
    stateSecret: 'a'.repeat(16),
  })
  const node = await other.modern(
    'tools/call',
    { name: 'erase', arguments: {}, requestState, _meta: CAPABLE },
    { 'x-api-key': keys[0] ?? '' },
  )
  expect(node.body.result).toMatchObject({ resultType: 'input_required' })
})

test('numbers reach a plug-in as the client wrote them, and its structured content the client as it wrote that', async () => {
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}' }],
    call_tool: [
      {
        when: '"arguments":{"id":9007199254740993}},"context":{"id":7,"_meta":{"a.b/c":1e400}}}',
        output: '{"content":[],\n"structuredContent":{"id":\n18446744073709551615}}',
      },
    ],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const params = '{"name":"count","arguments":{"id":9007199254740993},"_meta":{"a.b/c":1e400}}'
  const response = await fetch(user.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":${params}}`,
  })
  expect(await response.text()).toContain('"structuredContent":{"id": 18446744073709551615}')
})

test('progress and log data reach the client as the plug-in wrote them', async () => {
  const tell = [
    ['notify_progress', '{"progress": 9007199254740993,\n"total":1e400}'],
    ['notify_logging_message', '{"level":"info","data":{"id":9007199254740993}}'],
  ] as const
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"a"}]}' }],
    call_tool: [{ when: '', output: '{"content":[]}', tell }],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const _meta = { progressToken: 1, 'io.modelcontextprotocol/logLevel': 'info' }
  const stream = await user.open(
    'tools/call',
    { name: 'a', arguments: {}, _meta },
    AbortSignal.timeout(60_000),
  )
  const text = await new Response(stream).text()
  expect(text).toContain('"params":{"progressToken":1,"progress":9007199254740993,"total":1e400}}\n\n')
  expect(text).toContain('"params":{"level":"info","data":{"id":9007199254740993}}}\n\n')
})

test('what a hostile plug-in answers does not become an answer of the server', async () => {
  const tool = (name: unknown) => ({ name, inputSchema: 7, annotations: 'x', outputSchema: [] })
  const odd = {
    ...tool('odd'),
    ...{ annotations: { title: 7 }, icons: [7], inputSchema: { required: 'a' } },
    outputSchema: { type: 'object', properties: 7 },
  }
  const nulls = {
    ...{ name: 'nulls', title: null, annotations: { title: null, readOnlyHint: true }, icons: null },
    inputSchema: { properties: { any: true } },
  }
  const tools = [tool('ok'), odd, nulls, tool('a b'), tool('x'.repeat(200)), tool(7), null, tool('\u001b[2J')]
  const results = [
    '{}',
    'no JSON',
    '[]',
    '{"content":7}',
    '{"content":[{"type":"text"}]}',
    '{"content":[{"type":"x"}]}',
    '{"content":[{"type":"resource","resource":{}}]}',
    '{"content":[{"type":"text","text":"a","annotations":{"priority":"high"}}]}',
    '{"content":[{"type":"image","data":"#","mimeType":"image/png"}]}',
  ]
  const plugin = canned({
    list_tools: [{ when: '', output: JSON.stringify({ tools }) }],
    call_tool: results.map((output, index) => ({ when: `"n":${index}`, output })),
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const { body } = await user.modern('tools/list')
  const any = (schema: unknown) => ({ type: 'object', properties: { any: schema } })
  const nullsListed = { name: 'nulls', annotations: { readOnlyHint: true }, inputSchema: any(true) }
  const others = ['ok', 'odd'].map((name) => ({ name, inputSchema: { type: 'object' } }))
  expect(body.result.tools).toEqual([...others, nullsListed])
  const legacy = await user.legacy('tools/list')
  expect(legacy.body.result.tools).toEqual([...others, { ...nullsListed, inputSchema: any({}) }])
  for (const n of results.keys())
    expect(await user.call('ok', { n })).toMatchObject({
      isError: true,
      _meta: { 'wasm-serve/code': 'WASM_SERVE_TOOL_RESULT_INVALID' },
    })
})

test('a resource of a template is read from the plug-in with this template', async () => {
  const plugin = (name: string, uriTemplate: string) =>
    canned({
      ...{ list_tools: [{ when: '', output: '{"tools":[]}' }], call_tool: [] },
      list_resource_templates: [
        { when: '', output: JSON.stringify({ resourceTemplates: [{ name, uriTemplate }] }) },
      ],
      read_resource: [{ when: '', output: JSON.stringify({ contents: [{ uri: 'x:', text: name }] }) }],
    })
  const user = await serveMcp([
    hyper(plugin('first', 'file:///{path}/of/{name}.txt'), { engine: 'inline', url: '/a' }),
    hyper(plugin('second', 'db://{table}'), { engine: 'inline', url: '/b' }),
  ])
  const read = async (uri: string) => (await user.modern('resources/read', { uri })).body
  expect((await read('file:///a/b/of/c.txt')).result).toMatchObject({ contents: [{ text: 'first' }] })
  expect((await read('db://people')).result).toMatchObject({ contents: [{ text: 'second' }] })
  for (const uri of ['db:/', 'file:///a/of', 'file:///of/.txt', 'file:///a/of/x.txt2'])
    expect((await read(uri)).error.code, uri).toBe(-32_602)
})

test('entries and messages that are not what MCP defines do not hide others, and null counts as missing', async () => {
  const canon = (member: string, entries: object[]) => [
    { when: '', output: JSON.stringify({ [member]: entries }) },
  ]
  const prompt = { name: 'p', title: null, arguments: [{ name: 'a', required: null }] }
  const plugin = canned({
    ...{ list_tools: canon('tools', []), call_tool: [] },
    list_resources: canon('resources', [{}, { uri: 'a:b' }, { uri: 'a:b', name: 'r', description: null }]),
    list_resource_templates: canon('resourceTemplates', [{ name: 't' }, { name: 't', uriTemplate: 'a:{b}' }]),
    read_resource: canon('contents', [{ uri: 'a:b', text: 'x', mimeType: 7 }]),
    list_prompts: canon('prompts', [{ name: 7 }, { name: 'q', arguments: {} }, prompt]),
    get_prompt: canon('messages', [{ role: 'system', content: { type: 'text', text: 'x' } }]),
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const list = async (method: string, member: string) => (await user.modern(method)).body.result[member]
  expect(await list('resources/list', 'resources')).toEqual([{ uri: 'a:b', name: 'r' }])
  expect(await list('resources/templates/list', 'resourceTemplates')).toEqual([
    { name: 't', uriTemplate: 'a:{b}' },
  ])
  expect(await list('prompts/list', 'prompts')).toEqual([{ name: 'p', arguments: [{ name: 'a' }] }])
  for (const [method, params] of [
    ['resources/read', { uri: 'a:b' }],
    ['prompts/get', { name: 'p' }],
  ] as const)
    expect((await user.modern(method, params)).body.error.code, method).toBe(-32_603)
})

test('a plug-in that cannot list its tools does not hide those of others, and of equal names the first counts', async () => {
  const one = (name: string, text: string) =>
    canned({
      list_tools: [{ when: '', output: JSON.stringify({ tools: [{ name: { toString: 1 } }, { name }] }) }],
      call_tool: [{ when: '', output: JSON.stringify({ content: [{ type: 'text', text }] }) }],
    })
  const broken = canned({ list_tools: [], call_tool: [] })
  const inline = { engine: 'inline' } as const
  const user = await serveMcp([
    hyper(broken, { ...inline, url: '/a' }),
    hyper(one('same', 'first'), { ...inline, url: '/b' }),
    hyper(one('same', 'second'), { ...inline, url: '/c' }),
  ])
  expect(await names(user, 'tools/list', 'tools')).toEqual(['same'])
  expect(await user.call('same')).toMatchObject({ content: [{ text: 'first' }] })
})

test('equal names of two plug-ins are in the log, and a prefix makes both callable', async () => {
  const one = (text: string) =>
    canned({
      list_tools: [{ when: '', output: '{"tools":[{"name":"same","inputSchema":{}}]}' }],
      call_tool: [{ when: '"name":"same"', output: JSON.stringify({ content: [{ type: 'text', text }] }) }],
    })
  const inline = { engine: 'inline' } as const
  const all = (tool?: RouteOptions['tool']) => [
    hyper(one('first'), { ...inline, url: '/b' }),
    hyper(one('second'), { ...inline, url: '/c', ...(tool && { tool }) }),
  ]
  const warnings: string[] = []
  const write = (line: string) => {
    if (line.includes('tool.prefix')) warnings.push(JSON.parse(line).tool)
  }
  const app = await createServer(
    { port: 0, stallMs: 0, mcp: {}, routes: all() },
    pino({ base: null }, { write }),
  )
  onTestFinished(() => app.close())
  const twice = new McpUser(await app.listen())
  for (const _ of [1, 2]) expect(await names(twice, 'tools/list', 'tools')).toEqual(['same'])
  expect(warnings).toEqual(['same'])
  const user = await serveMcp(all({ prefix: 'home-' }))
  expect(await names(user, 'tools/list', 'tools')).toEqual(['same', 'home-same'])
  expect(await user.call('home-same')).toMatchObject({ content: [{ text: 'second' }] })
  await expect(serveMcp([{ url: '/a', plugin: guestBytes('echo'), tool: { prefix: 'a' } }])).rejects.toThrow(
    'prefix',
  )
})

test('equal prompts and resources of two plug-ins are listed once and logged, and a prefix makes both prompts usable', async () => {
  const one = (text: string) =>
    canned({
      list_tools: [{ when: '', output: '{"tools":[]}' }],
      call_tool: [],
      list_prompts: [{ when: '', output: '{"prompts":[{"name":"same"}]}' }],
      get_prompt: [
        {
          when: '"name":"same"',
          output: JSON.stringify({ messages: [{ role: 'user', content: { type: 'text', text } }] }),
        },
      ],
      list_resources: [{ when: '', output: '{"resources":[{"name":"r","uri":"a:1"}]}' }],
      read_resource: [{ when: '', output: JSON.stringify({ contents: [{ uri: 'a:1', text }] }) }],
      complete: [
        {
          when: '"ref":{"type":"prompt","name":"same"}',
          output: JSON.stringify({ completion: { values: [text] } }),
        },
      ],
    })
  const inline = { engine: 'inline' } as const
  const all = (tool?: RouteOptions['tool']) => [
    hyper(one('first'), { ...inline, url: '/b' }),
    hyper(one('second'), { ...inline, url: '/c', ...(tool && { tool }) }),
  ]
  const warnings: string[] = []
  const write = (line: string) => {
    const { msg } = JSON.parse(line)
    if (/cannot be (used|read)/.test(msg)) warnings.push(msg.replace(/ of .*/, ''))
  }
  const options = { port: 0, stallMs: 0, mcp: {}, routes: all() }
  const app = await createServer(options, pino({ base: null }, { write }))
  onTestFinished(() => app.close())
  const twice = new McpUser(await app.listen())
  for (const _ of [1, 2]) {
    expect(await names(twice, 'prompts/list', 'prompts')).toEqual(['same'])
    expect(await names(twice, 'resources/list', 'resources')).toEqual(['r'])
  }
  expect(warnings.sort()).toEqual(['The prompt same', 'The resource a:1'])
  const user = await serveMcp(all({ prefix: 'home-' }))
  expect(await names(user, 'prompts/list', 'prompts')).toEqual(['same', 'home-same'])
  const prompt = async (name: string) => (await user.modern('prompts/get', { name })).body.result
  expect(await prompt('same')).toMatchObject({ messages: [{ content: { text: 'first' } }] })
  expect(await prompt('home-same')).toMatchObject({ messages: [{ content: { text: 'second' } }] })
  const completed = await user.modern('completion/complete', {
    ref: { type: 'ref/prompt', name: 'home-same' },
    argument: { name: 'a', value: '' },
  })
  expect(completed.body.result).toMatchObject({ completion: { values: ['second'] } })
})

test('a schema that clients cannot compile is left out, and takes no other tool with it', async () => {
  const object = { type: 'object' }
  const tree = { $defs: { node: { ...object, properties: { next: { $ref: '#/$defs/node' } } } } }
  const schemas: Readonly<Record<string, readonly [given: object, listed: object]>> = {
    dangling: [{ outputSchema: { ...object, properties: { a: { $ref: '#/$defs/none' } } } }, {}],
    foreign: [{ outputSchema: { ...object, properties: { a: { $ref: 'https://a.example/b.json' } } } }, {}],
    wrong: [{ outputSchema: { ...object, properties: { a: { type: 'nothing' } } } }, {}],
    dialect: [{ outputSchema: { $schema: 'http://json-schema.org/draft-04/schema#', ...object } }, {}],
    input: [{ inputSchema: { ...object, properties: { a: { type: 7 } } } }, { inputSchema: object }],
    tree: [
      { outputSchema: { ...object, ...tree, $ref: '#/$defs/node' } },
      { outputSchema: { ...object, ...tree, $ref: '#/$defs/node' } },
    ],
    nulls: [
      { inputSchema: { ...object, required: null, properties: { a: { enum: null, default: null } } } },
      { inputSchema: { ...object, properties: { a: { default: null } } } },
    ],
  }
  const tools = Object.entries(schemas).map(([name, [given]]) => ({ name, ...given }))
  const plugin = canned({
    list_tools: [{ when: '', output: JSON.stringify({ tools }) }],
    call_tool: [{ when: '', output: '{"content":[]}' }],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const { tools: listed } = (await user.modern('tools/list')).body.result
  expect(listed).toEqual(
    Object.entries(schemas).map(([name, [, expected]]) => ({ name, inputSchema: object, ...expected })),
  )
})

test('progress that does not grow is not passed on', async () => {
  const tell = [3, 3, 1, 4].map((progress) => ['notify_progress', JSON.stringify({ progress })] as const)
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"a"}]}' }],
    call_tool: [{ when: '', output: '{"content":[]}', tell }],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  for (const progressToken of [0, 'a']) {
    const { events } = await user.modern('tools/call', { name: 'a', _meta: { progressToken } })
    expect(events.map(({ params }) => params)).toEqual(
      [3, 4].map((progress) => ({ progressToken, progress })),
    )
  }
})

test('the _meta of a plug-in reaches the client, but not a code of the server', async () => {
  const ui = { ui: { resourceUri: 'ui://w/index.html' } }
  const user = await serveMcp([
    hyper(
      canned({
        list_tools: [
          { when: '', output: JSON.stringify({ tools: [{ name: 'w', inputSchema: {}, _meta: ui }] }) },
        ],
        call_tool: [{ when: '', output: '{"content":[],"_meta":{"a.b/row":7,"wasm-serve/code":"X"}}' }],
        list_prompts: [{ when: '', output: '{"prompts":[{"name":"p"}]}' }],
        get_prompt: [{ when: '', output: '{"messages":[],"_meta":{"a.b/p":1}}' }],
      }),
      { engine: 'inline' },
    ),
  ])
  expect((await user.legacy('tools/list')).body.result.tools).toMatchObject([{ _meta: ui }])
  expect((await user.legacy('tools/call', { name: 'w' })).body.result._meta).toEqual({ 'a.b/row': 7 })
  expect((await user.legacy('prompts/get', { name: 'p' })).body.result._meta).toEqual({ 'a.b/p': 1 })
})

test('a header of an argument must match it, for tools of a plug-in too', async () => {
  const inputSchema = { properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } }
  const plugin = canned({
    list_tools: [{ when: '', output: JSON.stringify({ tools: [{ name: 'w', inputSchema }] }) }],
    call_tool: [{ when: '', output: '{"content":[]}' }],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'inline' })])
  const call = async (header: string) =>
    (
      await user.modern(
        'tools/call',
        { name: 'w', arguments: { region: 'eu' } },
        { 'mcp-param-region': header },
      )
    ).body
  expect((await call('us')).error.code).toBe(-32_020)
  expect((await call('eu')).result.content).toEqual([])
})

test('a plug-in that says that its list has changed is asked again, and clients that wait are told', async () => {
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"add","inputSchema":{}}]}' }],
    call_tool: [{ when: '', output: '{"content":[]}', tell: [['notify_tool_list_changed', '']] }],
  })
  const user = await serveMcp([hyper(plugin)])
  const next = await listen(user, { toolsListChanged: true })
  expect(await next()).toContain('acknowledged')
  await user.call('add')
  expect(await next()).toContain('notifications/tools/list_changed')
})

/** A stream of changes. @returns its next event. */
async function listen(user: McpUser, notifications: object): Promise<() => Promise<string>> {
  const closing = new AbortController()
  onTestFinished(() => closing.abort())
  const reader = (await user.open('subscriptions/listen', { notifications }, closing.signal)).getReader()
  return async () => Buffer.from((await reader.read()).value ?? '').toString()
}

test('clients that wait for a resource are told when a plug-in changes it', async () => {
  const updated = (uri: string) => ['notify_resource_updated', JSON.stringify({ uri })] as const
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"save"}]}' }],
    call_tool: [{ when: '', output: '{"content":[]}', tell: [updated('a:other'), updated('a:1')] }],
    read_resource: [],
  })
  const user = await serveMcp([hyper(plugin)])
  const { capabilities } = (await user.modern('server/discover')).body.result
  expect(capabilities).toMatchObject({ resources: { listChanged: true, subscribe: true } })
  const next = await listen(user, { resourceSubscriptions: ['a:1', 'a:2'] })
  expect(await next()).toContain('"resourceSubscriptions":["a:1","a:2"]')
  await user.call('save')
  const event = await next()
  expect(event).toContain('"method":"notifications/resources/updated","params":{"uri":"a:1","_meta"')
  expect(event).not.toContain('a:other')
  for (const wrong of ['a:1', [7], Array.from({ length: 1_001 }, String)]) {
    const filter = { notifications: { resourceSubscriptions: wrong } }
    expect((await user.modern('subscriptions/listen', filter)).body.error.code).toBe(-32_602)
  }
})

test('a plug-in is told that the roots of a client have changed', async () => {
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[]}' }],
    call_tool: [],
    on_roots_list_changed: [
      { when: '"context":{"_meta":{"a":1}}', output: '', tell: [['notify_tool_list_changed', '']] },
    ],
  })
  const user = await serveMcp([hyper(plugin)])
  const next = await listen(user, { toolsListChanged: true })
  expect(await next()).toContain('acknowledged')
  const params = { _meta: { a: 1 } }
  const sent = await user.send({ jsonrpc: '2.0', method: 'notifications/roots/list_changed', params })
  expect(sent.status).toBe(202)
  expect(await next()).toContain('notifications/tools/list_changed')
})

test('a client that leaves while a list is read does not empty that of others', async () => {
  const plugin = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"busy"}]}' }],
    call_tool: [{ when: '', output: '', tell: [['notify_progress', '{"progress":1}']], isEndless: true }],
    list_prompts: [{ when: '', output: '{"prompts":[{"name":"one"}]}' }],
    get_prompt: [],
  })
  const user = await serveMcp([hyper(plugin, { engine: 'workers', workers: 1, timeoutMs: 20_000 })])
  const [busy, leaving] = [new AbortController(), new AbortController()]
  const call = { name: 'busy', _meta: { progressToken: 1 } }
  await (await user.open('tools/call', call, busy.signal)).getReader().read() // the only thread is busy from now on
  const left = user.open('prompts/list', {}, leaving.signal)
  await user.legacy('ping')
  const listed = names(user, 'prompts/list', 'prompts')
  await user.legacy('ping')
  leaving.abort()
  await expect(left).rejects.toThrow()
  busy.abort()
  expect(await listed).toEqual(['one'])
})

test('the contract needs the endpoint, and the exports of the interface', async () => {
  const { createServer } = await import('../../src/index.ts')
  const alone = createServer({ logLevel: 'silent', routes: [hyper()] })
  await expect(alone).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
  const other = canned({ call_tool: [] })
  await expect(serveMcp([hyper(other)])).rejects.toMatchObject({ code: 'WASM_SERVE_TOOL_EXPORT_MISSING' })
  await expect(serveMcp([hyper(guestBytes('echo'))])).rejects.toMatchObject({
    code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  })
})

test('a plug-in may want to be called again with a state of its own, and without a question', async () => {
  const again = (requestState: string) => JSON.stringify({ resultType: 'input_required', requestState })
  const guest = canned({
    list_tools: [{ when: '', output: '{"tools":[{"name":"count"},{"name":"ever"}]}' }],
    call_tool: [
      { when: '"ever"', output: again('same') },
      { when: '"requestState":"two"', output: '{"content":[{"type":"text","text":"done"}]}' },
      { when: '"requestState":"one"', output: again('two') },
      { when: '', output: again('one') },
    ],
  })
  const user = await serveMcp([hyper(guest, { engine: 'inline' })])
  /** Repeats a call until it has a result. @returns it, and how often it was called. */
  const run = async (name: string) => {
    let more: object = {}
    for (let calls = 1; ; calls++) {
      const { body } = await user.modern('tools/call', { name, ...more })
      const { resultType, requestState, ...others } = body.result ?? {}
      if (resultType !== 'input_required') return { calls, body }
      expect(Object.keys(others)).toEqual(['_meta'])
      more = { requestState }
    }
  }
  expect(await run('count')).toMatchObject({ calls: 3, body: { result: { content: [{ text: 'done' }] } } })
  expect(await run('ever')).toMatchObject({ calls: 101, body: { error: { code: -32_603 } } })
})
