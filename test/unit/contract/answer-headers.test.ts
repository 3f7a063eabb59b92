import { connect, constants, createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { headerProblem, isKnown, isOfServer, isRepeatable } from '../../../src/contract/answer-headers.ts'
import { begin } from '../../support/http2-client.ts'

test.each([
  // RFC 9110, section 7.6.1, and RFC 9113, section 8.2.2: they are about the connection.
  ...['Connection', 'Proxy-Connection', 'Keep-Alive', 'TE', 'Transfer-Encoding', 'Upgrade', 'HTTP2-Settings'],
  ...['Content-Length', 'Trailer'], // what frames the body
  'X-Request-Id',
])('only the server sets %s, however it is written', (name) => {
  for (const each of [name, name.toLowerCase(), name.toUpperCase()])
    expect([isOfServer(each), headerProblem(each, 'a'), isKnown(each)]).toEqual([
      true,
      'is set by the server',
      true,
    ])
})

test.each([
  'set-cookie',
  'cache-control',
  'link',
  'vary',
  'www-authenticate',
  'warning',
  'x-of-the-guest',
])('a guest may set %s, as often as it likes', (name) => {
  expect([isOfServer(name), headerProblem(name, 'a'), isRepeatable(name)]).toEqual([false, undefined, true])
})

test.each([
  'server',
  'content-disposition',
  'content-type',
  'location',
  'etag',
])('a guest may set %s once', (name) => {
  expect([isOfServer(name), isRepeatable(name), isKnown(name), isKnown(name.toUpperCase())]).toEqual([
    false,
    false,
    true,
    true,
  ])
})

test.each([
  ['x a', 'b'],
  ['', 'b'],
  ['x-a', 'b\r\nx-b: c'],
  ['x-a', 'b\0'],
  ['__proto__', 'b'],
  ['content-type', 'none'],
  ['Content-Type', ''],
])('%j cannot be %j', (name, value) => {
  expect(headerProblem(name, value)).toBeTypeOf('string')
})

const HEADER_NAMES = Object.entries(constants).flatMap(([name, value]) =>
  name.startsWith('HTTP2_HEADER_') && !String(value).startsWith(':') ? [String(value)] : [],
)

test('a guest can set no header for which HTTP/2 of Node throws', async () => {
  const server = createServer().listen(0)
  onTestFinished(() => void server.close())
  const thrown: string[] = []
  server.on('stream', (stream, { ':path': path = '' }) => {
    const name = path.slice(1)
    try {
      stream.respond(isOfServer(name) ? {} : { [name]: isRepeatable(name) ? ['a', 'b'] : ['a'] })
      stream.end()
    } catch {
      thrown.push(name)
      stream.session?.destroy() // it cannot answer any more
    }
  })
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => session.destroy())
  for (const name of HEADER_NAMES) {
    if (thrown.length > 0) break
    const stream = begin(session, { ':method': 'GET', ':path': `/${name}` })
      .end()
      .resume()
    await new Promise((resolve) => stream.once('close', resolve))
  }
  expect(HEADER_NAMES.length).toBeGreaterThan(50)
  expect(thrown).toEqual([])
})
