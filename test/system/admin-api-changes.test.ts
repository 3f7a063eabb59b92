import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { run } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'

const ECHO = guestBytes('echo')
const UPPER = guestBytes('upper')
const sha = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

test('of 100 calls exactly so many as asked for go to the second version, and both are counted', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  const staged = await api('PUT', '/api/plugins/echo?live=false', UPPER)
  expect(staged.body.plugin.versions).toMatchObject([{ percent: 0 }, { percent: 100 }])
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
  const traffic = [
    { digest: sha(ECHO), percent: 93 },
    { digest: sha(UPPER), percent: 7 },
  ]
  const split = await api('PUT', '/api/plugins/echo/traffic', traffic)
  expect(split.body.plugin.versions).toMatchObject([{ percent: 7 }, { percent: 93 }])
  const answers: string[] = []
  for (let call = 0; call < 200; call++) answers.push((await post('/', 'abc'))[1])
  expect(answers.filter((answer) => answer === 'ABC')).toHaveLength(14)
  expect(answers.slice(0, 100).filter((answer) => answer === 'ABC')).toHaveLength(7)
  expect((await api('GET', '/api/plugins/echo')).body.versions).toMatchObject([
    { digest: sha(UPPER), calls: 14, failures: 0 },
    { digest: sha(ECHO), calls: 186, failures: 0 },
  ])
  // The instances of both stay when another share is asked for, and so do the counts.
  const more = [
    { digest: sha(ECHO), percent: 50 },
    { digest: sha(UPPER), percent: 50 },
  ]
  const { body } = await api('PUT', '/api/plugins/echo/traffic', more)
  expect(body).toMatchObject({ change: { kept: 2 }, plugin: { versions: [{ calls: 14 }, { calls: 186 }] } })
  await api('PUT', '/api/plugins/echo/traffic', [{ digest: sha(UPPER), percent: 100 }])
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
})

test('of changes that come at once, none is lost, and of those for one revision, one is made', async () => {
  const { api, post } = await startWithAdmin([guest('echo')])
  const added = await Promise.all(
    Array.from({ length: 8 }, (_, n) => api('POST', '/api/routes', { plugin: 'echo', url: `/r${n}` })),
  )
  expect(added.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 201))
  const revisions = added.map(({ body }) => body.change.revision)
  expect([...revisions].sort((a, b) => a - b)).toEqual([2, 3, 4, 5, 6, 7, 8, 9])
  for (let n = 0; n < 8; n++) expect(await post(`/r${n}`, 'abc')).toEqual([200, 'abc'])
  const tag = (await api('GET', '/api')).headers.get('etag') ?? ''
  const raced = await Promise.all(
    Array.from({ length: 5 }, (_, n) =>
      api('POST', '/api/routes', { plugin: 'echo', url: `/s${n}` }, { 'if-match': tag }),
    ),
  )
  expect(raced.map(({ status }) => status).sort()).toEqual([201, 412, 412, 412, 412])
})

test('a file that changes in the configuration wins over what the API said before', async () => {
  const cwd = temporaryFolder()
  cpSync(guest('echo'), join(cwd, 'plugin.wasm'))
  const { api, post, kill } = await startWithAdmin(['plugin.wasm'], cwd)
  await api('PUT', '/api/plugins/plugin', UPPER)
  await api('POST', '/api/reload')
  expect(await post('/', 'abc')).toEqual([200, 'ABC']) // the file is what it was
  writeFileSync(join(cwd, 'plugin.wasm'), guestBytes('bad-import'))
  kill('SIGHUP')
  const records = async () => (await api('GET', '/api/changes')).body
  await expect.poll(async () => (await records())[0].reason).toBe('SIGHUP')
  expect((await records())[0]).toMatchObject({
    ok: false,
    error: { code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING' },
  })
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
  writeFileSync(join(cwd, 'plugin.wasm'), guestBytes('silent'))
  const { body } = await api('POST', '/api/reload')
  expect(body.change).toMatchObject({
    ok: true,
    warnings: [expect.stringContaining('overrides the admin API')],
  })
  const { versions } = (await api('GET', '/api/plugins/plugin')).body
  expect(versions).toMatchObject([
    { from: 'file', percent: 100 },
    { digest: sha(UPPER) },
    { digest: sha(ECHO) },
  ])
})

test.each([
  ['no JSON', (state: string) => writeFileSync(join(state, 'state.json'), '{')],
  ['another format', (state: string) => writeFileSync(join(state, 'state.json'), '{"format":99}')],
  ['something else', (state: string) => writeFileSync(join(state, 'state.json'), '{"format":1,"plugins":7}')],
  [
    'a digest that leads elsewhere',
    (state: string) => {
      const path = join(state, 'state.json')
      writeFileSync(path, readFileSync(path, 'utf8').replaceAll(sha(UPPER), '../../../etc/passwd'))
    },
  ],
  ['other bytes', (state: string) => writeFileSync(join(state, 'modules', sha(UPPER)), 'x')],
])('a state folder that has %s keeps the server from starting, which says how to go on', async (_, spoil) => {
  const cwd = temporaryFolder()
  const args = [guest('echo'), '--state', 'state']
  const server = await startWithAdmin(args, cwd)
  await server.api('PUT', '/api/plugins/echo', UPPER)
  server.kill('SIGTERM')
  await server.ended
  spoil(join(cwd, 'state'))
  const { code, stderr } = await run([...args, '0'], {}, { cwd })
  expect(code).toBe(2)
  expect(stderr).toContain('move it away')
})

test('modules that no version has any more are removed', async () => {
  const cwd = temporaryFolder()
  const { api } = await startWithAdmin([guest('echo'), '--state', 'state'], cwd)
  await api('PUT', '/api/plugins/echo', UPPER)
  await api('POST', '/api/plugins/echo/rollback')
  const modules = () => readdirSync(join(cwd, 'state', 'modules')).sort()
  expect(modules()).toEqual([sha(ECHO), sha(UPPER)].sort())
  expect((await api('DELETE', `/api/plugins/echo/versions/${sha(UPPER)}`)).status).toBe(200)
  expect(modules()).toEqual([sha(ECHO)])
})

test('a route that is added gets its place from the defaults, and keeps it', async () => {
  const folder = temporaryFolder()
  const configure = (defaults: string) =>
    writeFileSync(
      join(folder, 'wasm-serve.yaml'),
      `defaults: ${defaults}\nroutes: [{ plugin: ${guest('echo')}, url: /echo, method: POST }]\n`,
    )
  configure('{ method: PUT, host: one.example }')
  const { api } = await startWithAdmin([], folder)
  await api('PUT', '/api/plugins/shout', UPPER)
  const added = await api('POST', '/api/routes', { plugin: 'shout', url: '/shout' })
  const { id } = added.body.route
  expect([added.status, added.body.route]).toMatchObject([201, { methods: ['PUT'], host: 'one.example' }])
  configure('{ method: DELETE, host: two.example }')
  expect((await api('POST', '/api/reload')).status).toBe(200)
  const put = await api('PUT', `/api/routes/${id}`, { plugin: 'shout', description: 'loud' })
  expect([put.status, put.body.route]).toMatchObject([200, { id, methods: ['PUT'], host: 'one.example' }])
  expect((await api('DELETE', `/api/routes/${id}`)).status).toBe(200)
  const { body: routes } = await api('GET', '/api/routes')
  expect(routes).toMatchObject([{ url: '/echo' }])
})

test('a download is told who asks only where the configuration has plug-ins from, and has the limit of an upload', async () => {
  const told: unknown[] = []
  const origins = await Promise.all(
    [1, 2].map(async () => {
      const server = createServer(({ url, headers }, response) => {
        if (url === '/more.wasm') told.push(headers.authorization)
        response.end(ECHO)
      })
      onTestFinished(() => void server.close())
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    }),
  )
  const [own = '', other = ''] = origins
  const start = (args: string[]) =>
    startWithAdmin([`${own}/echo.wasm`, '--cache-folder', temporaryFolder(), ...args], undefined, {
      WASM_SERVE_SOURCE_AUTH: 'Bearer secret-of-the-registry',
    })
  const { api } = await start([])
  for (const origin of [own, other])
    expect((await api('PUT', '/api/plugins/more', { source: `${origin}/more.wasm` })).body.plugin.name).toBe(
      'more',
    )
  expect(told).toEqual(['Bearer secret-of-the-registry', undefined])

  const small = await start(['--upload-limit', `${ECHO.length - 1}`])
  const answer = await small.api('PUT', '/api/plugins/more', { source: `${own}/more.wasm` })
  expect([answer.status, answer.body.code]).toEqual([422, 'WASM_SERVE_DOWNLOAD_TOO_LARGE'])
})

test('plug-ins that come and go in a folder are forgotten, but for the last ones', async () => {
  const folder = temporaryFolder()
  const paths = Array.from({ length: 12 }, (_, n) => join(folder, `p${n}.wasm`))
  for (const path of [...paths, join(folder, 'stays.wasm')]) writeFileSync(path, ECHO)
  const { api } = await startWithAdmin([folder])
  expect((await api('GET', '/api/plugins')).body.length).toBe(13)
  for (const path of paths) rmSync(path)
  expect((await api('POST', '/api/reload')).status).toBe(200)
  const { body } = await api('GET', '/api/plugins')
  expect(body.map(({ name }: { name: string }) => name)).toContain('stays')
  expect(body.length).toBe(11)
})
