import { expect, test } from 'vitest'
import { AUTHORIZED, listenAdmin } from '../support/admin.ts'
import { guest } from '../support/guest.ts'
import { serveMcp } from '../support/mcp.ts'
import { listen } from '../support/serve.ts'
import { open } from '../support/socket.ts'

/** What may be opened for a web page of a browser, and how the page would ask. */
const DOORS = {
  async admin() {
    const { port } = await listenAdmin({}, { adminHosts: ['known.example'] })
    return { port, line: 'GET /nowhere', headers: AUTHORIZED, status: 404 }
  },
  async mcp() {
    const plugin = guest('echo')
    const user = await serveMcp([{ url: '/a', plugin, engine: 'inline' }], { hosts: ['known.example'] })
    const headers = { 'content-type': 'application/json' }
    return { port: Number(new URL(user.url).port), line: 'POST /mcp', headers, status: 200 }
  },
  async websocket() {
    const { port } = await listen({ plugin: guest('echo'), contract: 'websocket', engine: 'inline' })
    const headers = {
      ...{ connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    return { port, line: 'GET /', headers, status: 101 }
  },
} as const

/** The status for each set of headers: 403, or that of a request that was let in. */
async function statuses(
  door: keyof typeof DOORS,
  sets: readonly Readonly<Record<string, string>>[],
): Promise<(number | undefined)[]> {
  const { port, line, headers, status } = await DOORS[door]()
  const found = sets.map(async (more) => {
    const client = await open(port)
    const body = line.startsWith('POST') ? '{"jsonrpc":"2.0","id":1,"method":"ping"}' : ''
    const all = { host: `127.0.0.1:${port}`, 'content-length': String(body.length), ...headers, ...more }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    client.send(`${line} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
    const answer = await client.answer()
    return answer?.status === status ? 200 : answer?.status
  })
  return Promise.all(found)
}

const KNOWN = [
  {},
  { host: 'known.example', origin: 'http://known.example' },
  { host: 'known.example', origin: 'https://KNOWN.example' }, // a proxy ends TLS
  { host: '127.0.0.1:9', origin: 'http://127.0.0.1:9', 'sec-fetch-site': 'same-origin' },
  { 'sec-fetch-site': 'none' },
]

const FOREIGN = [
  { origin: 'http://evil.example' },
  { origin: 'null' },
  { origin: 'no URL' },
  { host: '192.0.2.1:9', origin: 'http://192.0.2.1:8' },
  { host: 'known.example', origin: 'http://known.example.evil.example' },
  { host: 'known.example', origin: 'http://known.example:8080' },
  { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
  { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
]

/** A page may point its own name at the address of a server. Its origin is then that of the server. */
const FOREIGN_NAMES = [
  { host: 'evil.example', origin: 'http://evil.example' },
  { host: 'evil.example' },
  { host: 'known.example.evil.example' },
  { host: '127.0.0.1.evil.example:9', origin: 'http://127.0.0.1.evil.example:9' },
]

test.each(['admin', 'mcp', 'websocket'] as const)('%s lets programs and own pages in', async (door) => {
  expect(await statuses(door, KNOWN)).toEqual(KNOWN.map(() => 200))
})

test.each(['admin', 'mcp', 'websocket'] as const)('%s refuses pages of other origins', async (door) => {
  expect(await statuses(door, FOREIGN)).toEqual(FOREIGN.map(() => 403))
})

test.each(['admin', 'mcp'] as const)('%s refuses names that are not known', async (door) => {
  expect(await statuses(door, FOREIGN_NAMES)).toEqual(FOREIGN_NAMES.map(() => 403))
})

test('a WebSocket is open to all names of the server, as the other routes are', async () => {
  expect(await statuses('websocket', FOREIGN_NAMES)).toEqual(FOREIGN_NAMES.map(() => 200))
})
