import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { AUTHORIZED, TOKEN } from '../support/admin.ts'
import { start } from '../support/cli-process.ts'
import { guestBytes } from '../support/guest.ts'

/** Serves lazy plug-ins of a folder. */
async function serve(
  config: object,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-reload-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'v1'))
  const names = ['one', 'two', 'three']
  for (const name of names) writeFileSync(join(folder, `v1/${name}.wasm`), guestOf(name))
  const write = (version: string, options: object) => {
    const plugins = Object.fromEntries(
      names.map((name) => [name, { source: `${version}/${name}.wasm`, load: 'lazy' }]),
    )
    writeFileSync(join(folder, 'c.json'), JSON.stringify({ port: 0, ...options, plugins }))
  }
  write('v1', config)
  const server = start(['--config-file', 'c.json', ...args], env, { cwd: folder })
  const url = await server.listening()
  let changes = 0
  return {
    folder,
    server,
    async reload(version: string, options: object) {
      write(version, options)
      server.kill('SIGHUP')
      await server.logged('"msg":"changed"', ++changes)
    },
    async post(name: string) {
      const response = await fetch(`${url}/${name}`, { method: 'POST', body: name })
      return [response.status, (await response.text()).toLowerCase()]
    },
  }
}

/** Answers in capitals, by a function with locals. */
function guestOf(name: string): Uint8Array {
  const custom = Buffer.from(name)
  return Buffer.concat([guestBytes('upper'), Uint8Array.of(0, custom.length + 1, custom.length, ...custom)])
}

test.each([
  ['the same options', {}],
  ['other options', { defaults: { description: 'another' } }],
])('lazy plug-ins that a reload with %s finds elsewhere are read from there', async (_what, options) => {
  const { folder, reload, post } = await serve({ maxInstances: 1 })
  expect(await post('one')).toEqual([200, 'one'])
  cpSync(join(folder, 'v1'), join(folder, 'v2'), { recursive: true })
  await reload('v2', { maxInstances: 1, ...options })
  rmSync(join(folder, 'v1'), { recursive: true })
  for (const name of ['two', 'one', 'three']) expect(await post(name)).toEqual([200, name])
})

test('lazy plug-ins have the module limits of the last reload', async () => {
  const limited = { moduleLimits: { locals: 0 } }
  const { reload, post } = await serve({})
  expect(await post('one')).toEqual([200, 'one'])
  await reload('v1', { ...limited })
  expect((await post('two'))[0]).toBe(503)
  await reload('v1', {})
  expect(await post('three')).toEqual([200, 'three'])
})

test('a rollback to a lazy plug-in whose file has changed meanwhile takes the module of the state folder', async () => {
  const admin = ['--admin', '127.0.0.1:0', '--state', 'state']
  const { folder, server, post } = await serve({}, admin, { WASM_SERVE_ADMIN_TOKEN: TOKEN })
  const [, api = ''] = /admin listener is on (\S+)/.exec(server.stderr()) ?? []
  const send = (method: string, path: string, body?: Uint8Array) =>
    fetch(`${api}/api/plugins/one${path}`, {
      ...{ method, headers: { ...AUTHORIZED, ...(body && { 'content-type': 'application/wasm' }) } },
      body: body as Uint8Array<ArrayBuffer>,
    })
  expect((await send('PUT', '', guestBytes('trap'))).status).toBe(200)
  expect((await post('one'))[0]).toBe(500)
  writeFileSync(join(folder, 'v1/one.wasm'), guestBytes('count'))
  expect((await send('POST', '/rollback')).status).toBe(200)
  expect(await post('one')).toEqual([200, 'one'])
})
