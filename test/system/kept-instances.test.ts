import { expect, test } from 'vitest'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { changing } from '../support/change.ts'
import { file, guest, guestBytes, moduleNumber } from '../support/guest.ts'
import { McpUser } from '../support/mcp.ts'
import { openSocket, type SocketClient } from '../support/web-socket.ts'

/*
 * What a change of other things does not end. A reload reads everything again, so that even what is equal is another
 * object.
 */

const SOCKET: RouteOptions = { plugin: guest('echo'), url: '/socket', contract: 'websocket' }
const OTHER: RouteOptions = { plugin: guest('upper'), url: '/other' }
const LIMIT = { max: 2, timeWindowMs: 3_600_000 }

/** @returns whether a connection still answers. */
async function isOpen({ socket, next }: SocketClient): Promise<boolean> {
  socket.send('still here')
  return (await next()) === 'still here'
}

test.each<[string, RouteOptions[], Partial<ServerOptions>]>([
  ['nothing', [SOCKET, OTHER], {}],
  ['the order of the routes', [OTHER, SOCKET], {}],
  ['a header of another route', [SOCKET, { ...OTHER, headers: { 'x-a': '1' } }], {}],
  ['the bytes of another plug-in', [SOCKET, { ...OTHER, plugin: moduleNumber(1) }], {}],
  ['the number of routes', [SOCKET, OTHER, { ...OTHER, url: '/more' }], {}],
  ['the other routes', [SOCKET], {}],
  ['a route at its URL', [SOCKET, { ...OTHER, url: '/socket' }], {}],
  ['the keys', [SOCKET, OTHER], { apiKeys: ['a-key-of-32-characters-or-so-1234'] }],
  ['the access log', [SOCKET, OTHER], { accessLog: true }],
  ['the rate limit', [SOCKET, OTHER], { rateLimit: LIMIT }],
])('connections outlive a reload that changes %s', async (_what, routes, options) => {
  const { deployments, to, port } = await changing([SOCKET, OTHER])
  const connection = await openSocket(port, '/socket')
  await deployments.apply(to(routes, options), 'test')
  expect(await isOpen(connection)).toBe(true)
  await deployments.apply(to([SOCKET, OTHER]), 'test')
  expect(await isOpen(connection)).toBe(true)
})

test.each<[string, RouteOptions]>([
  ['a header', { ...SOCKET, headers: { 'x-a': '1' } }],
  ['the bytes of its plug-in', { ...SOCKET, plugin: moduleNumber(2) }],
  ['a limit', { ...SOCKET, websocketMax: 7 }],
  ['the URL', { ...SOCKET, url: '/elsewhere' }],
  ['the configuration of its guests', { ...SOCKET, config: { a: '1' } }],
])('a reload that changes %s of a route closes its connections', async (_what, route) => {
  const { deployments, to, port } = await changing([SOCKET, OTHER])
  const { closed } = await openSocket(port, '/socket')
  await deployments.apply(to([route, OTHER]), 'test')
  expect(await closed).toEqual([1001, ''])
})

test('a change of a route that is aborted closes nothing, and neither does a reload after it', async () => {
  const { deployments, to, port } = await changing([SOCKET, OTHER])
  const connection = await openSocket(port, '/socket')
  const prepared = await deployments.prepare(to([{ ...SOCKET, headers: { 'x-a': '1' } }]), 'test')
  await prepared.abort()
  expect(await isOpen(connection)).toBe(true)
  await deployments.apply(to([SOCKET, OTHER]), 'test')
  expect(await isOpen(connection)).toBe(true)
})

test('a limit that instances enforce holds for calls after the reload that changes it', async () => {
  const { deployments, to, post } = await changing([OTHER])
  expect((await post('/other', 'abc')).status).toBe(200)
  await deployments.apply(to([{ ...OTHER, outputLimit: 2 }]), 'test')
  expect((await post('/other', 'abc')).status).toBe(502)
})

test('instances that are kept have the options of the change that is live', async () => {
  const withHeader = (value: string) => [{ ...OTHER, headers: { 'x-a': value } }]
  const { deployments, to, url } = await changing(withHeader('1'))
  const header = async () => (await fetch(`${url}/other`, { method: 'POST', body: 'a' })).headers.get('x-a')
  const prepared = await deployments.prepare(to(withHeader('2')), 'test')
  expect(prepared.kept).toBe(1)
  await prepared.abort()
  expect(await header()).toBe('1')
  await deployments.apply(to(withHeader('1')), 'test')
  expect(await header()).toBe('1')
  await deployments.apply(to(withHeader('2')), 'test')
  expect(await header()).toBe('2')
  await deployments.apply(to([...withHeader('2'), SOCKET]), 'test')
  expect(await header()).toBe('2')
})

test('a file that is written again with the same bytes changes nothing', async () => {
  const plugin = file('again.wasm', guestBytes('echo'))
  const { deployments, to, port } = await changing([{ ...SOCKET, plugin }])
  const connection = await openSocket(port, '/socket')
  file('again.wasm', guestBytes('echo'))
  const { record } = await deployments.apply(to([{ ...SOCKET, plugin }]), 'test')
  expect([record?.kept, await isOpen(connection)]).toEqual([1, true])
})

test('a reload continues the windows of the rate limit, also with another maximum', async () => {
  const { deployments, to, post } = await changing([OTHER], { rateLimit: LIMIT })
  const statuses = [(await post('/other', 'a')).status]
  for (const max of [2, 2, 4]) {
    await deployments.apply(to([OTHER], { rateLimit: { ...LIMIT, max } }), 'test')
    statuses.push((await post('/other', 'a')).status)
  }
  expect(statuses).toEqual([200, 200, 429, 200])
})

test('and those of the MCP endpoint, which are others', async () => {
  const options = { mcp: { rateLimit: LIMIT }, rateLimit: LIMIT }
  const { deployments, to, post, url } = await changing([OTHER], options)
  const user = new McpUser(url)
  const statuses = [(await user.modern('tools/list')).status, (await post('/other', 'a')).status]
  await deployments.apply(to([OTHER], { ...options, rateLimit: { ...LIMIT, max: 9 } }), 'test')
  for (let count = 0; count < 3; count++) statuses.push((await user.modern('tools/list')).status)
  expect(statuses).toEqual([200, 200, 200, 429, 429])
})

test.each<[number, string, RouteOptions]>([
  [1, 'headers', { ...OTHER, headers: { 'x-a': '1' } }],
  [1, 'bodyLimit', { ...OTHER, bodyLimit: 7 }],
  [0, 'contract', { ...OTHER, contract: 'http' }],
  [0, 'streamIdleMs', { ...OTHER, streamIdleMs: 7_000 }],
  [0, 'streamTimeoutMs', { ...OTHER, streamTimeoutMs: 7_000 }],
  [0, 'streamBuffer', { ...OTHER, streamBuffer: 70_000 }],
])('a reload keeps %i instances of a route with other %s', async (kept, _option, route) => {
  const { deployments, to } = await changing([OTHER])
  expect((await deployments.apply(to([route]), 'test')).record?.kept).toBe(kept)
})

test.each([
  ['subprocessUser', '1000'],
  ['subprocessCgroup', '/sys/fs/cgroup/guests'],
  ['reusePort', true],
  ['unreadTimeoutMs', 7_000],
] as const)('a reload says that %s has to wait for the next start', async (option, value) => {
  const { deployments, to } = await changing([OTHER])
  const { record } = await deployments.apply(to([OTHER], { [option]: value }), 'test')
  expect(record?.warnings).toEqual([expect.stringContaining(option)])
})
