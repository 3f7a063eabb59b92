import { describe, expect, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import type { GuestCall } from '../../src/options/served-route.ts'
import { guest } from '../support/guest.ts'
import { listen, listenAll } from '../support/serve.ts'
import { exchange, open } from '../support/socket.ts'

/** A route whose answer is what its guest sees of the target. */
const SEEN: RouteOptions = {
  plugin: guest('echo'),
  url: '/*',
  method: '*',
  contract: 'http',
  onCall({ input }: GuestCall) {
    const { url, path, headers } = JSON.parse(String(Buffer.from(input)))
    return Buffer.from(JSON.stringify({ body: `${url} ${path} ${headers.host}` }))
  },
}

/** @returns `ask`: the status and body of the answer to a request without a body. */
async function see(routes: RouteOptions[] = [SEEN]) {
  const { port, drain } = await listenAll(routes)
  const ask = async (line: string, ...headers: string[]) => {
    const head = [line, ...headers, 'Connection: close', '', ''].join('\r\n')
    const [answer, ...more] = await exchange(port, Buffer.from(head, 'latin1'))
    expect(more).toEqual([])
    return [answer?.status, String(answer?.body)] as const
  }
  return { port, ask, drain }
}

const code = ([, body]: readonly [unknown, string]) => JSON.parse(body).code

describe('the Host header', () => {
  test('must be a host with an optional port', async () => {
    const { ask, drain } = await see()
    const invalid = [
      ...['a b', 'a, b', 'a/b?c', 'a/', 'u@h', 'a#b', 'a\\b', 'a"b', '<a>', '{a}', 'a|b', 'a^b', 'a`b'],
      ...[
        'h:99999999x',
        'h:x',
        'h:-1',
        'h:+1',
        'h:65536',
        'h:1:2',
        'h::80',
        "h:5'000",
        'h: 80',
        'h :80',
        ':80',
        'http://h',
      ],
      ...[
        '[::1',
        '::1',
        '[]',
        '[::g]',
        '[1.2.3.4]',
        '[::1]x',
        '[::1]:x',
        '[::1%25eth0]',
        '[:::1]',
        '[a]',
        '[12345]',
        '[12345::1]',
      ],
      ...['%', '%4', '%zz', 'a%', 'm\u00fcnchen.de', '\u00ff', 'a\u007fb', `${'a'.repeat(9_000)} b`],
    ]
    for (const host of invalid) {
      const answer = await ask('GET / HTTP/1.1', `Host: ${host}`)
      expect([host, answer[0], code(answer)]).toEqual([host, 400, 'WASM_SERVE_BAD_REQUEST'])
    }
    await drain()
  })

  test('may be unusual', async () => {
    const { ask, drain } = await see()
    const valid = [
      ...[
        'a',
        'A.Example',
        'a.example.',
        'a_b.example',
        'xn--mnchen-3ya.de',
        '127.0.0.1',
        'h:',
        'h:0',
        'h:65535',
      ],
      ...['[::1]', '[::1]:8080', '[::ffff:1.2.3.4]', '[2001:DB8::1]:443', 'a-', '-', 'a~b', "a!$&'()*+;=b"],
      ...['m%C3%BCnchen.de', '1.2.3', `${'a'.repeat(9_000)}`],
    ]
    for (const host of valid)
      expect(await ask('GET /x HTTP/1.1', `Host: ${host}`)).toEqual([200, `/x /x ${host}`])
    expect(await ask('GET / HTTP/1.1', 'Host:')).toEqual([200, '/ / '])
    expect(await ask('GET / HTTP/1.0')).toEqual([200, '/ / undefined'])
    expect(await ask('GET / HTTP/1.1')).toMatchObject([400, expect.anything()])
    expect(await ask('GET / HTTP/1.1', 'Host: a', 'Host: a')).toMatchObject([400, expect.anything()])
    await drain()
  })

  test('is checked for each request of a connection', async () => {
    const { port } = await listen({ ...SEEN })
    const client = await open(port)
    for (const host of ['a', 'a', 'b', 'a']) {
      client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      expect((await client.answer())?.status).toBe(200)
    }
    client.send('GET / HTTP/1.1\r\nHost: a/b\r\n\r\n')
    expect((await client.answers()).map(({ status }) => status)).toEqual([400])
  })
})

describe('a target that is a whole URL', () => {
  test('is that path at that host, whatever the Host header is', async () => {
    const { ask, drain } = await see()
    const targets = {
      'http://b.example/x?y=1': '/x?y=1 /x b.example',
      'HTTPS://B.example:8443/x': '/x /x B.example:8443',
      'http://b.example': '/ / b.example',
      'http://b.example?y': '/?y / b.example',
      'http://[::1]:80/': '/ / [::1]:80',
      'http://b.example//x': '//x //x b.example',
    }
    for (const [target, seen] of Object.entries(targets)) {
      expect(await ask(`GET ${target} HTTP/1.1`, 'Host: a.example')).toEqual([200, seen])
      expect(await ask(`GET ${target} HTTP/1.0`)).toEqual([200, seen])
    }
    await drain()
  })

  test('must have a valid host, and so must the Host header', async () => {
    const { ask, drain } = await see()
    const targets = [
      'http:///x',
      'http://u@h/',
      'http://h:x/',
      'http://h:99999/',
      'http://[::g]/',
      'ftp://h/',
      '*',
    ]
    for (const target of targets)
      expect([target, code(await ask(`GET ${target} HTTP/1.1`, 'Host: a'))]).toEqual([
        target,
        'WASM_SERVE_BAD_REQUEST',
      ])
    for (const host of ['Host: a b', 'X: a'])
      expect(code(await ask('GET http://h/ HTTP/1.1', host))).toBe('WASM_SERVE_BAD_REQUEST')
    await drain()
  })

  test('chooses the route by its host', async () => {
    const { ask, drain } = await see([
      { ...SEEN, host: 'a.example', url: '/' },
      { ...SEEN, host: 'b.example', url: '/' },
    ])
    expect(await ask('GET http://b.example/ HTTP/1.1', 'Host: a.example')).toEqual([200, '/ / b.example'])
    expect((await ask('GET http://c.example/ HTTP/1.1', 'Host: a.example'))[0]).toBe(404)
    await drain()
  })
})

test('a host of a route is found in any case, with a port, and with the dot of a complete name', async () => {
  const { ask, drain } = await see([
    { ...SEEN, host: 'b.Example' },
    { ...SEEN, host: 'c.example.' },
  ])
  for (const host of [
    'b.example',
    'B.EXAMPLE',
    'b.example.',
    'b.example:80',
    'b.example.:80',
    'b.example:',
    'c.example',
    'C.example.',
  ])
    expect([host, (await ask('GET / HTTP/1.1', `Host: ${host}`))[0]]).toEqual([host, 200])
  for (const host of ['b.example..', 'xb.example', 'b.example.x', 'bxexample', ''])
    expect([host, (await ask('GET / HTTP/1.1', `Host: ${host}`))[0]]).toEqual([host, 404])
  await drain()
})

test('two routes whose hosts differ by a dot at the end are in conflict', async () => {
  const routes = [
    { ...SEEN, host: 'b.example' },
    { ...SEEN, host: 'B.example.' },
  ]
  await expect(listenAll(routes)).rejects.toMatchObject({ code: 'WASM_SERVE_ROUTE_CONFLICT' })
})

test('a parameter of a URL is as long as the head may be', async () => {
  const { ask, drain } = await see([{ ...SEEN, url: '/users/:id' }])
  const id = 'x'.repeat(16_000)
  expect(await ask(`GET /users/${id} HTTP/1.1`, 'Host: a')).toEqual([200, `/users/${id} /users/${id} a`])
  const tooLong = await ask(`GET /users/${id}${id} HTTP/1.1`, 'Host: a')
  expect([tooLong[0], code(tooLong)]).toEqual([431, 'WASM_SERVE_HEADERS_TOO_LARGE'])
  await drain()
})

describe('Expect', () => {
  const head = (version: string, expect: string) =>
    `POST / HTTP/${version}\r\nHost: a\r\nConnection: close\r\nExpect: ${expect}\r\nContent-Length: 1\r\n\r\n`

  test.each([
    ['is answered before the body is sent', '1.1', '100-continue', '', [100, 200]],
    ['may be in any case', '1.1', '100-Continue', '', [100, 200]],
    ['is ignored in HTTP/1.0', '1.0', '100-continue', 'x', [200]],
    ['is ignored in HTTP/1.0, whatever it is', '1.0', 'tea', 'x', [200]],
    ['cannot be anything else', '1.1', 'tea', 'x', [417]],
    ['cannot be anything else too', '1.1', '100-continue, tea', '', [417]],
    ['cannot be empty', '1.1', '', 'x', [417]],
  ] as const)('%s', async (_what, version, expectation, body, statuses) => {
    const { port } = await listen({ plugin: guest('echo') })
    const client = await open(port)
    client.send(head(version, expectation) + body)
    const seen: (number | undefined)[] = []
    for (const _ of statuses) {
      seen.push((await client.answer())?.status)
      if (seen.at(-1) === 100) client.send('x')
    }
    expect(seen).toEqual(statuses)
    expect(await client.answer()).toBeUndefined()
  })

  test('has a code if it is refused', async () => {
    const { port } = await listen({ plugin: guest('echo') })
    const [answer] = await exchange(port, `${head('1.1', 'tea')}x`)
    expect(JSON.parse(String(answer?.body)).code).toBe('WASM_SERVE_EXPECTATION_FAILED')
  })
})

test('OPTIONS * names the methods that any route answers', async () => {
  const { port, drain } = await listenAll([
    { plugin: guest('echo'), url: '/' },
    { plugin: guest('echo'), url: '/b', method: ['GET', 'PUT'] },
  ])
  for (const target of ['*', 'http://a.example']) {
    const [answer] = await exchange(
      port,
      `OPTIONS ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    )
    expect([answer?.status, answer?.headers.allow, String(answer?.body)]).toEqual([
      204,
      'GET, HEAD, OPTIONS, POST, PUT',
      '',
    ])
  }
  await drain()
})

test('ids of requests are random', async () => {
  const { port } = await listen({ plugin: guest('echo') })
  const client = await open(port)
  const ids = new Set<string>()
  for (let count = 0; count < 300; count++) {
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n')
    ids.add((await client.answer())?.headers['x-request-id'] ?? '')
  }
  expect(ids.size).toBe(300)
  // Of equal parts of two of them, hardly any is the same.
  const [first = '', ...others] = ids
  for (const id of others) {
    expect(id).toMatch(/^[\da-f]{32}$/)
    expect([...id].filter((digit, place) => digit === first[place]).length).toBeLessThan(16)
  }
})
