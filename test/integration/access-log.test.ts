import { once } from 'node:events'
import { connect } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions, type ServerOptions } from '../../src/index.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { open, post } from '../support/socket.ts'

interface Line {
  readonly [key: string]: unknown
}

/** A server on a free port, and the lines of its log. */
async function listenAndLog(route: RouteOptions, server: Partial<ServerOptions>, level = 'trace') {
  const lines: Line[] = []
  const log = pino({ level, base: null }, { write: (line) => void lines.push(JSON.parse(line)) })
  const app = await createServer({ stallMs: 0, routes: [route], ...server }, log)
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return {
    lines,
    port: Number(new URL(url).port),
    requests: () => lines.filter(({ msg }) => msg === 'request'),
  }
}

async function ask(port: number, request: string): Promise<void> {
  const client = await open(port)
  client.send(request)
  await client.answer()
}

const LEAKY = 'Authorization: Bearer sesame\r\nCookie: a=sesame\r\nX-Other: seen\r\nX-Request-Id: mine\r\n'

test('a line has what was asked, by whom, who answered, and how long it took; no header unless it is asked for', async () => {
  const { port, requests } = await listenAndLog({ plugin: guest('echo'), url: '/a/:id' }, { accessLog: true })
  await ask(port, post('hi', LEAKY, '/a/7?b=c'))
  await expect.poll(requests).toEqual([
    {
      level: 30,
      time: expect.any(Number),
      reqId: 'mine',
      method: 'POST',
      url: '/a/7?b=c',
      status: 200,
      bytes: 2,
      ms: expect.any(Number),
      ip: '127.0.0.1',
      route: '/a/:id',
      plugin: 'echo',
      function: 'echo',
      msg: 'request',
    },
  ])
  expect(requests()[0]?.ms).toBeGreaterThan(0)
})

test('the log of the command has the same lines as any other of pino', async () => {
  const secrets = new Secrets()
  secrets.add('sesame', 'KEY')
  const timestamp = pino.stdTimeFunctions.isoTime
  const formatters = { level: (label: string) => ({ level: label }) }
  const options = {
    ...{ stallMs: 0, accessLog: true, accessLogHeaders: true, trustProxy: ['127.0.0.1'] },
    routes: [{ plugin: guest('echo'), url: '/a/:id' }],
  }
  const linesBy = async (open: (lines: { write(line: string): void }) => FastifyBaseLogger) => {
    const lines: string[] = []
    const log = open({ write: (line) => void (line.includes('"msg":"request"') && lines.push(line)) })
    const app = await createServer(options, log)
    onTestFinished(() => app.close())
    const port = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
    const forged = 'X-Forwarded-For: "a\r\n__proto__: "\\\u00e9\r\n'
    await ask(port, post('hi', LEAKY + forged, '/a/7?b="sesame\\'))
    await ask(port, post('hi', 'X-Request-Id: mine\r\n', '/nowhere'))
    await ask(port, post('hi', 'X-Request-Id: mine\r\n', '/%ff'))
    await expect.poll(() => lines.length).toBe(3)
    return lines.map((line) =>
      line
        .replace(/"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/, '"time":""')
        .replace(/"ms":[\d.]+,/, '"ms":0,'),
    )
  }
  const own = await linesBy((lines) => openLog('info', { lines, secrets }))
  const other = await linesBy((lines) =>
    pino(
      { base: null, timestamp, formatters },
      { write: (line: string) => lines.write(secrets.hideInJson(line)) },
    ),
  )
  expect(own).toEqual(other)
  expect(own[0]).toContain('"url":"/a/7?b=\\"KEY\\\\"')
})

test('lines follow the level of the log when it changes', async () => {
  const lines: string[] = []
  const log = openLog('info', { lines: { write: (line) => void lines.push(line) } })
  const app = await createServer({ stallMs: 0, routes: [{ plugin: guest('echo') }], accessLog: true }, log)
  onTestFinished(() => app.close())
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  log.level = 'warn'
  await ask(Number(port), post('unseen', 'X-Request-Id: unseen\r\n'))
  log.level = 'info'
  await ask(Number(port), post('seen', 'X-Request-Id: seen\r\n'))
  await expect.poll(() => lines.map((line) => JSON.parse(line).reqId)).toContain('seen')
  expect(lines.map((line) => JSON.parse(line).reqId)).not.toContain('unseen')
})

test('a client that goes away while the guest runs leaves a line too', async () => {
  const { port, requests } = await listenAndLog(
    { plugin: guest('loop'), workers: 1, timeoutMs: 1_000 },
    { accessLog: true, unreadTimeoutMs: 20 },
  )
  const client = connect(port, '127.0.0.1')
  client.write(post('hi', LEAKY), () => client.destroy())
  await once(client, 'close')
  await expect
    .poll(requests, { timeout: 10_000 })
    .toMatchObject([{ reqId: 'mine', status: 499, ip: '127.0.0.1', plugin: 'loop' }])
  expect(requests()[0]?.ms).toBeGreaterThan(0)
})

test('what should not be in a log is not, also if headers are', async () => {
  const { port, requests } = await listenAndLog(
    { plugin: guest('echo') },
    { accessLog: true, accessLogHeaders: true },
  )
  const own = await listenAndLog(
    { plugin: guest('echo') },
    { accessLog: true, accessLogHeaders: true, redactHeaders: ['X-OTHER'] },
  )
  for (const each of [port, own.port]) {
    await ask(each, post('hi', LEAKY))
  }
  await expect
    .poll(requests)
    .toMatchObject([
      { headers: { authorization: '[redacted]', cookie: '[redacted]', 'x-other': 'seen', host: 'a' } },
    ])
  expect(JSON.stringify(requests())).not.toContain('sesame')
  await expect
    .poll(own.requests)
    .toMatchObject([{ headers: { authorization: 'Bearer sesame', 'x-other': '[redacted]' } }])
})

test('lines have the level that they are to have, and are not made where the log has a higher one', async () => {
  const debug = { accessLog: true, accessLogLevel: 'debug' } as const
  const [seen, unseen] = [
    await listenAndLog({ plugin: guest('echo') }, debug),
    await listenAndLog({ plugin: guest('echo') }, debug, 'info'),
  ]
  for (const { port } of [seen, unseen]) {
    await ask(port, post('hi'))
  }
  await expect.poll(seen.requests).toMatchObject([{ level: 20 }])
  expect(unseen.requests()).toEqual([])
})

test('a guest says its lines with the id of its request, its plug-in and function', async () => {
  for (const workers of [0, 1]) {
    const { port, lines } = await listenAndLog(
      { plugin: guest('log'), function: 'log', ...(workers && { workers }) },
      {},
    )
    await ask(port, post('hi', 'X-Request-Id: mine\r\n'))
    const own = () => lines.filter(({ reqId }) => reqId === 'mine')
    await expect.poll(() => own().length).toBeGreaterThan(0)
    expect(own().map(({ plugin, function: name }) => [plugin, name])).toEqual(own().map(() => ['log', 'log']))
  }
})

test('a format that nobody knows is refused', async () => {
  const { code, stderr } = await run([guest('echo'), '0', '--access-log-format', 'nginx'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('must be one of json, common, combined')])
})

test.each([0, 1])('lines of guests are dropped beyond logRate, and counted: %d threads', async (workers) => {
  const { port, lines } = await listenAndLog(
    { plugin: guest('log'), function: 'log', logRate: 1, ...(workers && { workers }) },
    {},
  )
  for (let call = 0; call < 5; call++) await ask(port, post('hi'))
  const ofGuest = () => lines.filter(({ plugin }) => plugin === 'log')
  await expect
    .poll(() => ofGuest().filter(({ msg }) => String(msg).includes('logRate')).length)
    .toBeGreaterThan(0)
})

test("a user's logger that has no levels gets all lines", async () => {
  const lines: unknown[] = []
  const nothing = () => undefined
  const log: FastifyBaseLogger = {
    ...{ level: 'info', silent: nothing, trace: nothing, debug: nothing, warn: nothing, error: nothing },
    ...{ fatal: nothing, info: (fields: unknown, message?: string) => void lines.push([message, fields]) },
    child: () => log,
  }
  const app = await createServer({ stallMs: 0, accessLog: true, routes: [{ plugin: guest('echo') }] }, log)
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  await (await fetch(url, { method: 'POST', body: 'hi' })).text()
  await expect
    .poll(() => lines)
    .toContainEqual(['request', expect.objectContaining({ method: 'POST', status: 200, bytes: 2 })])
})
