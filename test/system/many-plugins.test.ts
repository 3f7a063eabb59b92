import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { AUTHORIZED, TOKEN } from '../support/admin.ts'
import { run, start } from '../support/cli-process.ts'
import { guestBytes, moduleNumber } from '../support/guest.ts'

/** More than are loaded eagerly. */
const COUNT = 1_100

function folderOfMany(count = COUNT): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-lazy-'))
  onTestFinished(() => rmSync(folder, { recursive: true }), 60_000)
  for (let i = 0; i < count; i++) writeFileSync(join(folder, `p${i}.wasm`), moduleNumber(i))
  return folder
}

test('a folder of many plug-ins is served, each with its own answer', async () => {
  const folder = folderOfMany()
  const url = await start([folder, '--port', '0', '--log-level', 'silent']).listening()
  const answers = await Promise.all(
    Array.from({ length: COUNT }, async (_, i) =>
      (await fetch(`${url}/p${i}`, { method: 'POST', body: `${i}` })).text(),
    ),
  )
  expect(answers).toEqual(Array.from({ length: COUNT }, (_, i) => `${i}`))
})

test('each of 20,000 plug-ins answers, although fewer may be open', { timeout: 180_000 }, async () => {
  const count = 20_000
  const url = await start([folderOfMany(count), '--port', '0', '--log-level', 'silent']).listening()
  /** The last ones find their instances closed. */
  const order = Array.from({ length: 7_000 }, (_, call) => ((call % 5_000) * 7_919) % count)
  const wrong: string[] = []
  const client = async () => {
    for (let i = order.pop(); i !== undefined; i = order.pop()) {
      const body = `${order.length}-${i}`
      const text = await (await fetch(`${url}/p${i}`, { method: 'POST', body })).text()
      if (text !== body) wrong.push(text)
    }
  }
  await Promise.all(Array.from({ length: 64 }, client))
  expect(wrong).toEqual([])
})

test('each plug-in answers although the process has addresses for few instances only', async () => {
  const count = 300
  const limited = `ulimit -v ${500 * 2 ** 20} && exec "$@"` // KiB
  const program = ['sh', '-c', limited, 'sh', process.execPath] as const
  const server = start([folderOfMany(count), '--port', '0'], {}, { program })
  const url = await server.listening()
  let next = 0
  const wrong: string[] = []
  const client = async () => {
    for (let i = next++; i < count; i = next++) {
      const text = await (await fetch(`${url}/p${i}`, { method: 'POST', body: `${i}` })).text()
      if (text !== `${i}`) wrong.push(text)
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  expect(wrong).toEqual([])
  expect(server.stderr()).toContain('no addresses left')
  expect(server.stderr()).not.toContain('a plug-in was not loaded')
})

test('each file that is no plug-in keeps many from being served, and is named', async () => {
  const folder = folderOfMany()
  writeFileSync(join(folder, 'text.wasm'), 'no module')
  writeFileSync(join(folder, 'large.wasm'), guestBytes('(module (memory 60000) (func (export "run")))'))
  for (const command of [['check'], []]) {
    const { code, stderr } = await run([...command, folder, '--port', '0', '--log-level', 'silent'])
    expect([code, stderr]).toEqual([2, expect.stringMatching(/ large .*pages.*\n.* text .*text/)])
  }
})

test('check accepts many plug-ins and lists them', async () => {
  const { code, stdout } = await run(['check', folderOfMany()])
  expect([code, stdout.split('\n').filter((line) => line.includes('POST')).length]).toEqual([0, COUNT])
})

test('a change among many plug-ins keeps all of them and is served', async () => {
  const routes = Array.from({ length: COUNT }, (_, i) => ({ url: `/p${i}`, plugin: moduleNumber(i) }))
  const app = await createServer({
    ...{ logLevel: 'silent', port: 0, stallMs: 0, routes },
    ...{ admin: '127.0.0.1:0', adminToken: TOKEN },
  })
  onTestFinished(() => app.close())
  await app.listen()
  const api = async (method: string, path: string, body?: Uint8Array | string) => {
    const type = typeof body === 'string' ? 'application/json' : 'application/wasm'
    const headers = { ...AUTHORIZED, ...(body && { 'content-type': type }) }
    const answer = await fetch(`${app.adminUrl}${path}`, { method, headers, body: body as BodyInit })
    return { status: answer.status, headers: answer.headers, body: await answer.json() }
  }
  const put = await api('PUT', '/api/plugins/new', guestBytes('upper'))
  expect(put).toMatchObject({ status: 201, body: { change: { kept: COUNT } } })
  const route = await api('POST', '/api/routes', JSON.stringify({ plugin: 'new', url: '/new' }))
  expect(route).toMatchObject({ status: 201, body: { change: { kept: COUNT, routes: COUNT + 1 } } })
  const post = async (url: string) => (await app.inject({ method: 'POST', url, payload: 'abc' })).body
  expect([await post('/new'), await post('/p7')]).toEqual(['ABC', 'abc'])
  const pages = ['/api/plugins', '/api/plugins?search=NEW'].map((path) => api('GET', path))
  const [first, found] = await Promise.all(pages)
  expect([first?.body.length, first?.headers.get('x-total-count')]).toEqual([1_000, `${COUNT + 1}`])
  const [, next = ''] = /^<(.+)>; rel="next"$/.exec(first?.headers.get('link') ?? '') ?? []
  expect((await api('GET', next)).body).toHaveLength(COUNT + 1 - 1_000)
  expect(found?.body).toMatchObject([{ name: 'new', routes: [route.body.route.id] }])
})
