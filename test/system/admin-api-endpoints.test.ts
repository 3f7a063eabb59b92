import { createHash, generateKeyPairSync } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startWithAdmin, TOKEN, temporaryFolder } from '../support/admin-api.ts'
import { run } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { functions } from '../support/module-bytes.ts'
import { signBytes } from '../support/registry-plugins.ts'
import { open } from '../support/socket.ts'

const ECHO = guestBytes('echo')
const UPPER = guestBytes('upper')
const sha = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

test('it shows what is served', async () => {
  const { api, url } = await startWithAdmin([guest('echo')])
  const overview = { revision: 1, url, state: 'serving', routes: 1, plugins: 1, changed: false }
  expect((await api('GET', '/api')).body).toMatchObject(overview)
  const { body: routes } = await api('GET', '/api/routes')
  expect(routes).toMatchObject([
    {
      url: '/',
      methods: ['POST'],
      plugin: 'echo',
      function: 'echo',
      engine: 'inline',
      from: 'configuration',
    },
  ])
  expect((await api('GET', `/api/routes/${routes[0].id}`)).body).toEqual(routes[0])
  const { body: plugins } = await api('GET', '/api/plugins')
  expect(plugins).toMatchObject([{ name: 'echo', added: false, routes: [routes[0].id], exports: ['echo'] }])
  expect(plugins[0].versions).toMatchObject([
    { digest: sha(ECHO), from: 'file', configured: true, percent: 100, bytes: ECHO.length },
  ])
  expect(plugins[0].imports).toContainEqual({ module: 'extism:host/env', name: 'input_offset' })
})

test('the keys of signers are read once for all uploads, and again by a reload', async () => {
  const folder = temporaryFolder()
  const [own, other] = [1, 2].map(() => generateKeyPairSync('ec', { namedCurve: 'P-256' }))
  if (!own || !other) throw new Error('no keys')
  const writeKey = ({ publicKey }: typeof own) =>
    writeFileSync(join(folder, 'key.pub'), publicKey.export({ type: 'spki', format: 'pem' }))
  writeKey(own)
  writeFileSync(join(folder, 'echo.wasm'), ECHO)
  writeFileSync(join(folder, 'echo.wasm.sigstore.json'), signBytes(ECHO, own.privateKey))
  const { api } = await startWithAdmin(['echo.wasm', '--trust', '*=key.pub'], folder)
  const put = async (signer: typeof own) => {
    const body = { wasm: Buffer.from(UPPER).toString('base64'), bundle: signBytes(UPPER, signer.privateKey) }
    const answer = await api('PUT', '/api/plugins/shout', body)
    return [answer.status, answer.body.code]
  }
  expect(await put(own)).toEqual([201, undefined])
  writeKey(other)
  expect(await put(own)).toEqual([200, undefined])
  writeFileSync(join(folder, 'echo.wasm.sigstore.json'), signBytes(ECHO, other.privateKey))
  expect((await api('POST', '/api/reload')).status).toBe(200)
  expect(await put(own)).toEqual([422, 'WASM_SERVE_SIGNATURE_INVALID'])
  expect(await put(other)).toEqual([200, undefined])
})

test('a plug-in that is added gets routes, and loses them', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  expect(await api('PUT', '/api/plugins/shout', UPPER)).toMatchObject({
    status: 201,
    body: { change: { ok: true, revision: 2 }, plugin: { name: 'shout', added: true, routes: [] } },
  })
  expect((await api('GET', '/api')).body).toMatchObject({ changed: true, plugins: 2, routes: 1 })
  const { status, body } = await api('POST', '/api/routes', {
    plugin: 'shout',
    url: '/shout',
    workers: 1,
  })
  expect([status, body.route]).toMatchObject([201, { plugin: 'shout', engine: 'workers', from: 'api' }])
  expect(await post('/shout', 'abc')).toEqual([200, 'ABC'])
  expect((await api('DELETE', '/api/plugins/shout')).body).toMatchObject({
    code: 'WASM_SERVE_ADMIN_CONFLICT',
  })
  const { id } = body.route
  const put = await api('PUT', `/api/routes/${id}`, { plugin: 'shout', description: 'loud' })
  expect(put.body.route).toMatchObject({ id, engine: 'inline', description: 'loud', url: '/shout' })
  expect((await api('DELETE', `/api/routes/${id}`)).status).toBe(200)
  expect((await post('/shout', 'abc'))[0]).toBe(404)
  expect((await api('DELETE', '/api/plugins/shout')).status).toBe(200)
  expect((await api('GET', '/api/plugins/shout')).status).toBe(404)
  expect((await api('GET', '/api')).body).toMatchObject({ changed: false, plugins: 1, routes: 1 })
})

test('sizes and times of a route may have units, and others are refused', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  const route = { plugin: 'echo', url: '/small', bodyLimit: '1KiB', timeoutMs: '5s', memoryMax: '16MiB' }
  const task = { afterMs: '5s', ttlMs: '1h' }
  const added = await api('POST', '/api/routes', { ...route, tool: { task } })
  expect([added.status, added.body.route?.url]).toEqual([201, '/small'])
  expect(added.body.route.options.tool).toEqual({ task: { afterMs: 5_000, ttlMs: 3_600_000 } })
  expect((await post('/small', 'x'.repeat(1_024)))[0]).toBe(200)
  expect((await post('/small', 'x'.repeat(1_025)))[0]).toBe(413)
  expect(await api('POST', '/api/routes', { plugin: 'echo', url: '/b', timeoutMs: 'soon' })).toMatchObject({
    status: 400,
    body: {
      detail: expect.stringContaining(
        'timeoutMs must be integer: a number of milliseconds, or a time such as "5s"',
      ),
    },
  })
})

test('routes that keep a plug-in from being removed are named: ten of them, and the others are counted', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  const refusal = async () => {
    const { status, body } = await api('DELETE', '/api/plugins/more')
    expect(status).toBe(409)
    return /\((.*?)\)/.exec(body.detail)?.[1]
  }
  await api('PUT', '/api/plugins/more', UPPER)
  const urls = Array.from({ length: 10 }, (_, at) => `/r${at}`)
  for (const url of urls) await api('POST', '/api/routes', { plugin: 'more', url })
  expect(await refusal()).toBe(urls.join(', '))
  await api('POST', '/api/routes', { plugin: 'more', url: '/r10' })
  expect(await refusal()).toBe(`${urls.join(', ')}, and 1 more`)
})

test('a plug-in is replaced, rolled back and split, and goes back to what the configuration says', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  const put = await api('PUT', '/api/plugins/echo', UPPER)
  expect([put.status, put.body.plugin.versions]).toMatchObject([
    200,
    [
      { digest: sha(UPPER), from: 'upload', percent: 100, configured: false },
      { digest: sha(ECHO), from: 'file', percent: 0, configured: true },
    ],
  ])
  expect((await api('GET', '/api')).body).toMatchObject({ changed: true, plugins: 1 })
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  expect((await api('POST', '/api/plugins/echo/rollback')).status).toBe(200)
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
  expect((await api('POST', '/api/plugins/echo/rollback')).body).toMatchObject({
    code: 'WASM_SERVE_ADMIN_CONFLICT', // there is no earlier one
  })
  await api('POST', '/api/plugins/echo/rollback', { digest: sha(UPPER) })
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  expect((await api('DELETE', '/api/changes')).status).toBe(200)
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
  expect((await api('GET', '/api')).body).toMatchObject({ changed: false })
})

test.each([
  ['no percents that make 100', [{ digest: sha(ECHO), percent: 99 }], 400],
  ['none', [], 400],
  ['three', Array.from({ length: 3 }, () => ({ digest: sha(ECHO), percent: 50 })), 400],
  ['the same twice', Array.from({ length: 2 }, () => ({ digest: sha(ECHO), percent: 50 })), 400],
  ['half a percent', [{ digest: sha(ECHO), percent: 99.5 }], 400],
  ['a negative one', [{ digest: sha(ECHO), percent: -100 }], 400],
  ['an unknown digest', [{ digest: 'a'.repeat(64), percent: 100 }], 404],
  ['no digest', [{ digest: '../../x', percent: 100 }], 400],
])('traffic that is shared by %s is refused', async (_, traffic, status) => {
  const { api, post } = await startWithAdmin([guest('echo')])
  expect((await api('PUT', '/api/plugins/echo/traffic', traffic)).status).toBe(status)
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
})

test('what cannot be served is refused, and everything stays', { timeout: 60_000 }, async () => {
  const { api, post, adminUrl } = await startWithAdmin([guest('echo'), '--upload-limit', '1KiB'])
  const refused = async (method: string, path: string, body: unknown, status: number, code: string) => {
    const answer = await api(method, path, body)
    expect([method, path, answer.status, answer.body.code]).toEqual([
      method,
      path,
      status,
      `WASM_SERVE_${code}`,
    ])
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
  }
  const half = UPPER.slice(0, 60)
  await refused('PUT', '/api/plugins/echo', half, 422, 'PLUGIN_INVALID')
  await refused('PUT', '/api/plugins/echo?live=false', half, 422, 'PLUGIN_INVALID')
  await refused('PUT', '/api/plugins/new', half, 422, 'PLUGIN_INVALID')
  expect((await api('GET', '/api/changes')).body[0]).toMatchObject({ reason: 'put plug-in new', ok: false })
  await refused('PUT', '/api/plugins/echo', new Uint8Array(0), 400, 'ADMIN_REQUEST_INVALID')
  await refused('PUT', '/api/plugins/echo', new Uint8Array(1025), 413, 'BODY_TOO_LARGE')
  await refused('PUT', '/api/plugins/echo', guestBytes('bad-import'), 422, 'PLUGIN_IMPORT_MISSING')
  await refused('PUT', '/api/plugins/echo', guestBytes('bad-start'), 422, 'INSTANCE_START_FAILED')
  await refused('PUT', '/api/plugins/echo', guestBytes('several'), 422, 'FUNCTION_UNKNOWN')
  await refused('PUT', '/api/plugins/echo', { source: '/etc/passwd' }, 403, 'ADMIN_FORBIDDEN')
  await refused('PUT', '/api/plugins/echo', { source: 'file:///etc/passwd' }, 403, 'ADMIN_FORBIDDEN')
  await refused('PUT', '/api/plugins/echo', { source: 'http://example.com/a.wasm' }, 422, 'SOURCE_INVALID')
  await refused('PUT', '/api/plugins/echo', { path: 'x' }, 400, 'ADMIN_REQUEST_INVALID')
  await refused('PUT', '/api/plugins/echo?live=maybe', UPPER, 400, 'ADMIN_REQUEST_INVALID')
  await refused('PUT', '/api/plugins/echo?constructor=x', UPPER, 400, 'ADMIN_REQUEST_INVALID')
  for (const name of ['..%2F..%2Fetc', '.hidden', 'a%00b', '%20', 'a'.repeat(65), '__proto__'])
    await refused('PUT', `/api/plugins/${name}`, UPPER, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/routes', { plugin: 'echo', url: '/' }, 409, 'ADMIN_CONFLICT')
  await refused('POST', '/api/routes', { plugin: 'nobody', url: '/a' }, 404, 'ADMIN_UNKNOWN')
  await refused('POST', '/api/routes', { plugin: 'constructor', url: '/a' }, 404, 'ADMIN_UNKNOWN')
  await refused('POST', '/api/routes', { url: '/a' }, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/routes', [], 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/routes', undefined, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/routes', UPPER, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/call', undefined, 400, 'ADMIN_REQUEST_INVALID')
  await refused('PUT', '/api/plugins/echo', undefined, 400, 'ADMIN_REQUEST_INVALID')
  await refused('PUT', '/api/plugins/echo/traffic', undefined, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/plugins/echo/rollback', { digest: 1 }, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/plugins/echo/rollback', ECHO, 400, 'ADMIN_REQUEST_INVALID')
  await refused('GET', '/api?a=b', undefined, 400, 'ADMIN_REQUEST_INVALID')
  await refused('POST', '/api/routes', { plugin: 'echo', url: 'a' }, 422, 'OPTIONS_INVALID')
  await refused('POST', '/api/routes', { plugin: 'echo', url: '/a', timout: 1 }, 422, 'OPTIONS_INVALID')
  await refused('POST', '/api/routes', { plugin: 'echo', url: '/a', function: 'b' }, 422, 'FUNCTION_UNKNOWN')
  await refused(
    'POST',
    '/api/routes',
    { plugin: 'echo', url: '/', method: ['POST', 'PUT'] },
    409,
    'MOUNT_CONFLICT',
  )
  await refused(
    'POST',
    '/api/routes',
    { plugin: 'echo', url: '/a', functions: './x.mjs' },
    403,
    'ADMIN_FORBIDDEN',
  )
  await refused(
    'POST',
    '/api/routes',
    { plugin: 'echo', url: '/a', allowedPaths: { '/': '/' } },
    403,
    'ADMIN_FORBIDDEN',
  )
  await refused(
    'POST',
    '/api/routes',
    { plugin: 'echo', url: '/a', links: { a: 'https://example.com/b.wasm' } },
    403,
    'ADMIN_FORBIDDEN',
  )
  await refused('PUT', '/api/plugins/nobody', half, 422, 'PLUGIN_INVALID')
  await refused('PUT', '/api/plugins/echo?live=false', half, 422, 'PLUGIN_INVALID')
  await refused('PUT', '/api/routes/nothing', { plugin: 'echo' }, 404, 'ADMIN_UNKNOWN')
  await refused('DELETE', '/api/routes/nothing', undefined, 404, 'ADMIN_UNKNOWN')
  await refused('DELETE', '/api/plugins/nobody', undefined, 404, 'ADMIN_UNKNOWN')
  await refused('POST', '/api/plugins/echo/rollback', { digest: 'f'.repeat(64) }, 404, 'ADMIN_UNKNOWN')
  await refused('DELETE', `/api/plugins/echo/versions/${sha(ECHO)}`, undefined, 409, 'ADMIN_CONFLICT')
  await refused('DELETE', `/api/plugins/echo/versions/..%2F..`, undefined, 404, 'ADMIN_UNKNOWN')
  const [only] = (await api('GET', '/api/routes')).body
  const last = await api('DELETE', `/api/routes/${only.id}`)
  expect([last.status, last.body.detail]).toEqual([409, expect.stringContaining('at least one route')])
  await refused('DELETE', '/api/plugins/echo?routes=true', undefined, 409, 'ADMIN_CONFLICT')
  const form = await api('PUT', '/api/plugins/echo', UPPER, {
    'content-type': 'application/x-www-form-urlencoded',
  })
  expect([form.status, form.body.detail]).toEqual([400, expect.stringContaining('application/wasm')])
  for (const authorization of ['', 'Bearer wrong-token-wrong-token', 'Basic abc'])
    expect((await fetch(`${adminUrl}/api`, { headers: { authorization } })).status).toBe(401)
  expect((await api('GET', '/api')).body).toMatchObject({
    revision: 1,
    routes: 1,
    plugins: 1,
    changed: false,
  })
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
})

test('the first digits of a digest name a version, and a name that is nearly right is proposed', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  const start = (bytes: Uint8Array) => sha(bytes).slice(0, 12)
  expect((await api('PUT', '/api/plugins/echo', UPPER)).status).toBe(200)
  const shares = [
    { digest: start(UPPER), percent: 90 },
    { digest: start(ECHO), percent: 10 },
  ]
  expect((await api('PUT', '/api/plugins/echo/traffic', shares)).status).toBe(200)
  const back = await api('POST', '/api/plugins/echo/rollback', { digest: start(ECHO) })
  expect(back.body.plugin.versions.find((each: { percent: number }) => each.percent === 100)).toMatchObject({
    digest: sha(ECHO),
  })
  expect((await api('DELETE', `/api/plugins/echo/versions/${start(UPPER)}`)).status).toBe(200)
  const unknown = await api('GET', '/api/plugins/ecko')
  expect([unknown.status, unknown.body.detail]).toEqual([
    404,
    expect.stringContaining('did you mean "echo"?'),
  ])
  const wrong = await api('POST', '/api/routes', { plugin: 'echo', url: '/b', timeout: 5 })
  expect([wrong.status, wrong.body.detail]).toEqual([
    422,
    expect.stringContaining('did you mean "timeoutMs"?'),
  ])
})

test('the description of the API has If-Match for all that changes something, and nowhere else', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  type Operation = { readonly parameters: readonly { readonly name: string; readonly in: string }[] }
  const { paths } = (await api('GET', '/openapi.json')).body as {
    paths: Record<string, Record<string, Operation>>
  }
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters }]) => ({ path, method, parameters })),
  )
  expect(operations.length).toBeGreaterThan(20)
  for (const { path, method, parameters } of operations)
    expect([path, method, parameters.some(({ name }) => name === 'If-Match')]).toEqual([
      path,
      method,
      method !== 'get',
    ])
})

test('calls that are split between other versions in the same shares go to these', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  const versions = [ECHO, UPPER, guestBytes('silent')]
  for (const bytes of versions) expect((await api('PUT', '/api/plugins/echo', bytes)).status).toBe(200)
  const [echo = '', ...others] = versions.map(sha)
  const answers = []
  for (const other of others) {
    const traffic = [echo, other].map((digest) => ({ digest, percent: 50 }))
    expect((await api('PUT', '/api/plugins/echo/traffic', traffic)).status).toBe(200)
    const all = await Promise.all(Array.from({ length: 60 }, () => post('/', 'abc')))
    answers.push([...new Set(all.map(([, body]) => body))].sort())
  }
  expect(answers).toEqual([
    ['ABC', 'abc'],
    ['', 'abc'],
  ])
})

test('the tag of a change is that of what is served after it', async () => {
  const { api } = await startWithAdmin([guest('echo')])
  const tagOf = async (method: string, bytes?: Uint8Array) =>
    (await api(method, '/api/plugins/echo', bytes)).headers.get('etag')
  const before = await tagOf('GET')
  const changed = await tagOf('PUT', UPPER)
  expect(changed).not.toBe(before)
  expect(await tagOf('GET')).toBe(changed)
})

test('lines of a streamed call have the milliseconds since the request', async () => {
  const { adminUrl } = await startWithAdmin([guest('echo')])
  const begun = performance.now()
  const answer = await fetch(`${adminUrl}/api/streams`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: '{"url":"/"}',
  })
  const times = (await answer.text())
    .trim()
    .split('\n')
    .map((line): number => JSON.parse(line).ms)
  const took = performance.now() - begun
  expect(times.length).toBeGreaterThan(1)
  expect(times).toEqual([...times].sort((one, other) => one - other))
  for (const ms of times) expect(ms).toBeLessThanOrEqual(took)
})

test('If-Match refuses what was not meant for what is served now', async () => {
  const { api, adminUrl } = await startWithAdmin([guest('echo')])
  const tag = (await api('GET', '/api/plugins/echo')).headers.get('etag') ?? ''
  const put = (etag: string, bytes: Uint8Array) =>
    api('PUT', '/api/plugins/echo', bytes, { 'if-match': etag })
  expect((await put(tag, UPPER)).status).toBe(200)
  expect(await put(tag, ECHO)).toMatchObject({ status: 412, body: { code: 'WASM_SERVE_REVISION_MISMATCH' } })
  expect((await put('*', ECHO)).status).toBe(200)
  expect((await put('"other", W/"x"', UPPER)).status).toBe(412)
  expect((await put('"other"', UPPER)).status).toBe(412)
  expect((await api('GET', '/api')).body.changes).toEqual({ applied: 2, refused: 3 })
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text()
  expect(metrics).toContain('wasm_serve_reloads_total{result="ok"} 2\n')
  expect(metrics).toContain('wasm_serve_reloads_total{result="refused"} 3\n')
})

test('a plug-in that is removed ends the call that has begun', async () => {
  const { api, url, post } = await startWithAdmin([guest('echo')])
  await api('PUT', '/api/plugins/shout', UPPER)
  await api('POST', '/api/routes', { plugin: 'shout', url: '/shout' })
  const client = await open(Number(new URL(url).port))
  client.send('POST /shout HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n')
  expect((await client.answer())?.status).toBe(100)
  client.send('abc')
  expect((await api('DELETE', '/api/plugins/shout?routes=true')).status).toBe(200)
  expect((await post('/shout', 'abc'))[0]).toBe(404)
  client.send('def')
  expect(await client.answer()).toMatchObject({ status: 200, body: Buffer.from('ABCDEF') })
})

test('a state folder that cannot be written refuses the change, and what is served stays', async () => {
  const cwd = temporaryFolder()
  const { api, post } = await startWithAdmin([guest('echo'), '--state', 'state'], cwd)
  const path = join(cwd, 'state', 'state.json')
  writeFileSync(path, readFileSync(path, 'utf8').replace('"format": 1', '"format": 1 ')) // somebody else's hand
  expect(await api('PUT', '/api/plugins/echo', UPPER)).toMatchObject({
    status: 507,
    body: { code: 'WASM_SERVE_STATE_UNWRITABLE' },
  })
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
})

test('routes that meet are refused with an admin listener too', async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'other'))
  const paths = [join(folder, 'one.wasm'), join(folder, 'other', 'one.wasm')]
  for (const path of paths) writeFileSync(path, ECHO)
  const { code, stderr } = await run([...paths, '--port', '0', '--admin', '127.0.0.1:0'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('Several routes have the same URL')])
})

test('a change that was written is live, whatever else is in the state folder', async () => {
  const state = temporaryFolder()
  const { api, post } = await startWithAdmin([guest('echo'), '--state', state])
  mkdirSync(join(state, 'modules', 'lost+found'), { recursive: true })
  expect((await api('PUT', '/api/plugins/echo', UPPER)).status).toBe(200)
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  expect(readdirSync(join(state, 'modules')).sort()).toEqual([sha(ECHO), sha(UPPER), 'lost+found'].sort())
})

test('a plug-in that asks too much of the compiler is refused, and the API cannot lift the limits', async () => {
  const bomb = functions({ locals: [[20_000, 0x7f]], code: 1 })
  const { api } = await startWithAdmin([guest('echo')])
  const code = 'WASM_SERVE_PLUGIN_TOO_COMPLEX'
  expect((await api('PUT', '/api/plugins/bomb', bomb)).body.code).toBe(code)
  const route = { plugin: 'echo', url: '/b', moduleLimits: { locals: 30_000 } }
  expect((await api('POST', '/api/routes', route)).status).toBe(422)

  const { api: lifted } = await startWithAdmin([guest('echo'), '--module-limit', 'locals=30000'])
  expect((await lifted('PUT', '/api/plugins/bomb', bomb)).status).toBe(201)
})
