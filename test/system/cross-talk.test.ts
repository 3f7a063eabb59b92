import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { afterAll, describe, expect, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { selfSigned } from '../support/certificate.ts'
import { start } from '../support/cli-process.ts'
import { exchangeOverHttp1, exchangeOverHttp2 } from '../support/exchange-clients.ts'
import { type ExchangeConnection, faultsOf } from '../support/exchanges.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { randomOf } from '../support/random.ts'
import { listen } from '../support/serve.ts'

const HELLO = new URL('../../plugins/hello/hello.wasm', import.meta.url).pathname

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cross-talk-'))
afterAll(() => rmSync(folder, { recursive: true }))
const certificate = selfSigned('localhost')
const TLS = { tls: { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') } }
writeFileSync(TLS.tls.cert, certificate.cert)
writeFileSync(TLS.tls.key, certificate.key)

/** The ways to serve that may not change what a client gets. */
const ways: readonly Partial<RouteOptions>[] = [
  { runtime: 'kernel' },
  { runtime: 'kernel', isolation: 'fresh' },
  { runtime: 'kernel', recycle: 7 },
  { runtime: 'sdk' },
]

describe.each(ways)('%o', (way) => {
  test("the article's load, 300 requests over 100 connections, gets each client its own answer", async () => {
    const { url } = await listen({ plugin: HELLO, ...way })
    const load = startLoad({
      url,
      connections: 100,
      isAnswer: (answer, body) => answer === `{"message":"🦀 Hello ${body}"}`,
    })
    await load.answered(300)
    const counts = await load.stop()
    expect(counts.answers).toBeGreaterThanOrEqual(300)
    expect(counts).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  })

  test('a guest that traps for some clients costs the others nothing', async () => {
    const { url } = await listen({ plugin: guest('trap'), ...way })
    const healthy = startLoad({ url, connections: 50, body: () => 'ok' })
    const trapping = startLoad({ url, connections: 10, body: (id) => `trap ${id}` })
    await Promise.all([healthy.answered(500), trapping.answered(50)])
    const [well, ill] = await Promise.all([healthy.stop(), trapping.stop()])
    expect(well).toMatchObject({ wrong: 0, non2xx: 0, resets: 0 })
    expect(ill.non2xx).toBe(ill.answers)
  })
})

describe.each([
  ['HTTP', { port: 0 }, overHttp],
  ['HTTPS', { port: 0, ...TLS }, overHttps],
  ['HTTP/2', { port: 0, ...TLS, http2: true }, overHttp2],
  ['a Unix socket', { socket: join(folder, 'a.sock') }, overHttp],
] as const)('over %s', (_name, server, open) => {
  test.each(['inline', 'workers'])('each of 6,500 requests gets its own answer (%s)', async (path) => {
    const config = join(folder, 'config.json')
    const defaults = { bodyLimit: 2 ** 21, outputLimit: 2 ** 21, maxQueue: 1_000 }
    const routes = [
      { url: '/inline', plugin: guest('echo') },
      { url: '/workers', plugin: guest('echo'), workers: 2 },
    ]
    writeFileSync(config, JSON.stringify({ ...server, defaults, routes }))
    const url = await start(['-c', config]).listening()
    const load = { connections: 16, atOnce: 8, exchanges: 6_500, random: randomOf(1) }
    expect(await faultsOf({ ...load, path: `/${path}`, open: (isSlow) => open(url, isSlow) })).toEqual([])
  })
})

async function overHttp(url: string, isSlow: boolean): Promise<ExchangeConnection> {
  const target = url.startsWith('unix:') ? { path: url.slice(5) } : portOf(url)
  const socket = connect({ ...target, noDelay: true })
  await once(socket, 'connect')
  return exchangeOverHttp1(socket, isSlow)
}

async function overHttps(url: string, isSlow: boolean): Promise<ExchangeConnection> {
  const socket = connectTls({ ...portOf(url), ca: certificate.cert, servername: 'localhost' }).setNoDelay()
  await once(socket, 'secureConnect')
  return exchangeOverHttp1(socket, isSlow)
}

function overHttp2(url: string, isSlow: boolean): Promise<ExchangeConnection> {
  return exchangeOverHttp2(portOf(url).port, certificate.cert, isSlow)
}

function portOf(url: string) {
  return { host: '127.0.0.1', port: Number(new URL(url).port) }
}
