import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions } from '../../src/index.ts'
import { guest } from '../support/guest.ts'
import { type Random, randomOf } from '../support/random.ts'

const RING_PAYLOAD = 262_144

/** Sizes of bodies: small ones, and those beside the limit above which a body is posted to a thread. */
const SIZES = [1, 2, 4_097, 65_536, RING_PAYLOAD - 1, RING_PAYLOAD, RING_PAYLOAD + 1, 1_048_576]

const WAYS: Readonly<Record<string, Omit<RouteOptions, 'plugin'>>> = {
  inline: {},
  'a worker': { workers: 1 },
  'a fresh instance in a worker': { workers: 1, isolation: 'fresh' },
  "Extism's SDK": { runtime: 'sdk' },
  'a lazy plug-in': { load: 'lazy' },
  'a hook that reads the input': {
    onCall({ input }) {
      expect(input).toBeInstanceOf(Uint8Array)
      return Uint8Array.from(input)
    },
  },
  'a contract of a user': {
    contract: {
      name: 'custom',
      input: ({ body }) => (body instanceof Uint8Array ? body : new Uint8Array()),
      answer: (output, reply) => void reply.send(output),
    },
  },
}

test.each(Object.entries(WAYS))('bodies that arrive in pieces reach a guest: %s', async (_way, options) => {
  const app = await createServer({
    routes: [{ plugin: guest('echo'), ...options, bodyLimit: 1_048_576 }],
    logLevel: 'silent',
  })
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const random = randomOf(7)
  const bodies = [...SIZES, ...SIZES].map((size) => bytesOf(size, random))
  const answers = await Promise.all(bodies.map((body) => sendInPieces(url, body, random)))
  for (const [i, answer] of answers.entries())
    expect(answer.equals(bodies[i] ?? Buffer.of()), `answer ${i}`).toBe(true)
})

test('the pieces of an injected body stay those of its sender', async () => {
  const app = await createServer({ routes: [{ plugin: guest('echo') }], logLevel: 'silent' })
  onTestFinished(() => app.close())
  const pieces = [Buffer.from(new ArrayBuffer(100_000)), Buffer.from(new ArrayBuffer(50_000))]
  for (const [i, piece] of pieces.entries()) piece.fill(i + 1)
  const { rawPayload, statusCode } = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-length': '150000' },
    payload: Readable.from(pieces),
  })
  expect(pieces.map(({ length }) => length)).toEqual([100_000, 50_000])
  expect([statusCode, rawPayload.length]).toEqual([200, 150_000])
  expect(rawPayload.equals(Buffer.concat(pieces))).toBe(true)
})

/** Bytes of any value, in 32-bit words. */
function bytesOf(size: number, random: Random): Buffer {
  const words = Uint32Array.from({ length: Math.ceil(size / 4) }, () => random() * 2 ** 32)
  return Buffer.from(words.buffer, 0, size)
}

/** Each chunk of a chunked body is a piece. */
async function sendInPieces(url: string, body: Buffer, random: Random): Promise<Buffer> {
  const sent = request(url, { method: 'POST' })
  const most = Math.max(1, Math.ceil(body.length / 3))
  for (let at = 0; at < body.length; ) {
    const size = 1 + Math.floor(random() * most)
    sent.write(body.subarray(at, at + size))
    at += size
  }
  sent.end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const parts: Buffer[] = []
  for await (const part of answer) parts.push(part as Buffer)
  return Buffer.concat(parts)
}
