import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { temporaryFolder } from '../support/admin-api.ts'
import { CLI, start } from '../support/cli-process.ts'
import { openCollector } from '../support/collector.ts'
import { startNode } from '../support/fleet/node-process.ts'
import { guestBytes } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { freePort, startRedis } from '../support/redis.ts'
import { newFolder } from '../support/stores.ts'
import { describeWith } from '../support/tools.ts'

/** A config with two plug-ins whose files have the same name and bytes. */
function twoTenants(bytes: Uint8Array, more: object = {}): string {
  const folder = temporaryFolder()
  for (const tenant of ['a', 'b']) {
    mkdirSync(join(folder, tenant))
    writeFileSync(join(folder, tenant, 'plugin.wasm'), bytes)
  }
  const plugins = { one: { source: 'a/plugin.wasm' }, two: { source: 'b/plugin.wasm' } }
  writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify({ port: 0, plugins, ...more }))
  return folder
}

const post = async (url: string, body: string) => {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()] as const
}

/** What one stores, it reads, and two does not. */
async function expectApart(url: string): Promise<void> {
  expect(await post(`${url}/one/set`, 'greetingHello')).toEqual([200, ''])
  expect(await post(`${url}/one/get`, 'greeting')).toEqual([200, 'Hello'])
  expect(await post(`${url}/two/get`, 'greeting')).toEqual([409, expect.stringMatching(/returned -1/)])
}

const ENGINES = [
  ['serving processes', ['--processes', '2']],
  ['threads', ['--workers', '2']],
  ['processes for guests', ['--engine', 'subprocess']],
] as const

test.each(
  ENGINES,
)('plug-ins in files of one name have keys of their own in lmdb, with %s', async (_, flags) => {
  const cwd = twoTenants(kvGuest('get', 'set'), { store: `lmdb:${newFolder()}` })
  await expectApart(await start([...flags], {}, { cwd }).listening())
})

describeWith(['redis-server'], () => {
  test.each(
    ENGINES,
  )('plug-ins in files of one name have keys of their own in Redis, with %s', async (_, flags) => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = `redis://127.0.0.1:${redis.port}`
    const cwd = twoTenants(kvGuest('get', 'set'), { store })
    await expectApart(await start([...flags], {}, { cwd }).listening())
  })

  test('plug-ins in files of one name have keys of their own on all nodes of a fleet', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = `redis://127.0.0.1:${redis.port}`
    const cwd = twoTenants(kvGuest('get', 'set'))
    const launch = async (node: string, args: readonly string[]) => {
      const ports = { port: await freePort(), adminPort: await freePort() }
      const started = startNode({ store, node, ...ports, args: [...args, '--store', store], cwd })
      onTestFinished(() => void started.child.kill('SIGKILL'))
      await started.listening
      return started
    }
    const first = await launch('a', ['-c', 'wasm-serve.json'])
    await expectApart(first.url)
    const second = await launch('b', ['--log-level', 'info'])
    expect(await post(`${second.url}/one/get`, 'greeting')).toEqual([200, 'Hello'])
    expect(await post(`${second.url}/two/get`, 'greeting')).toEqual([
      409,
      expect.stringMatching(/returned -1/),
    ])
  })
})

test('spans of plug-ins in files of one name have their own names', async () => {
  const collector = await openCollector()
  const cwd = twoTenants(guestBytes('echo'), { otel: true })
  const server = start(
    [],
    { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
    { cwd },
  )
  const url = await server.listening()
  for (const name of ['one', 'two', 'two']) await post(`${url}/${name}`, 'x')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
  const calls = collector.spans.filter(({ name }) => name.endsWith(' echo'))
  expect(calls.map(({ name, attributes }) => [name, attributes['wasm_serve.plugin']]).sort()).toEqual([
    ['one echo', 'one'],
    ['two echo', 'two'],
    ['two echo', 'two'],
  ])
})

test('a rename that is killed has moved all keys or none', async () => {
  const folder = newFolder()
  const keys = Array.from({ length: 5_000 }, (_, i) => `key ${i}`)
  const filled = await openLmdbStore({ folder })
  await Promise.all(keys.map((key) => filled.set('one', key, Buffer.alloc(1_000, key))))
  await filled.close()
  let [from, to] = ['one', 'two']
  for (const ms of [300, 350, 400, 450, 500, 600]) {
    const child = spawn(process.execPath, [CLI, 'store', 'rename', from, to, `lmdb:${folder}`])
    await Promise.race([once(child, 'exit'), sleep(ms)])
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    const store = await openLmdbStore({ folder })
    const counts = new Map<string, number>()
    for await (const entry of store.entries()) {
      if ('fault' in entry) throw new Error(entry.fault)
      counts.set(entry.namespace, (counts.get(entry.namespace) ?? 0) + 1)
    }
    await store.close()
    expect([...counts.values()]).toEqual([keys.length])
    if (counts.has(to)) [from, to] = [to, from]
  }
})
