import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { file, guest, guestBytes } from '../support/guest.ts'
import { cannedGuest, QUESTION } from '../support/hyper-guest.ts'
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
  const question = { when: '', output: QUESTION, ask: ['create_elicitation'] }
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

const PATIENT = { timeout: 30_000 }

const KNOWING = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: {},
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  },
}

/** A configuration of a tool whose calls are tasks. */
function taskConfig(answers: Parameters<typeof cannedGuest>[0]['work'], more: object = {}): string {
  const plugin = file('working.wasm', guestBytes(cannedGuest({ work: answers ?? [] })))
  const route = { url: '/work', plugin, function: 'work', timeoutMs: 60_000, tool: { task: {} }, ...more }
  return JSON.stringify({ routes: [route], mcp: {} })
}

/** A client with one connection that sends complete requests. */
async function connectModern(url: string) {
  const headers: Record<string, string> = { 'mcp-protocol-version': MODERN }
  const { send, open } = await connect(url, headers)
  const prepared = (method: string, params: Record<string, unknown>) => {
    headers['mcp-method'] = method
    headers['mcp-name'] = String(params.taskId ?? params.name)
    return { id: 1, method, params: { ...params, _meta: KNOWING } }
  }
  return {
    ask: async (method: string, params: Record<string, unknown>) =>
      JSON.parse(await send(prepared(method, params))),
    open: (method: string, params: Record<string, unknown>) => open(prepared(method, params)),
  }
}

test('a task is known in all processes, until the process that runs it has ended', async () => {
  const endless = { when: 'endless', output: '', isEndless: true } as const
  const question = { when: '', output: QUESTION, ask: ['create_elicitation'] }
  const config = file('tasks.json', Buffer.from(taskConfig([endless, question])))
  const server = await startProcesses(['-c', config, '--processes', '2'])
  const users = [await connectModern(server.url), await connectModern(server.url)]
  const of = (index: number) => users[index] ?? expect.unreachable()
  const begin = async (index: number, input: string): Promise<string> => {
    const { result } = await of(index).ask('tools/call', { name: 'work', arguments: { input } })
    expect(result).toMatchObject({ resultType: 'task' })
    return result.taskId
  }
  for (const [mine, other] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const taskId = await begin(mine, 'ask')
    const stream = await of(other).open('subscriptions/listen', { notifications: { taskIds: [taskId] } })
    let heard = ''
    stream.on('error', () => undefined).setEncoding('utf8')
    stream.on('data', (piece: string) => {
      heard += piece
    })
    await until(() => heard.includes('inputRequests'))
    const third = await connectModern(server.url) // the stream has the connection of the other one
    const { result } = await third.ask('tasks/get', { taskId })
    const [key = ''] = Object.keys(result.inputRequests)
    await third.ask('tasks/update', { taskId, inputResponses: { [key]: { action: 'decline' } } })
    await until(() => heard.includes('"completed"'))
    expect(heard).toContain(String.raw`{\"action\":\"decline\"}`)
    stream.destroy()
  }
  const cancelled = await begin(0, 'endless')
  await (await connectModern(server.url)).ask('tasks/cancel', { taskId: cancelled })
  expect((await of(0).ask('tasks/get', { taskId: cancelled })).result).toMatchObject({ status: 'cancelled' })
})

test('a task whose process is silent is not unknown, and one whose process has ended is: streams of it end', async () => {
  const config = file('lost.json', Buffer.from(taskConfig([{ when: '', output: '', isEndless: true }])))
  const server = await startProcesses(['-c', config, '--processes', '2'])
  const user = await connectModern(server.url)
  const other = await connectModern(server.url)
  const { result } = await user.ask('tools/call', { name: 'work', arguments: { input: 'x' } })
  const { taskId } = result
  const notifications = { taskIds: [taskId] }
  const listen = async () => {
    const { open } = await connectModern(server.url)
    return await open('subscriptions/listen', { notifications })
  }
  const streams = [await listen(), await listen()] // one in each process
  const heard = Promise.allSettled(streams.map((stream) => text(stream)))
  const [owner = 0] = String(taskId).split('-').map(Number)
  const pid = server.pids().sort((a, b) => a - b)[owner - 1] ?? 0 // they are started in the order of their numbers
  process.kill(pid, 'SIGSTOP')
  const silent = await other.ask('tasks/get', { taskId })
  expect(silent.error).toMatchObject({ code: -32_603, message: expect.stringContaining('Try again') })
  process.kill(pid, 'SIGKILL')
  await until(() => !server.pids().includes(pid))
  await expect
    .poll(async () => (await other.ask('tasks/get', { taskId })).error, PATIENT)
    .toMatchObject({ code: -32_602 })
  const ends = (await heard).map((end) => (end.status === 'fulfilled' ? end.value : 'lost'))
  expect(ends.filter((end) => end.includes('"resultType":"complete"'))).toHaveLength(1)
})

test('a task goes on when the configuration is read again, and ends with the tool that then is served', async () => {
  const question = { when: '', output: QUESTION, ask: ['create_elicitation'] }
  const spin = { when: 'slow', output: 'slow', loops: 2_000_000_000 }
  const config = file('again.json', Buffer.from(taskConfig([spin, question], { workers: 2 })))
  const server = await startProcesses(['-c', config])
  const user = await connectModern(server.url)
  const begin = async (input: string): Promise<string> =>
    (await user.ask('tools/call', { name: 'work', arguments: { input } })).result.taskId
  const slow = await begin('slow')
  const asked = await begin('ask')
  const get = async (taskId: string) => (await user.ask('tasks/get', { taskId })).result
  await expect.poll(() => get(asked), PATIENT).toMatchObject({ status: 'input_required' })
  writeFileSync(config, taskConfig([{ when: '', output: 'new' }], { tool: {} })) // its new calls are no tasks
  server.kill('SIGHUP')
  await server.logged('"changed"')
  const { inputRequests } = await get(asked)
  const inputResponses = Object.fromEntries(
    Object.keys(inputRequests).map((key) => [key, { action: 'accept' }]),
  )
  await user.ask('tasks/update', { taskId: asked, inputResponses })
  await expect.poll(() => get(asked), PATIENT).toMatchObject({ result: { content: [{ text: 'new' }] } })
  await expect.poll(() => get(slow), PATIENT).toMatchObject({ result: { content: [{ text: 'slow' }] } })
})

test('an endpoint that is taken out and comes back has streams and tasks again', async () => {
  const whole = taskConfig([{ when: '', output: 'done' }])
  const config = file('back.json', Buffer.from(whole))
  const server = await startProcesses(['-c', config])
  const { mcp: _, ...without } = JSON.parse(whole)
  for (const [index, each] of [without, JSON.parse(whole)].entries()) {
    writeFileSync(config, JSON.stringify(each))
    server.kill('SIGHUP')
    await server.logged('"changed"', index + 1)
  }
  const user = await connectModern(server.url)
  const { result } = await user.ask('tools/call', { name: 'work', arguments: { input: 'x' } })
  expect(result).toMatchObject({ resultType: 'task' })
  const other = await connectModern(server.url)
  const stream = await other.open('subscriptions/listen', { notifications: { taskIds: [result.taskId] } })
  let heard = ''
  stream.setEncoding('utf8').on('data', (piece: string) => {
    heard += piece
  })
  await until(() => heard.includes('"completed"'))
  stream.destroy()
})
