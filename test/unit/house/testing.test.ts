import { expect, onTestFinished, test } from 'vitest'
import type { Contract } from '../../../src/index.ts'
import { type TestOptions, testPlugin } from '../../../src/testing.ts'
import { guest, guestBytes } from '../../support/guest.ts'

/** A plug-in that is tested silently; closed when the test ends. */
async function open(source: Parameters<typeof testPlugin>[0], options: TestOptions = {}) {
  const tested = await testPlugin(source, { logLevel: 'silent', ...options })
  onTestFinished(() => tested.close())
  return tested
}

test('text, bytes and JSON reach the guest, and its answer comes back in each form', async () => {
  const tested = await open(guest('echo'))
  const text = await tested.call('echo', 'häuser')
  expect([text.status, text.text(), text.headers['content-type']]).toEqual([
    200,
    'häuser',
    'text/plain; charset=utf-8',
  ])
  expect([...(await tested.call('echo', Uint8Array.of(0, 255))).bytes]).toEqual([0, 255])
  expect((await tested.call('echo', { a: [1] })).json()).toEqual({ a: [1] })
  expect((await tested.call('echo')).bytes.length).toBe(0)
})

test('each function keeps its instance from call to call', async () => {
  const tested = await open(guest('count'))
  expect((await tested.call('count')).text()).toBe('1')
  expect((await tested.call('count')).text()).toBe('2')
})

test('a plug-in of several functions has them all', async () => {
  const tested = await open(guestBytes('several'))
  const answers = await Promise.all([tested.call('alpha'), tested.call('several'), tested.call('alpha')])
  expect(answers.map((answer) => answer.text())).toEqual(['a', 's', 'a'])
})

test('a request is one of the route: its contract, method, URL and headers', async () => {
  const tested = await open(guest('echo'), { contract: partsOf, method: 'PUT', url: '/users/:id' })
  const answer = await tested.call('echo', undefined, { url: '/users/7?a=b', headers: { 'x-mine': 'yes' } })
  expect(answer.json()).toEqual({ method: 'PUT', params: { id: '7' }, query: { a: 'b' }, mine: 'yes' })
  expect((await tested.call('echo', '', { method: 'GET', url: '/users/7' })).status).toBe(405)
})

test('a function that is called with any method is called with POST', async () => {
  const tested = await open(guest('echo'), { contract: partsOf, method: '*' })
  expect((await tested.call('echo', 'a')).json()).toMatchObject({ method: 'POST' })
  expect((await tested.call('echo', '', { method: 'DELETE' })).json()).toMatchObject({ method: 'DELETE' })
})

const partsOf: Contract = {
  name: 'parts of a request',
  input: ({ method, params, query, headers }) =>
    Buffer.from(JSON.stringify({ method, params, query, mine: headers['x-mine'] })),
  answer: (output, reply) => void reply.send(Buffer.from(output)),
}

test.each([
  ['says no', 'refuse', {}, 409, 'not at all'],
  ['traps', 'trap', {}, 500, 'WASM_SERVE_GUEST_TRAP'],
  ['does not return', 'loop', { timeoutMs: 50 }, 504, 'WASM_SERVE_DEADLINE_EXCEEDED'],
])('a guest that %s is answered, and not thrown', async (_, name, options, status, body) => {
  const tested = await open(guest(name), options)
  const answer = await tested.call(name, 'not at all')
  expect(answer.status).toBe(status)
  expect(answer.text()).toContain(body)
})

test.each([
  ['a missing file', 'absent.wasm', {}, 'WASM_SERVE_PLUGIN_UNREADABLE'],
  ['a misspelled option', guest('echo'), { timout: 1 }, 'WASM_SERVE_OPTIONS_INVALID'],
  ['a plug-in without functions', guest('no-export'), {}, 'WASM_SERVE_FUNCTION_UNKNOWN'],
  ['a plug-in that does not start', guest('bad-start'), {}, 'WASM_SERVE_INSTANCE_START_FAILED'],
])('%s is refused before any call', async (_, source, options, code) => {
  await expect(open(source, options as TestOptions)).rejects.toMatchObject({ code })
})

test('a function that is not there is refused, and the others go on', async () => {
  const tested = await open(guest('echo'))
  await expect(tested.call('ecko')).rejects.toMatchObject({ code: 'WASM_SERVE_FUNCTION_UNKNOWN' })
  expect((await tested.call('echo', 'x')).text()).toBe('x')
})

test('what is closed takes no calls, and may be closed again', async () => {
  const tested = await open(guest('echo'))
  await tested[Symbol.asyncDispose]()
  await expect(tested.call('echo')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
  await tested.close()
})
