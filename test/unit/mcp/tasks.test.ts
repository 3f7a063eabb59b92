import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Exchange } from '../../../src/mcp/exchange.ts'
import { parseJson, readMessage } from '../../../src/mcp/json-rpc.ts'
import { InputRequired } from '../../../src/mcp/questions.ts'
import { type TaskRule, Tasks, taskRule } from '../../../src/mcp/tasks.ts'
import type { ToolResult } from '../../../src/mcp/tool-result.ts'

/* The limits and the ends of tasks, without guests. */

const AT_ONCE: TaskRule = { afterMs: 0, isRequired: false, ttlMs: 60_000 }
const SOON: TaskRule = { ...AT_ONCE, afterMs: 1 }
const CLIENT = { kind: 'key', id: 'a' } as const
const DONE: ToolResult = { content: [] }
const TEXT = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}'
const MESSAGE = readMessage(parseJson(Buffer.from(TEXT)))

function exchangeOf({ isGone = false } = {}): Exchange {
  const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
  return {
    ...{ id: 1, text: TEXT, revision: { isModern: true }, grant: { client: CLIENT } },
    meta: { 'io.modelcontextprotocol/clientCapabilities': capabilities },
    caller: { isGone, request: { log: {} } },
  } as never
}

/** Tasks whose tool is called again without an end. @param ended - Gets what became of calls. */
function openTasks(ended: (result: unknown) => void = () => undefined): Tasks {
  const tasks = new Tasks()
  tasks.begin({
    mayHaveTasks: true,
    call: () => new Promise(() => undefined),
    render: () => '{}',
    ended: (_, result) => ended(result),
  })
  return tasks
}

const begin = async (
  tasks: Tasks,
  rule: TaskRule,
  call: () => Promise<ToolResult>,
  exchange = exchangeOf(),
) => (MESSAGE.kind === 'request' ? await tasks.call(rule, MESSAGE, exchange, call) : expect.unreachable())

const ask = (tasks: Tasks, method: string, taskId: unknown, responses: readonly [string, string][] = []) =>
  tasks.answerHere({ method, taskId: String(taskId), client: CLIENT, responses: new Map(responses) })

/** A call that asks these questions. */
const asking =
  (...keys: string[]) =>
  async (): Promise<ToolResult> => {
    const inputRequests = Object.fromEntries(keys.map((key) => [key, { method: 'roots/list' }]))
    throw new InputRequired({ resultType: 'input_required', inputRequests, requestState: 'x' })
  }

const never = () => new Promise<ToolResult>(() => undefined)

test.each([0, 1])('the call of a client that is gone after %i ms becomes no task', async (afterMs) => {
  const late = () => sleep(1).then(() => sleep(1, DONE)) // timers of the same time end in their order
  expect(await begin(openTasks(), { ...AT_ONCE, afterMs }, late, exchangeOf({ isGone: true }))).toBe(DONE)
})

test('calls that begin together become at most 100 tasks', async () => {
  const tasks = openTasks()
  const slow = () => sleep(1).then(() => sleep(1, DONE))
  const results = Array.from({ length: 300 }, () => begin(tasks, SOON, slow))
  expect((await Promise.all(results)).filter((result) => 'taskId' in result)).toHaveLength(100)
})

test('a server that ends begins no tasks', async () => {
  const tasks = openTasks()
  tasks.close()
  expect(await begin(tasks, AT_ONCE, async () => DONE)).toBe(DONE)
})

test('the log has the end of a task that waits for an answer', async () => {
  const ended: unknown[] = []
  const tasks = openTasks((result) => ended.push(result))
  const code = { _meta: { 'wasm-serve/code': 'WASM_SERVE_CLIENT_GONE' } }
  const { taskId } = (await begin(tasks, AT_ONCE, asking('a'))) as { taskId?: string }
  await expect.poll(() => ask(tasks, 'tasks/get', taskId)).toContain('input_required')
  ask(tasks, 'tasks/cancel', taskId)
  ask(tasks, 'tasks/cancel', taskId)
  await begin(tasks, AT_ONCE, asking('a'))
  await expect.poll(() => ended).toHaveLength(3)
  tasks.close()
  const asked = expect.objectContaining({ resultType: 'input_required' })
  expect(ended).toEqual([asked, expect.objectContaining(code), asked, expect.objectContaining(code)])
})

test('answers that take too much fail their task, and no other', async () => {
  const tasks = openTasks()
  const keys = Array.from({ length: 80 }, (_, index) => `${index}`)
  const large = (await begin(tasks, AT_ONCE, asking(...keys))) as { taskId?: string }
  const small = (await begin(tasks, AT_ONCE, asking('a', 'b'))) as { taskId?: string }
  await expect.poll(() => ask(tasks, 'tasks/get', small.taskId)).toContain('input_required')
  const text = 'x'.repeat(1_048_576)
  for (const key of keys.slice(0, 63)) ask(tasks, 'tasks/update', large.taskId, [[`1.${key}`, text]])
  expect(ask(tasks, 'tasks/get', large.taskId)).toContain('input_required')
  const another = (await begin(tasks, AT_ONCE, never)) as { taskId?: string }
  expect(ask(tasks, 'tasks/get', another.taskId)).toContain('working')
  ask(tasks, 'tasks/update', small.taskId, [['1.a', '{}']])
  ask(tasks, 'tasks/update', large.taskId, [['1.70', text]])
  expect(ask(tasks, 'tasks/get', large.taskId)).toContain('-32603')
  expect(ask(tasks, 'tasks/get', small.taskId)).toContain('1.b')
})

test.each([
  [undefined, undefined],
  [{ enabled: false, ttlMs: 1 }, undefined],
  [{}, { afterMs: 0, isRequired: false, ttlMs: 3_600_000 }], // the documented defaults
  [
    { afterMs: 5, required: true, ttlMs: 7 },
    { afterMs: 5, isRequired: true, ttlMs: 7 },
  ],
])('the rule of a tool with the option task %j', (task, rule) => {
  expect(taskRule({ tool: { task } } as never)).toEqual(rule)
})
