import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Ajv } from 'ajv'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { start } from '../support/cli.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const readme = read('README.md')

test("the example of the server's edge is served as it is", async () => {
  const example = /<!-- edge-config -->\n([\s\S]*?)<!-- \/edge-config -->/.exec(readme)?.[1] ?? ''
  const config = example.replaceAll(/^```.*$/gm, '')
  const schema = JSON.parse(read('dist/schema.json'))
  expect(new Ajv({ strict: true, allowUnionTypes: true }).validate(schema, parse(config))).toBe(true)

  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-edge-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'wasm-serve.yaml'), config)
  mkdirSync(join(folder, 'run'))
  cpSync(new URL('../../plugins/hello/hello.wasm', import.meta.url), join(folder, 'plugins/hello/hello.wasm'))
  const key = 'sesame-0123456789'
  const server = start([], { API_KEY: key }, { cwd: folder })
  expect(await server.listening()).toBe(`unix:${join(folder, 'run/plugins.sock')}`)
  const ask = async (headers: Record<string, string>) => {
    const socketPath = join(folder, 'run/plugins.sock')
    const sending = request({ socketPath, path: '/hello', method: 'POST', headers }).end('Bob')
    const [answer] = (await once(sending, 'response')) as [IncomingMessage]
    return [answer.statusCode, await text(answer)]
  }
  expect(await ask({ 'x-api-key': key })).toEqual([200, '{"message":"🦀 Hello Bob"}'])
  expect(await ask({})).toEqual([401, expect.stringContaining('WASM_SERVE_API_KEY_REFUSED')])
  expect(await ask({ authorization: `Bearer ${key}`, origin: 'https://app.example' })).toContain(200)
  for (let asked = 3; asked < 100; asked++) await ask({})
  expect(await ask({ 'x-api-key': key })).toEqual([429, expect.stringContaining('WASM_SERVE_RATE_LIMITED')])
})

test('the example of a config file is served as it is', async () => {
  const configFile = /<!-- config-file -->\n([\s\S]*?)<!-- \/config-file -->/.exec(readme)?.[1] ?? ''
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-readme-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const example = configFile.replaceAll(/^```.*$/gm, '')
  const schema = JSON.parse(read('dist/schema.json'))
  expect(new Ajv({ strict: true, allowUnionTypes: true }).validate(schema, parse(example))).toBe(true)

  writeFileSync(join(folder, 'wasm-serve.yaml'), example)
  cpSync(new URL('../../plugins', import.meta.url), join(folder, 'plugins'), {
    recursive: true,
    filter: (path) => !path.includes('target'),
  })
  const url = await start([], { PORT: '0', GREETER_TOKEN: 'sesame' }, { cwd: folder }).listening()
  const post = async (path: string, body: string) =>
    (await fetch(url.replace('0.0.0.0', '127.0.0.1') + path, { method: 'POST', body })).text()
  expect(await post('/hello', 'Bob')).toBe('{"message":"🦀 Hello Bob"}')
  expect(await post('/private/hello', 'Bob')).toBe('{"message":"🦀 Hello Bob"}')
  expect(await post('/count', 'aeiou')).toContain('"count":5')
})
