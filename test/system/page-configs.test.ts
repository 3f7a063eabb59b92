import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Ajv } from 'ajv'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { run, start } from '../support/cli.ts'
import { blocksOf, documentPages, markedYaml } from '../support/pages.ts'

const schema = JSON.parse(readFileSync(new URL('../../dist/schema.json', import.meta.url), 'utf8'))
const validate = new Ajv({ strict: true, allowUnionTypes: true }).compile(schema)

/** Pages that a test of their own follows. */
const ELSEWHERE = [
  'docs/start/migrate.md',
  'docs/serve/registry.md',
  'docs/operate/clouds.md',
  'docs/operate/kubernetes.md',
  'docs/protect/signatures.md',
  'docs/start/tutorial.md',
]

/** Of an environment that the examples name. */
const VARIABLES = { PORT: '0', GREETER_TOKEN: 'sesame', API_KEY: 'sesame-0123456789' }

const examples = documentPages()
  .filter((page) => !ELSEWHERE.includes(page))
  .flatMap((page) => blocksOf(page).filter(({ language }) => language === 'yaml'))

/** A folder with a configuration file, and the plug-ins of this repository. */
function folderWith(config: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-page-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'wasm-serve.yaml'), config)
  for (const plugin of ['hello/hello.wasm', 'count-vowels-rust/count-vowels.wasm']) {
    cpSync(new URL(`../../plugins/${plugin}`, import.meta.url), join(folder, 'plugins', plugin))
  }
  cpSync(new URL('../../plugins/hello/hello.wasm', import.meta.url), join(folder, 'greeter/greeter.wasm'))
  return folder
}

test('the pages have configuration files', () => {
  expect(examples.length).toBeGreaterThanOrEqual(4)
})

test.each(examples)('a configuration file of $page can be served: $code', async ({ code }) => {
  expect(validate(parse(code)), JSON.stringify(validate.errors)).toBe(true)
  const { code: exitCode, stderr } = await run(['check'], VARIABLES, { cwd: folderWith(code) })
  expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('wasm-serve: ')])
})

test("the example of the server's edge is served as it is", async () => {
  const config = markedYaml('docs/protect/tls-keys-cors.md', 'edge-config')
  const folder = folderWith(config)
  mkdirSync(join(folder, 'run'))
  const key = VARIABLES.API_KEY
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
  const folder = folderWith(markedYaml('docs/start/config-file.md', 'config-file'))
  const url = await start([], VARIABLES, { cwd: folder }).listening()
  const post = async (path: string, body: string) =>
    (await fetch(url.replace('0.0.0.0', '127.0.0.1') + path, { method: 'POST', body })).text()
  expect(await post('/hello', 'Bob')).toBe('{"message":"🦀 Hello Bob"}')
  expect(await post('/private/hello', 'Bob')).toBe('{"message":"🦀 Hello Bob"}')
  expect(await post('/count', 'aeiou')).toContain('"count":5')
})
