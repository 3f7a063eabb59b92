import { describe, expect, test } from 'vitest'
import { serve } from './serve.ts'

const BODIES: readonly (readonly [what: string, body: Buffer])[] = [
  ['text', Buffer.from('h\u00e9llo "\\\n\r\t\b\f\u0001 \u{1f600}')],
  ['nothing', Buffer.alloc(0)],
  ...[1, 2, 3, 4, 5].map((length) => [`${length} bytes`, Buffer.alloc(length, 0xfe)] as const),
  ['all bytes, many times', Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 256))],
]

/** The shared suite of the examples of the `http` contract, in all languages. */
export function describeHttpGuest(name: string, plugin: string | Uint8Array): void {
  const serveAll = () => serve({ plugin, function: 'handle', contract: 'http', method: '*', url: '/*' })

  describe(name, () => {
    test('greets with what the path and the query say', async () => {
      const app = await serveAll()
      const reply = await app.inject({
        url: '/hello/Bob?x=%00&greeting=%22%5C%0c%20%F0%9F%98%84&greeting=Yo',
      })
      expect([reply.statusCode, reply.headers['content-type']]).toEqual([200, 'application/json'])
      expect(reply.json()).toEqual({ message: '\u{1f980} "\\\f \u{1f604} Bob' })
      expect((await app.inject({ url: '/hello/Bob' })).json()).toEqual({ message: '\u{1f980} Hello Bob' })
    })

    test('answers HEAD as GET, without the body', async () => {
      const app = await serveAll()
      const { length } = (await app.inject({ url: '/hello/Bob' })).rawPayload
      const reply = await app.inject({ method: 'HEAD', url: '/hello/Bob' })
      expect(reply.headers['content-length']).toBe(String(length))
    })

    test.each(BODIES)('echoes %s', async (_what, payload) => {
      const app = await serveAll()
      const headers = { 'content-type': 'image/x-mine' }
      const reply = await app.inject({ method: 'POST', url: '/echo', headers, payload })
      expect([reply.statusCode, reply.headers['content-type']]).toEqual([200, 'image/x-mine'])
      expect(reply.rawPayload.equals(payload)).toBe(true)
    })

    test('sets two cookies and sends the client on', async () => {
      const app = await serveAll()
      const reply = await app.inject({ method: 'POST', url: '/login', payload: 'B<o>\r\nb' })
      expect(reply.statusCode).toBe(303)
      expect(reply.headers).toMatchObject({
        'set-cookie': ['user=Bob; HttpOnly', 'seen=1'],
        location: '/hello/Bob',
      })
    })

    test.each([
      'GET /',
      'GET /echo',
      'POST /hello/Bob',
      'DELETE /hello/Bob',
    ])('does not know %s', async (line) => {
      const app = await serveAll()
      const [method = '', url = ''] = line.split(' ')
      const reply = await app.inject({ method: method as 'GET', url })
      expect([reply.statusCode, reply.json()]).toEqual([404, { error: 'not found' }])
    })

    test('reads one request after the other on one instance', async () => {
      const app = await serveAll()
      for (let i = 0; i < 2_000; i++) {
        const reply = await app.inject({ url: `/hello/${i}?a=1&a=2`, headers: { 'x-a': ['1', '2'] } })
        expect(reply.json()).toEqual({ message: `\u{1f980} Hello ${i}` })
      }
    })
  })
}
