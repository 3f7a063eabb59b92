import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { file, guest, guestBytes } from '../support/guest.ts'
import { cannedGuest } from '../support/hyper-guest.ts'
import { MODERN } from '../support/mcp.ts'
import { startProcesses, until } from '../support/processes.ts'

/* Agents of several serving processes: a message may reach another process than the request that it is about. */

/** A client with one connection. It is open, and so belongs to the process that had the fewest. */
async function connect(url: string, headers: Record<string, string> = {}) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  const accept = 'application/json, text/event-stream'
  const open = async (message: object): Promise<IncomingMessage> => {
    const sent = request(`${url}/mcp`, {
      ...{ method: 'POST', agent, headers: { 'content-type': 'application/json', accept, ...headers } },
    })
    sent.end(JSON.stringify({ jsonrpc: '2.0', ...message }))
    const [response] = await once(sent, 'response')
    return response
  }
  const send = async (message: object) => text(await open(message))
  await send({ id: 'begin', method: 'tools/list' })
  return { open, send }
}

test('a message cancels a request that another process runs, and none of two with the same name', async () => {
  const args = [guest('moody'), '--mcp', '--processes', '2', '--workers', '4', '--timeout', '60000']
  const server = await startProcesses([...args, '--url', '/moody'])
  const over: unknown[] = []
  /** Starts a call that never ends, whose guest writes its input into the log. @returns the number of its process. */
  const begin = async (id: string, input: string, headers: Record<string, string> = {}) => {
    const params = { name: 'moody', arguments: { input } }
    const { send } = await connect(server.url, headers)
    const ended = send({ id, method: 'tools/call', params }).then((body) => over.push([input, body]))
    ended.catch(() => undefined) // the test has ended
    await until(() => server.lines(input).length === 1)
    return server.lines(input)[0]?.process
  }
  const cancel = async (requestId: string, headers: Record<string, string> = {}) => {
    const { send } = await connect(server.url, headers)
    await send({ method: 'notifications/cancelled', params: { requestId } })
  }
  const session = { 'mcp-session-id': 'one' }
  const processes = [await begin('a', 'G1', session), await begin('b', 'G2', session)]
  expect(processes.sort()).toEqual([1, 2])
  for (const id of ['a', 'b']) await cancel(id, { 'mcp-session-id': 'another' })
  const { send } = await connect(server.url, session)
  for (const requestId of ['a', 'b']) await send({ method: 'notifications/cancelled', params: { requestId } })
  await until(() => over.length === 2)
  expect(over.sort()).toEqual([
    ['G1', ''],
    ['G2', ''],
  ])
  over.length = 0
  // Clients of one address without a session have one name.
  const twins = [await begin('same', 'G3'), await begin('same', 'G4')]
  expect(twins.sort()).toEqual([1, 2])
  await begin('single', 'G5')
  await cancel('same')
  await cancel('single')
  await until(() => over.length > 0)
  expect(over).toEqual([['G5', '']])
})

test('clients of all processes learn what a plug-in has changed', async () => {
  const tell = [
    ['notify_resource_updated', '{"uri":"a:1"}'],
    ['notify_tool_list_changed', ''],
  ] as const
  const plugin = cannedGuest({
    list_tools: [{ when: '', output: '{"tools":[{"name":"save"}]}' }],
    call_tool: [{ when: '', output: '{"content":[]}', tell }],
    read_resource: [],
  })
  const args = ['--contract', 'hyper-mcp', '--mcp', '--processes', '2']
  const { url } = await startProcesses([file('changing.wasm', guestBytes(plugin)), ...args])
  const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'subscriptions/listen' }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const notifications = { toolsListChanged: true, resourceSubscriptions: ['a:1'] }
  const heard: string[] = []
  for (const index of [0, 1]) {
    const { open } = await connect(url, headers)
    const stream = await open({ id: 1, method: 'subscriptions/listen', params: { notifications, _meta } })
    onTestFinished(() => void stream.destroy())
    heard[index] = ''
    stream.on('error', () => undefined).setEncoding('utf8')
    stream.on('data', (piece: string) => {
      heard[index] += piece
    })
  }
  await until(() => heard.every((each) => each.includes('acknowledged')))
  const { send } = await connect(url)
  expect(await send({ id: 2, method: 'tools/call', params: { name: 'save', arguments: {} } })).toContain(
    'result',
  )
  await until(() =>
    heard.every((each) => each.includes('tools/list_changed') && each.includes('resources/updated')),
  )
})

test('a question that one process asks is answered at the other', async () => {
  const question = { when: '', output: '{"message":"Sure?"}', ask: ['create_elicitation'] }
  const plugin = file('asking.wasm', guestBytes(cannedGuest({ erase: [question] })))
  const { url } = await startProcesses([plugin, '--url', '/erase', '--mcp', '--processes', '2'])
  const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'erase' }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  }
  const users = [await connect(url, headers), await connect(url, headers)]
  const call = async (user: number, more: object = {}) => {
    const params = { name: 'erase', arguments: { input: 'x' }, ...more, _meta }
    return JSON.parse((await users[user]?.send({ id: 1, method: 'tools/call', params })) ?? '{}').result
  }
  for (const [asked, answering] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const { requestState } = await call(asked)
    const answer = { action: 'accept', content: { by: answering } }
    expect(await call(answering, { requestState, inputResponses: { question: answer } })).toMatchObject({
      resultType: 'complete',
      content: [{ text: JSON.stringify(answer) }],
    })
  }
})
