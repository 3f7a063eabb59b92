import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { wasmServe } from '../../src/index.ts'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'
import { serveSteps } from '../support/stream-guest.ts'

const ECHO = { plugin: guest('stream'), function: 'echo', bodyLimit: 0, outputLimit: 0, workers: 1 }

/** Sends a piece, waits until it is back, and ends. */
async function talk(url: string): Promise<string> {
  const sent = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } })
  sent.write('one')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  expect(String((await once(answer, 'data'))[0])).toBe('one')
  sent.end('two')
  return text(answer)
}

test('a guest in a subprocess streams, and its waits do not count', async () => {
  const { url } = await listen({ ...ECHO, engine: 'subprocess' })
  expect(await talk(url)).toBe('two')
  const body = new Uint8Array(2_000_000).map((_, at) => at * 7)
  const answer = await fetch(url, { method: 'POST', body })
  expect(Buffer.compare(Buffer.from(await answer.arrayBuffer()), Buffer.from(body))).toBe(0)
  const waits = await serveSteps(
    [
      ['wait', 400],
      ['start', ''],
    ],
    { engine: 'subprocess', timeoutMs: 200 },
  )
  expect((await fetch(waits.url)).status).toBe(200)
  const spins = await serveSteps([['wait', 50], ['start', ''], ['spin']], {
    engine: 'subprocess',
    timeoutMs: 200,
  })
  await expect(fetch(spins.url).then((answer) => answer.text())).rejects.toThrow('terminated')
})

test('in an app of Fastify a route streams, and the others read bodies as before', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.post('/own', (request) => ({ got: request.body }))
  await app.register(wasmServe, {
    routes: [
      { ...ECHO, url: '/echo' },
      { plugin: guest('echo'), url: '/plain' },
    ],
  })
  const origin = await app.listen({ host: '127.0.0.1', port: 0 })
  expect(await talk(`${origin}/echo`)).toBe('two')
  const send = async (path: string) =>
    (
      await fetch(origin + path, {
        method: 'POST',
        body: '{"a":1}',
        headers: { 'content-type': 'application/json' },
      })
    ).text()
  expect([await send('/plain'), await send('/own')]).toEqual(['{"a":1}', '{"got":{"a":1}}'])
  const answer = await app.inject({ method: 'POST', url: '/echo', payload: 'injected' })
  expect([answer.statusCode, answer.body]).toEqual([200, 'injected'])
})
