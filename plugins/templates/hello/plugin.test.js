import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { testPlugin } from 'wasm-serve/testing'

const guest = await testPlugin(new URL('PLUGIN', import.meta.url))
after(() => guest.close())

test('it greets whoever the body names', async () => {
  const answer = await guest.call('hello', 'Ada')
  assert.equal(answer.status, 200)
  assert.match(answer.json().message, /Hello.* Ada/)
})
