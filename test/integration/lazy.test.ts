import { writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type CreateServerOptions, createServer, type RouteOptions } from '../../src/index.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

/** A server of lazy routes, closed when the test ends. @returns what posts a text to a route. */
async function serveLazy(routes: RouteOptions[], options: Partial<CreateServerOptions> = {}) {
  const lazy = routes.map((route) => ({ load: 'lazy' as const, ...route }))
  const app = await createServer({ logLevel: 'silent', port: 0, stallMs: 0, ...options, routes: lazy })
  onTestFinished(() => app.close())
  return async (url: string, payload: string) => {
    const { statusCode, body } = await app.inject({ method: 'POST', url, payload })
    return statusCode === 200 ? body : { status: statusCode, ...JSON.parse(body) }
  }
}

test('a lazy route answers its first call and all others, with every engine', async () => {
  const post = await serveLazy([
    { url: '/inline', plugin: guest('upper') },
    { url: '/fresh', plugin: guest('upper'), isolation: 'fresh' },
    { url: '/workers', plugin: guest('upper'), workers: 1 },
    { url: '/bytes', plugin: guestBytes('upper') },
  ])
  for (const url of ['/inline', '/fresh', '/workers', '/bytes']) {
    const answers = await Promise.all(['a', 'b', 'c'].map((text) => post(url, text)))
    expect(answers).toEqual(['A', 'B', 'C'])
  }
})

test('linked modules are loaded with the plug-in', async () => {
  const library = file('library.wasm', guestBytes('(module (func (export "five") (result i32) i32.const 0))'))
  const main = file(
    'main.wasm',
    guestBytes(
      '(module (import "library" "five" (func $five (result i32))) (func (export "run") (result i32) (call $five)))',
    ),
  )
  const post = await serveLazy([{ plugin: main, links: { library } }])
  expect(await post('/', '')).toBe('')
})

test('a mistake in the code is found by the first call, which is told, and so are the next ones', async () => {
  const broken = file('broken.wasm', brokenCode())
  const post = await serveLazy([
    { url: '/broken', plugin: broken },
    { url: '/upper', plugin: guest('upper') },
  ])
  for (let i = 0; i < 2; i++) {
    expect(await post('/broken', '')).toMatchObject({
      status: 503,
      code: 'WASM_SERVE_INSTANCE_START_FAILED',
      detail: expect.stringContaining('broken cannot be started'),
    })
  }
  expect(await post('/upper', 'a')).toBe('A')
})

test('a mistake outside of the code is found at the start', async () => {
  await expect(serveLazy([{ plugin: guest('upper'), function: 'lower' }])).rejects.toMatchObject({
    code: 'WASM_SERVE_FUNCTION_UNKNOWN',
  })
  const text = file('text.wasm', 'not a module')
  await expect(serveLazy([{ plugin: text }])).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
})

test('a start that does not return ends in its trial, and the others are answered', async () => {
  const post = await serveLazy([
    { url: '/loop', plugin: guest('start-loop'), startTimeoutMs: 200 },
    { url: '/upper', plugin: guest('upper') },
  ])
  const loop = post('/loop', '')
  expect(await post('/upper', 'a')).toBe('A')
  expect(await loop).toMatchObject({ status: 503, code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})

test.each([
  [0, '(i32.store (i32.const 0) (i32.const 1))'],
  [1, '(loop (br_if 0 (i32.const 0)))'],
])('%i threads try a start with the code %s', async (threads, code) => {
  const plugin = guestBytes(
    `(module (memory 1) (func (export "_initialize") ${code}) (func (export "run") (result i32) i32.const 0))`,
  )
  const posts = vi.spyOn(Worker.prototype, 'postMessage')
  onTestFinished(() => posts.mockRestore())
  const post = await serveLazy([{ plugin }])
  expect(await post('/', '')).toBe('')
  const trials = posts.mock.calls.filter(([message]) => Object.hasOwn(message, 'threadState'))
  expect(trials).toHaveLength(threads)
})

test('a file that has changed since the start is not run, and the answer does not tell its path', async () => {
  const plugin = file('changing.wasm', guestBytes('upper'))
  const post = await serveLazy([{ plugin }])
  writeFileSync(plugin, guestBytes('echo'))
  const answer = await post('/', 'a')
  expect(answer).toMatchObject({
    status: 503,
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
    detail: expect.stringContaining('its file has changed since the start'),
  })
  expect(JSON.stringify(answer)).not.toContain(dirname(plugin))
})

test('with a limit on instances every plug-in is served, and those without `load: lazy` keep their memory', async () => {
  const count = { plugin: guest('count'), function: 'count' }
  const routes = ['/a', '/b', '/c'].map((url) => ({ ...count, url, sleep: true }))
  const post = await serveLazy([...routes, { ...count, url: '/kept', load: 'eager' }], { maxInstances: 1 })
  expect(await post('/kept', '')).toBe('1')
  for (const url of ['/a', '/b', '/c', '/a', '/b', '/c']) expect(await post(url, '')).toBe('1')
  expect(await post('/c', '')).toBe('2')
  expect(await post('/kept', '')).toBe('2')
})

test('an instance that is not used for some time is closed, unless that loses its memory', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const count = { plugin: guest('count'), function: 'count' }
  const routes = [
    { ...count, url: '/kept' },
    { ...count, url: '/sleeps', sleep: true },
  ]
  const post = await serveLazy(routes, { idleMs: 1_000 })
  const both = async () => [await post('/kept', ''), await post('/sleeps', '')]
  expect([await both(), await both()]).toEqual([
    ['1', '1'],
    ['2', '2'],
  ])
  vi.advanceTimersByTime(2_000)
  expect(await both()).toEqual(['3', '1'])
})

test('where there are too many, the instance that was not used for longest loses its memory', async () => {
  const count = { plugin: guest('count'), function: 'count' }
  const routes = ['/a', '/b', '/c'].map((url) => ({ ...count, url }))
  const post = await serveLazy(routes, { maxInstances: 2 })
  expect([await post('/a', ''), await post('/b', ''), await post('/a', '')]).toEqual(['1', '1', '2'])
  expect([await post('/c', ''), await post('/a', ''), await post('/b', '')]).toEqual(['1', '3', '1'])
})

test('calls wait while all instances are in use, and more plug-ins than instances are all answered', async () => {
  const urls = Array.from({ length: 12 }, (_, index) => `/${index}`)
  const post = await serveLazy(
    urls.map((url) => ({ plugin: guest('upper'), url })),
    { maxInstances: 5 },
  )
  const calls = urls.flatMap((url) =>
    Array.from({ length: 4 }, (_, call) => [url, `x${url}-${call}`] as const),
  )
  const answers = await Promise.all(calls.map(([url, text]) => post(url, text)))
  expect(answers).toEqual(calls.map(([, text]) => text.toUpperCase()))
})

test('processes load their plug-ins at the start', async () => {
  await expect(serveLazy([{ plugin: guest('upper'), engine: 'subprocess' }])).rejects.toThrow(
    'load: must be auto or eager',
  )
})

test.each([
  ['keep their memory', {}, 3, 1],
  ['keep their memory, in threads', { workers: 1, spareWorkers: 1 }, 7, 1],
  ['may be closed', { sleep: true }, 3, 0],
  ['are new for each call', { isolation: 'fresh' }, 3, 0],
  ['all have room', {}, 4, 0],
] as const)('the start warns by name of plug-ins that %s', async (_what, route, maxInstances, warnings) => {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const routes = ['/a', '/b', '/c', '/d'].map((url) => ({
    plugin: guest('upper'),
    load: 'lazy' as const,
    url,
    ...route,
  }))
  const app = await createServer({ stallMs: 0, maxInstances, routes }, log)
  onTestFinished(() => app.close())
  expect(lines).toHaveLength(warnings)
  for (const line of lines) expect(line).toMatchObject({ plugins: ['upper'], routes: 4, maxInstances })
})

/** A module whose header and sections are right, but not its code. */
function brokenCode(): Uint8Array {
  const bytes = Buffer.from(guestBytes('(module (func (export "run") (result i32) i32.const 0))'))
  bytes[bytes.indexOf(Buffer.from([0x41, 0, 0x0b]))] = 0x6a // i32.add, without operands
  return bytes
}
