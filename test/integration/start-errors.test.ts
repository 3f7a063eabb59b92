import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { changing } from '../support/change.ts'
import { run } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { mount } from '../support/state-suite.ts'

/** Two plug-ins in files of one name. The second does not start, or has no function to call. */
function twoTenants(second: string): string {
  const folder = temporaryFolder()
  for (const [tenant, bytes] of [
    ['a', guestBytes('echo')],
    ['b', guestBytes(second)],
  ] as const) {
    mkdirSync(join(folder, tenant))
    writeFileSync(join(folder, tenant, 'plugin.wasm'), bytes)
  }
  return folder
}

const PLUGINS = `plugins:
  tenant-a: { source: a/plugin.wasm }
  tenant-b:
    source: b/plugin.wasm
`

const ROUTES = `routes:
  - { url: /tenant-a, plugin: a/plugin.wasm }
  - url: /tenant-b
    plugin: b/plugin.wasm
`

const START_FAILED = /\(WASM_SERVE_INSTANCE_START_FAILED\)/

test.each([
  ['of plugins', PLUGINS, 4, 'tenant-b'],
  ['of routes', ROUTES, 4, 'b/plugin'],
])('a start that fails names the route, the plug-in and the line %s', async (_what, config, line, name) => {
  const cwd = twoTenants('bad-start')
  writeFileSync(join(cwd, 'wasm-serve.yaml'), config)
  const { code, stderr } = await run(['--port', '0'], {}, { cwd })
  expect(code).not.toBe(0)
  expect(stderr).toMatch(START_FAILED)
  expect(stderr).toMatch(new RegExp(`wasm-serve\\.yaml:${line}:\\d+: Route POST /tenant-b: Plug-in ${name} `))
  expect(stderr).not.toContain('tenant-a')
})

test('a reload that fails names the route and the line too', async () => {
  const cwd = twoTenants('echo')
  writeFileSync(join(cwd, 'wasm-serve.yaml'), PLUGINS)
  const { api, post } = await startWithAdmin([], cwd)
  writeFileSync(join(cwd, 'b/plugin.wasm'), guestBytes('bad-start'))
  const { body } = await api('POST', '/api/reload')
  expect(body).toMatchObject({
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
    detail: expect.stringMatching(/wasm-serve\.yaml:4:\d+: Route POST \/tenant-b: Plug-in tenant-b /),
  })
  expect(await post('/tenant-b', 'abc')).toEqual([200, 'abc'])
})

test('a plug-in of the command line that does not start is named with its route', async () => {
  const { stderr } = await run([guest('bad-start'), '--port', '0', '--url', '/x'])
  expect(stderr).toMatch(START_FAILED)
  expect(stderr).toContain('Route POST /x: Plug-in bad-start ')
})

test('a failure names its route once, also after a smoke request', async () => {
  const smoke = { body: 'x' }
  const failure = await mount([{ url: '/x', plugin: guest('bad-start'), smoke }]).catch((error) => error)
  expect(failure).toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
  expect(failure.message.match(/Route POST \/x: /g)).toHaveLength(1)
})

test('a route that a program adds is named', async () => {
  const { attempt, to } = await changing([{ url: '/', plugin: guest('echo') }])
  const record = await attempt(to([{ url: '/bad', method: ['PUT', 'PATCH'], plugin: guest('bad-start') }]))
  expect(record.error).toMatchObject({
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
    message: expect.stringContaining('Route PUT,PATCH /bad: Plug-in bad-start '),
  })
})
