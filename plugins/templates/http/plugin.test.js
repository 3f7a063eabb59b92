import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { testPlugin } from 'wasm-serve/testing'

const guest = await testPlugin(new URL('PLUGIN', import.meta.url), {
  contract: 'http',
  method: '*',
  url: '/*',
})
after(() => guest.close())

const get = (url) => guest.call('handle', undefined, { method: 'GET', url })

test('it greets in HTML', async () => {
  const answer = await get('/?name=<Ada>')
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
  assert.equal(answer.text(), '<h1>Hello, &lt;Ada>!</h1>\n')
})

test('other URLs and methods are refused', async () => {
  assert.equal((await get('/nowhere')).status, 404)
  const answer = await guest.call('handle', 'x', { method: 'POST', url: '/' })
  assert.equal(answer.status, 405)
})
