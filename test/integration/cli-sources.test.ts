import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

const post = async (url: string, body = '') => (await fetch(url, { method: 'POST', body })).text()
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** A web server with one file, which can go away. */
async function publish(bytes: Uint8Array) {
  const server = createServer((_request, response) => response.end(bytes)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/echo.wasm`, server }
}

test('a manifest names the plug-in and its config, and flags win over it', async () => {
  const manifest = file(
    'manifest.json',
    JSON.stringify({
      wasm: [{ path: guest('config'), hash: sha256(readFileSync(guest('config'))) }],
      config: { greeting: 'from the manifest', name: 'manifest' },
      memory: { max_pages: 16 },
    }),
  )
  const url = await start(['-m', manifest, '0', '--config', 'name=flag']).listening()
  expect(await post(url, 'greeting')).toBe('from the manifest')
  expect(await post(url, 'name')).toBe('flag')
})

test('a manifest is recognised without its flag', async () => {
  const manifest = file('echo.json', JSON.stringify({ wasm: [{ path: guest('echo') }] }))
  expect(await post(await start([manifest, '0']).listening(), 'abc')).toBe('abc')
})

test('a hash that is not that of the bytes is refused', async () => {
  const manifest = file(
    'bad-hash.json',
    JSON.stringify({ wasm: [{ path: guest('echo'), hash: sha256(guestBytes('upper')) }] }),
  )
  const { code, stderr } = await run([manifest, '0'])
  expect(code).toBe(1)
  expect(stderr).toContain(sha256(guestBytes('echo')))
})

test('a manifest with mistakes is refused with all of them', async () => {
  const { code, stderr } = await run([file('wrong.json', '{"wsm": [], "memory": {"max_page": 1}}'), '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('wsm')
  expect(stderr).toContain('memory.max_page')
})

test('--set-config adds what a JSON object holds', async () => {
  const url = await start([
    guest('config'),
    '0',
    '--set-config',
    '{"a":"1","b":"2"}',
    '--config',
    'b=3',
  ]).listening()
  expect([await post(url, 'a'), await post(url, 'b')]).toEqual(['1', '3'])
})

test.each([
  ['17', '1!'],
  ['1088KiB', '1!'],
  ['100', '123456!'],
])('--memory-max %s is where the memory of a guest ends', async (limit, answers) => {
  const url = await start([guest('grow'), '0', '--memory-max', limit, '--recycle-memory', '1GB']).listening()
  let all = ''
  while (!all.endsWith('!') && all.length < 100) all += await post(url)
  expect(all).toBe(answers)
})

test('a guest that needs more memory than it may have is not served', async () => {
  const greedy = file(
    'greedy.wasm',
    guestBytes('(module (memory (export "memory") 100) (func (export "go")))'),
  )
  const { code, stderr } = await run([greedy, '0', '--memory-max', '99'])
  expect(code).toBe(2)
  expect(stderr).toContain('100 pages')
})

test('--link gives a module that the plug-in imports from', async () => {
  const main = file(
    'main.wasm',
    guestBytes(`(module
      (import "answers" "answer" (func $answer (result i32)))
      (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
      (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
      (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
      (func (export "ask") (result i32)
        (local $at i64)
        (local.set $at (call $alloc (i64.const 1)))
        (call $store_u8 (local.get $at) (call $answer))
        (call $output_set (local.get $at) (i64.const 1))
        (i32.const 0)))`),
  )
  const answers = file(
    'answers.wasm',
    guestBytes('(module (func (export "answer") (result i32) (i32.const 42)))'),
  )
  expect(await post(await start([main, '0', '--link', answers]).listening())).toBe('*')
  const other = file(
    'other.wasm',
    guestBytes('(module (func (export "answer") (result i32) (i32.const 43)))'),
  )
  expect(await post(await start([main, '0', '--link', `answers=${other}`]).listening())).toBe('+')
})

test('a plug-in is loaded from a URL, pinned by its digest, and from the cache when the network is gone', async () => {
  const bytes = guestBytes('echo')
  const { url, server } = await publish(bytes)
  const cache = join(dirname(guest('echo')), 'cache')
  const flags = ['0', '--cache-folder', cache]
  expect(await post(await start([url, ...flags]).listening(), 'from the network')).toBe('from the network')
  expect((await run([`${url}#sha256=${sha256(guestBytes('upper'))}`, ...flags])).stderr).toContain(
    sha256(bytes),
  )

  server.closeAllConnections()
  server.close()
  await once(server, 'close')
  const pinned = `${url}#sha256=${sha256(bytes)}`
  expect(await post(await start([pinned, ...flags]).listening(), 'from the cache')).toBe('from the cache')
})

test('a plug-in from another machine has to come by https', async () => {
  const { code, stderr } = await run(['http://192.0.2.1/hello.wasm', '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('https')
})

test('--allow-path opens a folder, read-only if it says so, and nothing beside it', async () => {
  const folder = join(dirname(guest('echo')), 'shared')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'note.txt'), 'from the folder')
  const reader = guest('read-file')
  const url = await start([reader, '0', '--allow-path', `ro:${folder}:/data`]).listening()
  expect(await post(url, 'note.txt')).toBe('from the folder')
  expect(await post(url, '../echo.wasm')).toMatch(/^errno \d+$/)
  expect(await post(await start([reader, '0']).listening(), 'note.txt')).toMatch(/^errno \d+$/)
})
