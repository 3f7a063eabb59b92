import { expect, test } from 'vitest'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { renderConfig } from '../../../src/options/config.ts'
import { parseConfig } from '../../../src/options/config-file.ts'
import { toData } from '../../../src/options/config-node.ts'
import { guest } from '../../support/guest.ts'
import { listen, serve } from '../../support/serve.ts'
import { open, post } from '../../support/socket.ts'

const KEYS = ['first-key-0123456789', 'second-key-0123456789']
const POST = { method: 'POST', url: '/', body: 'hi' } as const

test.each([
  ['authorization', `Bearer ${KEYS[0]}`],
  ['authorization', `bearer ${KEYS[1]}`],
  ['x-api-key', KEYS[1]],
])('a request with a key is answered: %s: %s', async (name, value) => {
  const app = await serve({ plugin: guest('echo') }, { apiKeys: KEYS })
  const reply = await app.inject({ ...POST, headers: { [name]: value } })
  expect([reply.statusCode, reply.body]).toEqual([200, 'hi'])
})

test.each([
  ['none', {}],
  ['an empty one', { 'x-api-key': '' }],
  ['the beginning of one', { 'x-api-key': 'first-key' }],
  ['one and more', { authorization: `Bearer ${KEYS[0]}x` }],
  ['two at once', { 'x-api-key': KEYS.join(', ') }],
  ['one of another scheme', { authorization: `Basic ${KEYS[0]}` }],
])('a request with %s is refused, whatever its URL and method', async (_, headers) => {
  const app = await serve({ plugin: guest('echo') }, { apiKeys: KEYS })
  for (const request of [POST, { ...POST, url: '/nowhere' }, { ...POST, method: 'PUT' } as const]) {
    const reply = await app.inject({ ...request, headers })
    expect(reply.statusCode).toBe(401)
    expect(reply.headers).toMatchObject({
      'www-authenticate': 'Bearer',
      'content-type': 'application/problem+json',
    })
    expect(reply.json()).toMatchObject({ code: 'WASM_SERVE_API_KEY_REFUSED' })
    expect(reply.body).not.toContain('first-key')
  }
})

test('it is refused before its body arrives, and not asked for it', async () => {
  const { port } = await listen({ plugin: guest('echo') }, { apiKeys: KEYS })
  const client = await open(port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 999\r\n\r\n')
  expect(await client.answer()).toMatchObject({ status: 401 })

  const other = await open(port)
  other.send(post('hi', `x-api-key: ${KEYS[0]}\r\n`))
  expect(await other.answer()).toMatchObject({ status: 200 })
})

test('short keys are refused, and not told', async () => {
  const serving = serve({ plugin: guest('echo') }, { apiKeys: ['sesame'] })
  await expect(serving).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
  await expect(serving).rejects.not.toThrow(/sesame/)
})

test('a key of a config file is shown nowhere, with a variable or without', async () => {
  const secrets = new Secrets()
  const shownAs = `\${KEY}`
  const text = `apiKeys: ["written-in-the-file-0", "${shownAs}"]`
  const environment = { KEY: 'of-the-environment-0' }
  const node = await parseConfig(text, 'yaml', { path: 'c.yaml', environment, secrets })
  const options = toData(node) as object
  expect(options).toEqual({ apiKeys: ['written-in-the-file-0', 'of-the-environment-0'] })
  const { options: shown } = JSON.parse(renderConfig({ file: 'c.yaml', node, options }))
  expect(shown.apiKeys).toEqual(['(secret)', shownAs])
  expect(secrets.hide('written-in-the-file-0 of-the-environment-0')).toBe(`(secret) ${shownAs}`)
})
