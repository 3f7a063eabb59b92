import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

const post = (url: string, body = '') => fetch(url, { method: 'POST', body })

test("the article's request gets the article's answer, byte for byte", async () => {
  const hello = new URL('../../plugins/hello/hello.wasm', import.meta.url).pathname
  const url = await start([hello, '0']).listening()
  const answer = await post(url, '😄 Bob Morane')
  expect(answer.status).toBe(200)
  expect(Buffer.from(await answer.arrayBuffer())).toEqual(Buffer.from('{"message":"🦀 Hello 😄 Bob Morane"}'))
})

test('the banner tells where it listens, what answers and how to try it', async () => {
  const server = start([guest('echo'), '0'])
  const url = await server.listening()
  const banner = await server.printed('curl')
  expect(banner).toMatch(/METHOD +URL +PLUGIN +FUNCTION +CONTRACT +ENGINE +RUNTIME/)
  expect(banner).toMatch(/POST +\/ +echo +echo +raw +inline/)
  expect(banner).toContain(`curl ${url}/ -d`)
  expect(banner).not.toContain('\x1b')
})

test('the three words of the article are plug-in, function and port', async () => {
  const port = await freePort()
  const server = start([guest('several'), 'alpha', String(port)])
  expect(await server.listening()).toBe(`http://127.0.0.1:${port}`)
  expect(await (await post(`http://127.0.0.1:${port}/`)).text()).toBe('a')
})

test('several functions are mounted at their names, and the namesake of the file also at /', async () => {
  const url = await start([guest('several'), '0']).listening()
  expect(await (await post(`${url}/alpha`)).text()).toBe('a')
  expect(await (await post(`${url}/b:ta`)).text()).toBe('b')
  expect(await (await post(`${url}/several`)).text()).toBe('s')
  expect(await (await post(url)).text()).toBe('s')
  for (const other of ['add', 'long', 'malloc', '_initialize', '__wasm_call_ctors']) {
    expect((await post(`${url}/${other}`)).status).toBe(404)
  }
})

test('names that mean something in a URL or a route are mounted as they are', async () => {
  const names = ['a b', 'ünï', 'x:y', '50%', 'deep/er', 'plus+', "quote'"]
  const functions = names.map((name) => `(func (export "${name}"))`).join('')
  const url = await start([file('odd.wasm', guestBytes(`(module ${functions})`)), '0']).listening()
  for (const name of names) {
    expect([name, (await post(`${url}/${encodeURI(name)}`)).status]).toEqual([name, 200])
  }
})

test('a name that cannot be a route is left out, and named', async () => {
  const functions = ['good', 'st*r', 'wh?t', 'sh#rp'].map((name) => `(func (export "${name}"))`).join('')
  const server = start([file('stars.wasm', guestBytes(`(module ${functions})`)), '0'])
  const url = await server.listening()
  expect((await post(`${url}/good`)).status).toBe(200)
  server.kill('SIGTERM')
  expect((await server.ended).stderr).toContain('st*r, wh?t, sh#rp')
})

test('names with control characters reach no terminal as they are', async () => {
  const functions = ['c', 'a\\1b[31mX', 'b\\0a  POST     /forged', '']
    .map((name) => `(func (export "${name}"))`)
    .join('')
  const server = start([file('escape.wasm', guestBytes(`(module ${functions})`)), '0'])
  await server.listening()
  const banner = await server.printed('curl')
  expect(banner).not.toContain('\x1b')
  expect(banner.split('\n').filter((line) => line.includes('POST'))).toHaveLength(1)
})

test('the plug-in and config can be named in the environment', async () => {
  const env = {
    WASM_SERVE_MANIFEST: guest('config'),
    WASM_SERVE_SET_CONFIG: '{"a":"1"}',
    WASM_SERVE_PORT: '0',
  }
  expect(await (await post(await start([], env).listening(), 'a')).text()).toBe('1')
})

test.each([
  ['a request timeout below that of the headers', ['--request-timeout-ms', '5000']],
  [
    'the longest times there are',
    ['--grace-ms', '2147483647', '--drain-ms', '0', '--request-timeout-ms', '2147483647'],
  ],
])('%s is served, and ended by SIGTERM with 0', async (_, flags) => {
  const server = start([guest('echo'), '0', ...flags])
  expect(await (await post(await server.listening(), 'abc')).text()).toBe('abc')
  server.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
})

test('a guest that begins with nearly all the memory that it may have keeps its instance', async () => {
  const counter = guestBytes(`(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (memory (export "memory") 17)
    (global $calls (mut i32) (i32.const 48))
    (func (export "count")
      (local $at i64)
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (local.set $at (call $alloc (i64.const 1)))
      (call $store_u8 (local.get $at) (global.get $calls))
      (call $output_set (local.get $at) (i64.const 1))))`)
  const url = await start([file('counter.wasm', counter), '0', '--memory-max', '20']).listening()
  expect([
    await (await post(url)).text(),
    await (await post(url)).text(),
    await (await post(url)).text(),
  ]).toEqual(['1', '2', '3'])
})

test('flags win over the environment, which wins over defaults', async () => {
  const env = {
    WASM_SERVE_CONFIG: '{"greeting":"from env","name":"env"}',
    WASM_SERVE_BODY_LIMIT: '8',
    WASM_SERVE_PORT: '0',
  }
  const url = await start([guest('config'), '--config', 'greeting=from=flag'], env).listening()
  expect(await (await post(url, 'greeting')).text()).toBe('from=flag')
  expect(await (await post(url, 'name')).text()).toBe('env')
  expect((await post(url, 'too long by far')).status).toBe(413)
})

test('a variable can hold config as a list of pairs', async () => {
  const url = await start([guest('config'), '0'], { WASM_SERVE_CONFIG: '["a=1","b=2"]' }).listening()
  expect(await (await post(url, 'b')).text()).toBe('2')
})

test('config that was not given is not there, not even what every object has', async () => {
  const url = await start([guest('config'), '0']).listening()
  for (const key of ['nothing', 'toString', '__proto__', 'constructor']) {
    const answer = await post(url, key)
    expect([key, answer.status, await answer.text()]).toEqual([key, 200, ''])
  }
})

test('a trap is logged with the functions that were running, the request id and what became of the instance', async () => {
  const server = start([guest('trap'), '0'])
  const url = await server.listening()
  const answer = await fetch(url, { method: 'POST', body: 'trap!', headers: { 'x-request-id': 'r-42' } })
  expect(answer.status).toBe(500)
  server.kill('SIGTERM')
  const { stderr } = await server.ended
  const lines = stderr.split('\n').filter((line) => line.includes('WASM_SERVE_GUEST_TRAP'))
  expect(lines).toHaveLength(1)
  const line = JSON.parse(lines[0] ?? '')
  expect(line).toMatchObject({
    level: 'error',
    reqId: 'r-42',
    ...{ route: '/', plugin: 'trap', function: 'trap' },
    reason: 'unreachable',
    guestStack: ['inner', 'outer', 'trap'],
  })
  expect(line.msg).toContain('instance was replaced')
})

test("a guest's log lines carry the request id and the plug-in", async () => {
  const server = start([guest('log'), 'log', '0'])
  const url = await server.listening()
  await fetch(url, { method: 'POST', body: 'dear\nlog', headers: { 'x-request-id': 'r-7' } })
  server.kill('SIGTERM')
  const lines = (await server.ended).stderr.split('\n').filter((line) => line.includes('dear'))
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { level: 'info', reqId: 'r-7', plugin: 'log', msg: 'dear\nlog' },
    { level: 'warn', reqId: 'r-7', plugin: 'log', msg: 'dear\nlog' },
    { level: 'error', reqId: 'r-7', plugin: 'log', msg: 'dear\nlog' },
  ])
})

test('a guest that logs without end is cut short, and told on', async () => {
  const server = start([guest('log'), 'flood', '0'])
  await post(await server.listening(), 'line')
  server.kill('SIGTERM')
  const { stderr } = await server.ended
  expect(stderr.split('\n').filter((line) => line.includes('"msg":"line"'))).toHaveLength(100)
  expect(stderr).toContain('"dropped":400')
})

test('a route can be told its methods, URL, contract, headers and status for errors', async () => {
  const flags = ['--method', 'GET,PUT', '--url', '/a/:b', '--contract', 'http', '--error-status', '422']
  const server = start([guest('refuse'), '0', ...flags, '--header', 'Cache-Control=no-store'])
  const url = await server.listening()
  expect(await server.printed('curl')).toMatch(/GET,PUT,HEAD +\/a\/:b +refuse +refuse +http/)
  const answer = await fetch(`${url}/a/1?c=2`, { method: 'PUT' })
  expect([answer.status, answer.headers.get('cache-control')]).toEqual([422, 'no-store'])
  expect(await answer.json()).toMatchObject({ method: 'PUT', params: { b: '1' }, query: { c: '2' } })
  expect((await post(`${url}/a/1`)).status).toBe(405)
})

test('the one function that answers at a URL is to be named if there are several', async () => {
  const { code, stderr } = await run([guest('several'), '0', '--url', '/a'])
  expect(code).toBe(2)
  expect(stderr).toContain('name one of them')
})

test('--version prints the version and ends with 0', async () => {
  const version = await run(['--version'])
  expect(version.code).toBe(0)
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
