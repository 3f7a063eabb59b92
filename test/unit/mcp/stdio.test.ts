import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../../src/index.ts'
import { bridgeStdio } from '../../../src/mcp/stdio.ts'
import { linesOf } from '../../../src/platform/lines.ts'
import { guest } from '../../support/guest.ts'
import { MODERN } from '../../support/mcp.ts'

interface Written {
  readonly id?: unknown
  readonly method?: string
  readonly result?: { readonly content?: unknown; readonly tools?: unknown }
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
