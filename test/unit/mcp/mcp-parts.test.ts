import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import Fastify from 'fastify'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openAccess } from '../../../src/mcp/access.ts'
import { Answer } from '../../../src/mcp/answer.ts'
import { channelTo, noChanges } from '../../../src/mcp/guest-messages.ts'
import { httpCallOf } from '../../../src/mcp/http-tool.ts'
import { openHyperMcp } from '../../../src/mcp/hyper-mcp.ts'
import { type Change, type GuestChange, ListChanges } from '../../../src/mcp/list-changes.ts'
import { Pages } from '../../../src/mcp/pages.ts'
import { parameterHeadersOf } from '../../../src/mcp/parameter-headers.ts'
import { challengeOf, metadataUrl } from '../../../src/mcp/protected-resource.ts'
import { InputRequired, questionsOf } from '../../../src/mcp/questions.ts'
import { RequestStates } from '../../../src/mcp/request-state.ts'
import { decodeHeader } from '../../../src/mcp/revisions.ts'
import { RunningRequests } from '../../../src/mcp/running-requests.ts'
import { compileSchema } from '../../../src/mcp/schema.ts'
import { read, SHAPES } from '../../../src/mcp/shapes.ts'
import { ToolNotes } from '../../../src/mcp/tool-notes.ts'
import { resultOf } from '../../../src/mcp/tool-result.ts'
import { toolName } from '../../../src/options/tool-name.ts'
import { clientOf, KnownKeys } from '../../../src/route/client.ts'
import { keepLog } from '../../support/instance.ts'
import { runs } from '../../support/runs.ts'

const SCHEMA_INVALID = expect.objectContaining({ code: 'WASM_SERVE_TOOL_SCHEMA_INVALID' })

function problemOf(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  return undefined
}

test('a text in a header is read as it was, encoded or plain', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const encoded = `=?base64?${Buffer.from(text).toString('base64')}?=`
      expect(decodeHeader('Mcp-Name', encoded)).toBe(text)
    }),
    { numRuns: runs(200) },
  )
  expect(decodeHeader('Mcp-Name', 'get_weather')).toBe('get_weather')
  expect(decodeHeader('Mcp-Name', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=')).toBe('=?base64?literal?=')
})

test('a schema that would take exponential time, or is too deep, is refused', () => {
  const doubling = Object.fromEntries(
    Array.from({ length: 30 }, (_, n) => {
      const next = { $ref: `#/$defs/d${n + 1}` }
      return [`d${n}`, n === 29 ? { type: 'string' } : { allOf: [next, { ...next }] }]
    }),
  )
  const bomb = { $defs: doubling, $ref: '#/$defs/d0' }
  expect(problemOf(() => compileSchema(bomb, 'input schema', 'a'))).toEqual(SCHEMA_INVALID)
  let deep: Record<string, unknown> = {}
  for (let n = 0; n < 40; n++) deep = { properties: { a: deep } }
  expect(problemOf(() => compileSchema(deep, 'input schema', 'a'))).toEqual(SCHEMA_INVALID)
  const list = { type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false }
  const check = compileSchema(list, 'input schema', 'a')
  expect([check({ next: { next: {} } }), check({ next: { other: 1 } })]).toEqual([
    undefined,
    expect.any(String),
  ])
})

test('patterns of a schema are matched without backtracking', () => {
  const schema = {
    properties: { a: { pattern: '^(a+)+$' }, b: { pattern: '^(?!b)' } },
    patternProperties: { '^(x|x)*$': {} },
    additionalProperties: false,
  }
  const check = compileSchema(schema, 'input schema', 'a')
  const long = 'x'.repeat(10_000)
  expect([check({ a: 'aa' }), check({ b: 'a' }), check({ [long]: 1 })]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  const wrong = [{ a: `${'a'.repeat(10_000)}!` }, { b: 'b' }, { [`${long}!`]: 1 }]
  expect(wrong.map(check)).toEqual(Array(3).fill(expect.any(String)))
  const behind = { properties: { a: { pattern: '(?<=a)b' } } }
  expect(problemOf(() => compileSchema(behind, 'input schema', 'a'))).toEqual(SCHEMA_INVALID)
})

test('items that must be unique are compared in linear time, whatever they are', () => {
  const check = compileSchema({ type: 'array', uniqueItems: true }, 'input schema', 'a')
  const different = [
    1,
    '1',
    null,
    'null',
    [1],
    { a: 1, b: [2] },
    { a: 1 },
    [['a', 1]],
    { members: [['a', 1]] },
    [],
    {},
  ]
  expect(check([...different, ...Array.from({ length: 20_000 }, (_, n) => ({ n }))])).toBeUndefined()
  for (const same of [1, [1], { b: [2], a: 1 }, {}])
    expect(check([...different, same])).toContain('duplicate')
})

test('a schema of another dialect, and one of another document, are refused', () => {
  for (const schema of [
    { $schema: 'http://json-schema.org/draft-04/schema#', type: 'object' },
    { properties: { a: { $ref: 'https://example.com/a.json' } } },
    { properties: { a: { type: 'nothing' } } },
  ])
    expect(problemOf(() => compileSchema(schema, 'input schema', 'a'))).toEqual(SCHEMA_INVALID)
})

test('a message names all problems, each with its place and what is expected', () => {
  const schema = {
    type: 'object',
    required: ['from', 'to'],
    properties: {
      kind: { const: 'trip' },
      ways: { type: 'array', items: { enum: ['bus', 'train'] } },
      note: { type: 'string', maxLength: 2 },
    },
    additionalProperties: false,
  }
  const check = compileSchema(schema, 'input schema', 'a')
  expect(check({ kind: 'flight', ways: ['bus', 'car'], note: 'abc', other: 1 })?.split('; ')).toEqual([
    "the value must have required property 'from'",
    "the value must have required property 'to'",
    'the value must NOT have additional properties: other',
    '/kind must be equal to constant: "trip"',
    '/ways/1 must be equal to one of the allowed values: ["bus","train"]',
    '/note must NOT have more than 2 characters',
  ])
})

test('a message about arguments is short, whatever they are', () => {
  const check = compileSchema({ type: 'object', additionalProperties: false }, 'input schema', 'a')
  expect(check({ ['x'.repeat(10_000)]: 1 })?.length).toBeLessThanOrEqual(1_000)
})

test('of a large value only the first problem is looked for: a million problems would fill the memory', () => {
  const check = compileSchema({ items: { type: 'string' } }, 'input schema', 'a')
  expect(check([1, 2])).toBe('/0 must be string; /1 must be string')
  expect(check(Array(1_000_000).fill(1))).toBe('/0 must be string')
})

test('a header of an argument is for texts, integers and booleans that are always at the same place', () => {
  const of = (properties: object) => () => parameterHeadersOf({ type: 'object', properties }, 'a')
  const header = (name: unknown, type = 'string') => ({ type, 'x-mcp-header': name })
  expect(of({ a: header('A'), b: { type: 'object', properties: { c: header('C', 'integer') } } })()).toEqual([
    { name: 'A', path: ['a'] },
    { name: 'C', path: ['b', 'c'] },
  ])
  expect(of({ 'x-mcp-header': { type: 'string' } })()).toEqual([])
  for (const wrong of [
    { a: header('') },
    { a: header('a b') },
    { a: header('A', 'number') },
    { a: header('A'), b: header('a') },
    { a: { type: 'array', items: header('A') } },
    { a: { anyOf: [header('A')] } },
  ])
    expect(problemOf(of(wrong)), JSON.stringify(wrong)).toEqual(SCHEMA_INVALID)
})

test('all pages together are the list', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 7 }), (length, size) => {
      const items = Array.from({ length }, (_, n) => ({ n }))
      const pages = new Pages(items, size)
      const all: unknown[] = []
      let cursor: unknown
      do {
        const page = pages.at(cursor)
        all.push(...page.items)
        cursor = page.nextCursor
      } while (cursor !== undefined)
      expect(all).toEqual(items)
    }),
    { numRuns: runs(50) },
  )
})

test('an output is text, an image, audio or bytes, by its type or by its first bytes', () => {
  const of = (output: Uint8Array | string, contentType?: string) =>
    resultOf(Buffer.from(output), { name: 'a', contentType }, undefined).content[0]
  expect(of('é')).toEqual({ type: 'text', text: 'é' })
  expect(of('{}', 'application/json')).toEqual({ type: 'text', text: '{}' })
  expect(of('abc', 'audio/wav')).toEqual({ type: 'audio', data: 'YWJj', mimeType: 'audio/wav' })
  for (const [start, mimeType] of [
    ['\x89PNG\r\n\x1a\n\xff', 'image/png'],
    ['\xff\xd8\xff\xe0', 'image/jpeg'],
    ['RIFF\xff\xff\xff\xffWEBP', 'image/webp'],
  ] as const)
    expect(of(Buffer.from(start, 'latin1'))).toMatchObject({ type: 'image', mimeType })
  const resource = { uri: 'tool:a', mimeType: 'text/plain', blob: '/w==' }
  expect(of(Uint8Array.of(255), 'text/plain')).toEqual({ type: 'resource', resource })
})

test.each([
  ['/', 'count_vowels', 'count_vowels'],
  ['/text/upper', 'upper', 'text_upper'],
  ['/users/:id', 'f', 'users_id'],
  ['/é', 'f', 'f'],
  ['/', '_start', 'start'],
  ['/v1.0/greet.v2', 'f', 'v1_0_greet_v2'], // some clients refuse dots
  [`/${'x'.repeat(200)}`, 'f', 'x'.repeat(64)],
])('the tool of a route at %s with the function %s is %s', (url, functionName, name) => {
  expect(toolName({ url }, functionName)).toBe(name)
})

test('a pattern of a rule matches whole names, and has no other special characters', () => {
  const access = openAccess([{ tools: ['read_*', 'a.b'] }])
  const grant = access.grantOf({ headers: {} } as never)
  const names = ['read_', 'read_all', 'a.b', 'axb', 'xread_a', 'write', '']
  expect(names.filter((name) => grant.allows(name))).toEqual(['read_', 'read_all', 'a.b'])
  expect(grant.isWhole).toBe(false)
})

test('a pattern with many stars is compared in one pass', () => {
  const access = openAccess([{ tools: [`${'a*'.repeat(20)}b`, 'x*y*x'] }])
  const grant = access.grantOf({ headers: {} } as never)
  const names = [
    'a'.repeat(100_000),
    `${'a'.repeat(20)}b`,
    `${'a'.repeat(19)}b`,
    'xyx',
    'xx',
    'xyyxyx',
    'xyxy',
  ]
  expect(names.map((name) => grant.allows(name))).toEqual([false, true, false, true, false, true, false])
})

test('a request is cancelled by its own client and session, and not if others have its name', () => {
  const running = new RunningRequests()
  const cancelled: string[] = []
  const name = (ip: string, session?: string) => ({ client: clientOf({ ip } as never, []), session, id: 1 })
  const add = (...[ip, session]: Parameters<typeof name>) =>
    running.add(name(ip, session), { cancel: () => cancelled.push(`${ip} ${session}`) })
  add('192.0.2.1', 'a')
  add('192.0.2.1', 'b')
  const forgets = [add('192.0.2.1'), add('192.0.2.1')]
  running.cancel(name('192.0.2.2', 'a'))
  running.cancel(name('192.0.2.1', 'c'))
  running.cancel(name('192.0.2.1'))
  expect(cancelled).toEqual([])
  running.cancel(name('192.0.2.1', 'b'))
  forgets[0]?.()
  running.cancel(name('192.0.2.1'))
  forgets[1]?.()
  running.cancel(name('192.0.2.1'))
  expect(cancelled).toEqual(['192.0.2.1 b', '192.0.2.1 undefined'])
})

test('streams of addresses do not use up those of clients with a key', async () => {
  const changes = new ListChanges()
  const closers: (() => void)[] = []
  const keepOpen = (onClosed: () => void) => void closers.push(onClosed)
  const answer = { notify: () => undefined, keepOpen } as never
  const lists = new Set(['tools'] as const)
  const params = { notifications: { toolsListChanged: true } }
  const listen = (headers: Record<string, string>, ip: string) => {
    const keys = new KnownKeys(['a-key-0123456789']).in(headers)
    const client = clientOf({ ip } as never, keys)
    const readTask = async () => undefined
    return changes.listen({ id: 1, params, client, lists, serverInfo: {}, readTask }, answer)
  }
  for (let stream = 0; stream < 1_000; stream++) await listen({}, `192.0.2.${stream % 10}`)
  const code = 'WASM_SERVE_MCP_STREAMS_FULL'
  await expect(listen({ 'x-api-key': 'made-up-0123456789' }, '192.0.2.11')).rejects.toThrow(
    expect.objectContaining({ code }),
  )
  for (let stream = 0; stream < 100; stream++) await listen({ 'x-api-key': 'a-key-0123456789' }, '192.0.2.1')
  await expect(listen({ 'x-api-key': 'a-key-0123456789' }, '192.0.2.12')).rejects.toThrow(
    expect.objectContaining({ code }),
  )
  for (const close of closers) close()
})

/** An answer that writes down what it sends. */
function writtenAnswer() {
  const sent: string[] = []
  const reads: (() => void)[] = []
  const answer = {
    sent,
    /** Whether the client reads. */
    isRead: true,
    isBehind: false,
    notify(method: string, params: string) {
      sent.push(`${method} ${params}`)
      answer.isBehind = !answer.isRead
    },
    keepOpen: () => undefined,
    end: () => void sent.push('end'),
    onceRead: (read: () => void) => void reads.push(read),
    read() {
      answer.isRead = true
      answer.isBehind = false
      for (const read of reads.splice(0)) read()
    },
  }
  return answer
}

function listenTo(
  changes: ListChanges,
  taskIds: readonly string[],
  readTask: (id: string) => Promise<string>,
) {
  const answer = writtenAnswer()
  const client = clientOf({ ip: '192.0.2.1' } as never, [])
  const request = { id: 1, params: { notifications: { taskIds } }, client, lists: new Set<never>() }
  const listening = changes.listen({ ...request, serverInfo: {}, readTask }, answer as never)
  return { answer, listening }
}

test('a stream that is asked for while the server ends, ends', async () => {
  const changes = new ListChanges()
  const { answer, listening } = listenTo(changes, ['1-a'], async () => '{}')
  changes.close()
  await listening
  expect(answer.sent.at(-1)).toBe('end')
})

test('a client that does not read gets the last state of each task when it goes on', async () => {
  const changes = new ListChanges()
  const ids = ['1-a', '1-b', '1-c']
  let state = 0
  const { answer, listening } = listenTo(changes, ids, async (id) => `{"${id}":${state}}`)
  await listening
  await expect.poll(() => answer.sent).toHaveLength(4) // the acknowledgement and the first states
  answer.isRead = false
  for (state = 1; state < 100; state++) {
    changes.announceHere(ids.map((task) => ({ task })))
    await sleep(0)
  }
  expect(answer.sent.slice(4)).toEqual([expect.stringContaining('"1-a":1,')])
  answer.read()
  await expect.poll(() => answer.sent).toHaveLength(8)
  for (const id of ids) expect(answer.sent.slice(5).join()).toContain(`"${id}":100,`)
  changes.close()
  changes.close()
  expect(answer.sent.slice(8)).toEqual(['end'])
})

test('a task that changes while it is read is read once more', async () => {
  const changes = new ListChanges()
  let reads = 0
  let state = 0
  const { answer, listening } = listenTo(changes, ['1-a'], async () => {
    reads++
    return await sleep(1, `{"n":${state}}`)
  })
  await listening
  await expect.poll(() => answer.sent).toHaveLength(2)
  for (state = 1; state < 100; state++) changes.announceHere([{ task: '1-a' }])
  await expect.poll(() => answer.sent.at(-1)).toContain('"n":100')
  await expect.poll(() => reads).toBe(4)
  changes.close()
})

test('changes of plug-ins do not keep those of tasks from clients', async () => {
  const announced = await new Promise<readonly Change[]>((resolve) => {
    const changes = new ListChanges({ announce: resolve })
    for (let index = 0; index < 1_100; index++) changes.announce({ plugin: 'a', resource: `a:${index}` })
    changes.announce({ task: '1-a' })
  })
  expect(announced).toHaveLength(1_001)
  expect(announced.at(-1)).toEqual({ task: '1-a' })
})

test.each([
  ['/files/*', { '*': 'a/b c' }, '/files/a%2Fb%20c'],
  ['/users/:id(^\\d+$)/:tab?', { id: 7, tab: 'x' }, '/users/7/x'],
  ['/users/:id', { id: 7, more: ['x', 'y'] }, '/users/7?more=x&more=y'],
])('the arguments of a tool become the URL of a request to %s', (url, value, expected) => {
  const call = httpCallOf({ served: { methods: ['GET'], url } } as never, { form: 'none' } as never)
  const args = { value, text: JSON.stringify(value) }
  const request = call(args, Buffer.alloc(0), { request: { id: '1' } } as never)
  expect(JSON.parse(Buffer.from(request).toString())).toMatchObject({ method: 'GET', url: expected })
})

test('each warning about tools is logged once, and a thousand in all', () => {
  const log = { warn: vi.fn() }
  const notes = new ToolNotes()
  for (let each = 0; each < 1_500; each++)
    for (let time = 0; time < 2; time++) notes.warn(log, { tool: each }, 'is left out')
  expect(log.warn).toHaveBeenCalledTimes(1_000)
})

test('a stream of an answer is for no cache, and no proxy collects it', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.get('/', (_request, reply) => {
    const answer = new Answer(reply, false)
    answer.notify('notifications/progress', '{}')
    answer.end(200, '{}')
  })
  expect((await app.inject('/')).headers).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  })
})

test('lists of a plug-in are kept until it says that they have changed, and templates are resources, too', async () => {
  const asked: string[] = []
  const exports = ['list_tools', 'call_tool', 'list_resources', 'list_resource_templates', 'list_prompts']
  const route = {
    options: {},
    plugin: { name: 'a', functions: exports.map((name) => ({ name })) },
    call: async (_input: unknown, _caller: unknown, exported: string) => {
      asked.push(exported)
      return Buffer.from('{"tools":[],"resources":[],"resourceTemplates":[],"prompts":[]}')
    },
  }
  const guest = openHyperMcp(route as never, 60_000, undefined, new ToolNotes())
  const exchange = { id: 1, text: '{}', meta: {}, caller: { request: { log: keepLog() } } }
  const askedAgain = async () => {
    asked.length = 0
    for (const kind of ['tools', 'resources', 'resourceTemplates', 'prompts'] as const)
      await guest.list(kind, exchange as never)
    return [...asked]
  }
  expect(await askedAgain()).toHaveLength(4)
  expect(await askedAgain()).toEqual([])
  guest.forget({ plugin: 'a', list: 'resources' })
  expect(await askedAgain()).toEqual(['list_resources', 'list_resource_templates'])
  guest.forget({ plugin: 'a', list: 'prompts' })
  expect(await askedAgain()).toEqual(['list_prompts'])
  guest.forget({ plugin: 'b', list: 'tools' })
  expect(await askedAgain()).toEqual([])
})

test('nothing is written after the end of an answer', () => {
  const written: string[] = []
  const raw = { writableEnded: true, destroyed: false, write: (text: string) => written.push(text) }
  const answer = new Answer({ raw, request: { raw: { socket: {} } } } as never, false)
  answer.keepAlive()
  answer.notify('notifications/tasks', '{}')
  expect(written).toEqual([])
})

test('metadata is at the well-known path before the path of the endpoint', () => {
  expect(metadataUrl('https://a.example/mcp')).toBe(
    'https://a.example/.well-known/oauth-protected-resource/mcp',
  )
  expect(metadataUrl('https://a.example')).toBe('https://a.example/.well-known/oauth-protected-resource')
  expect(challengeOf('https://a.example/b')).toContain('resource_metadata="https://a.example/')
})

test.each([
  ['aGk=', true],
  [' a\nG k = ', true],
  ['aA==', true],
  ['', true],
  ['aGk', true],
  ['a=Gk', false],
  ['====', false],
  ['aGk!', false],
  [`${' '.repeat(2 ** 24)}!`, false], // in a time that grows with its length
])('whether a guest has sent Base64: %#', (data, isBase64) => {
  const image = { type: 'image', data, mimeType: 'image/png' }
  expect(read(image, SHAPES.content)).toEqual(isBase64 ? image : undefined)
})

test('changes of which many calls tell are announced once, to this process and to others', async () => {
  const seen: GuestChange[] = []
  const relayed = await new Promise<readonly Change[]>((resolve) => {
    const changes = new ListChanges({ announce: resolve })
    changes.watch((change) => seen.push(change))
    for (let call = 0; call < 3; call++) {
      changes.announce({ plugin: 'a', list: 'tools' })
      changes.announce({ plugin: 'a', resource: 'a:1' })
    }
  })
  expect(relayed).toEqual([
    { plugin: 'a', list: 'tools' },
    { plugin: 'a', resource: 'a:1' },
  ])
  expect(seen).toEqual(relayed)
})

test('a change that was announced is not announced again with the next one', async () => {
  const announced: (readonly Change[])[] = []
  let heard: () => void = () => undefined
  const relay = {
    announce(some: readonly Change[]) {
      announced.push(some)
      heard()
    },
  }
  const changes = new ListChanges(relay)
  const all: Change[] = [{ plugin: 'a', list: 'tools' }, { task: '1-a' }]
  for (const change of all)
    await new Promise<void>((resolve) => {
      heard = resolve
      changes.announce(change)
    })
  expect(announced).toEqual(all.map((change) => [change]))
})

test('of the URIs that a call tells, a hundred count, and none that is too long', () => {
  const changes = noChanges()
  const client = { meta: {}, notify: () => undefined, wantsLevel: undefined, hasSession: false }
  const tell = channelTo(client, undefined, changes)
  const longest = 'x'.repeat(4_096)
  for (const uri of [`${longest}x`, longest]) tell('notify_resource_updated', JSON.stringify({ uri }))
  for (let index = 0; index < 200; index++)
    tell('notify_resource_updated', JSON.stringify({ uri: `a:${index}` }))
  expect([...changes.resources]).toEqual([longest, ...Array.from({ length: 99 }, (_, index) => `a:${index}`)])
})

const field = (schema: object) => ({
  message: 'Sure?',
  requestedSchema: { type: 'object', properties: { a: schema } },
})
const say = (content: unknown, more: object = {}) => ({
  ...{ messages: [{ role: 'user', content }], maxTokens: 9, ...more },
})
const TEXT = { type: 'text', text: 'x' }

test.each([
  ['elicitation', field({ type: 'string', format: 'email', default: 'a@b.example' }), true],
  ['elicitation', field({ type: 'string', enum: ['a'], enumNames: ['A'] }), true],
  ['elicitation', field({ type: 'string', oneOf: [{ const: 'a', title: 'A' }] }), true],
  ['elicitation', field({ type: 'array', items: { type: 'string', enum: ['a'] }, default: ['a'] }), true],
  ['elicitation', field({ type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }] } }), true],
  ['elicitation', field({ type: 'integer', minimum: 1 }), true],
  ['elicitation', field({}), false],
  ['elicitation', field({ type: 'object', properties: {} }), false],
  ['elicitation', field({ type: 'array', items: { type: 'string' } }), false],
  ['elicitation', field({ type: 'boolean', default: 'yes' }), false],
  ['elicitation', field({ type: 'string', format: 'other' }), false],
  ['elicitation', { mode: 'url', message: 'Go', url: 'https://a.example/' }, true],
  ['elicitation', { mode: 'url', message: 'Go', url: 'nowhere' }, false],
  ['sampling', say(TEXT), true],
  ['sampling', say([TEXT, { type: 'tool_use', id: '1', name: 'a', input: { b: null } }]), true],
  ['sampling', say({ type: 'tool_result', toolUseId: '1', content: [TEXT] }), true],
  ['sampling', say(TEXT, { modelPreferences: { hints: [{ name: 'a' }], costPriority: 1 } }), true],
  ['sampling', say('x'), false],
  ['sampling', say({ type: 'other' }), false],
  ['sampling', say(TEXT, { maxTokens: 1.5 }), false],
  ['sampling', say(TEXT, { modelPreferences: { costPriority: 2 } }), false],
  ['sampling', say(TEXT, { includeContext: 'all' }), false],
  ['sampling', say(TEXT, { tools: [{ name: 'a' }] }), false],
] as const)('whether clients know the %s %j: %s', (kind, params, isKnown) => {
  expect(SHAPES[kind](params)).toBe(isKnown)
})

test('what is null in a question counts as missing, but not in what a model gets', () => {
  const states = new RequestStates('a secret of a test')
  const client = clientOf({ ip: '127.0.0.1' } as never, [])
  const ask = (name: string, question: object): unknown => {
    const request = { id: 1, method: 'tools/call', params: { name: 'a' }, text: '{"params":{"name":"a"}}' }
    const capabilities = { elicitation: {}, sampling: {} }
    const questions = questionsOf({ kind: 'request', ...request }, client, states, capabilities)
    questions?.ask(name, JSON.stringify(question))
    const { end } = questions ?? {}
    return end instanceof InputRequired ? end.result.inputRequests : end
  }
  const { requestedSchema } = field({ type: 'string', title: null })
  const form = { message: 'Sure?', mode: null, requestedSchema: { ...requestedSchema, required: null } }
  expect(ask('create_elicitation', form)).toEqual({
    question: { method: 'elicitation/create', params: field({ type: 'string' }) },
  })
  const input = { b: null }
  const message = say({ type: 'tool_use', id: '1', name: 'a', input })
  expect(ask('create_message', { ...message, systemPrompt: null })).toEqual({
    question: { method: 'sampling/createMessage', params: message },
  })
})

test('answers that are too large to be sent back with the next question end the request with the reason', () => {
  const states = new RequestStates('a secret of a test')
  const client = clientOf({ ip: '127.0.0.1' } as never, [])
  /** Asks two questions. @returns what ends the request. */
  const ask = (requestState?: unknown, content?: string) => {
    const params = {
      name: 'a',
      ...(requestState !== undefined && { requestState, inputResponses: { question: { content } } }),
    }
    const request = {
      kind: 'request',
      id: 1,
      method: 'tools/call',
      params,
      text: JSON.stringify({ params }),
    } as const
    const questions = questionsOf(request, client, states, { elicitation: {} })
    const question = (message: string) =>
      JSON.stringify({ message, requestedSchema: { type: 'object', properties: {} } })
    const isAnswered = questions?.ask('create_elicitation', question('1')) !== undefined
    if (isAnswered) questions?.ask('create_elicitation', question('2'))
    return questions?.end
  }
  const stateOf = (end: unknown) => (end instanceof InputRequired ? end.result.requestState : undefined)
  const first = stateOf(ask())
  const second = stateOf(ask(first, 'x'.repeat(300_000)))
  expect(ask(second, 'x')).toBeUndefined()
  expect(ask(first, 'x'.repeat(600_000))).toMatchObject({
    code: -32_603,
    message: expect.stringContaining('524288'),
  })
})

describe('questions that a guest asks by its result', () => {
  const states = new RequestStates('a secret of a test')
  const client = clientOf({ ip: '127.0.0.1' } as never, [])
  const ROOTS = { method: 'roots/list' }
  const open = (params: object = {}) => {
    const whole = { name: 'a', ...params }
    const text = JSON.stringify({ params: whole })
    const request = { kind: 'request', id: 1, method: 'tools/call', params: whole, text } as const
    const questions = questionsOf(request, client, states, { roots: {}, elicitation: {} })
    if (!questions) throw new Error('no questions')
    return questions
  }
  const forward = (result: Record<string, unknown>, params?: object) => {
    const answer = open(params).forward(result)
    return answer instanceof InputRequired ? answer.result : answer
  }

  test('are passed on, with a state that the client sends back', () => {
    expect(forward({ inputRequests: { mine: ROOTS } })).toEqual({
      resultType: 'input_required',
      requestState: expect.any(String),
      inputRequests: { mine: { method: 'roots/list', params: {} } },
    })
  })

  test.each([
    [{}],
    [{ inputRequests: [] }],
    [{ inputRequests: { a: 1 } }],
    [{ inputRequests: { a: { method: 'tools/list' } } }],
    [{ inputRequests: { a: { method: 'roots/list', params: 1 } } }],
  ])('are none if they are not what MCP defines: %j', (result) => {
    expect(forward(result)).toBeUndefined()
  })

  test('end the request if the client cannot answer one of them', () => {
    const message = { messages: [], maxTokens: 1 }
    const requests = { a: ROOTS, b: { method: 'sampling/createMessage', params: message } }
    expect(forward({ inputRequests: requests })).toMatchObject({ status: 400 })
  })

  test('are answered with the answers that were asked for, and the state that the guest gave', () => {
    const asked = forward({ inputRequests: { mine: ROOTS }, requestState: { step: 1 } })
    const given = {
      requestState: (asked as { requestState: string }).requestState,
      inputResponses: { mine: { roots: [] }, other: {} },
    }
    expect(open(given).responses).toEqual([
      ['inputResponses', '{"mine":{"roots":[]}}'],
      ['requestState', '{"step":1}'],
    ])
    expect(open().responses).toEqual([])
  })

  test('may be a state alone, so that the guest is called again, but not without an end', () => {
    let result: unknown = forward({ requestState: 1 })
    expect(result).toEqual({ resultType: 'input_required', requestState: expect.any(String) })
    for (let times = 0; result && 'requestState' in (result as object); times++) {
      expect(times).toBeLessThan(1_000)
      const { requestState } = result as { requestState: string }
      result = forward({ requestState: 1 }, { requestState })
    }
    expect(result).toMatchObject({ message: expect.stringContaining('called again') })
  })
})
