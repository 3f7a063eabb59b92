import { once } from 'node:events'
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RouteOptions } from '../../../src/options/options.ts'
import { guest } from '../../support/guest.ts'
import { runs } from '../../support/runs.ts'
import { listen } from '../../support/serve.ts'

/** Around the size up to which an answer is sent as text. */
const EDGE = 4_096

const bodies = fc.oneof(
  fc.uint8Array({ maxLength: 64 }),
  fc.string({ unit: 'binary', maxLength: 64 }).map((text) => Buffer.from(text)),
  fc.nat(4).map((more) => Buffer.alloc(EDGE - 2 + more, 'ü')),
)

const HELLO = 'plugins/hello/hello.wasm'

/** What is to be compared: a route that answers through Node's response, and one that answers through Fastify's reply. */
async function bothWays(plugin: string, route: Omit<RouteOptions, 'plugin'> = {}) {
  const direct = await listen({ plugin, ...route })
  const through = await listen({ plugin, ...route, onResult: () => undefined })
  return { direct, through }
}

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

async function send(port: number, method: string, body: Uint8Array): Promise<Answer> {
  const sent = request({
    host: '127.0.0.1',
    port,
    method,
    agent: false, // each has a connection of its own: a reused one may be closed as it is used (RFC 9112, section 9.6)
    headers: { 'x-request-id': 'same', 'content-length': body.length },
  }).end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const { date: _date, ...headers } = answer.headers
  return { status: answer.statusCode, headers, body: await buffer(answer) }
}

describe('an answer that no hook sees', () => {
  test('is what Fastify would have sent, byte for byte', async () => {
    const { direct, through } = await bothWays(guest('echo'))
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const answer = await send(direct.port, 'POST', body)
        expect(answer).toEqual(await send(through.port, 'POST', body))
        expect(answer.body).toEqual(Buffer.from(body))
      }),
      { numRuns: runs(40) },
    )
  })

  test.each(['GET', 'HEAD', 'PUT', 'DELETE'])('also to %s', async (method) => {
    const { direct, through } = await bothWays(HELLO, { method: '*', contentType: 'text/x-same' })
    const body = method === 'PUT' ? Buffer.from('ü') : Buffer.alloc(0)
    const answer = await send(direct.port, method, body)
    expect(answer).toEqual(await send(through.port, method, body))
    expect(answer.headers['content-type']).toBe('text/x-same')
  })
})
