import { createHmac } from 'node:crypto'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
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
    [WRITER, { resources: { listChanged, subscribe: true }, prompts: { listChanged }, completions: {} }],
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
    `Bearer scope="tools:read tools:write", resource_metadata="${metadata}"`,
  ])
  const wrong = await user.modern('tools/list', {}, bearer('abc'))
  expect(wrong.headers.get('www-authenticate')).toBe(
    `Bearer error="invalid_token", scope="tools:read tools:write", resource_metadata="${metadata}"`,
  )
  for (const path of ['/mcp', '']) {
    const found = await fetch(`${user.base}/.well-known/oauth-protected-resource${path}`)
    expect([found.status, found.headers.get('access-control-allow-origin'), await found.json()]).toEqual([
      200,
      '*',
      {
        resource: RESOURCE,
        authorization_servers: ['https://issuer.example'],
        bearer_methods_supported: ['header'],
        scopes_supported: ['tools:read', 'tools:write'],
      },
    ])
  }
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

test.each([
  ['without the option cors', {}],
  ['with it, for other pages', { cors: { origin: ['https://other.example'] } }],
])('a page of mcp.origins may use the endpoint %s, and read why it may not', async (_how, edge) => {
  const origin = 'https://app.example'
  const mcp = { origins: [origin], resource: RESOURCE, authorizationServers: ['https://issuer.example'] }
  const jwt = { secret: SECRET, audience: RESOURCE }
  const user = await serveMcp(routes, mcp, { jwt, ...edge })
  const wanted = { 'access-control-request-method': 'POST' }
  const names = { 'access-control-request-headers': 'authorization,content-type,mcp-param-a' }
  const ask = (headers: Record<string, string>, url = user.url) => fetch(url, { method: 'OPTIONS', headers })
  const preflight = await ask({ origin, ...wanted, ...names })
  const allowed = (headers: Headers, name: string) => headers.get(`access-control-allow-${name}`)
  expect([
    preflight.status,
    ...['origin', 'methods', 'headers'].map((name) => allowed(preflight.headers, name)),
  ]).toEqual([204, origin, 'POST, GET, DELETE', 'authorization,content-type,mcp-param-a'])
  const metadata = `${user.base}/.well-known/oauth-protected-resource/mcp`
  expect(
    allowed((await ask({ origin, 'access-control-request-method': 'GET' }, metadata)).headers, 'origin'),
  ).toBe('*')
  const good = await user.modern('tools/list', {}, { origin, ...bearer(tokenOf({})) })
  expect([good.status, allowed(good.headers, 'origin'), good.headers.get('vary')]).toEqual([
    200,
    origin,
    expect.stringMatching(/origin/i),
  ])
  const refused = await user.modern('tools/list', {}, { origin })
  expect([refused.status, allowed(refused.headers, 'origin')]).toEqual([401, origin])
  expect(refused.headers.get('access-control-expose-headers')).toContain('www-authenticate')
  const strange = { origin: 'https://evil.example' }
  const foreign = [await ask({ ...strange, ...wanted }), await user.modern('tools/list', {}, strange)]
  expect(foreign.map(({ headers }) => allowed(headers, 'origin'))).toEqual([null, null])
  expect(foreign[0]?.status).toBe(403)
})

/** A line of the audit log. */
interface Line {
  readonly msg: string
  readonly client?: string
  readonly outcome: string
}

/** A server whose audit log is kept. */
async function serveAudited(
  mcp: CreateServerOptions['mcp'],
  options: Partial<CreateServerOptions> = {},
): Promise<{ user: McpUser; lines: readonly Line[] }> {
  const lines: Line[] = []
  const write = (text: string) => {
    const line = JSON.parse(text)
    if ('outcome' in line) lines.push(line)
  }
  const app = await createServer(
    { port: 0, stallMs: 0, routes, ...options, mcp: mcp ?? {} },
    pino({ base: null }, { write }),
  )
  onTestFinished(() => app.close())
  return { user: new McpUser(await app.listen()), lines }
}

const read = (
  user: McpUser,
  headers: Record<string, string> = {},
  name = 'read_a',
  args: unknown = { input: 'x' },
) => user.modern('tools/call', { name, arguments: args }, headers)

test('each call has a line in the log, without its arguments or with them, and secrets are removed', async () => {
  const linesOf = async (mcp: CreateServerOptions['mcp']) => {
    const { user, lines } = await serveAudited(mcp, { apiKeys: [READER] })
    const agent = { 'io.modelcontextprotocol/clientInfo': { name: 'me\u001b[2J', version: '1' } }
    const params = { name: 'read_a', arguments: { input: 'secret text' }, _meta: agent }
    await user.modern('tools/call', params, bearer(READER))
    return lines
  }
  const [line] = await linesOf({})
  expect(line).toMatchObject({ tool: 'read_a', outcome: 'ok', address: '127.0.0.1', agent: 'me\\u001b[2J' })
  expect(line).toMatchObject({ client: expect.stringMatching(/^key:[0-9a-f]{12}$/), ms: expect.any(Number) })
  expect(JSON.stringify(line)).not.toContain('secret text')
  expect(await linesOf({ audit: 'arguments' })).toMatchObject([{ arguments: '{"input":"secret text"}' }])
  const redacted = await linesOf({ audit: 'arguments', redactArguments: ['INPUT'] })
  expect(redacted).toMatchObject([{ arguments: '{"input":"(redacted)"}' }])
  expect(await linesOf({ audit: 'off' })).toEqual([])
})

test('calls that are refused have a line, which tells what is forbidden from what is unknown', async () => {
  const { user, lines } = await serveAudited(KEYED, { apiKeys: [READER, WRITER] })
  const reader = bearer(READER)
  await read(user, reader, 'write_a')
  await read(user, reader, 'nothing')
  await read(user, reader, 'read_a', 'no object')
  await read(user, { ...reader, 'mcp-name': 'read_b' })
  await user.legacy('tools/call', { name: 'read_a' }, '1999-01-01') // without the key: refused before the endpoint
  await user.send([{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'write_b' } }], {
    ...reader,
    'user-agent': 'agent/1',
  })
  const refused = { msg: 'tool called', client: expect.stringMatching(/^key:/), outcome: 'refused' }
  expect(lines).toMatchObject([
    { ...refused, tool: 'write_a', code: '-32602', reason: expect.stringContaining('mcp.access') },
    { ...refused, tool: 'nothing', code: '-32602', reason: 'Unknown tool: nothing' },
    { ...refused, tool: 'read_a', code: '-32602', reason: expect.stringContaining('object') },
    { ...refused, tool: 'read_a', code: '-32020', reason: expect.stringContaining('Mcp-Name') },
    { ...refused, tool: 'write_b', code: '-32602', agent: 'agent/1' },
  ])
})

test('what is asked of a plug-in besides tools has a line, too', async () => {
  const plugin = guestBytes(hyperGuest())
  const route: RouteOptions = { url: '/hyper', plugin, contract: 'hyper-mcp', engine: 'inline' }
  const { user, lines } = await serveAudited(KEYED, { apiKeys: [READER, WRITER], routes: [route] })
  const uri = 'test://nowhere'
  await user.modern('resources/read', { uri: 'test://static-text' }, bearer(WRITER))
  await user.modern('resources/read', { uri }, bearer(WRITER))
  await user.modern('resources/read', { uri }, bearer(READER))
  await user.modern('prompts/get', { name: 'none' }, bearer(WRITER))
  const ref = { type: 'ref/prompt', name: 'none' }
  await user.modern('completion/complete', { ref, argument: {} }, bearer(WRITER))
  expect(lines).toMatchObject([
    { msg: 'resource read', resource: 'test://static-text', outcome: 'ok' },
    { msg: 'resource read', resource: uri, outcome: 'refused', reason: 'Resource not found' },
    { msg: 'resource read', resource: uri, outcome: 'refused', code: '-32601' },
    { msg: 'prompt read', prompt: 'none', outcome: 'refused' },
    { msg: 'text completed', ref: JSON.stringify(ref), outcome: 'refused' },
  ])
})

/** The statuses of calls with these headers, one after the other. */
async function statuses(user: McpUser, all: readonly Record<string, string>[]): Promise<number[]> {
  const found: number[] = []
  for (const headers of all) found.push((await read(user, headers)).status)
  return found
}

const rateLimit = { max: 3, timeWindowMs: 600_000 }

test('a client is the key that the server knows, whatever it sends besides', async () => {
  const { user, lines } = await serveAudited({ rateLimit }, { apiKeys: [READER, WRITER] })
  const [made, up] = [bearer('made-up-0123456789'), { 'x-api-key': 'made-up-0123456789' }]
  const both = { ...bearer(WRITER), 'x-api-key': READER }
  const all = [{ ...made, 'x-api-key': READER }, { ...up, ...bearer(READER) }, both, bearer(READER), both]
  expect(await statuses(user, all)).toEqual([200, 200, 200, 429, 429])
  expect(await statuses(user, [bearer(WRITER)])).toEqual([200])
  expect(lines.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok', 'refused', 'ok'])
  const [first, ...others] = lines.map(({ client }) => client)
  expect(others).toEqual([first, first, first, expect.not.stringMatching(first ?? '')])
})

test('without keys of the server, a client is its address, of which IPv6 clients have many', async () => {
  const { user, lines } = await serveAudited({ rateLimit }, { trustProxy: ['loopback'] })
  const from = (address: string) => ({ 'x-forwarded-for': address })
  const made = [0, 1, 2, 3].map((name) => bearer(`made-up-0123456789-${name}`))
  expect(await statuses(user, made)).toEqual([200, 200, 200, 429])
  const [one, other] = [from('2001:db8::1'), from('2001:db8:0:0:ffff::2')]
  expect(await statuses(user, [one, other, one, other, from('2001:db8:0:1::1')])).toEqual([
    200, 200, 200, 429, 200,
  ])
  expect(await statuses(user, [from('::ffff:192.0.2.1'), from('192.0.2.1')])).toEqual([200, 200])
  expect(lines.every(({ client }) => client === undefined)).toBe(true)
})

test('of a proxy that is not trusted, a client stays who it is', async () => {
  const { user } = await serveAudited({ rateLimit })
  const all = [1, 2, 3, 4].map((each) => ({ 'x-forwarded-for': `192.0.2.${each}` }))
  expect(await statuses(user, all)).toEqual([200, 200, 200, 429])
})

test('a token is the subject of its issuer, not of another one, and no key', async () => {
  const { user, lines } = await serveAudited(
    { rateLimit: { ...rateLimit, max: 1 } },
    { jwt: { secret: SECRET } },
  )
  const token = (claims: object) => bearer(tokenOf(claims))
  const key = { 'x-api-key': READER }
  const all = [
    token({ iss: 'https://a.example' }),
    token({ iss: 'https://b.example' }),
    token({}),
    token({ iss: 'https://a.example', jti: 'another', scope: 'a' }),
    { ...token({ iss: 'https://a.example' }), ...key },
    token({ sub: 'key:0123456789ab' }),
    token({ sub: undefined }),
    { ...token({ sub: undefined }), ...key },
  ]
  expect(await statuses(user, all)).toEqual([200, 200, 200, 429, 429, 200, 200, 429])
  expect(lines.filter(({ outcome }) => outcome === 'ok')).toMatchObject([
    { client: 'sub:ada', issuer: 'https://a.example' },
    { client: 'sub:ada', issuer: 'https://b.example' },
    { client: 'sub:ada' },
    { client: 'sub:key:0123456789ab' },
    { address: '127.0.0.1' },
  ])
})

test('messages are limited per key, each message of a batch counts, and one line of the window says so', async () => {
  const { user, lines } = await serveAudited({ rateLimit }, { apiKeys: [READER, WRITER] })
  expect(
    await statuses(
      user,
      [1, 2, 3, 4, 5].map(() => bearer(READER)),
    ),
  ).toEqual([200, 200, 200, 429, 429])
  const refused = await user.modern('tools/list', {}, bearer(READER))
  expect(refused).toMatchObject({
    status: 429,
    body: { error: { data: { code: 'WASM_SERVE_RATE_LIMITED' } } },
  })
  const wait = Number(refused.headers.get('retry-after'))
  expect(wait).toBeGreaterThan(500)
  expect(wait).toBeLessThanOrEqual(rateLimit.timeWindowMs / 1_000)
  expect(lines.filter(({ outcome }) => outcome === 'refused')).toMatchObject([
    { msg: 'messages refused', code: 'WASM_SERVE_RATE_LIMITED', client: expect.stringMatching(/^key:/) },
  ])
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  expect((await user.send([ping, ping, ping, ping], bearer(WRITER))).status).toBe(429)
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

test('a call that becomes a task has a line when it begins, and one when it ends', async () => {
  const tool = { task: {} }
  const { user, lines } = await serveAudited({}, { routes: routes.map((route) => ({ ...route, tool })) })
  const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
  const _meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
  await user.modern('tools/call', { name: 'read_a', arguments: { input: 'x' }, _meta })
  await expect.poll(() => lines.map(({ outcome }) => outcome).sort()).toEqual(['ok', 'task'])
})
