import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { guestBytes } from '../support/guest.ts'
import { type McpUser, serveMcp } from '../support/mcp.ts'
import { runs } from '../support/runs.ts'

/* Clients and guests that mean no good. Further ones are in mcp.test.ts, mcp-hyper.test.ts and test/system/mcp-clients.test.ts. */

const echo = (more: object = {}) => ({
  url: '/echo',
  plugin: guestBytes('echo'),
  engine: 'inline' as const,
  ...more,
})

const call = (id: unknown, input: string) => ({
  ...{ jsonrpc: '2.0', id, method: 'tools/call' },
  params: { name: 'echo', arguments: { input } },
})

test('an id and a text come back as they were, whatever characters they have', async () => {
  const user = await serveMcp([echo()])
  const property = fc.asyncProperty(
    fc.oneof(fc.string({ maxLength: 256, unit: 'grapheme' }), fc.maxSafeInteger()),
    fc.string({ unit: 'grapheme' }),
    async (id, input) => {
      fc.pre(String(id).length <= 256)
      const { body } = await user.send(call(id, input))
      expect(body).toEqual({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: input }] } })
    },
  )
  await fc.assert(property, { numRuns: runs(30) })
  for (const id of ['__proto__', '"},{"id":', '\u2028\n\u0000', '-0', -0, 0])
    expect((await user.send(call(id, 'a'))).body.id).toEqual(Object.is(id, -0) ? 0 : id)
})

/** Arguments, and the bytes that an answer has for them. */
async function asAnswered(user: McpUser, args: string, revision = '2025-06-18'): Promise<string> {
  const response = await fetch(user.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'mcp-protocol-version': revision },
    body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":${args},"name":"echo"}}`,
  })
  return await response.text()
}

test('arguments reach the guest as the client wrote them, and structured content the client as the guest did', async () => {
  const schema = { type: 'object', properties: {} }
  const user = await serveMcp([echo({ tool: { inputSchema: schema, outputSchema: schema } })])
  const check = async (args: string) => {
    const answer = await asAnswered(user, args)
    expect(JSON.parse(answer).result.content[0].text).toBe(args)
    expect(answer).toContain(`"structuredContent":${args.replaceAll(/[\r\n]+/g, ' ')}}`)
  }
  const numbers = [
    '9007199254740993',
    '-9223372036854775808',
    '18446744073709551615',
    '1e400',
    '1.0',
    '-0',
    '1E+2',
    '0.10',
  ]
  for (const number of numbers) await check(`{"id" : [${number}],\n "a": {"b":${number}}}`)
  const value = fc.json().map((json) => `{"v":${json},"\\"{[": "\\\\"}`)
  await fc.assert(fc.asyncProperty(value, check), { numRuns: runs(30) })
})

test('a key that the arguments, or an output, have twice is refused: it would pass the check with its other value', async () => {
  const user = await serveMcp([
    echo({ tool: { inputSchema: { type: 'object', properties: {} } } }),
    { url: '/out', plugin: guestBytes('echo'), engine: 'inline', tool: { outputSchema: { type: 'object' } } },
  ])
  const twice = '{"a":{"b":1,"\\u0062":2}}'
  expect(JSON.parse(await asAnswered(user, twice)).error.code).toBe(-32_602)
  const { _meta } = await user.call('out', { input: twice })
  expect(_meta).toMatchObject({ 'wasm-serve/code': 'WASM_SERVE_TOOL_RESULT_INVALID' })
})

test('requests of a batch with the same id are answered each', async () => {
  const user = await serveMcp([echo()])
  const { body } = await user.send([call(1, 'a'), call(1, 'b')])
  expect(body).toMatchObject([
    { id: 1, result: { content: [{ text: 'a' }] } },
    { id: 1, result: { content: [{ text: 'b' }] } },
  ])
})

test('of a key that a message has twice, the header must match the one that counts', async () => {
  const user = await serveMcp([echo()])
  const params = JSON.stringify({
    ...{ name: 'echo', arguments: { input: 'a' } },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  })
  const twice = `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":${params}}`
  const send = (method: string) =>
    user.send(twice, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': 'echo' })
  expect(await send('tools/list')).toMatchObject({ status: 400, body: { error: { code: -32_020 } } })
  expect((await send('tools/call')).status).toBe(200)
})

test('arguments that are too deep are refused, and wide ones cost a client its own time only', async () => {
  const user = await serveMcp([
    echo({ tool: { inputSchema: { type: 'object', additionalProperties: { type: 'integer' } } } }),
  ])
  const nested = `${'{"a":'.repeat(70)}1${'}'.repeat(70)}`
  const deep = JSON.stringify(call(1, '')).replace('{"input":""}', nested)
  expect(await user.send(deep)).toMatchObject({ status: 400, body: { error: { code: -32_600 } } })
  const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n]))
  expect((await user.call('echo', wide)).content[0]?.text).toBe(JSON.stringify(wide))
  const refused = await user.call('echo', { ...wide, last: 'x'.repeat(10_000) })
  expect(refused.content[0]?.text.length).toBeLessThan(1_000)
})

test('clients that send their bodies slowly do not keep others from being answered', async () => {
  const user = await serveMcp([echo()])
  const { port, hostname } = new URL(user.base)
  const head = `POST /mcp HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`
  for (let client = 0; client < 200; client++) {
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    socket.write(head)
  }
  expect((await user.call('echo', { input: 'a' })).content[0]?.text).toBe('a')
})

test('an output that is too large, or claims to be what it is not, is an error that a model can read', async () => {
  const schema = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] }
  const user = await serveMcp([
    echo({ outputLimit: 1_000 }),
    { ...echo(), url: '/lies', tool: { outputSchema: schema } },
    { ...echo(), url: '/image', contentType: 'image/png' },
  ])
  const codeOf = async (tool: string, input: string) =>
    (await user.call(tool, { input }))._meta as Record<string, unknown> | undefined
  const expectCode = async (tool: string, input: string, code: string) =>
    expect(await codeOf(tool, input)).toMatchObject({ 'wasm-serve/code': code })
  await expectCode('echo', 'x'.repeat(1_001), 'WASM_SERVE_OUTPUT_TOO_LARGE')
  await expectCode('lies', '{"count":"many"}', 'WASM_SERVE_TOOL_RESULT_INVALID')
  await expectCode('lies', `${'['.repeat(100_000)}`, 'WASM_SERVE_TOOL_RESULT_INVALID')
  const deep = `{"count":1,"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  await expectCode('lies', deep, 'WASM_SERVE_TOOL_RESULT_INVALID')
  expect((await user.call('image', { input: '<script>' })).content).toMatchObject([
    { type: 'image', data: Buffer.from('<script>').toString('base64') },
  ])
})
