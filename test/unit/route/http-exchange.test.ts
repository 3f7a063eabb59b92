import { request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { HttpExchange, type StreamLimits } from '../../../src/route/streams/http-exchange.ts'

const LIMITS: StreamLimits = {
  bodyLimit: 0,
  outputLimit: 0,
  streamBuffer: 65_536,
  streamTimeoutMs: 60_000,
  streamIdleMs: 60_000,
  sseHeartbeatMs: 0,
}

/** Runs a guest's part of an exchange. @returns its result. */
async function exchange<Result>(
  guest: (exchange: HttpExchange) => Promise<Result>,
  limits: Partial<StreamLimits> = {},
): Promise<Result> {
  const app = Fastify()
  onTestFinished(() => app.close())
  return new Promise((resolve, reject) => {
    app.get('/', async (request, reply) => {
      const opened = new HttpExchange(request, reply, { ...LIMITS, ...limits }, 'guest')
      await guest(opened).then(resolve, reject)
      opened.close()
      return ''
    })
    app.inject('/').catch(reject)
  })
}

test('a wait ends after its time, while the client is there', async () => {
  // A wait that lasted as long as the exchange would end with the problem `gone`.
  const limits = { streamTimeoutMs: 2_000 }
  expect(await exchange((open) => open.wait(1), limits)).toEqual({ answer: undefined })
  expect(await exchange((open) => open.wait(0), limits)).toEqual({ answer: undefined })
})

test('a wait ends before its time when that of the exchange is over', async () => {
  const replies = await exchange(async (open) => [await open.wait(60_000), open.failure], {
    streamTimeoutMs: 1,
  })
  expect(replies).toMatchObject([{ problem: 'gone' }, { code: 'WASM_SERVE_STREAM_TIMEOUT' }])
})

test("the guest's headers win over those of the route, which win over the default content type", async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.get('/', (request, reply) => {
    reply.headers({ 'x-both': 'route', 'x-route': 'route', 'content-type': 'text/css' })
    const opened = new HttpExchange(request, reply, LIMITS, 'guest')
    opened.start(Buffer.from('{"headers":{"x-both":"guest","x-guest":"guest"}}'))
    opened.finish()
    opened.close()
  })
  expect((await app.inject('/')).headers).toMatchObject({
    'x-both': 'guest',
    'x-route': 'route',
    'x-guest': 'guest',
    'content-type': 'text/css',
  })
})

test.each([
  ['{}', undefined],
  ['{"trailers":["x-a","x-b"]}', 'x-a, x-b'],
])('the header trailer announces what the guest has announced, if anything: %s', async (head, trailer) => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.get('/', (request, reply) => {
    const opened = new HttpExchange(request, reply, LIMITS, 'guest')
    opened.start(Buffer.from(head))
    opened.finish()
    opened.close()
  })
  expect((await app.inject('/')).headers.trailer).toBe(trailer)
})

test('what has waited is forgotten, so that an exchange with many waits does not grow', async () => {
  const timersCleared = (waits: number) =>
    exchange(async (open) => {
      for (let wait = 0; wait < waits; wait++) await open.wait(1)
      const clear = vi.spyOn(globalThis, 'clearTimeout')
      open.close()
      const { length } = clear.mock.calls
      clear.mockRestore()
      return length
    })
  expect(await timersCleared(5)).toBe(await timersCleared(0))
})

test('a guest that writes waits while more bytes than the buffer has are on their way, and no longer', async () => {
  const left: (() => void)[] = []
  const piece = Buffer.alloc(500)
  const app = Fastify()
  onTestFinished(() => app.close())
  const replies = new Promise<unknown[]>((resolve, reject) => {
    app.get('/', (request, reply) => {
      const opened = new HttpExchange(request, reply, { ...LIMITS, streamBuffer: 1_000 }, 'guest')
      opened.start(Buffer.from('{}'))
      const write = vi.spyOn(reply.raw, 'write').mockImplementation((_bytes, done) => {
        if (typeof done === 'function') left.push(done)
        return true
      })
      const atOnce = [opened.write(piece), opened.write(piece)]
      const third = opened.write(piece)
      const isWaiting = third instanceof Promise
      left.shift()?.()
      Promise.resolve(third)
        .then((reply) => [...atOnce, isWaiting, reply])
        .then(resolve, reject)
        .finally(() => {
          write.mockRestore()
          opened.finish()
          opened.close()
        })
    })
    app.inject('/').catch(reject)
  })
  const done = { answer: undefined }
  expect(await replies).toEqual([done, done, true, done])
})

test.each([
  ['asked once', 1, (open: HttpExchange) => [open.read(1), open.read(1)]],
  [
    'not asked after a refusal',
    0,
    (open: HttpExchange) => [open.start(Buffer.from('{"status":400}')), open.read(1)],
  ],
] as const)('a client that expects to be asked for its body is %s', async (_, count, guest) => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  const asked = new Promise<number>((resolve) => {
    app.addHook('onRequest', (request, reply) => {
      const ask = vi.spyOn(reply.raw, 'writeContinue')
      const opened = new HttpExchange(request, reply, LIMITS, 'guest')
      guest(opened)
      resolve(ask.mock.calls.length)
      opened.close()
    })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const headers = { expect: '100-continue', 'content-length': 3 }
  const sent = send({ port, host: '127.0.0.1', method: 'POST', headers })
  sent.on('error', () => undefined)
  sent.flushHeaders()
  expect(await asked).toBe(count)
  sent.destroy()
})
