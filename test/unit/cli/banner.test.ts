import { expect, test } from 'vitest'
import { renderBanner, renderEngine } from '../../../src/cli/banner.ts'
import type { ServedRoute } from '../../../src/options/served-route.ts'

const route = (url: string): ServedRoute => ({
  methods: ['POST'],
  url,
  host: undefined,
  contract: 'raw',
  description: undefined,
  errorStatus: 409,
  plugin: 'hello.wasm',
  digest: 'ab'.repeat(32),
  function: 'hello',
  engine: 'inline',
  workers: 0,
  engineReason: undefined,
  trouble: undefined,
  runtime: 'kernel',
})

const routes = (count: number) => Array.from({ length: count }, (_, i) => route(`/hello-${i}`))

test('the banner lists the routes, and a command to try', () => {
  const banner = renderBanner('http://127.0.0.1:3000', routes(2), false)
  expect(banner).toMatch(/^ {2}POST\s+\/hello-1\s+hello\.wasm/m)
  expect(banner).toContain("curl http://127.0.0.1:3000/hello-0 -d '")
})

test('a WebSocket is opened by a page of the same host, because others are refused', () => {
  const socket: ServedRoute = { ...route('/a'), methods: ['GET'], contract: 'websocket' }
  expect(renderBanner('http://0.0.0.0:3000', [socket], false)).toContain(
    "new WebSocket('ws://127.0.0.1:3000/a') // in the console of a browser that shows http://127.0.0.1:3000\n",
  )
})

test('of thousands of routes, it lists the first hundred, and counts the others', () => {
  const banner = renderBanner('http://127.0.0.1:3000', routes(10_100), false)
  expect(banner.match(/\/hello-\d+ /g)).toHaveLength(101) // with the command
  expect(banner).toContain('  and 10000 more routes\n')
})

test('tools have their names, and the URL of their endpoint', () => {
  const tool = (name: string | undefined, isOnly: boolean): ServedRoute => ({
    ...route('/a'),
    tool: { name, isOnly },
  })
  const banner = renderBanner('http://0.0.0.0:3000', [tool('a', true), tool(undefined, true)], false, {
    mcpUrl: '/mcp',
  })
  expect(banner).toMatch(/^ {2}tool\s+a\s+hello\.wasm/m)
  expect(banner).toMatch(/^ {2}tool\s+\*\s+hello\.wasm/m)
  expect(banner).toContain('Tools for agents (MCP): http://127.0.0.1:3000/mcp\n')
  expect(banner).not.toContain('curl')
  expect(renderBanner('http://127.0.0.1:3000', [tool('a', false)], false, { mcpUrl: '/mcp' })).toContain(
    'curl',
  )
})

test.each<[Partial<ServedRoute>, string]>([
  [{}, 'inline'],
  [{ engine: 'workers', workers: 1, engineReason: 'WASI' }, '1 worker (WASI)'],
  [{ engine: 'workers', workers: 2 }, '2 workers'],
  [{ engine: 'subprocess', workers: 1 }, '1 process'],
  [{ engine: 'subprocess', workers: 4 }, '4 processes'],
])('where guests run: %j is %s', (engine, text) => {
  expect(renderEngine({ ...route('/'), ...engine })).toBe(text)
})
