import { expect, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

/* What only a process has: the words that Node gives it, its exit code, its pipes, its signals. */

const post = (url: string, body = '') => fetch(url, { method: 'POST', body })

test('the built command serves, and SIGTERM ends it with 0', async () => {
  const server = start([guest('echo'), '0'])
  expect(await (await post(await server.listening(), 'abc')).text()).toBe('abc')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('a mistake ends it with 2, a failure with 1, and neither shows a stack', async () => {
  const [mistake, failure] = await Promise.all([run(['absent.wasm']), run(['call', guest('trap')])])
  expect([mistake.code, failure.code]).toEqual([2, 1])
  expect(mistake.stderr + failure.stderr).not.toMatch(/^\s+at /m)
})

test('standard input and output carry any bytes', async () => {
  const input = Uint8Array.from({ length: 100_000 }, (_, index) => index)
  const { code, bytes } = await run(['call', guest('echo'), '--stdin'], {}, { input })
  expect([code, bytes.equals(input)]).toEqual([0, true])
})

test('a reader of the output that goes away does not end the server', async () => {
  const server = start([guest('echo'), '0'])
  const url = await server.listening()
  server.child.stdout?.destroy()
  server.child.stderr?.destroy()
  expect(await (await post(url, 'still here')).text()).toBe('still here')
})

test('a reader of the errors that goes away does not change how a command ends', async () => {
  const command = start(['absent.wasm'])
  command.child.stderr?.destroy()
  expect(await command.ended).toMatchObject({ code: 2 })
})

test('to serve a plug-in without a config file, nothing is loaded that reads one or starts processes', async () => {
  const loaded = `data:text/javascript,${encodeURIComponent(`
    import { register } from 'node:module'
    register('data:text/javascript,' + encodeURIComponent(
      'import { writeSync } from "node:fs"; export async function resolve(s, c, next) { const r = await next(s, c); writeSync(2, r.url + "\\\\n"); return r }'))`)}`
  const env = { NODE_OPTIONS: `--import ${loaded}` }
  const plain = await modulesOf(start([guest('echo'), '0'], env))
  expect(plain).toContain('dist/serve.js')
  expect(plain).not.toMatch(/\/yaml\/|config-file|dist\/check\.js|\/ajv\//)
  expect(plain).not.toMatch(/dist\/(?:processes|refuse-unshared|serving-\w+)\d*\.js/)
})

async function modulesOf(server: ReturnType<typeof start>): Promise<string> {
  await server.listening()
  server.kill('SIGTERM')
  return (await server.ended).stderr
}
