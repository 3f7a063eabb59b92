import { expect, onTestFinished, test } from 'vitest'
import { loadPlugin } from '../../src/index.ts'
import type { Caller } from '../../src/observe/observe.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { directHttp } from '../../src/route/guest-http.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { sdk } from '../../src/runtime/sdk.ts'
import { guest } from '../support/guest.ts'
import { describeGuestHttp, origin, serveFetch } from '../support/guest-http-suite.ts'
import { keepLog, settingsOf } from '../support/instance.ts'
import { open } from '../support/outbound.ts'

const engines = ['workers', ...(suspending ? (['inline'] as const) : [])] as const

for (const engine of engines) describeGuestHttp(engine)

test('a call does not see the response of the call before', async () => {
  const http = {
    isAsync: false,
    send: () => ({ status: 200, headers: Buffer.from('{"secret":"x"}'), body: Buffer.from('x') }),
  }
  const instance = await kernel.open(await loadPlugin(guest('fetch')), { ...settingsOf(), http })
  onTestFinished(() => instance.close())
  const call = (name: string) =>
    Buffer.from(instance.call(name, new Uint8Array(), { log: keepLog() }) as Uint8Array)
  expect(call('fetch').toString()).toBe('1200x')
  expect(call('last').toString()).toBe('2000')
})

test('a call may send 32 requests', async () => {
  let requests = 0
  const url = await origin((_request, response) => response.end(String(++requests)))
  const call = await serveFetch({ allowedHosts: ['127.0.0.1'], timeoutMs: 20_000, httpErrors: 'status' }, [
    'many',
  ])
  expect((await call('many', { url })).body).toMatch(/^1000a call may send at most 32 HTTP requests/)
  expect(requests).toBe(32)
})

test('requests beyond that do not get as far as the host', async () => {
  let requests = 0
  const send = () => {
    requests++
    return { status: 200, headers: undefined, body: Buffer.from('x') }
  }
  const settings = { ...settingsOf(), http: { isAsync: false, send }, httpErrors: 'status' } as const
  const instance = await kernel.open(await loadPlugin(guest('fetch')), settings)
  onTestFinished(() => instance.close())
  for (const sent of [32, 64]) {
    instance.call('many', new Uint8Array(), { log: keepLog() })
    expect(requests).toBe(sent)
  }
})

test('a server that does not answer costs the call, which ends at its deadline, and nothing else', async () => {
  const opened: unknown[] = []
  const url = await origin((request) => opened.push(request))
  const call = await serveFetch({ allowedHosts: ['127.0.0.1'], timeoutMs: 300 }, ['fetch', 'last'])
  const { statusCode, body } = await call('fetch', { url })
  expect(statusCode).toBe(504)
  expect(JSON.parse(body)).toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  expect(opened).toHaveLength(1)
  expect((await call('last')).statusCode).toBe(200)
})

test.each([
  [false, 1],
  [true, 40],
])('on the event loop all requests of a call have one time limit, unless calls are concurrent (%s)', async (areConcurrent, rest) => {
  const url = await origin(() => undefined)
  const http = directHttp(open({ allowedHosts: ['127.0.0.1'] }), areConcurrent, 40)
  const send = async (caller: Caller) => {
    const { status, body } = await http.send(Buffer.from(JSON.stringify({ url })), Buffer.alloc(0), caller)
    return [status, Number(/^WASM_SERVE_OUTBOUND_TIMEOUT: .* within (\d+) ms$/.exec(String(body))?.[1])]
  }
  const caller = { log: keepLog() }
  expect([await send(caller), await send(caller), await send({ ...caller })]).toEqual([
    [0, 40],
    [0, rest],
    [0, 40],
  ])
})

test('without an allowed host a request is refused, and no thread is needed', async () => {
  const call = await serveFetch({ httpErrors: 'status' })
  expect((await call('fetch', { url: 'http://127.0.0.1/' })).body).toMatch(
    /^1000HTTP requests are not allowed/,
  )
})

test.each([
  ['kernel', 'inline'],
  ['kernel', 'workers'],
  ['sdk', 'inline'],
  ['sdk', 'workers'],
] as const)('without an allowed host the guest traps, or finds status 0 if the route says so (%s, %s)', async (runtime, engine) => {
  const route = { runtime, engine, ...(engine === 'workers' && { timeoutMs: 20_000, spareWorkers: 0 }) }
  const status = await serveFetch({ ...route, httpErrors: 'status' }, ['fetch', 'headers'])
  for (const number of [1, 2])
    expect((await status('fetch', { url: 'http://127.0.0.1/' })).body).toMatch(
      new RegExp(`^${number}000HTTP requests are not allowed`),
    )
  expect((await status('headers', { url: 'http://127.0.0.1/' })).body).toMatch(/^1000/) // to the SDK no block is a byte long
  const trap = await serveFetch(route, ['fetch', 'last'])
  const { statusCode, body } = await trap('fetch', { url: 'http://127.0.0.1/' })
  expect([statusCode, JSON.parse(body).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
  expect((await trap('last')).body).toMatch(/^1000/)
})

test.each([kernel, sdk])('the log says why a request trapped ($name)', async (runtime) => {
  const log = keepLog()
  const settings = settingsOf({}, log)
  const plugin = await loadPlugin(guest('fetch'), { runtime: runtime.name })
  const instance = await runtime.open(plugin, settings)
  onTestFinished(() => instance.close())
  const request = Buffer.from('{"url":"http://127.0.0.1/"}')
  const call = async () => instance.call('fetch', new Uint8Array(request), { log })
  await expect(call()).rejects.toMatchObject({
    code: 'WASM_SERVE_GUEST_TRAP',
    cause: {
      reason: expect.stringContaining('HTTP requests are not allowed'),
    },
  })
  expect(log.lines).toEqual([])
})

test('a request beyond the 32nd traps too', async () => {
  const http = { isAsync: false, send: () => ({ status: 200, headers: undefined, body: Buffer.from('x') }) }
  const settings = { ...settingsOf(), http }
  const instance = await kernel.open(await loadPlugin(guest('fetch')), settings)
  onTestFinished(() => instance.close())
  const many = async () => instance.call('many', new Uint8Array(), { log: keepLog() })
  await expect(many()).rejects.toMatchObject({
    cause: { reason: expect.stringContaining('32 HTTP requests') },
  })
})

test.skipIf(suspending)(
  'where guests cannot wait on the event loop, engine inline with a host is refused',
  async () => {
    await expect(serveFetch({ allowedHosts: ['127.0.0.1'], engine: 'inline' })).rejects.toMatchObject({
      code: 'WASM_SERVE_HOST_FUNCTION_ASYNC',
    })
  },
)
