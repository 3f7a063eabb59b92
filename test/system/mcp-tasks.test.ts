import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ConnectedMcpSessionPort,
  resultFromTaskOutcome,
  withTasks,
} from '@modelcontextprotocol/ext-tasks/client'
import Fastify from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type RouteOptions, wasmServeMcp } from '../../src/index.ts'
import { guestBytes } from '../support/guest.ts'
import { type CannedAnswer, cannedGuest, QUESTION } from '../support/hyper-guest.ts'
import { McpUser, serveMcp } from '../support/mcp.ts'

/* Calls that go on after their requests were answered: the extension `io.modelcontextprotocol/tasks`. */

const EXTENSION = 'io.modelcontextprotocol/tasks'

const knowing = (capabilities: object = {}) => ({
  'io.modelcontextprotocol/clientCapabilities': { ...capabilities, extensions: { [EXTENSION]: {} } },
})

/** A tool of a route whose answers depend on its input. */
function tool(
  answers: readonly CannedAnswer[],
  task: NonNullable<RouteOptions['tool']>['task'] = {},
): RouteOptions {
  const plugin = guestBytes(cannedGuest({ work: [...answers] }))
  const waits = answers.some(({ isEndless, ask }) => isEndless || ask)
  const engine = waits ? {} : { engine: 'inline' as const } // starts no thread
  return { url: '/work', function: 'work', plugin, timeoutMs: 60_000, tool: { task }, ...engine }
}

const ENDLESS: CannedAnswer = { when: 'endless', output: '', isEndless: true }

interface TaskMembers {
  readonly taskId: string
  readonly status: string
  readonly [member: string]: unknown
}

const call = (user: McpUser, input: string, more: object = {}, headers = {}) =>
  user.modern('tools/call', { name: 'work', arguments: { input }, _meta: knowing(), ...more }, headers)

async function begin(user: McpUser, input: string, capabilities = {}, headers = {}): Promise<string> {
  const { body } = await call(user, input, { _meta: knowing(capabilities) }, headers)
  expect(body.result).toMatchObject({ resultType: 'task', status: 'working' })
  return String(body.result.taskId)
}

const about = (user: McpUser, method: string, taskId: string, more: object = {}, headers = {}) =>
  user.modern(`tasks/${method}`, { taskId, _meta: knowing(), ...more }, headers)

/** Asks until the task has one of these statuses. */
async function reach(user: McpUser, taskId: string, ...wanted: string[]): Promise<TaskMembers> {
  for (;;) {
    const { result } = (await about(user, 'get', taskId)).body
    const task = result as unknown as TaskMembers
    if (wanted.includes(task.status)) return task
    await sleep(5)
  }
}

test('a call is a task, whose result the client fetches in the text of the guest', async () => {
  const user = await serveMcp([tool([{ when: '', output: 'hello' }])])
  const discovered = (await user.modern('server/discover')).body.result
  expect(discovered.capabilities).toMatchObject({ extensions: { [EXTENSION]: {} } })
  const { body, status } = await call(user, 'x')
  expect(status).toBe(200)
  const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  const base = { createdAt: iso, lastUpdatedAt: iso, ttlMs: 3_600_000, pollIntervalMs: 1_000 }
  const taskId = String(body.result.taskId)
  const _meta = { 'io.modelcontextprotocol/serverInfo': expect.anything() }
  expect(body.result).toEqual({ resultType: 'task', taskId, status: 'working', ...base, _meta })
  const result = { resultType: 'complete', content: [{ type: 'text', text: 'hello' }], _meta }
  expect(await reach(user, taskId, 'completed')).toEqual({
    ...{ resultType: 'complete', taskId, status: 'completed', ...base, result, _meta },
  })
})

test('numbers in the result of a task have all their digits', async () => {
  const output = '{"n":12345678901234567890.10}'
  const route = tool([{ when: '', output }])
  const outputSchema = { type: 'object', properties: { n: { type: 'number' } } }
  const user = await serveMcp([{ ...route, tool: { task: {}, outputSchema } }])
  const taskId = await begin(user, 'x')
  await reach(user, taskId, 'completed')
  const response = await fetch(user.url, {
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tasks/get', 'mcp-name': taskId },
    },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'tasks/get' },
      params: { taskId, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', ...knowing() } },
    }),
  })
  expect(await response.text()).toContain(`"structuredContent":${output}`)
})

test('a client that does not know tasks gets the result', async () => {
  const user = await serveMcp([tool([{ when: '', output: 'hello' }])])
  const content = [{ type: 'text', text: 'hello' }]
  expect(
    (await user.modern('tools/call', { name: 'work', arguments: { input: 'x' } })).body.result,
  ).toMatchObject({
    ...{ resultType: 'complete', content },
  })
  expect((await user.legacy('tools/call', { name: 'work', arguments: { input: 'x' } })).body.result).toEqual({
    content,
  })
})

test('a client that does not know tasks is refused by a tool that needs them, and may not ask for one', async () => {
  const user = await serveMcp([tool([{ when: '', output: 'hello' }], { required: true })])
  const error = {
    code: -32_021,
    data: { requiredCapabilities: { extensions: { [EXTENSION]: {} } } },
  }
  const refused = await user.modern('tools/call', { name: 'work', arguments: { input: 'x' } })
  expect(refused).toMatchObject({ status: 400, body: { error } })
  const legacy = await user.legacy('tools/call', { name: 'work', arguments: { input: 'x' } })
  expect(legacy).toMatchObject({ status: 200, body: { error } })
  const taskId = await begin(user, 'x')
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
    expect(await user.modern(method, { taskId, inputResponses: {} })).toMatchObject({
      status: 400,
      body: { error },
    })
  const notifications = { taskIds: [taskId] }
  expect(await user.modern('subscriptions/listen', { notifications })).toMatchObject({ body: { error } })
})

test('a call that ends in time is answered, and a longer one becomes a task', async () => {
  const answers = [ENDLESS, { when: '', output: 'soon' }]
  const patient = await serveMcp([tool(answers, { afterMs: 60_000 })])
  expect((await call(patient, 'x')).body.result).toMatchObject({
    ...{ resultType: 'complete', content: [{ text: 'soon' }] },
  })
  const user = await serveMcp([{ ...tool(answers, { afterMs: 1 }), timeoutMs: 500 }])
  const { result } = await reach(user, await begin(user, 'endless'), 'completed')
  expect(result).toMatchObject({
    isError: true,
    _meta: { 'wasm-serve/code': 'WASM_SERVE_DEADLINE_EXCEEDED' },
  })
})

test('a task that is cancelled ends its guest', async () => {
  const user = await serveMcp([{ ...tool([ENDLESS, { when: '', output: 'next' }]), workers: 1 }])
  const taskId = await begin(user, 'endless')
  expect((await about(user, 'cancel', taskId)).body.result).toEqual({
    ...{ resultType: 'complete', _meta: expect.anything() },
  })
  expect((await about(user, 'get', taskId)).body.result).toMatchObject({ status: 'cancelled' })
  const next = await begin(user, 'x') // the only worker is free
  expect(await reach(user, next, 'completed')).toMatchObject({ result: { content: [{ text: 'next' }] } })
  expect((await about(user, 'cancel', next)).body.result).toMatchObject({ resultType: 'complete' })
  expect((await about(user, 'get', next)).body.result).toMatchObject({ status: 'completed' })
})

const asks = (...texts: string[]): CannedAnswer => ({
  ...{ when: '', output: QUESTION, ask: texts },
})

test('a task waits for the answers to the questions of its guest, each of which has a key of its own', async () => {
  const user = await serveMcp([tool([asks('create_elicitation', 'list_roots')])])
  const taskId = await begin(user, 'x', { elicitation: {}, roots: {} })
  const keys: string[] = []
  for (const [method, answer] of [
    ['elicitation/create', { action: 'decline' }],
    ['roots/list', { roots: [] }],
  ] as const) {
    const { inputRequests } = await reach(user, taskId, 'input_required')
    const [[key, request] = ['', {}]] = Object.entries(inputRequests as object)
    expect(request).toMatchObject({ method })
    keys.push(key)
    const inputResponses = { [`not-${key}`]: { action: 'cancel' }, [key]: answer }
    const { result } = (await about(user, 'update', taskId, { inputResponses })).body
    expect(result).toEqual({ resultType: 'complete', _meta: expect.anything() })
  }
  expect(new Set(keys).size).toBe(2)
  const { result } = await reach(user, taskId, 'completed')
  expect(result).toMatchObject({ content: [{ text: '{"roots":[]}' }] })
})

test('a task goes on when all its questions have an answer', async () => {
  const asked = { a: 'elicitation/create', b: 'elicitation/create' }
  const inputRequests = Object.fromEntries(
    Object.entries(asked).map(([key, method]) => [key, { method, params: JSON.parse(QUESTION) }]),
  )
  const plugin = guestBytes(
    cannedGuest({
      list_tools: [{ when: '', output: '{"tools":[{"name":"work"}]}' }],
      call_tool: [
        {
          when: '"inputResponses":{"a":{"action":"accept"},"b":{"action":"decline"}}',
          output: '{"content":[]}',
        },
        { when: '', output: JSON.stringify({ resultType: 'input_required', inputRequests }) },
      ],
    }),
  )
  const user = await serveMcp([{ url: '/', plugin, contract: 'hyper-mcp', tool: { task: {} } }])
  const taskId = await begin(user, 'x', { elicitation: {} })
  const open = async () => Object.keys((await reach(user, taskId, 'input_required')).inputRequests as object)
  const [first = '', second = ''] = await open()
  await about(user, 'update', taskId, { inputResponses: { [first]: { action: 'accept' } } })
  expect(await open()).toEqual([second])
  await about(user, 'update', taskId, {
    inputResponses: { [first]: { action: 'cancel' }, [second]: { action: 'decline' } },
  })
  expect(await reach(user, taskId, 'completed')).toMatchObject({ result: { content: [] } })
})

test('a task whose guest wants to be called again calls it', async () => {
  const again = JSON.stringify({ resultType: 'input_required', requestState: 'mine' })
  const plugin = guestBytes(
    cannedGuest({
      list_tools: [{ when: '', output: '{"tools":[{"name":"work"}]}' }],
      call_tool: [
        { when: ['"ever"'], output: again },
        { when: '"requestState":"mine"', output: '{"content":[]}' },
        { when: '', output: again },
      ],
    }),
  )
  const user = await serveMcp([
    { url: '/', plugin, contract: 'hyper-mcp', engine: 'inline', tool: { task: {} } },
  ])
  const once = await begin(user, 'once')
  expect(await reach(user, once, 'completed')).toMatchObject({ result: { content: [] } })
  const ever = await begin(user, 'ever')
  expect(await reach(user, ever, 'failed')).toMatchObject({ error: { code: -32_603 } })
})

test('a question that is not one of MCP fails the task, with what it needs', async () => {
  const answer: CannedAnswer = { when: '', output: '{"message":"Sure?"}', ask: ['create_elicitation'] }
  const user = await serveMcp([tool([answer])])
  const taskId = await begin(user, 'x', { elicitation: {} })
  const { error } = await reach(user, taskId, 'failed')
  expect(error).toMatchObject({ code: -32_603, message: expect.stringContaining('requestedSchema') })
})

test('a question that the client cannot answer fails the task', async () => {
  const user = await serveMcp([tool([asks('create_message')])])
  const taskId = await begin(user, 'x')
  const { error, statusMessage } = await reach(user, taskId, 'failed')
  expect(error).toMatchObject({ code: -32_021, data: { requiredCapabilities: { sampling: {} } } })
  expect(statusMessage).toContain('sampling')
})

test.each([
  ['with a token', { progressToken: 1 }, 'half way', 'half way'],
  ['without a token', {}, 'half way', 'half way'],
  ['cut between characters', {}, `${'a'.repeat(999)}\u{1F600}`, `${'a'.repeat(999)}\uFFFD`],
])('progress is the message of the status, %s', async (_, token, message, shown) => {
  const tell = [['notify_progress', JSON.stringify({ progress: 1, message })]] as const
  const user = await serveMcp([tool([{ ...ENDLESS, when: '', tell }])])
  const { body, events } = await call(user, 'x', { _meta: { ...knowing(), ...token } })
  expect(events).toEqual([])
  const taskId = String(body.result.taskId)
  for (;;) {
    const { result } = (await about(user, 'get', taskId)).body
    if (result.statusMessage !== undefined) {
      expect(result).toMatchObject({ status: 'working', statusMessage: shown })
      break
    }
    await sleep(5)
  }
})

test('progress before a call becomes a task is its first message', async () => {
  const tell = [['notify_progress', '{"progress":1,"message":"half way"}']] as const
  const user = await serveMcp([tool([{ ...ENDLESS, when: '', tell }], { afterMs: 500 })])
  const { body, events } = await call(user, 'x')
  expect(events).toEqual([])
  expect(body.result).toMatchObject({ resultType: 'task', statusMessage: 'half way' })
})

test('a question may be answered as long as the task is known', async () => {
  const user = await serveMcp([tool([asks('create_elicitation', 'list_roots')])])
  const taskId = await begin(user, 'x', { elicitation: {}, roots: {} })
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  for (const answer of [{ action: 'decline' }, { roots: [] }]) {
    const { inputRequests } = await reach(user, taskId, 'input_required', 'failed')
    vi.setSystemTime(Date.now() + 1_200_000)
    const [key = ''] = Object.keys(inputRequests as object)
    await about(user, 'update', taskId, { inputResponses: { [key]: answer } })
  }
  expect(await reach(user, taskId, 'completed', 'failed')).toMatchObject({ status: 'completed' })
})

test('a stream ends when its task is forgotten', async () => {
  const user = await serveMcp([tool([asks('create_elicitation')], { ttlMs: 1_000 })])
  const taskId = await begin(user, 'x', { elicitation: {} })
  const params = { notifications: { taskIds: [taskId] }, _meta: knowing() }
  const { events, body } = await user.modern('subscriptions/listen', params)
  expect(events.at(-1)?.params).toMatchObject({ taskId, status: 'input_required' })
  expect(body.result).toMatchObject({ resultType: 'complete' })
})

test('a task belongs to the client that began it', async () => {
  const keys = ['first-key-0123456789', 'second-key-0123456789']
  const user = await serveMcp([tool([{ when: '', output: 'mine' }])], {}, { apiKeys: keys })
  const [mine, other] = keys.map((key) => ({ 'x-api-key': key }))
  const taskId = await begin(user, 'x', {}, mine)
  const unknown = { status: 200, body: { error: { code: -32_602 } } }
  for (const method of ['get', 'update', 'cancel']) {
    const more = { inputResponses: {} }
    expect(await about(user, method, taskId, more, other)).toMatchObject(unknown)
    expect(await about(user, method, `${taskId}0`, more, mine)).toMatchObject(unknown)
    expect(await about(user, method, taskId, more, mine)).toMatchObject({
      body: { result: { resultType: 'complete' } },
    })
  }
})

test('a client has at most 100 tasks whose end it does not know: further calls are answered, or refused', async () => {
  const answers = [{ when: '', output: 'done' }]
  const plugin = guestBytes(cannedGuest({ work: answers }))
  const route = (url: string, required: boolean) => ({
    ...{ url, plugin, function: 'work', engine: 'inline' as const, tool: { task: { required } } },
  })
  const user = await serveMcp([route('/work', false), route('/must', true)])
  const taskIds: string[] = []
  while (taskIds.length < 100) taskIds.push(await begin(user, 'x'))
  expect((await call(user, 'x')).body.result).toMatchObject({
    resultType: 'complete',
    content: [{ text: 'done' }],
  })
  const params = { name: 'must', arguments: { input: 'x' }, _meta: knowing() }
  expect((await user.modern('tools/call', params)).body.error.data).toEqual({
    code: 'WASM_SERVE_MCP_TASKS_FULL',
  })
  const [oldest = '', known = ''] = taskIds
  await reach(user, known, 'completed')
  await begin(user, 'x')
  expect((await about(user, 'get', known)).body.error.code).toBe(-32_602)
  expect((await about(user, 'get', oldest)).body.result).toMatchObject({ status: 'completed' })
})

test('an app of its own ends its tasks when it is closed', async () => {
  const app = Fastify()
  await app.register(wasmServeMcp, { routes: [tool([ENDLESS])], mcp: {} })
  const user = new McpUser(await app.listen({ host: '127.0.0.1', port: 0 }))
  const taskId = await begin(user, 'endless')
  expect((await about(user, 'get', taskId)).body.result).toMatchObject({ status: 'working' })
  await app.close() // not after the deadline of the guest
})

test('a task expires', async () => {
  const user = await serveMcp([tool([ENDLESS], { ttlMs: 1_000 })])
  const taskId = await begin(user, 'endless')
  for (;;) {
    const { body } = await about(user, 'get', taskId)
    if (body.error) {
      expect(body.error).toMatchObject({ code: -32_602, message: expect.stringContaining('expired') })
      break
    }
    expect(body.result).toMatchObject({ status: 'working' })
    await sleep(20)
  }
})

test('the header names the task, or is missing', async () => {
  const user = await serveMcp([tool([{ when: '', output: 'x' }])])
  const taskId = await begin(user, 'x')
  for (const name of ['another', '']) {
    const wrong = await about(user, 'get', taskId, {}, { 'mcp-name': name })
    expect(wrong).toMatchObject({ status: 400, body: { error: { code: -32_020 } } })
  }
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', ...knowing() }
  const message = { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId, _meta } }
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tasks/get' }
  expect((await user.send(message, headers)).body.result).toMatchObject({ taskId })
})

test.each([
  ['tasks/get', {}],
  ['tasks/get', { taskId: 7 }],
  ['tasks/get', { taskId: '' }],
  ['tasks/get', { taskId: '0-' }],
  ['tasks/get', { taskId: '999999-abc' }],
  ['tasks/update', { taskId: '0-a', inputResponses: 7 }],
  ['tasks/cancel', { taskId: '__proto__' }],
])('%s with %j is refused', async (method, params) => {
  const user = await serveMcp([tool([{ when: '', output: 'x' }])])
  const answer = await user.modern(method, { ...params, _meta: knowing() })
  expect(answer).toMatchObject({ status: 200, body: { error: { code: -32_602 } } })
})

test.each(['tasks/list', 'tasks/result'])('%s of another revision is unknown', async (method) => {
  const user = await serveMcp([tool([{ when: '', output: 'x' }])])
  const answer = await user.modern(method, { taskId: '0-a', _meta: knowing() })
  expect(answer).toMatchObject({ status: 404, body: { error: { code: -32_601 } } })
})

test.each([
  {},
  { task: { enabled: false } },
])('without a tool that may be a task, there are none: %j', async (settings) => {
  const user = await serveMcp([{ ...tool([{ when: '', output: 'x' }]), tool: settings }])
  expect((await user.modern('server/discover')).body.result.capabilities).not.toHaveProperty('extensions')
  expect((await about(user, 'get', '0-a')).status).toBe(404)
  expect((await call(user, 'x')).body.result).toMatchObject({ resultType: 'complete' })
})

test('a tool of a plug-in made for hyper-mcp may say that it has no task, or needs one', async () => {
  const tools = ['never', 'maybe', 'always'].map((name, index) => ({
    ...{ name, execution: { taskSupport: ['forbidden', 'optional', 'required'][index] } },
  }))
  const plugin = guestBytes(
    cannedGuest({
      list_tools: [{ when: '', output: JSON.stringify({ tools }) }],
      call_tool: [{ when: '', output: '{"content":[]}' }],
    }),
  )
  const user = await serveMcp([{ url: '/', plugin, contract: 'hyper-mcp', tool: { task: {} } }])
  const types = await Promise.all(
    tools.map(
      async ({ name }) =>
        (await user.modern('tools/call', { name, _meta: knowing() })).body.result.resultType,
    ),
  )
  expect(types).toEqual(['complete', 'task', 'task'])
  expect((await user.modern('tools/call', { name: 'always' })).body.error.code).toBe(-32_021)
  expect((await user.modern('tools/call', { name: 'maybe' })).body.result.resultType).toBe('complete')
})

test('a client that waits for a task gets its state, and each change', async () => {
  const user = await serveMcp([tool([asks('create_elicitation')])])
  const taskId = await begin(user, 'x', { elicitation: {} })
  await reach(user, taskId, 'input_required')
  const ended = new AbortController()
  onTestFinished(() => ended.abort())
  const params = { notifications: { taskIds: [taskId, '0-unknown'] }, _meta: knowing() }
  const stream = await user.open('subscriptions/listen', params, ended.signal)
  const seen: { method: string; params: Record<string, unknown> }[] = []
  let text = ''
  for await (const bytes of stream) {
    text += Buffer.from(bytes).toString()
    const events = text.split('\n\n').slice(0, -1)
    seen.splice(0, seen.length, ...events.map((event) => JSON.parse(event.slice(event.indexOf('{')))))
    const last = seen.at(-1)?.params
    if (last?.status === 'input_required') {
      const [key = ''] = Object.keys(last.inputRequests as object)
      await about(user, 'update', taskId, { inputResponses: { [key]: { action: 'decline' } } })
    }
    if (last?.status === 'completed') break
  }
  expect(seen[0]).toMatchObject({
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { taskIds: [taskId] } },
  })
  const states = seen.slice(1).map(({ method, params }) => [method, params.taskId, params.status])
  expect(states[0]).toEqual(['notifications/tasks', taskId, 'input_required'])
  expect(states.at(-1)).toEqual(['notifications/tasks', taskId, 'completed'])
  expect(seen.at(-1)?.params).toMatchObject({ result: { content: [{ text: '{"action":"decline"}' }] } })
})

/** The session of the official client of the extension with an endpoint. */
function sessionWith(user: McpUser, answers: readonly object[] = []) {
  const left = [...answers]
  const port: ConnectedMcpSessionPort = {
    endpointId: 'test',
    taskCapabilities: { generation: 'v2', capabilities: {} },
    async dispatch(request, options = {}) {
      const { method, params } = request as { method: string; params: { _meta?: object } }
      const _meta = { ...params._meta, ...knowing({ elicitation: {}, roots: {} }) }
      const headers = Object.entries(options.context?.headers ?? {}).map(([name, value]) => [
        name.toLowerCase(),
        value,
      ])
      const { body } = await user.modern(method, { ...params, _meta }, Object.fromEntries(headers))
      return body.error
        ? { kind: 'error', error: body.error as never }
        : { kind: 'result', result: body.result as never }
    },
    onServerRequest: () => () => undefined,
    onNotification: () => () => undefined,
    onInvalidated: () => () => undefined,
    invalidated: false,
  }
  return withTasks(port, { onInputRequest: async () => left.shift() as never })
}

test('the official client of tasks fetches results, answers questions, and cancels', async () => {
  const answers: CannedAnswer[] = [
    ENDLESS,
    { when: 'plain', output: 'plain' },
    asks('create_elicitation', 'list_roots'),
  ]
  const user = await serveMcp([{ ...tool(answers), workers: 2 }])
  const roots = { roots: [{ uri: 'file:///a' }] }
  const session = sessionWith(user, [{ action: 'accept', content: { n: 1 } }, roots])
  onTestFinished(() => session.close())
  const settle = async (input: string) => {
    const execution = await session.callTool('work', { input })
    return resultFromTaskOutcome((await execution.settle()).outcome)
  }
  expect(await settle('plain')).toMatchObject({ content: [{ text: 'plain' }] })
  expect(await settle('ask')).toMatchObject({ content: [{ text: JSON.stringify(roots) }] })
  const endless = await session.callTool('work', { input: 'endless' })
  await endless.cancel()
  expect(await endless.result()).toMatchObject({ status: 'cancelled' })
})
