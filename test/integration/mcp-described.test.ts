import { expect, test } from 'vitest'
import { QueueFullError } from '../../src/errors/errors.ts'
import type { RouteOptions } from '../../src/index.ts'
import { guestBytes } from '../support/guest.ts'
import { cannedGuest } from '../support/hyper-guest.ts'
import { serveMcp } from '../support/mcp.ts'

/* Plug-ins that describe their functions themselves, by an export `describe`. */

const GREET = {
  name: 'greet',
  title: 'Greeting',
  description: 'Greets a person.',
  inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  annotations: { readOnlyHint: true },
}

/** A route to the function `greet` of a plug-in whose `describe` returns this text. */
const described = (output: string, more: Partial<RouteOptions> = {}): RouteOptions => {
  const plugin = guestBytes(
    cannedGuest({
      describe: [{ when: '', output }],
      greet: [{ when: 'Ada', output: 'Hello Ada' }],
    }),
  )
  return { url: '/x', function: 'greet', plugin, engine: 'inline', ...more }
}

test('the plug-in describes its tool, and a text that is the only parameter is the input', async () => {
  const tools = JSON.stringify({ tools: [{ name: 'other' }, GREET] })
  const user = await serveMcp([described(tools)])
  expect((await user.modern('tools/list')).body.result.tools).toEqual([GREET])
  expect((await user.call('greet', { name: 'Ada' })).content).toEqual([{ type: 'text', text: 'Hello Ada' }])
  expect(await user.call('greet', { name: 7 })).toMatchObject({
    _meta: { 'wasm-serve/code': 'WASM_SERVE_TOOL_ARGUMENTS_INVALID' },
  })
})

test('options take precedence, and the description itself is no tool', async () => {
  const tool = { name: 'mine', description: 'Better.', annotations: { readOnlyHint: false } }
  const route = described(JSON.stringify(GREET), { tool })
  const user = await serveMcp([route, { ...route, url: '/describe', function: 'describe', tool: {} }])
  const { inputSchema, title } = GREET
  expect((await user.modern('tools/list')).body.result.tools).toEqual([{ title, inputSchema, ...tool }])
})

test.each([
  [{}, 'Greets a person.'],
  [{ description: 'Of the route.' }, 'Of the route.'],
  [{ description: 'Of the route.', tool: { description: 'Of the tool.' } }, 'Of the tool.'],
])('with the options %j the tool is described as %j', async (options, description) => {
  const user = await serveMcp([described(JSON.stringify(GREET), options)])
  expect((await user.modern('tools/list')).body.result.tools).toMatchObject([{ name: 'greet', description }])
})

test.each([
  ['no JSON', '{'],
  ['another function', JSON.stringify({ tools: [{ name: 'a' }, { name: 'b' }] })],
])('with a description that has %s, it is a tool without one', async (_what, output) => {
  const user = await serveMcp([described(output)])
  const { tools } = (await user.modern('tools/list')).body.result
  expect(tools).toMatchObject([{ name: 'x', inputSchema: { required: ['input'] } }])
  expect((await user.call('x', { input: 'Ada' })).content).toEqual([{ type: 'text', text: 'Hello Ada' }])
})

test.each([
  ['a schema that is none', { inputSchema: { type: 'object', required: 7 } }],
  ['a schema of a text', { inputSchema: { type: 'string' } }],
])('with a description that has %s, it is a tool with its texts, and one argument', async (_what, wrong) => {
  const user = await serveMcp([described(JSON.stringify({ ...GREET, ...wrong }))])
  const { name, title, description, annotations } = GREET
  expect((await user.modern('tools/list')).body.result.tools).toEqual([
    { name, title, description, annotations, inputSchema: expect.objectContaining({ required: ['input'] }) },
  ])
  expect((await user.call('greet', { input: 'Ada' })).content).toEqual([{ type: 'text', text: 'Hello Ada' }])
})

test('schemas of older dialects are listed, and checked, in the current one', async () => {
  const $schema = 'http://json-schema.org/draft-07/schema#'
  const pair = { type: 'array', items: [{ type: 'string' }, { type: 'integer' }], additionalItems: false }
  const properties = { name: { type: 'string' }, pair }
  const inputSchema = { $schema, type: 'object', properties, dependencies: { pair: ['name'] } }
  const user = await serveMcp([described(JSON.stringify({ ...GREET, inputSchema }))])
  const current = { type: 'array', prefixItems: pair.items, items: false }
  expect((await user.modern('tools/list')).body.result.tools).toEqual([
    {
      ...GREET,
      inputSchema: {
        type: 'object',
        properties: { ...properties, pair: current },
        dependentRequired: { pair: ['name'] },
      },
    },
  ])
  expect((await user.call('greet', { name: 'Ada', pair: ['a', 1] })).isError).toBeUndefined()
  for (const wrong of [{ name: 'Ada', pair: ['a', 'b'] }, { name: 'Ada', pair: ['a', 1, 2] }, { pair: [] }])
    expect((await user.call('greet', wrong)).isError, JSON.stringify(wrong)).toBe(true)
})

test('a description that a busy server could not read is read for the next client', async () => {
  let isBusy = true
  const onCall = () => {
    if (isBusy) throw new QueueFullError('its limit is 1')
  }
  const user = await serveMcp([described(JSON.stringify(GREET), { onCall })])
  expect((await user.modern('tools/list')).body.result.tools).toMatchObject([{ name: 'x' }])
  isBusy = false
  expect((await user.modern('tools/list')).body.result.tools).toEqual([GREET])
})
