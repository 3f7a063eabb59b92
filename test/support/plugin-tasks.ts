import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type ExamplePlugin, taskOf } from '../../plugins/plugins.ts'
import type { RouteOptions } from '../../src/index.ts'
import { describeHttpGuest } from './http-guest.ts'
import { keepLog, openInstance } from './instance.ts'
import { serveHttp } from './outbound.ts'
import { describeCountVowels, describeHello, RUNTIMES } from './pdk.ts'
import { listen, serve } from './serve.ts'
import { openSocket } from './web-socket.ts'

/** A plug-in: its path or its bytes. */
type Wasm = string | Uint8Array

/**
 * The shared suite of a task of `plugins`, in all languages.
 *
 * @throws Error if the task has no suite.
 */
export function describePlugin(plugin: ExamplePlugin, wasm: Wasm): void {
  const describeTask = TASKS[taskOf(plugin)]
  if (!describeTask) throw new Error(`there is no suite for ${plugin.folder}`)
  describeTask(plugin.folder, wasm)
}

const TASKS: Readonly<Record<string, (name: string, wasm: Wasm) => void>> = {
  hello: describeHello,
  'count-vowels': describeCountVowels,
  http: describeHttpGuest,
  markdown: describeMarkdown,
  'page-title': describePageTitle,
  'buggy-median': describeBuggyMedian,
  visits: describeVisits,
  streams: describeStreams,
  socket: describeSocket,
}

function describeMarkdown(name: string, wasm: Wasm): void {
  describe.each(RUNTIMES)(`${name} on the $name runtime`, (runtime) => {
    const render = async (text: string) => {
      const instance = await openInstance(runtime, wasm)
      return Buffer.from(await instance.call('markdown', Buffer.from(text), { log: keepLog() })).toString()
    }

    test.each([
      ['nothing', '', ''],
      ['a heading', '# Ça & là 😄', '<h1>Ça &amp; là 😄</h1>\n'],
      [
        'a list of tasks',
        '- [x] done',
        '<ul>\n<li><input disabled="" type="checkbox" checked=""/>\ndone</li>\n</ul>\n',
      ],
      [
        'a link',
        '[a](https://a.test/?b&c "d")',
        '<p><a href="https://a.test/?b&amp;c" title="d">a</a></p>\n',
      ],
      ['a link on the same site', '[a](/b:c)', '<p><a href="/b:c">a</a></p>\n'],
      ['code', '```js\n1 < 2\n```', '<pre><code class="language-js">1 &lt; 2\n</code></pre>\n'],
    ])('renders %s', async (_what, text, html) => {
      expect(await render(text)).toBe(html)
    })

    test('renders a table', async () => {
      expect(await render('|a|b|\n|-|-:|\n|1|2|')).toContain('<td style="text-align: right">2</td>')
    })

    test.each([
      '<script>alert(1)</script>',
      'a <img src=x onerror=alert(1)> b',
      '[a](javascript:alert(1))',
      '[a](<java\tscript:alert(1)>)',
      '[a](JaVaScRiPt:alert(1))',
      '[a](&#106;avascript:alert(1))',
      '![a](data:text/html,<script>)',
      '<javascript:alert(1)>',
    ])('leaves nothing in %j that a browser would run', async (text) => {
      expect(await render(text)).not.toMatch(/<script|<img [^>]*onerror|(?:href|src)="[^"]*(?:script|data):/i)
    })

    test('renders a large page', async () => {
      expect(await render('*Bob* Morane  \n'.repeat(20_000))).toHaveLength(
        20_000 * '<em>Bob</em> Morane<br />\n'.length + 1,
      )
    })
  })
}

function describePageTitle(name: string, wasm: Wasm): void {
  const ask = async (url: string, allowedHosts: string[] = ['127.0.0.1']) => {
    const app = await serve({ plugin: wasm, allowedHosts, httpErrors: 'status' })
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/', payload: url })
    return { statusCode, body }
  }

  describe(name, () => {
    test.each([
      ['<html><head><TITLE lang=en>\n Hello\n  W\u00f6rld </TITLE>', 'Hello W\u00f6rld'],
      ['<p>no title</p>', null],
      ['<title>cut off', null],
    ])('finds the title in %j', async (html, title) => {
      const url = await origin((_request, response) => response.writeHead(203).end(html))
      const { statusCode, body } = await ask(url)
      expect([statusCode, JSON.parse(body)]).toEqual([200, { status: 203, title }])
    })

    test('asks for HTML', async () => {
      const url = await origin(({ headers }, response) => response.end(`<title>${headers.accept}</title>`))
      expect(JSON.parse((await ask(url)).body)).toEqual({ status: 200, title: 'text/html' })
    })

    test('says why a page cannot be had', async () => {
      const refused = await ask('http://localhost:1/')
      expect(refused.statusCode).toBe(409)
      expect(refused.body).toMatch(/^WASM_SERVE_OUTBOUND_REFUSED: /)
      expect((await ask('http://127.0.0.1:1/', [])).statusCode).toBe(409)
    })
  })
}

/** A server on the loopback interface; closed when the test ends. */
async function origin(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

function describeBuggyMedian(name: string, wasm: Wasm): void {
  describe(name, () => {
    test('answers, refuses and traps, and goes on', async () => {
      const app = await serve({ plugin: wasm })
      const ask = async (payload: string) => {
        const { statusCode, body } = await app.inject({ method: 'POST', url: '/', payload })
        return [statusCode, body]
      }
      expect(await ask('3 1 2.5')).toEqual([200, '2.5'])
      expect(await ask('1 two')).toEqual([409, 'two is no number'])
      expect(await ask('')).toEqual([500, expect.stringContaining('WASM_SERVE_GUEST_TRAP')])
      expect(await ask('4 1')).toEqual([200, '2.5'])
    })

    test.each(RUNTIMES)('logs on the $name runtime why it traps, and in which functions', async (runtime) => {
      const log = keepLog()
      const instance = await openInstance(runtime, wasm)
      const failure = await Promise.resolve()
        .then(() => instance.call('median', new Uint8Array(), { log }))
        .catch((error: Error) => error)
      expect(failure).toMatchObject({
        code: 'WASM_SERVE_GUEST_TRAP',
        cause: {
          reason: 'unreachable',
          guestStack: expect.arrayContaining([
            expect.stringMatching(/^core::panicking::panic_bounds_check/),
            expect.stringMatching(/^buggy_median::middle/),
            'median',
          ]),
        },
      })
      expect(log.lines).toMatchObject([
        {
          level: 'error',
          message: expect.stringMatching(/src\/lib\.rs:\d+:\d+:\nindex out of bounds: the len is 0/),
        },
      ])
    })
  })
}

function describeVisits(name: string, wasm: Wasm): void {
  test(`${name} counts each name in the store`, async () => {
    const app = await serve({ plugin: wasm }, { store: 'memory:' })
    const visit = async (payload: string) => (await app.inject({ method: 'POST', url: '/', payload })).body
    expect(await visit('Bob')).toBe('Bob: 1\n')
    expect(await visit('Zo\u00eb')).toBe('Zo\u00eb: 1\n')
    expect(await visit('Bob')).toBe('Bob: 2\n')
  })
}

function describeSocket(name: string, plugin: Wasm): void {
  describe(name, () => {
    const serveFunction = (name: string) =>
      listen({ plugin, function: name, contract: 'websocket', workers: 1, spareWorkers: 0 })

    test('the numbers of a client are added up', async () => {
      const { port } = await serveFunction('sum')
      const { socket, next, closed } = await openSocket(port)
      for (const message of ['1', 'x', '41', 'stop']) socket.send(message)
      expect([await next(), await next(), await next()]).toEqual(['1', 'not a number', '42'])
      expect(await closed).toEqual([1000, 'the sum is 42'])
    })

    test('bytes are refused with a code of its own', async () => {
      const { port } = await serveFunction('sum')
      const { socket, closed } = await openSocket(port)
      socket.send(Buffer.from('1'))
      expect(await closed).toEqual([4000, 'send numbers as text'])
    })

    test('a guest sends when it wants to', async () => {
      const { port } = await serveFunction('countdown')
      const { next, closed } = await openSocket(port)
      expect([await next(), await next(), await next()]).toEqual(['3', '2', '1'])
      expect(await closed).toEqual([1000, ''])
    })
  })
}

function describeStreams(name: string, plugin: Wasm): void {
  describe(name, () => {
    const serveFunction = (name: string, route: Partial<RouteOptions> = {}) =>
      listen({
        plugin,
        function: name,
        method: '*',
        workers: 1,
        spareWorkers: 0,
        bodyLimit: 0,
        timeoutMs: 20_000,
        ...route,
      })

    test('an upload of any size is hashed', async () => {
      const { url } = await serveFunction('hash')
      const body = Buffer.alloc(3_000_001, 'some bytes')
      const [digest, size] = (await (await fetch(url, { method: 'POST', body })).text()).trim().split(' ')
      expect(size).toBe('3000001')
      if (name.includes('assemblyscript')) expect(digest).toBe(fnv1a(body))
      else if (name.includes('-js')) expect(digest).toBe(fnv1aOf32Bits(body))
      else expect(digest).toBe(createHash('sha256').update(body).digest('hex'))
    })

    test('a CSV file is filtered line by line', async () => {
      const { url } = await serveFunction('filter', { config: { keep: 'pear' } })
      const sent = request(url, { method: 'POST' }).end(CSV.join(''))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      const kept = CSV.filter((line) => line.includes('pear'))
      expect(await text(answer)).toBe(kept.join(''))
      expect(answer.headers['content-type']).toBe('text/csv')
      expect(answer.trailers).toEqual({ 'x-lines': `${kept.length}` })
    })

    test('events are counted', async () => {
      const { url } = await serveFunction('count', { config: { interval: '1' } })
      const events = (await (await fetch(url)).text()).split('\n\n')
      expect(events[9]).toBe('event: count\nid: 10\ndata: 10')
    })

    test('a request is passed on to another server, and its answer back in capitals', async () => {
      const upstream = await serveHttp((asked, response) => void asked.pipe(response.writeHead(201)))
      const proxyTo = (port: number) =>
        serveFunction('proxy', {
          contract: 'http',
          outputLimit: 0,
          httpResponseMax: 0,
          config: { upstream: `http://127.0.0.1:${port}` },
          allowedHosts: ['127.0.0.1'],
        })
      const body = CSV.join('')
      const answer = await fetch((await proxyTo(upstream.port)).url, { method: 'POST', body })
      expect(answer.status).toBe(201)
      expect((await answer.text()) === body.replace(/[a-z]/g, (letter) => letter.toUpperCase())).toBe(true)
      const nowhere = await fetch((await proxyTo(1)).url, { method: 'POST', body: 'a' })
      expect(nowhere.status).toBe(502)
    })
  })
}

const CSV = Array.from(
  { length: 20_000 },
  (_, id) => `${id};${id % 7 === 0 ? 'pear' : 'äpfel'};${'x'.repeat(id % 50)}\n`,
)

/** The digest in AssemblyScript, which has no SHA-256. */
function fnv1a(bytes: Uint8Array): string {
  let hash = 0xcbf29ce484222325n
  for (const byte of bytes) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return hash.toString(16).padStart(16, '0')
}

/** The digest in JavaScript, where SHA-256 would be slow. */
function fnv1aOf32Bits(bytes: Uint8Array): string {
  let hash = 0x811c9dc5
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, '0')
}
