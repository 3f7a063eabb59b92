import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { testPlugin } from 'wasm-serve/testing'

const guest = await testPlugin(new URL('PLUGIN', import.meta.url))
after(() => guest.close())

test('it sends the body back in capitals', async () => {
  const answer = await guest.call('capitals', 'one\ntwo\n')
  assert.deepEqual([answer.status, answer.text()], [200, 'ONE\nTWO\n'])
})

test('it counts in events', async () => {
  const answer = await guest.call('count')
  assert.equal(answer.headers['content-type'], 'text/event-stream')
  assert.deepEqual(answer.text().match(/data: \d/g), ['data: 1', 'data: 2', 'data: 3'])
})
