import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { DesiredState } from '../../src/deploy/desired-state.ts'
import { toVersion, withPlugins, withRoute, withVersion } from '../../src/deploy/edits.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import { startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { changing, deploying } from '../support/change.ts'
import { guest, guestBytes } from '../support/guest.ts'

const ECHO: RouteOptions = { plugin: guest('echo') }
const UPPER: RouteOptions = { plugin: guest('upper') }

let made = 0

/** A plug-in with bytes that nothing else has: equal ones would not be compiled again. It answers how often it was called. */
function newGuest(): Uint8Array {
  return guestBytes(`(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (global $calls (mut i32) (i32.const 48))
    (global $own i32 (i32.const ${made++}))
    (func (export "count") (result i32) (local $at i64)
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (local.set $at (call $alloc (i64.const 1)))
      (call $store_u8 (local.get $at) (global.get $calls))
      (call $output_set (local.get $at) (i64.const 1))
      (i32.const 0)))`)
}

/** How many modules threads are asked to compile meanwhile. */
function countCompiled(): () => number {
  const sent = vi.spyOn(Worker.prototype, 'postMessage')
  onTestFinished(() => sent.mockRestore())
  return () => sent.mock.calls.filter(([message]) => typeof message === 'object' && 'job' in message).length
}

/** A folder with a config file, and two plug-ins that have routes at their names. */
async function startTwo() {
  const cwd = temporaryFolder()
  for (const name of ['one', 'two']) writeFileSync(join(cwd, `${name}.wasm`), newGuest())
  writeFileSync(
    join(cwd, 'wasm-serve.yaml'),
    'plugins:\n  one: { source: one.wasm }\n  two: { source: two.wasm }\n',
  )
  return { cwd, ...(await startWithAdmin([], cwd)) }
}

test('a reload of many plug-ins warns of nothing', async () => {
  const cwd = temporaryFolder()
  for (let number = 0; number < 12; number++) writeFileSync(join(cwd, `p${number}.wasm`), newGuest())
  const { api } = await startWithAdmin(['.'], cwd)
  for (let number = 0; number < 12; number++) writeFileSync(join(cwd, `p${number}.wasm`), newGuest())
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  expect((await api('POST', '/api/reload')).body).toMatchObject({ change: { ok: true, routes: 12, kept: 0 } })
  expect(warnings).toEqual([])
})

test('a PUT compiles the module once, whatever has it', async () => {
  const { api, post } = await startTwo()
  for (const path of ['/api/plugins/one', '/api/plugins/two?live=false', '/api/plugins/three']) {
    const compiled = countCompiled()
    expect((await api('PUT', path, newGuest())).body.change).toMatchObject({ ok: true })
    expect([path, compiled()]).toEqual([path, 1])
    vi.restoreAllMocks()
  }
  expect(await post('/one', '')).toEqual([200, '1'])
})

test('a PUT reads no other file; only a reload does, and it is shown that what it read is not served', async () => {
  const { api, post, cwd, adminUrl } = await startTwo()
  const behind = async () => {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text()
    const metric = /^wasm_serve_configuration_behind (\d)$/m.exec(metrics)?.[1]
    return [metric, (await api('GET', '/api')).body.behind?.code]
  }
  const places = ['one.wasm', 'two.wasm', 'wasm-serve.yaml'].map((name) => join(cwd, name))
  const contents = places.map((path) => [path, readFileSync(path)] as const)
  for (const path of places) rmSync(path)

  expect((await api('PUT', '/api/plugins/one', newGuest())).status).toBe(200)
  expect((await api('POST', '/api/routes', { plugin: 'two', url: '/more' })).status).toBe(201)
  expect((await api('POST', '/api/plugins/one/rollback')).status).toBe(200)
  expect((await api('DELETE', '/api/changes')).status).toBe(200)
  expect(await post('/one', '')).toEqual([200, '1'])
  expect(await behind()).toEqual(['0', undefined])
  expect((await api('POST', '/api/reload')).status).not.toBe(200)
  expect(await behind()).toEqual(['1', 'WASM_SERVE_USAGE_INVALID'])
  for (const [path, content] of contents) writeFileSync(path, content)
  expect((await api('POST', '/api/reload')).status).toBe(200)
  expect(await behind()).toEqual(['0', undefined])
})

test('a PUT leaves the instances of other routes as they are', async () => {
  const { api, post } = await startTwo()
  expect(await post('/two', '')).toEqual([200, '1'])
  const { body } = await api('PUT', '/api/plugins/one', newGuest())
  expect(body.change).toMatchObject({ ok: true, routes: 2, kept: 1 })
  expect(await post('/two', '')).toEqual([200, '2'])
  await api('POST', '/api/routes', { plugin: 'one', url: '/three' })
  expect(await post('/two', '')).toEqual([200, '3'])
})

/** The state with a plug-in more, and a route of it. */
async function withAdded(now: DesiredState, bytes: Uint8Array) {
  const source = await readSource(bytes)
  const version = toVersion(source, 'upload')
  const modules = new Map(source.modules.map(({ digest, bytes }) => [digest, bytes]))
  const plugin = withVersion({ added: true, versions: [], traffic: [] }, version)
  const traffic = [{ digest: version.digest, percent: 100 }]
  const edits = withRoute(withPlugins(now.edits, [['more', { ...plugin, traffic }]]), 'more', {
    options: { plugin: 'more', url: '/more', method: 'POST' },
  })
  return { desired: { ...now, edits }, modules }
}

const STATE = { admin: '127.0.0.1:0', adminToken: 'a-token-of-32-characters-or-so-12' }

test('what was prepared and aborted has changed nothing, and the next change is made', async () => {
  const { deployments, post } = await changing([ECHO], STATE)
  const before = deployments.current
  const { desired, modules } = await withAdded(before.desired, newGuest())
  const prepared = await deployments.prepare(desired, 'test', { modules })
  expect((await post('/more', '')).status).toBe(404)
  await prepared.abort()
  await prepared.abort()
  expect(deployments.current).toBe(before)
  expect(deployments.log.records).toEqual([])
  expect((await post('/more', '')).status).toBe(404)
  await expect(prepared.commit()).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  expect(await deployments.apply(desired, 'test', { modules })).toMatchObject({ revision: 2 })
  expect(await post('/more', '')).toEqual({ status: 200, body: '1' })
})

test('a second change waits until one that is prepared is committed or aborted', async () => {
  const { deployments, to, post } = await changing([ECHO])
  const order: string[] = []
  const first = await deployments.prepare(to([UPPER]), 'first')
  const second = deployments
    .apply(to([ECHO]), 'second')
    .then(({ revision }) => order.push(`second ${revision}`))
  const gone = new AbortController()
  const impatient = deployments.apply(to([ECHO]), 'impatient', { signal: gone.signal })
  gone.abort(new Error('no more time'))
  await expect(impatient).rejects.toThrow()
  const { revision } = await first.commit()
  order.push(`first ${revision}`)
  expect((await post('/', 'abc')).body).toBe('ABC')
  await second
  expect(order).toEqual(['first 2', 'second 3'])
  expect((await post('/', 'abc')).body).toBe('abc')
})

test('a state that was made from another revision is refused', async () => {
  const { deployments, to } = await changing([ECHO])
  const { desired } = deployments.current
  await deployments.apply(to([UPPER]), 'test')
  const late = deployments.prepare(desired, 'late')
  await expect(late).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  expect(await deployments.apply(deployments.current.desired, 'again')).toMatchObject({ revision: 3 })
})

test('what was prepared cannot be committed when the server ends, and holds nothing up', async () => {
  const { deployments, to } = await changing([ECHO])
  const prepared = await deployments.prepare(to([UPPER]), 'test')
  deployments.refuse()
  await expect(prepared.commit()).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  expect(deployments.current.revision).toBe(1)
})

test('a desired state is plain data, which can come from elsewhere', async () => {
  const { deployments, post } = await changing([ECHO], STATE)
  const { desired, modules } = await withAdded(deployments.current.desired, newGuest())
  await deployments.apply(structuredClone(desired), 'test', { modules })
  expect(await post('/more', '')).toEqual({ status: 200, body: '1' })
  expect(await post('/', 'abc')).toEqual({ status: 200, body: 'abc' })
})

test('what answers a route is the same object until the route changes', async () => {
  const { deployments } = await changing([ECHO, { ...UPPER, url: '/upper' }], STATE)
  const before = deployments.current
  const { desired, modules } = await withAdded(before.desired, newGuest())
  const { served, options } = await deployments.apply(desired, 'test', { modules })
  expect(served).toHaveLength(3)
  expect(served[0]).toBe(before.served[0])
  expect(served[1]).toBe(before.served[1])
  expect(options.routes[0]).toBe(before.options.routes[0])
})

test('deployments that are closed have given back all that they had', async () => {
  const { deployments, to } = await deploying([ECHO])
  await deployments.prepare(to([UPPER]), 'test')
  await deployments.current.app.close()
  await deployments.close()
  await expect(deployments.apply(to([UPPER]), 'test')).rejects.toMatchObject({
    code: 'WASM_SERVE_CHANGE_REFUSED',
  })
})
