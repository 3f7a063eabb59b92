import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { guestBytes } from '../support/guest.ts'
import { McpUser, serveMcp } from '../support/mcp.ts'

/* Streams of clients that wait for changed lists. test/system/mcp-clients.test.ts has reloads. */

const ROUTES = [{ url: '/echo', plugin: guestBytes('echo'), engine: 'inline' as const }]

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'

/** Opens a stream; closed when the test ends. @returns its messages while they arrive, and how to close it. */
async function listen(user: McpUser, notifications: object, headers: Record<string, string> = {}) {
  const closing = new AbortController()
  const body = await user.open('subscriptions/listen', { notifications }, closing.signal, headers)
  onTestFinished(() => closing.abort())
  const lines = createInterface(Readable.from(body).on('error', () => undefined))[Symbol.asyncIterator]()
  const next = async () => {
    for (let line = await lines.next(); !line.done; line = await lines.next())
      if (line.value.startsWith('data: ')) return JSON.parse(line.value.slice(6))
    return undefined
  }
  return { next, close: () => closing.abort() }
}

test('the first message of a stream says which changes the server knows', async () => {
  const user = await serveMcp(ROUTES)
  const found = await user.modern('server/discover')
  expect(found.body.result.capabilities).toEqual({ tools: { listChanged: true }, logging: {} })
  const wanted = { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ['a:b'] }
  const { next } = await listen(user, wanted)
  expect(await next()).toEqual({
    jsonrpc: '2.0',
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { toolsListChanged: true }, _meta: { [SUBSCRIPTION]: expect.any(Number) } },
  })
})

test('a stream without a change to wait for ends at once, and a filter must be one', async () => {
  const user = await serveMcp(ROUTES)
  const ended = await user.modern('subscriptions/listen', { notifications: { promptsListChanged: true } })
  expect(ended.events).toMatchObject([{ params: { notifications: {} } }])
  expect(ended.body.result).toMatchObject({
    resultType: 'complete',
    _meta: { [SUBSCRIPTION]: expect.anything() },
  })
  for (const notifications of [undefined, 7, { toolsListChanged: 'yes' }]) {
    const { body } = await user.modern('subscriptions/listen', { notifications })
    expect(body.error.code).toBe(-32_602)
  }
  const old = await user.legacy('subscriptions/listen', { notifications: { toolsListChanged: true } })
  expect(old.body.error.code).toBe(-32_601)
})

test('a client has a limited number of streams, whatever keys it makes up, and closed ones are not counted', async () => {
  const user = await serveMcp(ROUTES)
  const filter = { toolsListChanged: true }
  const made = Array.from({ length: 100 }, (_, name) => ({ authorization: `Bearer made-up-${name}` }))
  const open = await Promise.all(made.map((headers) => listen(user, filter, headers)))
  await Promise.all(open.map(({ next }) => next()))
  const refused = await user.modern('subscriptions/listen', { notifications: filter })
  expect([refused.status, refused.body.error.data.code]).toEqual([503, 'WASM_SERVE_MCP_STREAMS_FULL'])
  expect((await user.call('echo', { input: 'a' })).content).toEqual([{ type: 'text', text: 'a' }])
  open[0]?.close()
  await expect
    .poll(async () => (await (await listen(user, filter)).next())?.method)
    .toBe('notifications/subscriptions/acknowledged')
})

test('the end of the server ends streams with a result', async () => {
  const app = await createServer({ routes: ROUTES, mcp: {}, port: 0, logLevel: 'silent', stallMs: 0 })
  const { next } = await listen(new McpUser(await app.listen()), { toolsListChanged: true })
  await next()
  const closed = app.close()
  expect(await next()).toMatchObject({ result: { resultType: 'complete' } })
  await closed
})
