import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { listen, serve } from '../support/serve.ts'
import { exchange } from '../support/socket.ts'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-static-'))
afterAll(() => rmSync(folder, { recursive: true }))
const site = join(folder, 'site')
mkdirSync(join(site, 'empty'), { recursive: true })
writeFileSync(join(folder, 'outside.txt'), 'outside')
mkdirSync(join(site, 'nested'))
for (const at of ['.', 'nested']) writeFileSync(join(site, at, 'index.html'), '<h1>hello</h1>')
writeFileSync(join(site, 'a b.txt'), 'text')
writeFileSync(join(site, '.env'), 'SECRET=1')
mkdirSync(join(site, '.git'))
writeFileSync(join(site, '.git/config'), 'secret')

const route = { url: '/hello', plugin: guest('echo') }
const open = (route: RouteOptions, options: Partial<ServerOptions> = {}) =>
  serve(route, { static: { '/': site }, ...options })

test('names of folders and names without a dot decide no content type', async () => {
  const app = await open(route)
  for (const name of ['css', 'x.png']) {
    mkdirSync(join(site, name))
    writeFileSync(join(site, name, 'index.html'), '<h1>hello</h1>')
    expect((await app.inject(`/${name}/`)).headers['content-type']).toBe('text/html; charset=utf-8')
  }
  writeFileSync(join(site, 'nested/css'), 'hello')
  expect((await app.inject('/nested/css')).headers['content-type']).toBe('application/octet-stream')
})

test('files are served by GET and HEAD, with their types, and routes beside them', async () => {
  const app = await open(route)
  const index = await app.inject('/')
  expect([index.statusCode, index.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  expect(index.headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.any(String),
  })
  expect((await app.inject('/a%20b.txt')).body).toBe('text')
  const head = await app.inject({ method: 'HEAD', url: '/a%20b.txt' })
  expect([head.statusCode, head.headers['content-length'], head.body]).toEqual([200, '4', ''])
  expect((await app.inject({ method: 'POST', url: '/hello', body: 'hi' })).body).toBe('hi')
  expect((await app.inject({ method: 'POST', url: '/a%20b.txt' })).statusCode).toBe(405)
})

test('who has a file is told 304, a part may be asked for, and one that is none is told 416', async () => {
  const app = await open(route)
  const { etag } = (await app.inject('/index.html')).headers
  const ask = (headers: Record<string, string>) => app.inject({ url: '/index.html', headers })
  expect((await ask({ 'if-none-match': String(etag) })).statusCode).toBe(304)
  const part = await ask({ range: 'bytes=4-8' })
  expect([part.statusCode, part.body]).toEqual([206, 'hello'])
  const none = await ask({ range: 'bytes=900-' })
  expect([none.statusCode, none.headers['content-range']]).toEqual([416, 'bytes */14'])
  expect(none.json()).toMatchObject({ code: 'WASM_SERVE_RANGE_NOT_SATISFIABLE' })
  const other = await ask({ 'if-match': '"other"' })
  expect([other.statusCode, other.json().code]).toEqual([412, 'WASM_SERVE_PRECONDITION_FAILED'])
})

test.each([
  ['bytes=-5', 206, 'bytes 9-13/14'],
  ['bytes=-1000', 206, 'bytes 0-13/14'],
  ['bytes=-14', 206, 'bytes 0-13/14'],
  ['bytes=-0', 416, 'bytes */14'],
  ['bytes=0-', 206, 'bytes 0-13/14'],
  ['bytes=13-99', 206, 'bytes 13-13/14'],
  ['bytes=14-', 416, 'bytes */14'],
  ['bytes=0-1,4-5', 200, undefined],
  ['lines=0-1', 200, undefined],
])('a Range of %s is answered with %i by GET, and ignored by HEAD', async (range, status, size) => {
  const app = await open(route)
  const answer = await app.inject({ url: '/index.html', headers: { range } })
  expect([answer.statusCode, answer.headers['content-range']]).toEqual([status, size])
  const head = await app.inject({ method: 'HEAD', url: '/index.html', headers: { range } })
  expect([head.statusCode, head.headers['content-range']]).toEqual([200, undefined])
})

test('an empty file is whole, whatever range is asked for', async () => {
  writeFileSync(join(site, 'empty.txt'), '')
  const app = await open(route)
  for (const range of ['bytes=0-', 'bytes=0-99', 'bytes=-5']) {
    const answer = await app.inject({ url: '/empty.txt', headers: { range } })
    expect([answer.statusCode, answer.headers['content-length']]).toEqual([200, '0'])
  }
})

test('a part is sent only of the file that If-Range names', async () => {
  const app = await open(route)
  const { headers } = await app.inject('/index.html')
  const ask = async (ifRange: string) => {
    const given = { range: 'bytes=0-1', 'if-range': ifRange }
    return (await app.inject({ url: '/index.html', headers: given })).statusCode
  }
  expect(await ask(String(headers['last-modified']))).toBe(206)
  expect(await ask('Thu, 01 Jan 1970 00:00:00 GMT')).toBe(200)
  expect(await ask('"other"')).toBe(200)
  expect(await ask(String(headers.etag))).toBe(200) // it is a weak one
})

test.each([
  ['100%.txt', '/100%25.txt'],
  ['a%20b.txt', '/a%2520b.txt'],
  ['what?#.txt', '/what%3F%23.txt'],
  ['[x] (1)+&=;@.txt', '/[x]%20(1)+&=;@.txt'],
  ['\u00e4\ud83d\ude80.txt', '/%C3%A4%F0%9F%9A%80.txt'],
])('a file is found by its name, whatever characters it has: %s', async (name, url) => {
  writeFileSync(join(site, name), name)
  const app = await open(route)
  expect((await app.inject(url)).body).toBe(name)
  expect((await app.inject({ method: 'HEAD', url })).statusCode).toBe(200)
  expect((await app.inject({ method: 'DELETE', url })).statusCode).toBe(405)
})

describe('a folder without its slash', () => {
  const docs = join(folder, 'docs')
  mkdirSync(join(docs, 'sub/a b#?%&\u00e4'), { recursive: true })
  mkdirSync(join(docs, 'evil.example'), { recursive: true })
  for (const at of ['.', 'sub', 'sub/a b#?%&\u00e4', 'evil.example'])
    writeFileSync(join(docs, at, 'index.html'), at)

  test.each([
    ['/docs', '/docs/'],
    ['/docs?a=1&b=/x', '/docs/?a=1&b=/x'],
    ['/docs/sub', '/docs/sub/'],
    ['/docs/sub?to=//evil.example', '/docs/sub/?to=//evil.example'],
    ['/docs/s%75b', '/docs/sub/'],
    ['/docs/sub/a%20b%23%3F%25&%C3%A4', '/docs/sub/a%20b%23%3F%25%26%C3%A4/'],
    ['/evil.example', '/evil.example/'],
  ])('is redirected: %s', async (url, location) => {
    const app = await serve(route, { static: { '/': docs, '/docs': docs } })
    for (const method of ['GET', 'HEAD'] as const) {
      const answer = await app.inject({ method, url })
      expect([answer.statusCode, answer.headers.location, answer.body]).toEqual([301, location, ''])
      expect((await app.inject({ method, url: location })).statusCode).toBe(200)
    }
  })

  test.each([
    ...['//evil.example', '///evil.example', '//evil.example/', '/docs//evil.example', '/%2Fevil.example'],
    ...['/%2F%2Fevil.example', '/\\evil.example', '/%5Cevil.example', '/docs/%5C%5Cevil.example'],
    ...['/docs/..%2F%2Fevil.example', '/.%2F/evil.example', '//evil.example/%2e%2e', '//evil.example/..'],
    ...[
      '/\t/evil.example',
      '/docs/sub/index.html/',
      '/docs/sub/..',
      '/docs/sub/%2e%2e',
      '/docs/sub//',
      '/docs2',
    ],
  ])('leads to no other host: %j', async (url) => {
    const { port } = await listen(route, { static: { '/': docs, '/docs': docs } })
    const bytes = `GET ${url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
    const [answer] = await exchange(port, bytes)
    expect(answer?.headers.location).toBeUndefined()
    expect([400, 404]).toContain(answer?.status)
  })

  test('is not there without an index, and a route at its URL wins', async () => {
    mkdirSync(join(docs, 'bare'), { recursive: true })
    const app = await serve({ ...route, url: '/docs', method: 'GET' }, { static: { '/docs': docs } })
    expect((await app.inject('/docs/bare')).statusCode).toBe(404)
    expect((await app.inject({ method: 'POST', url: '/docs/bare' })).statusCode).toBe(404)
    expect((await app.inject('/docs')).statusCode).toBe(200)
    expect((await app.inject({ method: 'POST', url: '/docs' })).headers.allow).toBe('GET, HEAD')
  })
})

test('a file that is compressed already is served as it is', async () => {
  writeFileSync(join(site, 'a.js'), 'let a')
  for (const name of ['a.js.gz', 'a.js.br', 'page.tar.gz']) writeFileSync(join(site, name), 'packed')
  const app = await open(route, { compress: { thresholdBytes: 0 } })
  for (const name of ['a.js.gz', 'page.tar.gz']) {
    const answer = await app.inject({ url: `/${name}`, headers: { 'accept-encoding': 'gzip' } })
    expect(answer.headers).toMatchObject({ 'content-type': 'application/gzip', 'content-length': '6' })
    expect(answer.headers['content-encoding']).toBeUndefined()
  }
  const plain = await app.inject({ url: '/a.js', headers: { 'accept-encoding': 'identity' } })
  expect([plain.body, plain.headers['content-encoding']]).toEqual(['let a', undefined])
})

test.each([
  '/nothing.txt',
  '/.env',
  '/.git/config',
  '/%2eenv',
  '/empty/',
  '/empty',
  '/.git',
  '/index.html%00.txt',
])('there is nothing at %s', async (url) => {
  const app = await open(route)
  const answer = await app.inject(url)
  expect(answer.statusCode).toBeGreaterThanOrEqual(400)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(answer.json()).toMatchObject({
    status: answer.statusCode,
    code: expect.stringMatching(/^WASM_SERVE_/),
  })
  expect(answer.body).not.toContain(folder)
})

test('nothing outside of the folder is served', async () => {
  const { port } = await listen(route, { static: { '/files': site } })
  for (const path of [
    '/files/../outside.txt',
    '/files/%2e%2e/outside.txt',
    '/files/..%2foutside.txt',
    '/files//etc/passwd',
    '/files/..%5coutside.txt',
  ]) {
    const [answer] = await exchange(port, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    expect([path, answer?.status]).toEqual([path, expect.toSatisfy((status: number) => status >= 400)])
  }
})

describe('links', () => {
  const linked = join(folder, 'linked')
  const outside = join(folder, 'private')
  const SECRET = 'SECRET of another folder'
  mkdirSync(join(linked, 'real/deep'), { recursive: true })
  mkdirSync(join(linked, 'dated/..2026'), { recursive: true })
  mkdirSync(join(outside, 'deep'), { recursive: true })
  for (const name of ['index.html', 'secret.txt', 'deep/secret.txt'])
    writeFileSync(join(outside, name), SECRET)
  mkdirSync(`${linked}2`) // its name begins as the folder's does
  writeFileSync(`${linked}2/secret.txt`, SECRET)
  for (const name of ['index.html', 'real/index.html', 'real/deep/page.txt', 'dated/..2026/page.txt'])
    writeFileSync(join(linked, name), `inside: ${name}`)
  const links = {
    ...{ 'file.txt': '../private/secret.txt', 'absolute.txt': join(outside, 'secret.txt') },
    ...{ folder: '../private', 'real/up': '../../private', 'real/deep/twice': '../../folder' },
    ...{ beside: '../linked2', parent: '..', root: '/', proc: '/proc/self', fd: '/proc/self/fd' },
    ...{ again: 'file.txt', loop: 'loop', dangling: 'nothing' },
    ...{ 'good.txt': 'real/deep/page.txt', good: 'real', 'real/deep/good': '../..' },
    ...{
      'good-absolute.txt': join(linked, 'index.html'),
      'dated/..data': '..2026',
      'dated/page.txt': '..data/page.txt',
    },
  }
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(linked, name))
  mkdirSync(join(linked, 'indexed'))
  symlinkSync('../../private/index.html', join(linked, 'indexed/index.html'))
  const openLinked = (root = linked) => serve(route, { static: { '/': root } })

  test.each([
    ...['/file.txt', '/absolute.txt', '/again', '/folder/secret.txt', '/folder/deep/secret.txt', '/folder/'],
    ...['/folder', '/real/up/secret.txt', '/real/deep/twice/secret.txt', '/beside/secret.txt', '/indexed/'],
    ...[
      '/indexed',
      '/indexed/index.html',
      '/parent/private/secret.txt',
      `/root${outside}/secret.txt`,
      '/loop',
    ],
    ...['/dangling', `/proc/cwd/package.json`, `/proc/root${outside}/secret.txt`, '/fd/0', '/proc/environ'],
    ...['/real/deep/good/file.txt', '/good/up/secret.txt'],
  ])('do not lead out of the folder: %s', async (url) => {
    const app = await openLinked()
    const ranges = [
      {},
      { range: 'bytes=0-5' },
      { range: 'bytes=900-' },
      { 'if-none-match': '*' },
      { 'if-match': '"x"' },
    ]
    for (const method of ['GET', 'HEAD'] as const) {
      for (const headers of ranges) {
        const answer = await app.inject({ method, url, headers })
        expect(answer.body).not.toContain('SECRET')
        expect(answer.statusCode).toBe(404)
      }
    }
  })

  test.each([
    ['/good.txt', 'inside: real/deep/page.txt'],
    ['/good/', 'inside: real/index.html'],
    ['/good/deep/page.txt', 'inside: real/deep/page.txt'],
    ['/real/deep/good/index.html', 'inside: index.html'],
    ['/good-absolute.txt', 'inside: index.html'],
    ['/parent/linked/index.html', 'inside: index.html'],
    ['/dated/page.txt', 'inside: dated/..2026/page.txt'],
  ])('that stay inside are followed: %s', async (url, body) => {
    const app = await openLinked()
    const answer = await app.inject(url)
    expect([answer.statusCode, answer.body]).toEqual([200, body])
    const part = await app.inject({ url, headers: { range: 'bytes=0-5' } })
    expect([part.statusCode, part.body]).toEqual([206, 'inside'])
  })

  test('a folder may be a link itself, and lead elsewhere from now on', async () => {
    const current = join(folder, 'current')
    symlinkSync('site', current)
    const app = await openLinked(current)
    expect((await app.inject('/')).body).toBe('<h1>hello</h1>')
    symlinkSync('linked', `${current}2`)
    renameSync(`${current}2`, current)
    expect((await app.inject('/')).body).toBe('inside: index.html')
    expect((await app.inject('/file.txt')).statusCode).toBe(404)
  })

  test('a name is what the folder has, and its type is that of the URL', async () => {
    const app = await openLinked()
    symlinkSync('index.html', join(linked, 'page.bin'))
    const { headers } = await app.inject('/page.bin')
    expect(headers).toMatchObject({ 'content-type': 'application/octet-stream', 'content-length': '18' })
  })
})

test('what is neither a file nor a folder is not there, and holds up nobody', async () => {
  const special = join(folder, 'special')
  mkdirSync(special)
  for (const name of ['1', '2', '3', '4', '5']) execFileSync('mkfifo', [join(special, `fifo${name}`)])
  symlinkSync('/dev/zero', join(special, 'zero'))
  const socket = createServer().listen(join(special, 'socket'))
  onTestFinished(() => void socket.close())
  await once(socket, 'listening')
  const app = await serve(route, { static: { '/': special } })
  for (const name of [...['1', '2', '3', '4', '5'].map((each) => `fifo${each}`), 'socket', 'zero'])
    expect([name, (await app.inject(`/${name}`)).statusCode]).toEqual([name, 404])
})

test.runIf(existsSync('/proc/self/fd')).each([
  ['alone', {}],
  ['with an ETag', { etag: true }],
  ['with an ETag and compression', { etag: true, compress: {} }],
])('no answer leaves a file open, read to its end or not, %s', async (_, options) => {
  writeFileSync(join(site, 'large.bin'), Buffer.alloc(8_000_000, 'x'))
  const { port } = await listen(route, { static: { '/': site }, ...options })
  const url = `http://127.0.0.1:${port}`
  const whole = await fetch(`${url}/large.bin`)
  expect((await whole.arrayBuffer()).byteLength).toBe(8_000_000)
  const again = { 'if-none-match': '*', 'cache-control': 'no-cache' }
  const asked = [{}, { range: 'bytes=9-' }, { 'if-none-match': '*' }, again, { range: 'bytes=9000000-' }]
  for (const headers of [...asked, { 'if-match': '"x"' }])
    await (await fetch(`${url}/a%20b.txt`, { headers })).arrayBuffer()
  await (await fetch(`${url}/a%20b.txt`, { method: 'POST' })).arrayBuffer()
  await (await fetch(`${url}/a%20b.txt`, { method: 'HEAD' })).arrayBuffer()
  await (await fetch(`${url}/empty`)).arrayBuffer()
  const [answer] = await once(request(`${url}/large.bin`).end(), 'response')
  await once(answer, 'readable')
  answer.destroy()
  await expect.poll(() => openIn(site)).toEqual([])
})

function openIn(root: string): string[] {
  const links = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return '' // closed meanwhile
    }
  })
  return links.filter((path) => path.startsWith(root))
}

test('a route wins for its methods, files answer the others, and several folders have URLs of their own', async () => {
  const app = await open(
    { ...route, url: '/index.html' },
    { static: { '/': site, '/other/': join(site, '.git') } },
  )
  expect((await app.inject({ method: 'POST', url: '/index.html', body: 'abc' })).body).toBe('abc')
  expect((await app.inject('/index.html')).headers['content-type']).toContain('text/html')
  const refused = await app.inject({ method: 'PUT', url: '/index.html' })
  expect([refused.statusCode, refused.headers.allow]).toEqual([405, 'GET, HEAD, POST'])
  expect((await app.inject('/other/config')).body).toBe('secret') // it was asked for by name
})

test('a key is asked for here too', async () => {
  const apiKeys = ['first-key-0123456789']
  const app = await open(route, { apiKeys })
  expect((await app.inject('/')).statusCode).toBe(401)
  const headers = { 'x-api-key': 'first-key-0123456789' }
  for (const [url, status] of [
    ['/', 200],
    ['/nested', 301],
  ] as const) {
    const answer = await app.inject({ url, headers })
    expect([answer.statusCode, answer.headers['cache-control']]).toEqual([status, 'private, max-age=0'])
  }
})

test('files for everybody may be kept by shared caches, and are asked for again', async () => {
  const app = await open(route)
  for (const headers of [{}, { 'if-none-match': '*' }, { range: 'bytes=0-1' }])
    expect((await app.inject({ url: '/', headers })).headers['cache-control']).toBe('public, max-age=0')
  const failed = await app.inject({ url: '/', headers: { 'if-match': '"x"' } })
  expect([failed.statusCode, failed.headers['cache-control']]).toEqual([412, undefined])
})

test('a route for all GETs of the same URLs, a path without a slash and a folder that is none are refused', async () => {
  const refused = open({ ...route, url: '/*', method: ['GET'] })
  await expect(refused).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
  const app = await open({ ...route, url: '/*' }) // POST alone
  expect((await app.inject('/')).statusCode).toBe(200)
  await expect(open(route, { static: { files: site } })).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
  })
  await expect(open(route, { static: { '/': join(site, 'none') } })).rejects.toMatchObject({
    code: 'WASM_SERVE_STATIC_FOLDER_INVALID',
  })
})

test('in a config file the folder is relative to the file', async () => {
  const config = join(folder, 'c.json')
  writeFileSync(
    config,
    JSON.stringify({ static: { '/': 'site' }, plugins: { hello: { source: guest('echo') } } }),
  )
  const { code, stdout } = await run(['-c', config, '--print-config'])
  expect(code).toBe(0)
  expect(JSON.parse(stdout).options.static).toEqual({ '/': site })
})
