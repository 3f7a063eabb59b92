import { appendFileSync, copyFileSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Running, run, start } from '../support/cli-process.ts'
import { openFifo, readersOf, readingFunctions } from '../support/fifo.ts'
import { guest } from '../support/guest.ts'

/** The command serves these routes with host functions that read a pipe. */
async function serve(routes: readonly object[], flags: readonly string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'stuck-'))
  const plugin = join(folder, 'relay.wasm')
  const config = join(folder, 'wasm-serve.json')
  copyFileSync(guest('relay'), plugin)
  const configure = (each: readonly object[]) => {
    const common = { plugin: 'relay.wasm', functions: readingFunctions(), workers: 1, timeoutMs: 100 }
    writeFileSync(config, JSON.stringify({ routes: each.map((route) => ({ ...common, ...route })) }))
  }
  configure(routes)
  const server = start(['-c', config, '--port', '0', '--admin', '127.0.0.1:0', ...flags])
  const url = await server.listening()
  const admin = /listener is on (\S+),/.exec(await server.logged(/listener is on (\S+),/))?.[1] ?? ''
  return { server, url, admin, plugin, configure }
}

/** @returns status, and the code of a failure. */
async function post(url: string, body: string): Promise<[status: number, code: string | undefined]> {
  const answer = await fetch(url, { method: 'POST', body })
  const text = await answer.text()
  return [
    answer.status,
    answer.headers.get('content-type')?.includes('problem') ? JSON.parse(text).code : undefined,
  ]
}

async function get(url: string): Promise<[status: number, body: string]> {
  const answer = await fetch(url)
  return [answer.status, await answer.text()]
}

const WELL = [200, undefined]
const LATE = [504, 'WASM_SERVE_DEADLINE_EXCEEDED']
const STUCK = [503, 'WASM_SERVE_THREADS_STUCK']

const OTHER = { url: '/other', workers: 1 }

test('a route with two stuck threads starts no others, says so, and is back when one of them ends', async () => {
  const [first, second] = [openFifo(), openFifo()]
  const { server, url, admin } = await serve([{ url: '/stuck' }, OTHER])
  expect(await post(`${url}/stuck`, first.path)).toEqual(LATE)
  expect(await post(`${url}/stuck`, second.path)).toEqual(LATE)
  for (let call = 0; call < 5; call++) expect(await post(`${url}/stuck`, second.path)).toEqual(STUCK)
  expect(readersOf(server.child.pid, first, second)).toBe(2)
  expect(await post(`${url}/other`, 'well')).toEqual(WELL)
  expect(await get(`${admin}/readyz`)).toEqual([503, expect.stringContaining('/stuck')])
  expect(await get(`${admin}/healthz`)).toEqual([200, expect.anything()]) // it costs its own route only

  second.close()
  while (readersOf(server.child.pid, second) > 0) await new Promise(setImmediate)
  let answer = await post(`${url}/stuck`, 'well')
  while (answer[0] === 503) answer = await post(`${url}/stuck`, 'well')
  expect(answer).toEqual(WELL)
  first.close()
  let ready = await get(`${admin}/readyz`)
  while (ready[0] !== 200) ready = await get(`${admin}/readyz`)
})

test.each([
  ['many threads', { workers: 2, spareWorkers: 4 }],
  ['calls that are tried again', { workers: 1, spareWorkers: 4, idempotent: true }],
])('a route with %s, called one after the other, gets no more than two stuck threads', async (_, options) => {
  const fifo = openFifo()
  const { server, url } = await serve([{ url: '/stuck', ...options }])
  const answers = []
  for (let call = 0; call < 8; call++) answers.push(await post(`${url}/stuck`, fifo.path))
  expect(answers).toEqual([LATE, LATE, ...Array(6).fill(STUCK)])
  expect(readersOf(server.child.pid, fifo)).toBe(2)
})

test('a reload of the same plug-in does not count anew; another plug-in is served', async () => {
  const fifo = openFifo()
  const route = { url: '/stuck' }
  const { server, url, plugin, configure } = await serve([route])
  for (let call = 0; call < 2; call++) expect(await post(`${url}/stuck`, fifo.path)).toEqual(LATE)
  expect(await post(`${url}/stuck`, fifo.path)).toEqual(STUCK)

  configure([{ ...route, timeoutMs: 101 }])
  server.kill('SIGHUP')
  await server.logged('WASM_SERVE_THREADS_STUCK')
  expect(await post(`${url}/stuck`, fifo.path)).toEqual(STUCK)
  expect(readersOf(server.child.pid, fifo)).toBe(2)

  appendFileSync(plugin, Uint8Array.of(0, 2, 1, 0x61)) // a custom section
  server.kill('SIGHUP')
  let answer = await post(`${url}/stuck`, 'well')
  while (answer[0] === 503) answer = await post(`${url}/stuck`, 'well')
  expect(answer).toEqual(WELL)
})

test('a process with four stuck threads drains and ends with 75, and the log names them', async () => {
  const [fifo, other] = [openFifo(), openFifo()]
  const routes = [{ url: '/a' }, { url: '/b' }, { url: '/slow', timeoutMs: 60_000 }]
  const { server, url, admin } = await serve(routes, ['--drain-ms', '1000', '--grace-ms', '20000'])
  const inFlight = post(`${url}/slow`, other.path)
  while (readersOf(server.child.pid, other) === 0) await new Promise(setImmediate)
  for (const path of ['/a', '/b', '/a', '/b']) expect(await post(`${url}${path}`, fifo.path)).toEqual(LATE)
  await server.logged('WASM_SERVE_PROCESS_STUCK')
  expect(await get(`${admin}/readyz`)).toEqual([503, expect.anything()])
  other.close()
  expect(await inFlight).toEqual(WELL)
  const { code, signal, stderr } = await server.ended
  expect([code, signal]).toEqual([75, null])
  const line = lineWith(stderr, 'WASM_SERVE_PROCESS_STUCK')
  expect(line).toMatchObject({
    level: 'error',
    threads: [
      { route: '/a', plugin: 'relay' },
      { route: '/b', plugin: 'relay' },
      { route: '/a', plugin: 'relay' },
      { route: '/b', plugin: 'relay' },
    ],
  })
})

test('a server with stuck threads ends within drain and grace after SIGTERM', async () => {
  const fifo = openFifo()
  const { server, url } = await serve([{ url: '/stuck' }, OTHER], ['--drain-ms', '200', '--grace-ms', '500'])
  for (let call = 0; call < 2; call++) expect(await post(`${url}/stuck`, fifo.path)).toEqual(LATE)
  expect(await post(`${url}/stuck`, fifo.path)).toEqual(STUCK)
  expect(await endMs(server)).toBeLessThan(200 + 500 + END_MS)
})

test('and so it does while calls are stuck that have not met their deadline', async () => {
  const fifo = openFifo()
  const { server, url } = await serve(
    [{ url: '/stuck', timeoutMs: 60_000, workers: 3 }],
    ['--drain-ms', '200', '--grace-ms', '500'],
  )
  const calls = Array.from({ length: 3 }, () => post(`${url}/stuck`, fifo.path))
  while (readersOf(server.child.pid, fifo) < 3) await new Promise(setImmediate)
  expect(await endMs(server)).toBeLessThan(200 + 500 + END_MS)
  expect(await Promise.all(calls)).toEqual(Array(3).fill([503, 'WASM_SERVE_SHUTTING_DOWN']))
})

test('a command whose thread is stuck ends, with 1', async () => {
  const { path } = openFifo()
  const flags = ['--functions', readingFunctions(), '--timeout', '100', '-i', path]
  const { code, signal } = await run(['call', guest('relay'), 'relay', ...flags])
  expect([code, signal]).toEqual([1, null])
})

/** A second beyond drain and grace, and some time for a busy machine. */
const END_MS = 1_000 + 4_000

async function endMs(server: Running): Promise<number> {
  const begun = performance.now()
  server.kill('SIGTERM')
  await server.ended
  return performance.now() - begun
}

function lineWith(text: string, part: string): unknown {
  return JSON.parse(text.split('\n').find((line) => line.includes(part)) ?? 'null')
}
