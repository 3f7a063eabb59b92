import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { testPlugin } from 'wasm-serve/testing'

const guest = await testPlugin(new URL('PLUGIN', import.meta.url))
after(() => guest.close())

test('it counts each name', async () => {
  const answers = []
  for (const name of ['Ada', 'Bob', 'Ada']) answers.push((await guest.call('visits', name)).text())
  assert.deepEqual(answers, ['Ada: 1\n', 'Bob: 1\n', 'Ada: 2\n'])
})
