import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { RouteOptions, ServerOptions } from '../../src/config/options.ts'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { listen, serve } from '../support/serve.ts'
import { exchange } from '../support/socket.ts'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-static-'))
afterAll(() => rmSync(folder, { recursive: true }))
const site = join(folder, 'site')
mkdirSync(join(site, 'empty'), { recursive: true })
writeFileSync(join(folder, 'outside.txt'), 'outside')
writeFileSync(join(site, 'index.html'), '<h1>hello</h1>')
writeFileSync(join(site, 'a b.txt'), 'text')
writeFileSync(join(site, '.env'), 'SECRET=1')
mkdirSync(join(site, '.git'))
writeFileSync(join(site, '.git/config'), 'secret')

const route = { url: '/hello', plugin: guest('echo') }
const open = (route: RouteOptions, options: Partial<ServerOptions> = {}) =>
  serve(route, { static: { '/': site }, ...options })

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
  expect((await app.inject({ method: 'POST', url: '/a%20b.txt' })).statusCode).toBe(404)
})

test('who has a file is told 304, a part may be asked for, and one that is none is told 416', async () => {
  const app = await open(route)
  const { etag } = (await app.inject('/index.html')).headers
  const ask = (headers: Record<string, string>) => app.inject({ url: '/index.html', headers })
  expect((await ask({ 'if-none-match': String(etag) })).statusCode).toBe(304)
  const part = await ask({ range: 'bytes=4-8' })
  expect([part.statusCode, part.body]).toEqual([206, 'hello'])
  expect((await ask({ range: 'bytes=900-' })).statusCode).toBe(416)
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

test('a route wins at its URL, and several folders have URLs of their own', async () => {
  const app = await open(
    { ...route, url: '/index.html' },
    { static: { '/': site, '/other/': join(site, '.git') } },
  )
  expect((await app.inject('/index.html')).statusCode).toBe(405)
  expect((await app.inject('/other/config')).body).toBe('secret') // it was asked for by name
})

test('a key is asked for here too', async () => {
  const apiKeys = ['first-key-0123456789']
  const app = await open(route, { apiKeys })
  expect((await app.inject('/')).statusCode).toBe(401)
  expect((await app.inject({ url: '/', headers: { 'x-api-key': 'first-key-0123456789' } })).statusCode).toBe(
    200,
  )
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
