import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

const plugin = (path: string) => fileURLToPath(new URL(`../../plugins/${path}`, import.meta.url))

const CONFIG = `port: 0
etag: true
store: lmdb:./state
static: { /files: ./site }
defaults: { bodyLimit: 64KiB, timing: true }
plugins:
  shop: { source: ${plugin('http-rust/http.wasm')}, contract: http }
  visits: { source: ${plugin('visits/visits.wasm')}, kv: { namespace: guests } }
routes:
  - { url: /hello, plugin: ${plugin('hello/hello.wasm')}, headers: { x-by: wasm-serve } }
  - { url: /hello/:name, method: '*', plugin: shop }
  - { url: /echo, method: [POST, PUT], plugin: shop, workers: 1 }
  - { url: /count, plugin: ${plugin('count-vowels-rust/count-vowels.wasm')}, function: count_vowels, config: { vowels: '\${VOWELS}' } }
  - { url: /markdown, plugin: ${plugin('markdown-rust/markdown.wasm')}, isolation: fresh }
  - { url: /visits, plugin: visits }
  - { url: /simplism, plugin: ${guest('echo')}, contract: simplism }
`

test('one config file serves six plug-ins under all contracts, over HTTP as it demands', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-acceptance-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'wasm-serve.yaml'), CONFIG)
  const wrong = await run([], {}, { cwd: folder }) // no VOWELS, no folder of the site
  expect([wrong.code, wrong.stdout]).toEqual([2, ''])
  expect(wrong.stderr).toContain('VOWELS')

  writeFileSync(join(folder, 'wasm-serve.yaml'), CONFIG.replace(/^static.*\n/m, ''))
  const checked = await run(['check'], { VOWELS: 'o' }, { cwd: folder })
  expect([checked.code, checked.stderr]).toEqual([0, ''])
  const server = start([], { VOWELS: 'o' }, { cwd: folder })
  const url = await server.listening()
  const ask = async (path: string, method = 'POST', body?: string) => {
    const answer = await fetch(url + path, { method, ...(body !== undefined && { body }) })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  const hello = await ask('/hello', 'POST', 'Bob')
  expect(hello).toMatchObject({ status: 200, text: '{"message":"🦀 Hello Bob"}' })
  expect(hello.headers.get('x-by')).toBe('wasm-serve')
  expect(hello.headers.get('server-timing')).toMatch(/guest;dur=/)
  expect(JSON.parse((await ask('/hello/Ann?greeting=Yo', 'GET')).text)).toEqual({ message: '🦀 Yo Ann' })
  expect((await ask('/echo', 'POST', 'back')).text).toBe('back')
  expect((await ask('/echo', 'GET')).status).toBe(405)
  expect(JSON.parse((await ask('/count', 'POST', 'hello world')).text)).toMatchObject({ count: 2 })
  expect((await ask('/markdown', 'POST', '# One')).text).toContain('<h1>One</h1>')
  expect((await ask('/visits', 'POST', 'Ann')).text).toContain('Ann: 1')
  expect((await ask('/simplism', 'DELETE', 'gone')).text).toBe('gone')
  expect((await ask('/hello', 'POST', 'x'.repeat(70_000))).status).toBe(413)

  server.child.kill('SIGKILL')
  await server.ended
  const again = start([], { VOWELS: 'o' }, { cwd: folder })
  const answer = await fetch(`${await again.listening()}/visits`, { method: 'POST', body: 'Ann' })
  expect(await answer.text()).toContain('Ann: 2')
}, 60_000)
