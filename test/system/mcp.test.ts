import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { type RouteOptions, wasmServe, wasmServeMcp } from '../../src/index.ts'
import { checkWasmServeOptions } from '../../src/options/options.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { type CannedAnswer, cannedGuest, QUESTION } from '../support/hyper-guest.ts'
import { McpUser, serveMcp } from '../support/mcp.ts'

const UPPER: RouteOptions = { url: '/upper', plugin: guest('upper') }

/** Fast, because guests need no thread. */
const inline = (url: string, name: string, more: Partial<RouteOptions> = {}): RouteOptions => ({
  ...{ url, plugin: guest(name), engine: 'inline', ...more },
})

const ADDRESS: RouteOptions['tool'] = {
  title: 'Echo',
  description: 'Echoes an address.',
  inputSchema: {
    properties: { city: { type: 'string', minLength: 2 }, zip: { type: 'integer' } },
    required: ['city'],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true },
}

test('each route is a tool, whose guest runs in a thread with a deadline unless the route asks for the event loop', async () => {
  const routes: RouteOptions[] = [
    UPPER,
    inline('/in', 'echo'),
    { url: '/loop', plugin: guest('loop'), timeoutMs: 100 },
  ]
  const user = await serveMcp(routes)
  const { body } = await user.modern('tools/list')
  expect(body.result.tools.map(({ name }) => name)).toEqual(['upper', 'in', 'loop'])
  expect(body.result.tools[0]).toEqual({
    name: 'upper',
    description: expect.stringContaining('upper'),
    inputSchema: expect.objectContaining({
      type: 'object',
      required: ['input'],
      additionalProperties: false,
    }),
  })
  expect(await user.call('upper', { input: 'abc' })).toMatchObject({
    content: [{ type: 'text', text: 'ABC' }],
  })
  expect(await user.call('in', { input: 'äbc' })).toMatchObject({ content: [{ type: 'text', text: 'äbc' }] })
  const late = await user.call('loop', { input: '' })
  expect(late).toMatchObject({ isError: true, _meta: { 'wasm-serve/code': 'WASM_SERVE_DEADLINE_EXCEEDED' } })
  expect(late.content[0]?.text).toContain('WASM_SERVE_DEADLINE_EXCEEDED')
})

test('a list says how long it may be kept, and every result who made it', async () => {
  const user = await serveMcp([inline('/a', 'echo')], {
    ttlMs: 5,
    name: 'mine',
    version: '3',
    instructions: 'Be brief.',
  })
  const serverInfo = { 'io.modelcontextprotocol/serverInfo': { name: 'mine', version: '3' } }
  const listed = await user.modern('tools/list')
  expect(listed.body.result).toMatchObject({
    resultType: 'complete',
    ttlMs: 5,
    cacheScope: 'public',
    _meta: serverInfo,
  })
  const found = await user.modern('server/discover')
  expect(found.body.result).toMatchObject({
    ...{
      supportedVersions: ['2026-07-28'],
      instructions: 'Be brief.',
      resultType: 'complete',
      _meta: serverInfo,
    },
    capabilities: { tools: {} },
  })
})

test('the revisions of 2025 are served, and the server keeps no sessions', async () => {
  const user = await serveMcp([inline('/a', 'echo')])
  const asked = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'a', version: '1' } }
  const { body, headers } = await user.send({ jsonrpc: '2.0', id: 'x', method: 'initialize', params: asked })
  expect(body).toMatchObject({
    id: 'x',
    result: { protocolVersion: '2025-06-18', serverInfo: { name: 'wasm-serve' } },
  })
  expect(headers.get('mcp-session-id')).toMatch(/^[\da-f-]{36}$/) // a name by which a client may cancel
  expect((await user.send({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202)
  expect((await user.legacy('ping')).body.result).toEqual({})
  const called = await user.legacy('tools/call', { name: 'a', arguments: { input: 'abc' } })
  expect(called.body.result).toEqual({ content: [{ type: 'text', text: 'abc' }] })
  expect((await user.legacy('tools/list')).body.result).toEqual({
    tools: [expect.objectContaining({ name: 'a' })],
  })
  const unknown = { ...asked, protocolVersion: '1999-01-01' }
  const answer = await user.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params: unknown })
  expect(answer.body.result.protocolVersion).toBe('2025-11-25')
})

test('clients with initialize get schemas of properties as objects, others as they were written', async () => {
  const properties = { any: true, none: false, text: { type: 'string' } }
  const user = await serveMcp([inline('/a', 'echo', { tool: { inputSchema: { properties } } })])
  const listed = async (list: typeof user.legacy | typeof user.modern) =>
    (await list.call(user, 'tools/list')).body.result.tools[0]
  expect(await listed(user.legacy)).toMatchObject({
    inputSchema: { properties: { any: {}, none: { not: {} }, text: { type: 'string' } } },
  })
  expect(await listed(user.modern)).toMatchObject({ inputSchema: { properties } })
})

test('initialize negotiates, whatever revision the header names', async () => {
  const user = await serveMcp([inline('/a', 'echo')])
  const begin = (protocolVersion: string, header: string) => {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    const message = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
    return user.send(message, { 'mcp-protocol-version': header })
  }
  for (const newer of ['2026-07-28', '2099-01-01'])
    expect(await begin(newer, newer)).toMatchObject({
      status: 200,
      body: { result: { protocolVersion: '2025-11-25' } },
    })
  expect((await begin('2025-06-18', '2099-01-01')).body.result).toMatchObject({
    protocolVersion: '2025-06-18',
  })
  expect((await user.legacy('tools/list', {}, '2099-01-01')).status).toBe(400)
})

test('arguments are checked before the guest runs, and the guest gets them as JSON', async () => {
  const user = await serveMcp([inline('/a', 'echo', { tool: ADDRESS })])
  const { body } = await user.modern('tools/list')
  expect(body.result.tools[0]).toMatchObject({ ...ADDRESS, inputSchema: { type: 'object' } })
  const [good, bad] = [
    { city: 'Rome', zip: 1 },
    { city: 'R', zap: 1 },
  ]
  expect(await user.call('a', good)).toMatchObject({ content: [{ text: JSON.stringify(good) }] })
  const refused = await user.call('a', bad)
  expect(refused).toMatchObject({
    isError: true,
    _meta: { 'wasm-serve/code': 'WASM_SERVE_TOOL_ARGUMENTS_INVALID' },
  })
})

test('an output schema makes structured content, and an output that does not fit it is an error', async () => {
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const user = await serveMcp([inline('/a', 'echo', { tool: { outputSchema } })])
  for (const list of [await user.legacy('tools/list'), await user.modern('tools/list')])
    expect(list.body.result.tools).toMatchObject([{ name: 'a', outputSchema }])
  const fit = await user.call('a', { input: '{"n":1}' })
  expect(fit).toMatchObject({ structuredContent: { n: 1 }, content: [{ type: 'text', text: '{"n":1}' }] })
  for (const input of ['{"n":"1"}', 'no JSON', '']) {
    const lie = await user.call('a', { input })
    expect(lie).toMatchObject({
      isError: true,
      _meta: { 'wasm-serve/code': 'WASM_SERVE_TOOL_RESULT_INVALID' },
    })
    expect(lie.structuredContent).toBeUndefined()
  }
})

test('a schema beside the plug-in describes its tool', async () => {
  const plugin = file('described.wasm', guestBytes('echo'))
  const schema = {
    version: 'v1-draft',
    exports: {
      echo: {
        description: 'Echoes a person.',
        input: { $ref: '#/components/schemas/Person', contentType: 'application/json' },
        output: { $ref: '#/components/schemas/Person', contentType: 'application/json' },
      },
    },
    components: {
      schemas: {
        Person: {
          properties: { name: { type: 'string' }, home: { $ref: '#/components/schemas/Home' } },
          required: ['name'],
        },
        Home: { properties: { city: { type: 'string' } }, required: ['city'] },
      },
    },
  }
  file('described.schema.json', JSON.stringify(schema))
  const user = await serveMcp([{ url: '/a', plugin, engine: 'inline' }])
  const { body } = await user.modern('tools/list')
  const [tool] = body.result.tools
  expect(tool).toMatchObject({
    description: 'Echoes a person.',
    inputSchema: { type: 'object', required: ['name'] },
  })
  const person = { name: 'Ada', home: { city: 'Rome' } }
  expect(await user.call('a', person)).toMatchObject({ structuredContent: person })
  expect(await user.call('a', { name: 'Ada', home: {} })).toMatchObject({ isError: true })
})

test('errors and traps of guests are results that a model can read', async () => {
  const user = await serveMcp([inline('/refuse', 'refuse'), inline('/trap', 'trap')])
  const refused = await user.call('refuse', { input: 'not today' })
  expect(refused).toMatchObject({ isError: true, content: [{ type: 'text', text: 'not today' }] })
  expect(refused._meta).toMatchObject({ 'wasm-serve/code': 'WASM_SERVE_GUEST_ERROR' })
  const trapped = await user.call('trap', { input: '' })
  expect(trapped).toMatchObject({ isError: true, _meta: { 'wasm-serve/code': 'WASM_SERVE_GUEST_TRAP' } })
})

test('images are images, and other bytes are resources', async () => {
  const routes = [inline('/bytes', 'bytes'), inline('/image', 'bytes', { contentType: 'image/png' })]
  const user = await serveMcp(routes)
  const bytes = Buffer.from([0x82, 0x81, 0x80, 0xfc, 0xfd, 0xfe, 0xff, 0x00]).toString('base64')
  const resource = { uri: 'tool:bytes', mimeType: 'application/octet-stream', blob: bytes }
  expect((await user.call('bytes', { input: '' })).content).toEqual([{ type: 'resource', resource }])
  const image = { type: 'image', data: bytes, mimeType: 'image/png' }
  expect((await user.call('image', { input: '' })).content).toEqual([image])
})

test('a list has pages, and a cursor of another list is refused', async () => {
  const routes = ['/a', '/b', '/c'].map((url) => inline(url, 'echo'))
  const user = await serveMcp(routes, { pageSize: 2 })
  const first = await user.modern('tools/list')
  expect(first.body.result.tools).toHaveLength(2)
  const { nextCursor: cursor } = first.body.result
  const second = await user.modern('tools/list', { cursor })
  expect(second.body.result.tools.map(({ name }) => name)).toEqual(['c'])
  expect(second.body.result.nextCursor).toBeUndefined()
  for (const wrong of ['abc', `${cursor}9`, 1, `${'a'.repeat(12)}.2`])
    expect((await user.modern('tools/list', { cursor: wrong })).body.error.code).toBe(-32_602)
})

test('a header that does not match the body is refused', async () => {
  const user = await serveMcp([inline('/a', 'echo')])
  const call = { name: 'a', arguments: { input: 'abc' } }
  for (const headers of [
    { 'mcp-name': 'b' },
    { 'mcp-method': 'tools/list' },
    { 'mcp-protocol-version': '2025-11-25' },
    { 'mcp-name': '=?base64?!!?=' },
    { 'mcp-name': '' },
  ])
    expect(await user.modern('tools/call', call, headers)).toMatchObject({
      status: 400,
      body: { error: { code: -32_020 } },
    })
  const encoded = `=?base64?${Buffer.from('a').toString('base64')}?=`
  expect((await user.modern('tools/call', call, { 'mcp-name': encoded })).status).toBe(200)
})

test('arguments that are left out get the defaults of the schema, and others stay as they were written', async () => {
  const inputSchema = {
    type: 'object',
    required: ['unit'],
    properties: {
      id: { type: 'integer' },
      unit: { type: 'string', default: 'km' },
      page: { $ref: '#/$defs/page' },
      sort: { type: 'string', default: 'up', enum: ['up', 'down'] },
    },
    $defs: { page: { type: 'object', properties: { size: { type: 'integer', default: 10 } } } },
  }
  const odd = { type: 'object', properties: { a: { type: 'string', default: null }, b: { type: 'integer' } } }
  const user = await serveMcp([
    inline('/a', 'echo', { tool: { inputSchema } }),
    inline('/odd', 'echo', { tool: { inputSchema: odd } }),
  ])
  const text = async (name: string, args: string) => {
    const params = `{"name":"${name}","arguments":${args}}`
    const answer = await user.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)
    return answer.body.result.content[0]?.text
  }
  expect(await text('a', '{"id":9007199254740993, "page":{ }, "sort":"down"}')).toBe(
    '{"id":9007199254740993,"page":{"size":10},"sort":"down","unit":"km"}',
  )
  expect(await text('a', '{ "unit":"mi","page":{"size":1e0},"sort":"up" }')).toBe(
    '{ "unit":"mi","page":{"size":1e0},"sort":"up" }',
  )
  expect(await text('odd', '{"b":1}')).toBe('{"b":1}')
  expect(await text('odd', 'null')).toBe('{}')
  expect(await text('odd', '{"b":"1"}')).toContain('/b must be integer')
})

test.each([
  ['a thread', 'workers'],
  ['the event loop', 'inline'],
] as const)('a tool of a route in %s may ask its client, and tell it of its progress', async (_, engine) => {
  const progress = JSON.stringify({ progressToken: 0, progress: 1, total: 2 })
  const asking = {
    when: '',
    output: QUESTION,
    tell: [['notify_progress', progress] as const],
    ask: ['create_elicitation'],
  }
  const plugin = guestBytes(cannedGuest({ erase: [asking] }))
  const user = await serveMcp([{ url: '/erase', plugin, engine }])
  const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const call = (more: object, _meta: object = { ...capabilities, progressToken: 7 }) =>
    user.modern('tools/call', { name: 'erase', arguments: { input: 'x' }, ...more, _meta })
  const first = await call({})
  const question = { method: 'elicitation/create', params: { message: 'Sure?' } }
  expect(first.body.result).toMatchObject({
    resultType: 'input_required',
    inputRequests: { question },
  })
  expect(first.events).toMatchObject([{ method: 'notifications/progress', params: { progressToken: 7 } }])
  const { requestState } = first.body.result
  const answer = { action: 'accept', content: {} }
  const last = await call({ requestState, inputResponses: { question: answer } })
  expect(last.body.result).toMatchObject({ content: [{ type: 'text', text: JSON.stringify(answer) }] })
  expect(await call({}, {})).toMatchObject({ status: 400, body: { error: { code: -32_021 } } })
  expect((await fetch(`${user.base}/erase`, { method: 'POST', body: 'x' })).status).toBe(409)
  expect(
    (await user.legacy('tools/call', { name: 'erase', arguments: { input: 'x' } })).body.result,
  ).toMatchObject({
    isError: true,
  })
})

/** A route with the contract http that is a tool. Its guest answers requests that contain a text. */
const httpTool = (
  url: string,
  answers: readonly CannedAnswer[],
  more: Partial<RouteOptions> = {},
): RouteOptions => ({
  ...{
    url,
    plugin: guestBytes(cannedGuest({ handle: answers })),
    contract: 'http',
    engine: 'inline',
    ...more,
  },
  tool: { enabled: true, ...more.tool },
})

test('a route with the contract http is a tool if it says so: its arguments are a request, its response the result', async () => {
  const answer = (when: string, response: object): CannedAnswer => ({
    when,
    output: JSON.stringify(response),
  })
  const inputSchema = {
    type: 'object',
    properties: { id: { type: 'string' }, tags: { type: 'array' }, n: { type: 'integer' } },
  }
  const user = await serveMcp([
    httpTool(
      '/users/:id',
      [
        answer(
          '"path":"/users/a%2Fb","params":{"id":"a/b"},"query":{"tags":["x","1"],"n":"9007199254740993"},"headers":{}',
          {
            body: { ok: true },
          },
        ),
        answer('"url":"/users/7","path":"/users/7"', { status: 404, body: 'No such user' }),
        answer('"params":{"id":""}', { status: 503 }),
      ],
      { method: 'GET', tool: { name: 'user', inputSchema } },
    ),
    httpTool(
      '/save',
      [
        answer('"headers":{"content-type":"application/json"}', {
          headers: { 'content-type': 'image/png' },
          bodyBase64: 'iVBORw==',
        }),
      ],
      { tool: { inputSchema: { type: 'object', properties: { a: {}, b: {} } } } },
    ),
    httpTool('/broken', [answer('"body":"hello"', { what: 1 })]),
    httpTool('/count', [answer('', { body: { n: 1 } })], {
      tool: { outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } },
    }),
    { ...httpTool('/no', []), tool: {} },
  ])
  const { tools } = (await user.modern('tools/list')).body.result
  expect(tools.map(({ name }) => name)).toEqual(['user', 'save', 'broken', 'count'])
  const args = '{"id":"a/b","tags":["x",1],"n":9007199254740993}'
  const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"user","arguments":${args}}}`
  const found = await user.send(message)
  expect(found.body.result).toEqual({ content: [{ type: 'text', text: '{"ok":true}' }] })
  expect(await user.call('user', { id: '7' })).toMatchObject({
    isError: true,
    content: [{ text: 'No such user' }],
  })
  expect(await user.call('user')).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('503') }],
  })
  expect(await user.call('save', { a: 1 })).toMatchObject({
    content: [{ type: 'image', mimeType: 'image/png', data: 'iVBORw==' }],
  })
  expect(await user.call('broken', { input: 'hello' })).toMatchObject({
    isError: true,
    _meta: { 'wasm-serve/code': 'WASM_SERVE_CONTRACT_BROKEN' },
  })
  expect(await user.call('count', { input: '' })).toMatchObject({ structuredContent: { n: 1 } })
  expect((await fetch(`${user.base}/users/7`)).status).toBe(404)
})

test('a tool with the contract http may ask its client', async () => {
  const ask = ['create_elicitation']
  const user = await serveMcp([httpTool('/erase', [{ when: '', output: QUESTION, ask }])])
  const _meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const call = (more: object) =>
    user.modern('tools/call', { name: 'erase', arguments: { input: 'x' }, ...more, _meta })
  const { requestState, ...first } = (await call({})).body.result
  expect(first).toMatchObject({
    resultType: 'input_required',
    inputRequests: { question: { method: 'elicitation/create', params: { message: 'Sure?' } } },
  })
  const answer = { status: 201, body: 'done' } // the guest returns the answer, which is a response then
  const last = await call({ requestState, inputResponses: { question: answer } })
  expect(last.body.result).toMatchObject({ content: [{ type: 'text', text: 'done' }] })
})

test('an argument that a schema puts into a header must match it', async () => {
  const inputSchema = {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, n: { type: 'integer' } },
  }
  const user = await serveMcp([inline('/a', 'echo', { tool: { inputSchema } })])
  const call = (region: unknown, headers: Record<string, string>) =>
    user.modern('tools/call', { name: 'a', arguments: region === undefined ? {} : { region } }, headers)
  expect((await call('eu', { 'mcp-param-region': 'eu' })).status).toBe(200)
  expect((await call(undefined, {})).status).toBe(200)
  for (const headers of [{}, { 'mcp-param-region': 'us' }] as Record<string, string>[])
    expect(await call('eu', headers)).toMatchObject({ status: 400, body: { error: { code: -32_020 } } })
  const odd = await call({ toString: 1 }, { 'mcp-param-region': 'eu' })
  expect(odd).toMatchObject({ status: 400, body: { error: { code: -32_020 } } })
})

test('a header of an integer that JavaScript would change must have all its digits', async () => {
  const inputSchema = { type: 'object', properties: { id: { type: 'integer', 'x-mcp-header': 'Id' } } }
  const user = await serveMcp([inline('/a', 'echo', { tool: { inputSchema } })])
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const rest = JSON.stringify({ name: 'a', _meta }).slice(1)
  const send = async (id: string, header: string) => {
    const params = `{"arguments":{"id":${id}},${rest}`
    const answer = await user.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, {
      ...{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'a' },
      'mcp-param-id': header,
    })
    return answer.body.error?.code
  }
  expect(await send('9007199254740993', '9007199254740993')).toBeUndefined()
  expect(await send('9007199254740993', '9007199254740992')).toBe(-32_020)
  expect(await send('42', '42.0')).toBeUndefined()
})

test('requests that are wrong by the protocol get the status and the code that it says', async () => {
  const user = await serveMcp([inline('/a', 'echo')])
  const request = (more: object) => ({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {}, ...more })
  const meta = (more: object) => ({
    params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', ...more } },
  })
  const expected: [unknown, number, number, Record<string, string>?][] = [
    ['{', 400, -32_700],
    ['', 400, -32_700],
    ['null', 400, -32_600],
    [request({ jsonrpc: '1.0' }), 400, -32_600],
    [request({ id: null }), 400, -32_600],
    [request({ id: 1.5 }), 400, -32_600],
    [request({ id: 2 ** 60 }), 400, -32_600],
    [request({ id: 'x'.repeat(257) }), 400, -32_600],
    [request({ method: 7 }), 400, -32_600],
    [request({ params: [1] }), 400, -32_600],
    [`${'['.repeat(100)}${']'.repeat(100)}`, 400, -32_600],
    [request(meta({})), 400, -32_602],
    [request(meta({ 'io.modelcontextprotocol/clientCapabilities': {} })), 400, -32_020],
    [request({}), 400, -32_602, { 'mcp-protocol-version': '2026-07-28' }],
    [request({}), 400, -32_022, { 'mcp-protocol-version': '2030-01-01' }],
    [request({ method: 'tools/steal' }), 200, -32_601],
    [request({ method: 'tools/call', params: { name: '__proto__' } }), 200, -32_602],
    [request({ method: 'tools/call', params: { name: 'a', arguments: [] } }), 200, -32_602],
    [request({ method: 'tools/call', params: { name: { toString: 1 } } }), 200, -32_602],
    [request({ params: { cursor: { toString: 1 } } }), 200, -32_602],
  ]
  for (const [message, status, code, headers] of expected)
    expect(await user.send(message, headers), JSON.stringify(message)).toMatchObject({
      status,
      body: { error: { code } },
    })
  expect(await user.modern('ping')).toMatchObject({ status: 404, body: { error: { code: -32_601 } } })
  expect((await user.modern('tools/call', { name: 'b' })).body.error).toMatchObject({ code: -32_602 })
})

test('what a client leaves out may be null', async () => {
  const user = await serveMcp([inline('/a', 'echo', { tool: { inputSchema: {} } })])
  const sent = [
    ['tools/list', null],
    ['tools/list', { cursor: null, _meta: null }],
    ['tools/call', { name: 'a', arguments: null }],
  ] as const
  for (const [method, params] of sent)
    expect((await user.send({ jsonrpc: '2.0', id: 1, method, params })).body).toMatchObject({ result: {} })
})

test('other methods, content types and accepted types are refused as HTTP says', async () => {
  const user = await serveMcp([inline('/a', 'echo')], { bodyLimit: 1_000 })
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const answer = await user.send('', {}, method)
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST'])
  }
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const refused = async (headers: Record<string, string>, message: unknown = list) => {
    const { status, body } = await user.send(message, headers)
    return [status, body.error.data.code]
  }
  expect(await refused({ 'content-type': 'text/plain' })).toEqual([
    415,
    'WASM_SERVE_MCP_CONTENT_TYPE_UNSUPPORTED',
  ])
  const unwanted = 'application/json, text/event-stream;q=0, */json, text/event-streams'
  for (const accept of ['application/json', unwanted, 'application/json; q=0.0, text/event-stream'])
    expect(await refused({ accept })).toEqual([406, 'WASM_SERVE_MCP_NOT_ACCEPTABLE'])
  expect(await refused({}, 'x'.repeat(1_001))).toEqual([413, 'WASM_SERVE_BODY_TOO_LARGE'])
  for (const accept of ['*/*', 'application/*, text/*', 'Application/JSON, text/event-stream;q=0.5'])
    expect((await user.send(list, { accept })).status).toBe(200)
})

test('web pages and host names that are not known are refused', async () => {
  const mcp = { hosts: ['tools.example'], origins: ['https://app.example'] }
  const user = await serveMcp([inline('/a', 'echo')], mcp)
  const { host, port } = new URL(user.url)
  const status = async (headers: Record<string, string>) => {
    const socket = connect(Number(port), '127.0.0.1')
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
    const lines = {
      host,
      'content-type': 'application/json',
      connection: 'close',
      'content-length': body.length,
      ...headers,
    }
    const text = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.end(`POST /mcp HTTP/1.1\r\n${text.join('')}\r\n${body}`)
    let answer = ''
    socket.on('data', (data) => (answer += data))
    await once(socket, 'close')
    return Number(answer.split(' ')[1])
  }
  const allowed = [{}, { host: 'localhost' }, { host: 'tools.example:80' }, { origin: `http://${host}` }]
  const more = [{ origin: 'https://app.example' }, { origin: 'http://localhost:5173' }]
  for (const headers of [...allowed, ...more])
    expect(await status(headers), JSON.stringify(headers)).toBe(200)
  const refused = [{ host: 'evil.example' }, { origin: 'https://evil.example' }, { origin: 'null' }]
  for (const headers of [...refused, { host: 'evil.example', origin: 'http://evil.example' }])
    expect(await status(headers as Record<string, string>), JSON.stringify(headers)).toBe(403)
})

test('the revision that has batches answers them, and the others refuse them', async () => {
  const user = await serveMcp([inline('/a', 'echo')])
  const call = (id: number, input: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'a', arguments: { input } },
  })
  const batch = [call(1, 'x'), { jsonrpc: '2.0', method: 'notifications/initialized' }, call(2, 'y'), 7]
  const { status, body } = await user.send(batch)
  expect(status).toBe(200)
  expect(body).toMatchObject([
    { id: 1, result: { content: [{ text: 'x' }] } },
    { id: 2, result: { content: [{ text: 'y' }] } },
    { id: null, error: { code: -32_600 } },
  ])
  expect((await user.send([{ jsonrpc: '2.0', method: 'notifications/initialized' }])).status).toBe(202)
  const refused = { status: 400, body: { error: { code: -32_600 } } }
  expect(await user.send(batch, { 'mcp-protocol-version': '2025-06-18' })).toMatchObject(refused)
  expect(await user.send([])).toMatchObject(refused)
  expect(await user.send(Array.from({ length: 101 }, () => call(1, 'x')))).toMatchObject(refused)
})

test('a notification in a batch counts: it cancels a request of the same batch, which then has no answer', async () => {
  const user = await serveMcp([{ url: '/moody', plugin: guest('moody'), timeoutMs: 20_000, workers: 2 }])
  const call = (id: number, input: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'moody', arguments: { input } },
  })
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  const { body } = await user.send([call(1, 'L'), cancel, call(2, 'x')])
  expect(body).toMatchObject([{ id: 2, result: { content: [{ text: 'x' }] } }])
  expect(body).toHaveLength(1)
  expect((await user.send([call(1, 'L'), cancel])).status).toBe(202)
})

test('log lines reach a client that asks for them, before the result', async () => {
  const user = await serveMcp([{ url: '/log', plugin: guest('log'), function: 'log' }])
  const meta = { 'io.modelcontextprotocol/logLevel': 'warning' }
  const { body, events, headers } = await user.modern('tools/call', {
    name: 'log',
    arguments: { input: 'hi' },
    _meta: meta,
  })
  expect(headers.get('content-type')).toBe('text/event-stream')
  expect(body.result).toMatchObject({ content: [{ type: 'text' }] })
  expect(events.map(({ method, params }) => [method, params.level, params.data])).toEqual([
    ['notifications/message', 'warning', 'hi'],
    ['notifications/message', 'error', 'hi'],
  ])
  const silent = await user.modern('tools/call', { name: 'log', arguments: { input: 'hi' } })
  expect([silent.events, silent.headers.get('content-type')]).toEqual([[], 'application/json; charset=utf-8'])
  const wrong = { 'io.modelcontextprotocol/logLevel': 'loud' }
  expect((await user.modern('tools/list', { _meta: wrong })).body.error.code).toBe(-32_602)
})

test('a client that disconnects ends its guest, and not the others', async () => {
  const moody: RouteOptions = { url: '/moody', plugin: guest('moody'), timeoutMs: 20_000, workers: 1 }
  const user = await serveMcp([moody, UPPER])
  const leaving = new AbortController()
  const meta = { 'io.modelcontextprotocol/logLevel': 'info' }
  const stream = await user.open(
    'tools/call',
    { name: 'moody', arguments: { input: 'G' }, _meta: meta },
    leaving.signal,
  )
  const reader = stream.getReader()
  expect(Buffer.from((await reader.read()).value ?? '').toString()).toContain('"data":"G"') // it runs now, for ever
  expect(await user.call('upper', { input: 'abc' })).toMatchObject({ content: [{ text: 'ABC' }] })
  const waiting = user.call('moody', { input: 'next' })
  leaving.abort()
  const begun = performance.now()
  expect(await waiting).toMatchObject({ content: [{ text: 'next' }] })
  expect(performance.now() - begun).toBeLessThan(10_000)
})

test.each([
  [{}],
  [{ 'mcp-session-id': 'a' }],
])('a message cancels the request that it names with %j', async (session) => {
  const user = await serveMcp([{ url: '/moody', plugin: guest('moody'), timeoutMs: 20_000, workers: 1 }])
  const headers = { 'mcp-protocol-version': '2025-11-25', ...session }
  const params = { name: 'moody', arguments: { input: 'G' } } // it runs for ever
  const running = user.send({ jsonrpc: '2.0', id: 'job', method: 'tools/call', params }, headers)
  const waiting = user.call('moody', { input: 'next' })
  let isOver = false
  void running.then(() => {
    isOver = true
  })
  const cancel = (requestId: unknown, more = headers) =>
    user.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }, more)
  expect((await cancel('other')).status).toBe(202)
  expect((await cancel('job', { ...headers, 'mcp-session-id': 'b' })).status).toBe(202)
  while (!isOver) await cancel('job')
  expect(await running).toMatchObject({ status: 200, body: {}, events: [] })
  expect(await waiting).toMatchObject({ content: [{ text: 'next' }] })
})

test('with toolsOnly the tools are not at their URLs, and pass their smoke requests', async () => {
  const smoke = { body: 'x', answer: 'x' }
  const routes = [inline('/a', 'echo', { smoke }), inline('/b', 'echo', { tool: { enabled: false } })]
  const user = await serveMcp(routes, { toolsOnly: true })
  const status = async (url: string) => (await fetch(user.base + url, { method: 'POST', body: 'x' })).status
  expect([await status('/a'), await status('/b')]).toEqual([404, 200])
  const { body } = await user.modern('tools/list')
  expect(body.result.tools.map(({ name }) => name)).toEqual(['a'])
})

test('tools with the same name, and schemas that are none, are found at the start', async () => {
  const both = [inline('/a', 'echo'), inline('/b', 'echo', { tool: { name: 'a' } })]
  await expect(serveMcp(both)).rejects.toMatchObject({ code: 'WASM_SERVE_TOOL_CONFLICT' })
  const wrong: NonNullable<RouteOptions['tool']>[] = [
    { inputSchema: { type: 'array' } },
    { inputSchema: { type: 'object', properties: 7 } },
    { inputSchema: { type: 'object', $ref: 'https://example.com/schema.json' } },
    { inputSchema: { type: 'object' }, input: 'text' },
    { outputSchema: { type: 'nothing' } },
  ]
  for (const tool of wrong)
    await expect(serveMcp([inline('/a', 'echo', { tool })])).rejects.toMatchObject({
      code: 'WASM_SERVE_TOOL_SCHEMA_INVALID',
    })
})

test('hooks and a hook that refuses apply to tools', async () => {
  const seen: string[] = []
  const route = inline('/a', 'echo', {
    onCall: ({ input }) => {
      if (Buffer.from(input).toString() === 'bad') throw new Error('no')
      return Buffer.from('changed')
    },
    onResult: ({ output }) => void seen.push(Buffer.from(output).toString()),
  })
  const user = await serveMcp([route])
  expect(await user.call('a', { input: 'abc' })).toMatchObject({ content: [{ text: 'changed' }] })
  expect(seen).toEqual(['changed'])
  expect(await user.call('a', { input: 'bad' })).toMatchObject({ isError: true })
})

test('an app of its own serves tools with the Fastify plugin wasmServeMcp', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.register(wasmServeMcp, { prefix: '/api', routes: [inline('/a', 'echo')], mcp: { url: '/tools' } })
  const base = await app.listen({ host: '127.0.0.1', port: 0 })
  const user = new McpUser(base)
  Object.assign(user, { url: `${base}/api/tools` })
  expect(await user.call('a', { input: 'abc' })).toMatchObject({ content: [{ text: 'abc' }] })
  const other = Fastify()
  other.register(wasmServe, { routes: [inline('/a', 'echo')], mcp: {} })
  await expect(other.ready()).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
})

test('without mcp no route is a tool, and some contracts have no tools', () => {
  const [route] = checkWasmServeOptions({ routes: [inline('/a', 'echo', { tool: ADDRESS })] }).routes
  expect(route?.tool).toBeUndefined()
  const off = checkWasmServeOptions({ routes: [inline('/a', 'echo')], mcp: { enabled: false } })
  expect([off.mcp, off.routes[0]?.tool]).toEqual([undefined, undefined])
  const http = { routes: [inline('/a', 'echo', { contract: 'http' })], mcp: {} }
  expect(checkWasmServeOptions(http).routes[0]?.tool).toBeUndefined()
  const wrong = { routes: [inline('/a', 'echo', { contract: 'simplism', tool: { enabled: true } })], mcp: {} }
  expect(() => checkWasmServeOptions(wrong)).toThrow()
})
