import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { parseOperatorAddress } from '../../src/admin/listener.ts'
import { AUTHORIZED, listenAdmin, TOKEN } from '../support/admin.ts'
import { type Running, run, start } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { open } from '../support/socket.ts'

/** Headers as a browser or a program sends them, and what comes back. */
async function ask(port: number, headers: Readonly<Record<string, string>>, target = '/nowhere') {
  const client = await open(port)
  const { host = `127.0.0.1:${port}`, ...others } = headers
  const lines = Object.entries({ host, ...others }).map(([name, value]) => `${name}: ${value}\r\n`)
  client.send(`GET ${target} HTTP/1.1\r\n${lines.join('')}\r\n`)
  const answer = await client.answer()
  return { status: answer?.status, headers: answer?.headers ?? {}, code: codeIn(answer?.body) }
}

function codeIn(body: Buffer | undefined): unknown {
  return body?.length ? JSON.parse(String(body)).code : undefined
}

const FOUND_NOTHING = { status: 404, code: 'WASM_SERVE_ROUTE_NOT_FOUND' }
const NO_TOKEN = { status: 401, code: 'WASM_SERVE_ADMIN_TOKEN_REFUSED' }
const FOREIGN = { status: 403, code: 'WASM_SERVE_ADMIN_ORIGIN_REFUSED' }

test.each([
  ['none', {}],
  ['an empty one', { authorization: 'Bearer ' }],
  ['the beginning of it', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
  ['it and more', { authorization: `Bearer ${TOKEN}x` }],
  ['another scheme', { authorization: `Basic ${TOKEN}` }],
  ['another header', { 'x-api-key': TOKEN }],
])('a request whose token is %s is refused, also if nothing is there', async (_, headers) => {
  const { port } = await listenAdmin()
  const answer = await ask(port, headers)
  expect(answer).toMatchObject(NO_TOKEN)
  expect(answer.headers['www-authenticate']).toBe('Bearer')
})

test('a request with the token is let in, and no answer is kept, framed, guessed or shared', async () => {
  const { port } = await listenAdmin()
  const answer = await ask(port, AUTHORIZED)
  expect(answer).toMatchObject(FOUND_NOTHING)
  for (const { headers } of [
    answer,
    await ask(port, {}),
    await ask(port, {}, '/%zz'),
    await ask(port, {}, '/readyz'),
  ]) {
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringMatching(/^default-src 'none';.*frame-ancestors 'none'$/),
    })
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  }
})

test.each([
  ['an IP address', 'http://127.0.0.1:9090', FOUND_NOTHING],
  ['one of IPv6', 'http://[::1]:9090', FOUND_NOTHING],
  ['a name of this machine', 'http://LocalHost:9090', FOUND_NOTHING],
  ['a name that is known', 'http://admin.internal', FOUND_NOTHING],
  ['a name that leads here', 'http://evil.example:9090', FOREIGN],
  ['a name that looks like one', 'http://127.0.0.1.evil.example', FOREIGN],
  ['no name', 'http://', FOREIGN],
])('the Host header may be an IP address or a known name: %s', async (_, url, expected) => {
  const { port } = await listenAdmin({}, { adminHosts: ['admin.internal'] })
  expect(await ask(port, { ...AUTHORIZED, host: url.slice('http://'.length) })).toMatchObject(expected)
})

test.each([
  ['its own page', { origin: 'http://127.0.0.1:9090', 'sec-fetch-site': 'same-origin' }, FOUND_NOTHING],
  ['somebody who types', { 'sec-fetch-site': 'none' }, FOUND_NOTHING],
  ['a page of another port', { origin: 'http://127.0.0.1:8080' }, FOREIGN],
  ['a page without origin', { origin: 'null' }, FOREIGN],
  ['an image of another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, FOREIGN],
  [
    'a frame',
    { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
    FOREIGN,
  ],
  [
    'a link of another site',
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    FOUND_NOTHING,
  ],
])('a request comes from no page of another origin: %s', async (_, headers, expected) => {
  const { port } = await listenAdmin()
  expect(await ask(port, { ...AUTHORIZED, host: '127.0.0.1:9090', ...headers })).toMatchObject(expected)
})

test('what needs no token is refused to pages of others too', async () => {
  const { port } = await listenAdmin()
  expect(await ask(port, {}, '/readyz')).toMatchObject({ status: 200 })
  expect(await ask(port, { host: 'evil.example' }, '/readyz')).toMatchObject(FOREIGN)
})

test.each([
  ['127.0.0.1:9090', { host: '127.0.0.1', port: 9090, isLocal: true }],
  ['[::1]:9090', { host: '::1', port: 9090, isLocal: true }],
  ['9090', { host: '127.0.0.1', port: 9090, isLocal: true }],
  ['localhost:0', { host: 'localhost', port: 0, isLocal: true }],
  ['0.0.0.0:9090', { host: '0.0.0.0', port: 9090, isLocal: false }],
  ['[::]:9090', { host: '::', port: 9090, isLocal: false }],
  ['127.evil.example:80', { host: '127.evil.example', port: 80, isLocal: false }],
  ['./a.sock', { socket: './a.sock', isLocal: true }],
])('an address is a host and port, a port, or a path: %s', (text, expected) => {
  expect(parseOperatorAddress(text)).toMatchObject(expected)
})

test('an address that other machines reach is logged as such', async () => {
  const log = keepLog()
  await listenAdmin({}, { admin: '0.0.0.0:0' }, Object.assign(log, { fatal: log.error }) as never)
  expect(log.lines).toMatchObject([{ level: 'warn', fields: { admin: '0.0.0.0:0' } }])
})

/** What the command says on standard error; it says it before it listens. */
async function told({ stderr }: Running, pattern: RegExp): Promise<RegExpExecArray> {
  for (let found = pattern.exec(stderr()); ; found = pattern.exec(stderr())) {
    if (found) return found
    await new Promise(setImmediate)
  }
}

test('the command makes a token, prints it once, and does not listen for operators unless it is told', async () => {
  const server = start([guest('echo'), '0', '--admin', '127.0.0.1:0'])
  const url = await server.listening()
  const [, adminUrl = '', token = ''] = await told(
    server,
    /^The admin listener is on (\S+), token ([\w-]{43})$/m,
  )
  const tried = await fetch(`${adminUrl}/nowhere`, { headers: { authorization: `Bearer ${token}` } })
  expect(tried.status).toBe(404)
  expect((await fetch(`${adminUrl}/readyz`)).status).toBe(200)
  expect((await fetch(`${url}/readyz`)).status).toBe(404)
  server.kill('SIGTERM')
  const { code, stdout, stderr } = await server.ended
  expect([code, `${stdout}${stderr}`.split(token).length - 1]).toEqual([0, 2]) // alone, and in the console's address

  const without = start([guest('echo'), '0'])
  await without.listening()
  expect(without.stderr()).toBe('')
})

test('a token of the environment is printed nowhere', async () => {
  const server = start([guest('echo'), '0', '--admin', '127.0.0.1:0'], { WASM_SERVE_ADMIN_TOKEN: TOKEN })
  await server.listening()
  const [, adminUrl = ''] = await told(server, /^The admin listener is on (\S+)$/m)
  expect((await fetch(`${adminUrl}/nowhere`, { headers: AUTHORIZED })).status).toBe(404)
  server.kill('SIGTERM')
  const { stdout, stderr } = await server.ended
  expect(stdout + stderr).not.toContain(TOKEN)
  const printed = await run([guest('echo'), '--print-config'], { WASM_SERVE_ADMIN_TOKEN: TOKEN })
  expect(printed.stdout).not.toContain(TOKEN)
  expect(JSON.parse(printed.stdout).options.adminToken).toBe(`\${WASM_SERVE_ADMIN_TOKEN}`)
})

test('it listens on a Unix socket, with any name, and removes it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-admin-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const socketPath = join(folder, 'admin.sock')
  const server = start([guest('echo'), '0', '--admin', socketPath])
  await server.listening()
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath, path: '/readyz', headers: { host: 'anything' } }, resolve)
      .on('error', reject)
      .end()
  })
  expect(await json(answer)).toEqual({ ready: true, reasons: [] })
  server.kill('SIGTERM')
  await server.ended
  expect(existsSync(socketPath)).toBe(false)
})

test('an address that is taken ends the command', async () => {
  const { port } = await listenAdmin()
  const { code, stderr } = await run([guest('echo'), '0', '--admin', `127.0.0.1:${port}`])
  expect([code, stderr]).toEqual([1, expect.stringContaining('the port is in use')])
})

test.each([
  'nonsense',
  '127.0.0.1',
  'host:port',
  'a b:1',
])('what is no address is refused: %s', async (admin) => {
  const { code, stderr } = await run([guest('echo'), '0', '--admin', admin])
  expect([code, stderr]).toEqual([2, expect.stringContaining('--admin: must be HOST:PORT')])
})

test('routes that cannot be opened end the command, with its admin listener', async () => {
  const { code } = await run([
    guest('start-loop'),
    '0',
    '--admin',
    '0',
    '--workers',
    '1',
    '--start-timeout-ms',
    '50',
  ])
  expect(code).toBe(1)
})

test('while the server starts, its overview is shown; lists say that they come later', async () => {
  const { url } = await listenAdmin({ state: 'starting', server: { url: undefined, routes: [] } })
  const overview = await fetch(`${url}/api`, { headers: AUTHORIZED })
  expect([overview.status, await overview.json()]).toMatchObject([
    200,
    { state: 'starting', revision: 0, routes: 0, plugins: 0 },
  ])
  const list = await fetch(`${url}/api/plugins`, { headers: AUTHORIZED })
  expect([list.status, list.headers.get('retry-after'), (await list.json()).code]).toEqual([
    503,
    '1',
    'WASM_SERVE_STARTING',
  ])
})
