import { execFile, spawn } from 'node:child_process'
import { on, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { guestBytes } from '../support/guest.ts'
import { ROOT } from '../support/user-package.ts'

const EXAMPLES = join(ROOT, 'examples')

/** Starts an example as its first lines say; ended when the test ends. */
async function start(name: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [join(EXAMPLES, name)], {
    env: { ...process.env, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const log = on(createInterface(child.stderr), 'line') // keeps lines until they are read
  const [line] = await once(createInterface(child.stdout), 'line')
  const url = String(line).replace('listens on ', '')
  const ask = async (path: string, body?: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(url + path, { headers, ...(body !== undefined && { method: 'POST', body }) })
    return [answer.status, await answer.text()]
  }
  return { ask, log }
}

test('mount.mjs answers its own routes and the plug-in, and logs each call', async () => {
  const { ask, log } = await start('mount.mjs')
  expect(await ask('/users/7')).toEqual([200, '{"user":{"id":"7"}}'])
  expect(await ask('/users', '{"a":1}', { 'content-type': 'application/json' })).toEqual([
    200,
    '{"got":{"a":1}}',
  ])
  expect(await ask('/plugins/hello', 'Bob')).toEqual([200, '{"message":"🦀 Hello Bob"}'])
  for await (const [line] of log) {
    if (!line.includes('"msg":"called"')) continue
    expect(JSON.parse(line)).toMatchObject({ function: 'hello', bytes: 28 })
    break
  }
})

test('host-function.mjs lets the guest ask the app', async () => {
  const { ask } = await start('host-function.mjs')
  expect(await ask('/', 'pear')).toEqual([200, '1.50'])
  expect(await ask('/', 'yacht')).toEqual([409, 'there is no yacht'])
  expect(await ask('/', 'apple')).toEqual([200, '1.20'])
})

test('auth.mjs runs no guest for who does not know the token', async () => {
  const { ask } = await start('auth.mjs', { TOKEN: 'secret' })
  const known = { authorization: 'Bearer secret' }
  expect(await ask('/health')).toEqual([200, 'ok'])
  expect((await ask('/plugins/hello', 'Bob'))[0]).toBe(401)
  expect((await ask('/plugins/hello', 'Bob', { authorization: 'Bearer other' }))[0]).toBe(401)
  expect(await ask('/plugins/hello', 'Bob', known)).toEqual([200, '{"message":"🦀 Hello Bob"}'])
  const [status, problem] = await ask('/plugins/hello', 'B'.repeat(101), known)
  expect([status, JSON.parse(String(problem)).code]).toEqual([403, 'WASM_SERVE_CALL_REFUSED'])
})

test('hello.test.mjs passes with node --test', async () => {
  // Node's test runner tells by a variable whether it runs below another one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = ['--test', join(EXAMPLES, 'hello.test.mjs')]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  expect(stdout).toMatch(/pass 2\n/)
})

test('shop.wasm is what its text says', () => {
  const text = readFileSync(join(EXAMPLES, 'shop.wat'), 'utf8')
  expect(readFileSync(join(EXAMPLES, 'shop.wasm'))).toEqual(Buffer.from(guestBytes(`(; ;)${text}`)))
})
