import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../src/index.ts'
import { bridgeStdio } from '../../src/mcp/stdio.ts'
import { linesOf } from '../../src/platform/lines.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { cannedGuest, hyperGuest, QUESTION } from '../support/hyper-guest.ts'
import { MODERN } from '../support/mcp.ts'

interface Written {
  readonly id?: unknown
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number }
}

/** A client over standard input and output. */
async function bridge(routes: RouteOptions[], options: Partial<CreateServerOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-bridge-'))
  const socketPath = join(folder, 'mcp.sock')
  const app = await createServer({
    logLevel: 'silent',
    socket: socketPath,
    stallMs: 0,
    mcp: {},
    routes,
    ...options,
  })
  await app.listen()
  const input = new PassThrough({ encoding: 'utf8' })
  const output = new PassThrough({ encoding: 'utf8' })
  const write = (line: string) => void output.write(`${line}\n`)
  const over = bridgeStdio({ socketPath, path: '/mcp' }, linesOf(input), write)
  const lines = linesOf(output)
  onTestFinished(async () => {
    input.end()
    await over
    await app.close()
    rmSync(folder, { recursive: true })
  })
  return {
    send: (message: object) => void input.write(`${JSON.stringify(message)}\n`),
    write: (text: string) => void input.write(text),
    next: async (): Promise<Written> => JSON.parse((await lines.next()).value ?? '{}'),
    async end() {
      input.end()
      await over
    },
  }
}

const meta = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
}

const call = (id: unknown, name: string, input: string, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { input }, _meta: { ...meta, ...more } },
})

test('a message per line is answered by a message per line, in both eras', async () => {
  const { send, next, write } = await bridge([
    { url: '/ä b', plugin: guest('echo'), engine: 'inline', tool: { name: 'a' } },
  ])
  send(call('x', 'a', 'two\nlines'))
  expect(await next()).toMatchObject({ id: 'x', result: { content: [{ type: 'text', text: 'two\nlines' }] } })
  send({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18' } })
  expect(await next()).toMatchObject({ id: 1, result: { protocolVersion: '2025-06-18' } })
  send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  write('\n')
  send({ jsonrpc: '2.0', id: 2, method: 'tools/list' })
  expect(await next()).toMatchObject({ id: 2, result: { tools: [{ name: 'a' }] } })
  write('{\n')
  expect(await next()).toMatchObject({ id: null, error: { code: -32_700 } })
})

test('notifications come before the result, and a cancelled request has no answer and ends its guest', async () => {
  const { send, next } = await bridge([{ url: '/a', plugin: guest('moody'), timeoutMs: 20_000, workers: 1 }])
  send(call(1, 'a', 'G', { 'io.modelcontextprotocol/logLevel': 'info' }))
  expect(await next()).toMatchObject({ method: 'notifications/message' }) // it runs now, for ever
  send(call(2, 'a', 'next'))
  const begun = performance.now()
  send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  expect(await next()).toMatchObject({ id: 2, result: { content: [{ text: 'next' }] } })
  expect(performance.now() - begun).toBeLessThan(10_000)
})

test('a request of a batch is cancelled by a message on a line of its own', async () => {
  const { send, next } = await bridge([{ url: '/a', plugin: guest('moody'), timeoutMs: 20_000, workers: 1 }])
  const params = { name: 'a', arguments: { input: 'L' } } // it runs for ever
  send([{ jsonrpc: '2.0', id: 1, method: 'tools/call', params }])
  send(call(2, 'a', 'next'))
  send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  expect(await next()).toMatchObject({ id: 2, result: { content: [{ text: 'next' }] } })
})

test('each request has an answer with its id, also if the endpoint refuses it unread', async () => {
  const { send, next } = await bridge([{ url: '/a', plugin: guest('echo'), engine: 'inline' }], {
    mcp: { bodyLimit: 1_000, rateLimit: { max: 2, timeWindowMs: 600_000 } },
  })
  const nested = JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`)
  const expected: [object, number][] = [
    [call('large', 'a', 'x'.repeat(1_000)), -32_600],
    [{ jsonrpc: '2.0', id: 'deep', method: 'ping', params: { nested } }, -32_600],
    [call('named', 'ä'.repeat(20), 'x'), -32_602],
    [call('often', 'a', 'x'), -32_600],
  ]
  for (const [message, code] of expected) {
    send(message)
    expect(await next()).toMatchObject({ id: 'id' in message && message.id, error: { code } })
  }
})

test('a line separator of Unicode is a character like others, in requests, answers and notifications', async () => {
  const { send, next } = await bridge([
    { url: '/a', plugin: guest('log'), function: 'log', engine: 'inline' },
    { url: '/b', plugin: guest('echo'), engine: 'inline' },
  ])
  const input = 'a\u2028b\u2029c'
  send(call(1, 'b', input))
  expect(await next()).toMatchObject({ id: 1, result: { content: [{ text: input }] } })
  send(call(2, 'a', input, { 'io.modelcontextprotocol/logLevel': 'debug' }))
  const messages: Written[] = []
  do messages.push(await next())
  while (messages.at(-1)?.id !== 2)
  expect(messages.map(({ method }) => method)).toContain('notifications/message')
})

test('an argument that has a header over HTTP has none here', async () => {
  const inputSchema = { type: 'object', properties: { input: { type: 'string', 'x-mcp-header': 'Input' } } }
  const { send, next } = await bridge([
    { url: '/a', plugin: guest('echo'), engine: 'inline', tool: { inputSchema } },
  ])
  send(call(1, 'a', 'x'))
  expect(await next()).toMatchObject({ id: 1, result: { content: [{ text: 'x' }] } })
  send({ ...call(2, 'a', 'x'), method: 'tools/cäll' })
  expect(await next()).toMatchObject({ id: 2, error: { code: -32_601 } })
})

test('each of 300 requests at once has its own answer', async () => {
  const { send, next } = await bridge([{ url: '/a', plugin: guest('echo'), engine: 'inline' }])
  const ids = Array.from({ length: 300 }, (_, id) => id)
  for (const id of ids) send(call(id, 'a', `input ${id}`))
  const answered = new Set<unknown>()
  for (const _ of ids) {
    const { id, result } = await next()
    expect(result?.content).toEqual([{ type: 'text', text: `input ${String(id)}` }])
    answered.add(id)
  }
  expect(answered.size).toBe(ids.length)
})

test('requests in flight are answered when the client has closed its side', async () => {
  const { send, next, end } = await bridge([{ url: '/a', plugin: guest('moody') }])
  send(call(1, 'a', 'W'))
  await end()
  expect(await next()).toMatchObject({ id: 1 })
})

test('a stream of changes ends when the client has closed its side', async () => {
  const { send, next, end } = await bridge([{ url: '/a', plugin: guest('echo'), engine: 'inline' }])
  const params = { notifications: { toolsListChanged: true }, _meta: meta }
  send({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params })
  expect(await next()).toMatchObject({ method: 'notifications/subscriptions/acknowledged' })
  send({ jsonrpc: '2.0', id: 1, method: 'ping' }) // the id is in use, which a client should not do
  expect(await next()).toMatchObject({ id: 1, result: {} })
  await end()
})

/** A client of 2025 with a tool that asks twice, and reports its progress before. */
async function askedBridge(capabilities: object) {
  const progress = JSON.stringify({ progressToken: 0, progress: 1 })
  const asking = {
    when: '',
    output: QUESTION,
    tell: [['notify_progress', progress] as const],
    ask: ['create_elicitation', 'create_message'],
  }
  const plugin = guestBytes(cannedGuest({ erase: [asking] }))
  const user = await bridge([{ url: '/erase', plugin }])
  const params = { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'test', version: '1' } }
  user.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  expect(await user.next()).toMatchObject({ id: 0, result: { protocolVersion: '2025-11-25' } })
  user.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return {
    ...user,
    erase: (id: unknown) => {
      const params = { name: 'erase', arguments: { input: 'x' }, _meta: { progressToken: 7 } }
      user.send({ jsonrpc: '2.0', id, method: 'tools/call', params })
    },
  }
}

const ASKABLE = { elicitation: {}, sampling: {} }

test('a tool asks a client of 2025, which has a session, by requests', async () => {
  const { erase, send, write, next } = await askedBridge(ASKABLE)
  erase(1)
  expect(await next()).toMatchObject({ method: 'notifications/progress', params: { progressToken: 7 } })
  const first = await next()
  expect(first).toMatchObject({ method: 'elicitation/create', params: { message: 'Sure?' } })
  erase(2) // the question of another call is another one
  expect(await next()).toMatchObject({ method: 'notifications/progress' })
  const other = await next()
  expect(other).toMatchObject({ method: 'elicitation/create' })
  expect(other.id).not.toBe(first.id)
  write(
    `{"jsonrpc":"2.0","id":${JSON.stringify(first.id)},"result":{"action":"accept","messages":[],"maxTokens":1, "n":9007199254740993}}\n`,
  )
  const second = await next()
  expect(second).toMatchObject({ method: 'sampling/createMessage', params: { action: 'accept' } })
  write(`{"jsonrpc":"2.0","id":${JSON.stringify(second.id)},"result":{"id":9007199254740993}}\n`)
  expect(await next()).toMatchObject({ id: 1, result: { content: [{ text: '{"id":9007199254740993}' }] } })
  send({ jsonrpc: '2.0', id: other.id, error: { code: -1, message: 'Nobody is here' } })
  expect(await next()).toMatchObject({
    id: 2,
    result: { isError: true, content: [{ text: expect.stringContaining('Nobody is here') }] },
  })
})

test('a client of 2025 is not asked for what it does not declare', async () => {
  const { erase, next } = await askedBridge({ elicitation: { url: {} } })
  erase(1)
  expect(await next()).toMatchObject({ method: 'notifications/progress' })
  expect(await next()).toMatchObject({ id: 1, error: { code: -32_021 } })
})

test('a question of a request that is cancelled is cancelled, too', async () => {
  const { erase, send, next } = await askedBridge(ASKABLE)
  erase(1)
  expect(await next()).toMatchObject({ method: 'notifications/progress' })
  const { id } = await next()
  send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  expect(await next()).toMatchObject({ method: 'notifications/cancelled', params: { requestId: id } })
  send({ jsonrpc: '2.0', id, result: { action: 'accept' } }) // too late
  send({ jsonrpc: '2.0', id: 3, method: 'ping' })
  expect(await next()).toMatchObject({ id: 3, result: {} })
})

test('a client that closes its side does not leave questions behind', async () => {
  const { erase, next, end } = await askedBridge(ASKABLE)
  erase(1)
  expect(await next()).toMatchObject({ method: 'notifications/progress' })
  expect(await next()).toMatchObject({ method: 'elicitation/create' })
  await end()
  expect(await next()).toMatchObject({ method: 'notifications/cancelled' })
  expect(await next()).toMatchObject({ id: 1, result: { isError: true } })
})

test('a client of 2025 sees changed lists, and the log from the level that it sets', async () => {
  const plugin = guestBytes(hyperGuest())
  const { send, next } = await bridge([{ url: '/h', plugin, contract: 'hyper-mcp' }])
  const params = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  }
  send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  const listChanged = true
  expect(await next()).toMatchObject({
    result: { capabilities: { tools: { listChanged }, prompts: { listChanged }, logging: {} } },
  })
  const use = (id: number, name: string) =>
    send({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } })
  use(1, 'test_trigger_tool_change')
  const both = [await next(), await next()]
  expect(both).toContainEqual({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' })
  expect(both).toContainEqual(expect.objectContaining({ id: 1 }))
  use(2, 'test_logging_tool')
  expect(await next()).toMatchObject({ id: 2, result: {} })
  send({ jsonrpc: '2.0', id: 3, method: 'logging/setLevel', params: { level: 'loud' } })
  expect(await next()).toMatchObject({ id: 3, error: { code: -32_602 } })
  send({ jsonrpc: '2.0', id: 4, method: 'logging/setLevel', params: { level: 'info' } })
  expect(await next()).toMatchObject({ id: 4, result: {} })
  use(5, 'test_logging_tool')
  expect(await next()).toMatchObject({ method: 'notifications/message', params: { level: 'warning' } })
  expect(await next()).toMatchObject({ id: 5 })
})

test('a client of 2025 waits for resources, and learns that a question at a URL is done', async () => {
  const updated = (uri: string) => ['notify_resource_updated', JSON.stringify({ uri })] as const
  const plugin = guestBytes(
    cannedGuest({
      list_tools: [{ when: '', output: '{"tools":[{"name":"save"}]}' }],
      call_tool: [
        {
          when: '',
          output: '{"content":[]}',
          tell: [
            updated('a:1'),
            updated('a:2'),
            ['notify_url_elicitation_completed', '{"elicitationId":"e"}'],
          ],
        },
      ],
      read_resource: [],
    }),
  )
  const { send, next } = await bridge([{ url: '/h', plugin, contract: 'hyper-mcp' }])
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  }
  send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  expect(await next()).toMatchObject({ result: { capabilities: { resources: { subscribe: true } } } })
  const subscribe = (id: number, method: string, params: object) =>
    send({ jsonrpc: '2.0', id, method, params })
  subscribe(1, 'resources/subscribe', { uri: 'a:1' })
  subscribe(2, 'resources/subscribe', { uri: 'a:2' })
  for (const id of [1, 2]) expect(await next()).toMatchObject({ id, result: {} })
  const changed = (uri: string) => ({
    jsonrpc: '2.0',
    method: 'notifications/resources/updated',
    params: { uri },
  })
  const done = { method: 'notifications/elicitation/complete', params: { elicitationId: 'e' } }
  send({ jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name: 'save', arguments: {} } })
  const all = [await next(), await next(), await next(), await next()] // in an order that is not known
  expect(all).toEqual(expect.arrayContaining([changed('a:1'), changed('a:2'), { jsonrpc: '2.0', ...done }]))
  expect(all).toContainEqual(expect.objectContaining({ id: 3 }))
  subscribe(4, 'resources/unsubscribe', { uri: 'a:1' })
  expect(await next()).toMatchObject({ id: 4, result: {} })
  subscribe(5, 'resources/subscribe', { uri: 7 })
  expect(await next()).toMatchObject({ id: 5, error: { code: -32_602 } })
})

test('a tool of a batch cannot ask, because its answer is one array', async () => {
  const plugin = guestBytes(
    cannedGuest({ erase: [{ when: '', output: QUESTION, ask: ['create_elicitation'] }] }),
  )
  const { send, next } = await bridge([{ url: '/erase', plugin, engine: 'inline' }])
  const params = {
    protocolVersion: '2025-03-26',
    capabilities: ASKABLE,
    clientInfo: { name: 'test', version: '1' },
  }
  send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  await next()
  const erase = { name: 'erase', arguments: { input: 'x' } }
  send([{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: erase }])
  expect(await next()).toMatchObject([{ id: 1, result: { isError: true } }])
})

test('a client that has not begun a session cannot subscribe to resources', async () => {
  const { send, next } = await bridge([{ url: '/a', plugin: guest('echo') }])
  send({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { _meta: meta, uri: 'a:1' } })
  expect(await next()).toMatchObject({ id: 1, error: {} })
})
