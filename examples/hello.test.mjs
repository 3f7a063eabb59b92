// @ts-check
// Tests of a plug-in, without a port: node --test examples/hello.test.mjs
// In vitest only the import of `test` differs.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testPlugin } from 'wasm-serve/testing'

const guest = await testPlugin(fileURLToPath(new URL('../plugins/hello/hello.wasm', import.meta.url)))
after(() => guest.close())

test('it greets whoever the body names', async () => {
  const answer = await guest.call('hello', '😄 Bob Morane')
  assert.equal(answer.status, 200)
  assert.deepEqual(answer.json(), { message: '🦀 Hello 😄 Bob Morane' })
})

test('it does not answer GET', async () => {
  const answer = await guest.call('hello', undefined, { method: 'GET' })
  assert.equal(answer.status, 405)
  assert.equal(answer.headers.allow, 'POST')
})
