import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { serveHttp } from '../support/outbound.ts'
import { pluginFile } from '../support/pdk.ts'
import { listen } from '../support/serve.ts'

const MIB = 2 ** 20

const PROXY = pluginFile('streams-rust', 'streams.wasm')

const proxyOf = (port: number, workers = 1) => ({
  plugin: PROXY,
  function: 'proxy',
  contract: 'http' as const,
  method: '*' as const,
  url: '/*',
  bodyLimit: 0,
  outputLimit: 0,
  httpResponseMax: 0,
  timeoutMs: 60_000,
  workers,
  config: { upstream: `http://127.0.0.1:${port}` },
  allowedHosts: ['127.0.0.1'],
})

test('200 MiB go to another server and back through a guest, with constant memory', async () => {
  const upstream = await serveHttp((asked, response) => void asked.pipe(response))
  const limits = ['body-limit', 'output-limit', 'http-response-max'].flatMap((name) => [`--${name}`, '0'])
  const route = ['--contract', 'http', '--method', '*', '--url', '/*', '--workers', '1', '--timeout', '60000']
  const to = ['--config', `upstream=http://127.0.0.1:${upstream.port}`, '--allow-host', '127.0.0.1']
  const running = start([PROXY, 'proxy', '0', ...limits, ...route, ...to])
  const url = await running.listening()
  await exchange(url, 1, MIB)
  const idle = residentBytes(running.child.pid)
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, residentBytes(running.child.pid))), 10)
  onTestFinished(() => clearInterval(watch))
  const { sent, received } = await exchange(url, 2, 200 * MIB)
  expect(received).toBe(sent)
  expect((most - idle) / MIB).toBeLessThan(120) // of 800 that passed
}, 120_000)

test('50 exchanges at a time reach another server and come back to their clients', async () => {
  const upstream = await serveHttp((asked, response) => {
    response.setHeader('x-path', String(asked.url))
    asked.pipe(response)
  })
  const { url } = await listen(proxyOf(upstream.port, 8))
  const outcomes = Array.from({ length: 50 }, async (_, id) => {
    const { sent, received, headers } = await exchange(`${url}/${id}`, id, 100_000 + 10_000 * id)
    return sent === received && headers['x-path'] === `/${id}`
  })
  expect((await Promise.all(outcomes)).filter((isOwn) => !isOwn)).toEqual([])
})

test('a slow server, a slow client and one that leaves do not disturb others', async () => {
  const news = new EventEmitter()
  const upstream = await serveHttp((asked, response) => {
    if (asked.url === '/leaving') {
      asked.once('close', () => news.emit('left'))
      news.emit('came')
    }
    const pauseMs = asked.url === '/slow' ? 5 : 0
    Readable.from(slowly(asked, pauseMs))
      .on('error', () => undefined) // the client has left
      .pipe(response)
  })
  const { url } = await listen(proxyOf(upstream.port, 4))
  const leaving = request(`${url}/leaving`, { method: 'POST', agent: false }).on('error', () => undefined)
  const came = once(news, 'came')
  leaving.write('a')
  await came
  const all = await Promise.all([
    exchange(`${url}/slow`, 1, 2_000_000),
    exchange(`${url}/fast`, 2, 2_000_000, 5),
    exchange(`${url}/fast`, 3, 2_000_000),
  ])
  expect(all.map(({ sent, received }) => sent === received)).toEqual([true, true, true])
  const left = once(news, 'left')
  leaving.destroy()
  await left
})

test('a server that breaks off breaks the answer, and one that cannot be reached is 502', async () => {
  const upstream = await serveHttp((_asked, response) => {
    response.writeHead(200, { 'content-length': 100_000 }).write('x'.repeat(50_000))
    setTimeout(() => response.destroy(), 20)
  })
  const { url } = await listen(proxyOf(upstream.port))
  const answer = await fetch(url)
  await expect(answer.text()).rejects.toThrow('terminated')
  const { url: nowhere } = await listen(proxyOf(1))
  expect((await fetch(nowhere)).status).toBe(502)
})

test('a guest in a process streams requests', async () => {
  const upstream = await serveHttp((asked, response) => void asked.pipe(response))
  const { url } = await listen({ ...proxyOf(upstream.port), engine: 'subprocess' })
  const { sent, received } = await exchange(url, 1, 3_000_000)
  expect(received).toBe(sent)
})

test('a guest that is called without HTTP streams requests', async () => {
  const upstream = await serveHttp((_asked, response) => void response.end('x'.repeat(1_000_000)))
  const input = JSON.stringify({ url: `http://127.0.0.1:${upstream.port}/` })
  const flags = ['--input', input, '--allow-host', '127.0.0.1']
  const called = await run(['call', guest('requests'), 'size', ...flags])
  expect([called.code, called.stdout]).toEqual([0, '1000000'])
})

async function* slowly(pieces: AsyncIterable<Buffer>, pauseMs: number) {
  for await (const piece of pieces) {
    if (pauseMs > 0) await sleep(pauseMs)
    yield piece
  }
}

/**
 * Posts a body that is unique to its id and reads the answer at the same time.
 *
 * @param pauseMs - Between pieces of the answer.
 * @returns the digests of the body in capitals, and of the answer.
 */
async function exchange(url: string, id: number, bytes: number, pauseMs = 0) {
  const sent = createHash('sha256')
  const sending = request(url, { method: 'POST', agent: false })
  sending.on('error', () => undefined) // the answer tells
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  function* pieces() {
    for (let at = 0; at < bytes; at += 50_000) {
      const piece = Buffer.alloc(Math.min(50_000, bytes - at), `body ${id} ${at};`)
      sent.update(piece.toString().toUpperCase())
      yield piece
    }
  }
  Readable.from(pieces()).pipe(sending)
  const received = createHash('sha256')
  const [answer] = await answered
  for await (const piece of answer) {
    received.update(piece)
    if (pauseMs > 0) await sleep(pauseMs)
  }
  return { sent: sent.digest('hex'), received: received.digest('hex'), headers: answer.headers }
}

function residentBytes(pid: number | undefined): number {
  return 1_024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}
