import { createHmac } from 'node:crypto'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../src/index.ts'
import { checkServerOptions } from '../../src/options/options.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { hyperGuest } from '../support/hyper-guest.ts'
import { McpUser, serveMcp } from '../support/mcp.ts'

const [READER, WRITER] = ['reader-0123456789', 'writer-0123456789']

const routes: RouteOptions[] = ['/read_a', '/read_b', '/write_a'].map((url) => ({
  ...{ url, plugin: guest('echo'), engine: 'inline' },
}))

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

async function names(user: McpUser, headers: Record<string, string>): Promise<string[]> {
  const { body } = await user.modern('tools/list', {}, headers)
  return body.result.tools.map(({ name }) => name)
}

const KEYED: CreateServerOptions['mcp'] = {
  toolsOnly: true,
  access: [
    { key: READER, tools: ['read_*'] },
    { key: WRITER, tools: ['*'] },
  ],
}

test('a key may use the tools of its rules only, and does not learn of others', async () => {
  const user = await serveMcp(routes, KEYED, { apiKeys: [READER, WRITER] })
  expect(await names(user, bearer(READER))).toEqual(['read_a', 'read_b'])
  expect(await names(user, { 'x-api-key': WRITER })).toEqual(['read_a', 'read_b', 'write_a'])
  const call = (key: string) =>
    user.modern('tools/call', { name: 'write_a', arguments: { input: 'x' } }, bearer(key))
  expect((await call(WRITER)).body.result).toMatchObject({ content: [{ text: 'x' }] })
  const unknown = await user.modern('tools/call', { name: 'nothing' }, bearer(READER))
  expect((await call(READER)).body.error.code).toBe(unknown.body.error.code)
  const { body } = await user.modern('tools/list', {}, bearer(READER))
  expect(body.result).toMatchObject({ cacheScope: 'private' })
  expect((await fetch(`${user.base}/write_a`, { method: 'POST', headers: bearer(WRITER) })).status).toBe(404)
  expect((await user.modern('tools/list', {}, bearer('another-0123456789'))).status).toBe(401)
})

test('a client that may not use prompts and resources is not told that there are any', async () => {
  const plugin = guestBytes(hyperGuest())
  const route: RouteOptions = { url: '/hyper', plugin, contract: 'hyper-mcp', engine: 'inline' }
  const user = await serveMcp([route], KEYED, { apiKeys: [READER, WRITER] })
  const listChanged = true
  for (const [key, others] of [
    [READER, {}],
    [WRITER, { resources: { listChanged }, prompts: { listChanged }, completions: {} }],
  ] as const) {
    const { body } = await user.modern('server/discover', {}, bearer(key))
    expect(body.result.capabilities).toEqual({ tools: { listChanged }, logging: {}, ...others })
    const { status } = await user.modern('prompts/list', {}, bearer(key))
    expect(status).toBe('prompts' in others ? 200 : 404)
  }
  const notifications = { promptsListChanged: true }
  const { events } = await user.modern('subscriptions/listen', { notifications }, bearer(READER))
  expect(events).toMatchObject([{ params: { notifications: {} } }])
})

test('a rule without key and scope is for every client', async () => {
  const rules = [{ tools: ['read_a'] }, { key: WRITER, tools: ['write_a'] }]
  const user = await serveMcp(routes, { toolsOnly: true, access: rules })
  expect(await names(user, {})).toEqual(['read_a'])
  expect(await names(user, bearer(WRITER))).toEqual(['read_a', 'write_a'])
})

const SECRET = 'a secret of thirty-two characters'
const RESOURCE = 'https://tools.example/mcp'

/** A token that expires in an hour. */
function tokenOf(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const exp = Math.floor(Date.now() / 1_000) + 3_600
  const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: 'ada', aud: RESOURCE, exp, ...claims })}`
  return `${text}.${createHmac('sha256', SECRET).update(text).digest('base64url')}`
}

test('a token may use the tools of its scopes, and a client learns where to get one', async () => {
  const mcp: CreateServerOptions['mcp'] = {
    ...{ toolsOnly: true, resource: RESOURCE, authorizationServers: ['https://issuer.example'] },
    access: [
      { scope: 'tools:read', tools: ['read_*'] },
      { scope: 'tools:write', tools: ['write_*'] },
    ],
  }
  const user = await serveMcp(routes, mcp, { jwt: { secret: SECRET, audience: [RESOURCE] } })
  const metadata = `https://tools.example/.well-known/oauth-protected-resource/mcp`
  const none = await user.modern('tools/list')
  expect([none.status, none.headers.get('www-authenticate')]).toEqual([
    401,
    `Bearer resource_metadata="${metadata}"`,
  ])
  const wrong = await user.modern('tools/list', {}, bearer('abc'))
  expect(wrong.headers.get('www-authenticate')).toBe(
    `Bearer error="invalid_token", resource_metadata="${metadata}"`,
  )
  const found = await fetch(`${user.base}/.well-known/oauth-protected-resource/mcp`)
  expect([found.status, await found.json()]).toEqual([
    200,
    {
      resource: RESOURCE,
      authorization_servers: ['https://issuer.example'],
      bearer_methods_supported: ['header'],
      scopes_supported: ['tools:read', 'tools:write'],
    },
  ])
  const reader = bearer(tokenOf({ scope: 'openid tools:read' }))
  expect(await names(user, reader)).toEqual(['read_a', 'read_b'])
  expect(await names(user, bearer(tokenOf({ scp: ['tools:write'] })))).toEqual(['write_a'])
  const refused = await user.modern('tools/call', { name: 'write_a', arguments: { input: 'x' } }, reader)
  expect(refused).toMatchObject({
    status: 403,
    body: { error: { data: { code: 'WASM_SERVE_TOOL_SCOPE_MISSING' } } },
  })
  expect(refused.headers.get('www-authenticate')).toBe(
    `Bearer error="insufficient_scope", scope="tools:write", resource_metadata="${metadata}"`,
  )
})

test('each call has a line in the log, without its arguments or with them, and secrets are removed', async () => {
  const lines = async (mcp: CreateServerOptions['mcp']) => {
    const written: string[] = []
    const log = pino({ base: null }, { write: (line: string) => void written.push(line) })
    const app = await createServer({ port: 0, stallMs: 0, mcp: mcp ?? {}, routes }, log)
    const user = new McpUser(await app.listen())
    const agent = { 'io.modelcontextprotocol/clientInfo': { name: 'me\u001b[2J', version: '1' } }
    const params = { name: 'read_a', arguments: { input: 'secret text' }, _meta: agent }
    await user.modern('tools/call', params, bearer(READER))
    await app.close()
    return written.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'tool called')
  }
  const [line] = await lines({})
  expect(line).toMatchObject({ tool: 'read_a', outcome: 'ok', address: '127.0.0.1', agent: 'me\\u001b[2J' })
  expect(line).toMatchObject({ client: expect.stringMatching(/^key:[0-9a-f]{12}$/), ms: expect.any(Number) })
  expect(JSON.stringify(line)).not.toContain('secret text')
  expect(await lines({ audit: 'arguments' })).toMatchObject([{ arguments: '{"input":"secret text"}' }])
  const redacted = await lines({ audit: 'arguments', redactArguments: ['INPUT'] })
  expect(redacted).toMatchObject([{ arguments: '{"input":"(redacted)"}' }])
  expect(await lines({ audit: 'off' })).toEqual([])
})

test('messages are limited per key, and each message of a batch counts', async () => {
  const user = await serveMcp(routes, { rateLimit: { max: 3, timeWindowMs: 600_000 } })
  const status = async (key: string) => (await user.modern('tools/list', {}, bearer(key))).status
  expect([await status(READER), await status(READER), await status(READER)]).toEqual([200, 200, 200])
  const refused = await user.modern('tools/list', {}, bearer(READER))
  expect(refused).toMatchObject({
    status: 429,
    body: { error: { data: { code: 'WASM_SERVE_RATE_LIMITED' } } },
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(500)
  expect(await status(WRITER)).toBe(200)
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  expect((await user.send([ping, ping, ping, ping])).status).toBe(429)
})

test('rules without effect are found by the check of the options', () => {
  const problem = (mcp: object, more: object = {}) => {
    try {
      checkServerOptions({ routes, mcp, ...more })
    } catch (error) {
      return String((error as Error).message)
    }
    return 'none'
  }
  const access = [{ key: READER, tools: ['a'] }]
  expect(problem({ access })).toContain('mcp.access: needs toolsOnly')
  expect(problem({ access, toolsOnly: true })).toBe('none')
  expect(problem({ access, toolsOnly: true }, { apiKeys: [WRITER] })).toContain('mcp.access[0].key')
  expect(problem({ access: [{ scope: 'a', tools: ['a'] }], toolsOnly: true })).toContain(
    'mcp.access[0].scope',
  )
  expect(problem({ authorizationServers: ['https://a.example'] })).toContain('needs jwt.audience')
})
