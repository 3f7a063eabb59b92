import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { openSocket } from '../support/web-socket.ts'

/** The path of a script. */
function script(source: string, name = 'plugin.js'): string {
  const at = mkdtempSync(join(tmpdir(), 'wasm-serve-scripts-'))
  onTestFinished(() => rmSync(at, { recursive: true }))
  writeFileSync(join(at, name), source)
  return join(at, name)
}

const serve = (source: string, ...flags: string[]) => start([script(source), '0', ...flags]).listening()

const post = async (url: string, body: BodyInit | null = null) =>
  (await fetch(url, { method: 'POST', body })).text()

/** A server that answers with what it got. */
async function echoServer(): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const about = { method: request.method, url: request.url, header: request.headers['x-a'], body }
    response.setHeader('x-b', 'two').end(JSON.stringify(about))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('fetch and Http.request reach hosts that are allowed, and no others', async () => {
  const upstream = await echoServer()
  const url = await serve(
    `export async function send(url) {
      const response = await fetch(new URL('/a?b=1', url), { method: 'POST', headers: { 'x-a': 'one' }, body: 'text' })
      return [response.status, response.ok, response.headers.get('x-b'), await response.json()]
    }
    export function plain(url) { return JSON.parse(Http.request({ url }).body).method }
    export const refused = () => fetch('http://localhost:1').catch((error) => error.name)`,
    '--allow-host',
    '127.0.0.1',
  )
  expect(JSON.parse(await post(`${url}/send`, upstream))).toEqual([
    ...[200, true, 'two'],
    { method: 'POST', url: '/a?b=1', header: 'one', body: 'text' },
  ])
  expect(await post(`${url}/plain`, upstream)).toBe('GET')
  expect((await fetch(`${url}/refused`, { method: 'POST' })).status).toBe(500)
})

test('a script streams: it reads a body and writes its response piece by piece', async () => {
  const url = await serve(
    `import { stream } from 'wasm-serve:http'
    export function capitals() {
      stream.start({ headers: { 'content-type': 'text/csv' } })
      for (const line of stream.lines()) stream.write(line.toUpperCase())
    }
    export function size() {
      let size = 0
      for (const piece of stream) size += piece.length
      return size
    }
    export function count() {
      for (let id = 1; id <= 3; id++) {
        stream.event({ id: String(id), data: { id } })
        stream.pause(1)
      }
    }`,
    '--body-limit',
    '0',
  )
  const response = await fetch(`${url}/capitals`, { method: 'POST', body: 'a,ü\nb,2\nlast' })
  expect([response.headers.get('content-type'), await response.text()]).toEqual([
    'text/csv',
    'A,Ü\nB,2\nLAST',
  ])
  expect(await post(`${url}/size`, new Uint8Array(3_000_000))).toBe('3000000')
  expect(await post(`${url}/count`)).toBe([1, 2, 3].map((id) => `id: ${id}\ndata: {"id":${id}}\n\n`).join(''))
})

test('a script streams a request to another server', async () => {
  const upstream = await echoServer()
  const url = await serve(
    `import { stream } from 'wasm-serve:http'
    export function pass() {
      const request = stream.open({ method: 'PUT', url: Config.get('upstream') + '/x', headers: { 'x-a': 'one' } })
      request.write('one ')
      request.write('two')
      request.end()
      const { status } = request.response()
      const decoder = new TextDecoder()
      return [status, JSON.parse([...request].map((piece) => decoder.decode(piece, { stream: true })).join('')).body]
    }`,
    '--config',
    `upstream=${upstream}`,
    '--allow-host',
    '127.0.0.1',
  )
  const answer = await fetch(url, { method: 'POST' })
  expect([answer.status, await answer.text()]).toEqual([200, '[200,"one two"]'])
})

const VISITS = `const { kv } = require('wasm-serve:kv')
  function visits(name) {
    for (;;) {
      const before = kv.get(name)
      const after = String(Number(before ?? 0) + 1)
      if (before === null ? kv.setIfAbsent(name, after) : kv.compareAndSwap(name, before, after)) return after
    }
  }
  function all() {
    kv.set('a', Uint8Array.of(1, 2), { ttlMs: 60000 })
    kv.set('empty', '')
    const isDeleted = [kv.delete('empty'), kv.delete('empty')]
    kv.set('empty', '')
    return [isDeleted, kv.list('', { limit: 1 }).keys, [...kv.getBytes('a')], kv.get('none'), kv.get('empty'), kv.compareAndSwap('a', 'x', 'y')]
  }
  module.exports = { visits, all }`

test('a script keeps values in the store, apart from those of a file with the same name', async () => {
  const [one, two] = [script(VISITS), script(VISITS)]
  const file = join(one, '..', 'wasm-serve.json')
  writeFileSync(
    file,
    JSON.stringify({ store: 'memory:', plugins: { one: { source: one }, two: { source: two } } }),
  )
  const url = await start(['-c', file, '--port', '0']).listening()
  expect([await post(`${url}/one/visits`, 'Ada'), await post(`${url}/one/visits`, 'Ada')]).toEqual(['1', '2'])
  expect(await post(`${url}/two/visits`, 'Ada')).toBe('1')
  expect(JSON.parse(await post(`${url}/two/all`))).toEqual([[true, false], ['Ada'], [1, 2], null, '', false])
})

test('a script speaks WebSocket, with texts and bytes', async () => {
  const url = await serve(
    `import { socket } from 'wasm-serve:websocket'
    export function echo() {
      for (const message of socket) {
        if (message === 'end') socket.close(4000, 'as told')
        else socket.send(typeof message === 'string' ? message.toUpperCase() : message.map((byte) => byte + 1))
      }
    }`,
    '--contract',
    'websocket',
  )
  const { socket, next, closed } = await openSocket(Number(new URL(url).port))
  socket.send('hü')
  expect(await next()).toBe('HÜ')
  socket.send(Buffer.of(1, 2))
  expect(await next()).toEqual(Buffer.of(2, 3))
  socket.send('end')
  expect(await closed).toEqual([4000, 'as told'])
})

test('what a script uses of wasm-serve, and only that, is imported', async () => {
  const importsOf = async (source: string) => {
    const { stdout } = await run(['inspect', script(source), '--json'])
    const { imports } = JSON.parse(stdout)
    const names = imports.map(
      ({ namespace, name }: { namespace: string; name: string }) => `${namespace} ${name}`,
    )
    return names.filter((name: string) => /wasm-serve|http_/.test(name)).sort()
  }
  const f = 'export const f = () => 1'
  expect(await importsOf(f)).toEqual([])
  expect(await importsOf(`import 'wasm-serve:kv'\n${f}`)).toHaveLength(6)
  expect(await importsOf(`import { socket } from 'wasm-serve:websocket'\n${f}`)).toEqual(
    ['close', 'kind', 'receive', 'send'].map((name) => `wasm-serve:http ws_${name}`),
  )
  expect(await importsOf('export const f = () => fetch("http://a")')).toEqual(
    ['headers', 'request', 'status_code'].map((name) => `extism:host/env http_${name}`),
  )
})

test.each([
  ["import { kv } from 'wasm-serve:kv'\nexport const f = kv.get('a')", 'the store'],
  ["import { stream } from 'wasm-serve:http'\nstream.read()\nexport const f = () => 1", 'an exchange'],
  ["Http.request({ url: 'http://a' })\nexport const f = () => 1", 'requests'],
])('what is only there in a call says so while a script is loaded: %j', async (source, what) => {
  const { code, stderr } = await run([script(source), '0'])
  expect([code, stderr]).toEqual([2, expect.stringContaining(`no access to ${what} while it is loaded`)])
})

const FUNCTIONS = `export default {
  'extism:host/user': {
    add: (context, a, b) => a + BigInt(b),
    half: (context, value) => value / 2,
    upper: (context, text) => context.store(context.read(text).text().toUpperCase()),
    nothing: () => {},
  },
}`

test.each([
  ['in TypeScript', 'plugin.ts', true],
  ['in a file beside it', 'plugin.js', false],
])('functions of the host are those that a script declares: %s', async (_, name, isWithin) => {
  const declaration = `declare module 'extism:host' {
    // Those of the application.
    interface user {
      add(a: I64, b: I32): I64; /* the sum */
      half(value: F64): F64
      upper(text: PTR): PTR, nothing(a: F32): void
    }
  }`
  const source = `const { add, half, upper, nothing, ...others } = Host.getFunctions()
    export function run() {
      const text = Memory.find(upper(Memory.fromString('é'))).readString()
      return { sums: [add(40, 2), String(add(2n ** 62n, -1)), add(-1, 0), String(add(2 ** 63, 0)), add(1.9, 2 ** 40)], half: half(-0.5), text, nothing: [nothing(1)], others }
    }
    export const go = () => fetch('http://127.0.0.1:1')`
  const path = script(isWithin ? declaration + source : source, name)
  const folder = dirname(path)
  if (!isWithin) writeFileSync(join(folder, 'plugin.d.ts'), declaration)
  writeFileSync(join(folder, 'functions.mjs'), FUNCTIONS)
  const url = await start([path, '0', '--functions', join(folder, 'functions.mjs')]).listening()
  expect(JSON.parse(await post(`${url}/run`))).toEqual({
    sums: [42, String(2n ** 62n - 1n), -1, String(2n ** 63n - 1n), 2 ** 31],
    half: -0.25,
    text: 'É',
    nothing: [null],
    others: {},
  })
})

test('a declaration that cannot be used has a line; a call while the script loads is refused', async () => {
  const declaring = (functions: string) => `declare module 'extism:host' { interface user {\n${functions} } }`
  const wrong = script(`${declaring('add(a: string): void')}; export const run = () => 1`, 'plugin.ts')
  expect(await run(['check', wrong])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('plugin.ts:2:8 cannot be used: "string" is not a type of WebAssembly'),
  })
  const early = script(
    `${declaring('add(a: I64): I64')}; Host.getFunctions().add(1); export const run = () => 1`,
    'early.ts',
  )
  expect(await run(['check', early])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('a script has no access to functions of the host while it is loaded'),
  })
})

const asTool = async (url: string, method: string, params: object) => {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return (await response.json()).result
}

test.each([
  [
    'by types and comments',
    `interface Sum { a: number; /** Default: 1. */ b?: number }
/** Adds two numbers. */
export const add = ({ a, b = 1 }: Sum) => a + b`,
  ],
  [
    'by an export',
    `export const add = ({ a, b = 1 }) => a + b
    const properties = { a: { type: 'number' }, b: { type: 'number', description: 'Default: 1.' } }
    export const tools = { add: { description: 'Adds two numbers.', inputSchema: { type: 'object', properties, required: ['a'] } } }`,
  ],
])('a script describes its functions for agents: %s', async (_, source) => {
  const url = await start([script(source, 'tools.ts'), '0', '--mcp']).listening()
  const { tools } = await asTool(url, 'tools/list', {})
  expect(tools).toEqual([
    {
      name: 'add',
      description: 'Adds two numbers.',
      inputSchema: expect.objectContaining({
        properties: { a: { type: 'number' }, b: { type: 'number', description: 'Default: 1.' } },
        required: ['a'],
      }),
    },
  ])
  const { content } = await asTool(url, 'tools/call', { name: 'add', arguments: { a: 2 } })
  expect(content).toEqual([{ type: 'text', text: '3' }])
  const refused = await asTool(url, 'tools/call', { name: 'add', arguments: { b: 2 } })
  expect(refused).toMatchObject({ isError: true })
})
